//! `gwready check-config`: all faults, or `ok` and the effective configuration.

use super::args::CheckConfigOptions;
use super::exit::Exit;
use super::{output, report_faults};
use crate::config::{self, Sources};

/// Loads the configuration as `run` would.
pub(super) fn run(options: &CheckConfigOptions, sources: &Sources) -> Exit {
    let mut sources = sources.clone();
    sources.file = options.file.clone().or(sources.file);
    match config::load(&sources) {
        Ok(config) => {
            output::print(&format!("# ok\n{}", config.to_yaml()));
            Exit::Ok
        }
        Err(faults) => report_faults(&faults),
    }
}
