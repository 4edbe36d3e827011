//! One pass and one round of probes, without asking a daemon: for `gwready check` and `gwready snapshot`.

use std::time::{Duration, Instant};

use gwready_core::facts::{Reading, Snapshot};
use gwready_core::judge::select;
use gwready_core::memory::Memory;
use gwready_core::replay::{SnapshotFile, VERSION};
use gwready_core::time::Window;

use super::settings::probe_settings;
use super::sources::Sources;
use super::start_notice::not_visible;
use super::wake::{self, Wake};
use crate::cli::{Exit, Failure, Observation};
use crate::clock;
use crate::config::Config;
use crate::observe::envoy::{AdminSession, LatestAdmin, read_admin};
use crate::probe::probe_all;
use crate::state::StateFile;

/// Bound of the questions to Envoy's admin interface.
const ADMIN_DEADLINE: Duration = Duration::from_secs(2);
/// How long the search for owners and for Envoy may take, the probes in its midst included, until the answer is given without
/// its end.
const OWNERS_DEADLINE: Duration = Duration::from_secs(5);
/// How long one look at new processes may take. A daemon has a millisecond for it and its next pass; on a busy node, where dozens
/// of processes are young at any time, that would never name all of them at once.
const SCAN_TIME: Duration = Duration::from_secs(1);
/// Between two looks at processes that nobody reports.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Observes once, with everything this process can see.
///
/// # Errors
/// When not even the means to wait could be made. Sources that can't be read stand in the observation as such.
pub(super) fn observe(config: &Config) -> Result<Observation, Failure> {
    let policy = config.policy();
    let failure = |what: &str, error: std::io::Error| Failure { exit: Exit::CannotTell, sentence: format!("{what}: {error}") };
    let (waker, wake) = wake::pair().map_err(|error| failure("cannot make an eventfd", error))?;
    let envoy = LatestAdmin::default();
    let mut session = AdminSession::new(config.envoy.admin_socket.clone());
    envoy.set(read_admin(&mut session, ADMIN_DEADLINE));
    let mut sources = Sources::new(config, envoy, None, &waker);
    sources.take_time(SCAN_TIME);
    let mut snapshot = Snapshot::default();
    // What a daemon of this node has learnt and was told counts for a look beside it too. A file that is not there or not
    // readable is no fault: most calls on a workstation have none.
    let (saved, _) = StateFile::in_folder(&config.state_dir).read();
    let memory = Memory { ports_seen: saved.ports_seen.clone(), families_seen: saved.families_seen.clone(), ..Memory::default() };
    snapshot.drain = saved.drain_in_force(clock::now().unix_ms).cloned();
    sources.read_whole(&policy, &memory, &mut snapshot);
    let until = Instant::now() + OWNERS_DEADLINE;
    let search_on = |sources: &mut Sources, snapshot: &mut Snapshot| {
        search_to_the_end(sources, &wake, until, |sources| sources.read_sockets(&policy, &memory, snapshot))
            .map_err(|error| failure("cannot wait", error))
    };
    search_on(&mut sources, &mut snapshot)?;
    let plan = select::plan(&policy, &snapshot, &memory);
    let endpoints: Vec<_> = plan.endpoints().map(|(endpoint, _)| endpoint).collect();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| failure("cannot start the probes", error))?;
    let begin = clock::mono();
    let table = runtime.block_on(async { probe_all(&probe_settings(config), &endpoints, snapshot.envoy.value()).await });
    snapshot.probes = Reading::Observed { value: table, window: Window { begin, end: clock::mono() } };
    sources.read_sockets(&policy, &memory, &mut snapshot);
    search_on(&mut sources, &mut snapshot)?;
    let file = SnapshotFile {
        version: VERSION,
        agent: env!("CARGO_PKG_VERSION").to_owned(),
        node: config.node_name.clone(),
        policy,
        config: config.to_json(),
        memory,
        snapshot,
        now: clock::now(),
    };
    Ok(Observation { file, not_visible: not_visible() })
}

/// Reads again until the search for owners and for Envoy has come to its end or the time is up: a daemon goes on with
/// its next pass, here there is none.
fn search_to_the_end(sources: &mut Sources, wake: &Wake, until: Instant, mut read: impl FnMut(&mut Sources)) -> std::io::Result<()> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let patience = match (sources.searching(), sources.half_searched()) {
            (_, true) => left.min(LOOK_AGAIN),
            (true, false) => left,
            (false, false) => return Ok(()),
        };
        if left.is_zero() {
            return Ok(());
        }
        wake.wait(patience)?;
        let _ = wake.take();
        read(sources);
    }
}
