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
use super::wake;
use crate::cli::{Exit, Failure, Observation};
use crate::clock;
use crate::config::Config;
use crate::observe::envoy::{AdminSession, LatestAdmin, read_admin};
use crate::probe::probe_all;
use crate::state::StateFile;

/// Bound of the questions to Envoy's admin interface.
const ADMIN_DEADLINE: Duration = Duration::from_secs(2);
/// How long a walk for owners may take before the answer is given without it.
const OWNERS_DEADLINE: Duration = Duration::from_secs(5);

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
    let mut snapshot = Snapshot::default();
    // What a daemon of this node has learnt and was told counts for a look beside it too. A file that is not there or not
    // readable is no fault: most calls on a workstation have none.
    let (saved, _) = StateFile::in_folder(&config.state_dir).read();
    let memory = Memory { ports_seen: saved.ports_seen.clone(), families_seen: saved.families_seen.clone(), ..Memory::default() };
    snapshot.drain = saved.drain_in_force(clock::now().unix_ms).cloned();
    sources.read_whole(&policy, &memory, &mut snapshot);
    let until = Instant::now() + OWNERS_DEADLINE;
    while sources.searching() && Instant::now() < until {
        wake.wait(until.saturating_duration_since(Instant::now())).map_err(|error| failure("cannot wait", error))?;
        let _ = wake.take();
        sources.read_sockets(&policy, &memory, &mut snapshot);
    }
    let plan = select::plan(&policy, &snapshot, &memory);
    let endpoints: Vec<_> = plan.endpoints().map(|(endpoint, _)| endpoint).collect();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| failure("cannot start the probes", error))?;
    let begin = clock::mono();
    let table = runtime.block_on(async { probe_all(&probe_settings(config), &endpoints, snapshot.envoy.value()).await });
    snapshot.probes = Reading::Observed { value: table, window: Window { begin, end: clock::mono() } };
    sources.read_sockets(&policy, &memory, &mut snapshot);
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
