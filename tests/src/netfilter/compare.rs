//! A prediction beside reality, for every endpoint of a stage.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};
use gwready::observe::netfilter::{read_paths, read_ruleset};
use gwready_core::facts::steering::NetfilterPath;
use gwready_core::net::Endpoint;
use gwready_core::netfilter::follow::Follower;

use super::fate::{Fate, agrees, patience_for};
use super::stage::Stage;

/// What was foretold and what happened.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Where the connection went to.
    pub to: Endpoint,
    /// What was foretold.
    pub path: NetfilterPath,
    /// What happened.
    pub fate: Fate,
}

/// Reads the rules of the stage's node, whole and as the agent does, foretells, connects. An error tells every disagreement.
pub fn compare(stage: &Stage) -> Result<Vec<Seen>> {
    let ruleset = stage.node().enter(|| Ok(read_ruleset()?))?;
    let follower = Follower::new(&ruleset);
    let mut asked = Vec::new();
    for to in stage.endpoints() {
        let path = follower.follow(&stage.connection(to)?);
        asked.push((to, path));
    }
    let wanted: Vec<_> = asked.iter().map(|(to, _)| stage.connection(*to)).collect::<Result<_>>()?;
    let in_part = stage.node().enter(|| Ok(read_paths(&wanted)?))?;
    ensure!(in_part.paths == asked, "read in part: {:#?}\nread whole: {asked:#?}", in_part.paths);
    // All at once: silence takes its time.
    let connect = |to: Endpoint, path: &NetfilterPath| stage.fate(to, patience_for(path));
    let fates: Vec<Result<Fate>> = std::thread::scope(|scope| {
        let threads: Vec<_> = asked.iter().map(|(to, path)| scope.spawn(move || connect(*to, path))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    let mut seen = Vec::new();
    let mut wrong = String::new();
    for ((to, path), fate) in asked.into_iter().zip(fates) {
        let fate = fate?;
        if !agrees(&path, to, &fate) {
            wrong += &format!("{to}: foretold {path:?}, but {fate:?}\n");
        }
        seen.push(Seen { to, path, fate });
    }
    if wrong.is_empty() { Ok(seen) } else { bail!("{wrong}") }
}

/// How often each answer was foretold.
pub fn tally<'a>(seen: impl IntoIterator<Item = &'a Seen>) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for one in seen {
        let word = match one.path {
            NetfilterPath::Passes => "passes",
            NetfilterPath::PassesForSome { .. } => "passes for some",
            NetfilterPath::Redirected { .. } => "redirected",
            NetfilterPath::Dropped { .. } => "dropped",
            NetfilterPath::Unclear { .. } => "unclear",
        };
        *counts.entry(word).or_insert(0) += 1;
    }
    counts
}
