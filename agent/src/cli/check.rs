//! `gwready check`: one pass and one probe round with everything this process can see.

use gwready_core::facts::Why;
use gwready_core::judge::{Judgement, judge};
use gwready_core::render::sources::source_reads;
use gwready_core::render::status::{Input, status_document};

use super::args::CheckOptions;
use super::daemon_calls::show;
use super::engine::{Engine, Observation};
use super::exit::Exit;
use super::output;
use crate::config::Config;

/// Observes, judges, prints.
pub(super) fn run(options: &CheckOptions, config: &Config, engine: &dyn Engine) -> Exit {
    let observation = match engine.observe(config) {
        Ok(observation) => observation,
        Err(failure) => return failure.report(),
    };
    let file = &observation.file;
    let Judgement { verdict, .. } = judge(&file.policy, &file.snapshot, &file.memory, file.now);
    let document = status_document(Input {
        node: &file.node,
        agent: &file.agent,
        verdict: &verdict,
        snapshot: &file.snapshot,
        policy: &file.policy,
        config: &file.config,
        history: &[],
        not_visible: &observation.not_visible,
        now: file.now,
    });
    let exit = show(&document, options.json);
    let missing = missing_privileges(&observation);
    if options.require && !missing.is_empty() {
        output::complain(&format!("gwready: not everything could be seen: {}\n", missing.join(", ")));
        return Exit::MissingPrivilege;
    }
    exit
}

/// What a privilege would show.
fn missing_privileges(observation: &Observation) -> Vec<String> {
    let refused = source_reads(&observation.file.snapshot)
        .into_iter()
        .filter(|read| read.failure.is_some_and(|failure| failure.why == Why::Permission));
    refused.map(|read| read.name.to_owned()).chain(observation.not_visible.iter().map(|hidden| hidden.what.clone())).collect()
}
