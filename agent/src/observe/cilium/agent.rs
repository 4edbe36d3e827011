//! The cilium-agent: its liveness stamp, its version and one of its options.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use aya::maps::{Array, MapData};
use gwready_core::facts::Reading;
use gwready_core::facts::platform::CiliumAgent;
use gwready_core::lb::agent_files::{parse_protocol_differentiation, parse_version};
use gwready_core::lb::layout::{LIVENESS_INDEX, RUNTIME_CONFIG};
use gwready_core::time::{Mono, Window};

use super::error::io_error;
use super::pin::{Pin, globals};
use super::{CiliumPaths, PinError};
use crate::clock;

/// How often the files are looked at. An upgrade restarts the agent, which rewrites them.
const FILES_PAUSE: Duration = Duration::from_secs(30);
/// Longest file that is read, bytes.
const LONGEST: u64 = 1 << 20;

/// Reads what there is to know of the agent. Blocking.
pub struct AgentReader {
    paths: CiliumPaths,
    config: Pin<Array<MapData, u64>>,
    files: Option<(Mono, CiliumAgent)>,
}

impl AgentReader {
    /// A reader; nothing is opened yet.
    #[must_use]
    pub fn new(paths: CiliumPaths) -> Self {
        Self { paths, config: Pin::new(RUNTIME_CONFIG, Array::try_from), files: None }
    }

    /// The stamp now, and the files' word of the last half minute. Files that can't be read leave the version unknown.
    pub fn read(&mut self) -> Reading<CiliumAgent> {
        let begin = clock::mono();
        let stamp = self.read_stamp();
        let window = Window { begin, end: clock::mono() };
        match stamp {
            Ok(stamp) => Reading::Observed { value: CiliumAgent { stamp, ..self.read_files(begin) }, window },
            Err(error) => Reading::Unavailable(error.unavailable(window)),
        }
    }

    fn read_stamp(&mut self) -> Result<Mono, PinError> {
        let globals = globals(&self.paths)?;
        let result = self.config.map(&globals)?.get(&LIVENESS_INDEX, 0);
        result.map(Mono).map_err(|error| self.config.failed(io_error(error)))
    }

    fn read_files(&mut self, now: Mono) -> CiliumAgent {
        if let Some((_, agent)) = self.files.as_ref().filter(|(at, _)| now.since(*at) < FILES_PAUSE) {
            return agent.clone();
        }
        let state = self.paths.run_dir.join("state");
        let version = newest_header(&state).and_then(|path| read_text(&path)).and_then(|text| parse_version(&text));
        let node = read_text(&state.join("globals/node_config.h"));
        let protocol_differentiation = node.and_then(|text| parse_protocol_differentiation(&text, version));
        let agent = CiliumAgent { stamp: Mono::default(), version, protocol_differentiation };
        self.files = Some((now, agent.clone()));
        agent
    }
}

/// The endpoint header that was written last: a running agent has written it, whatever older ones left behind.
fn newest_header(state: &Path) -> Option<PathBuf> {
    let headers = fs::read_dir(state).ok()?.flatten().filter_map(|entry| {
        let path = entry.path().join("ep_config.h");
        let written: SystemTime = fs::metadata(&path).and_then(|found| found.modified()).ok()?;
        Some((written, path))
    });
    headers.max().map(|(_, path)| path)
}

fn read_text(path: &Path) -> Option<String> {
    fs::metadata(path).ok().filter(|found| found.is_file() && found.len() <= LONGEST)?;
    fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}
