//! The commands that talk to a running daemon.

use std::path::{Path, PathBuf};

use gwready_core::reason::Reason;
use gwready_core::render::status::StatusDocument;
use gwready_core::render::table::render_table;
use gwready_core::verdict::{Outcome, State};
use serde::de::DeserializeOwned;

use super::args::{DrainOptions, ProbeOptions, SnapshotOptions, StatusOptions};
use super::engine::Engine;
use super::exit::Exit;
use super::output;
use crate::config::Config;
use crate::control::{CallError, Readiness, Request, call, own_socket_path};

/// `gwready status`.
pub(super) fn status(options: &StatusOptions, config: &Config) -> Exit {
    match ask::<StatusDocument>(&config.control_socket, &Request::Status) {
        Ok(document) => show(&document, options.json),
        Err(exit) => exit,
    }
}

/// Prints a status document and gives the exit code of its verdict.
pub(super) fn show(document: &StatusDocument, json: bool) -> Exit {
    output::print(&if json { output::json(document) } else { render_table(document, output::colour()) });
    exit_of(&document.outcome)
}

/// Up is 0; not yet or no longer observed is "could not tell"; the rest is "not up".
fn exit_of(outcome: &Outcome) -> Exit {
    match (outcome.state, outcome.reason) {
        (State::Up, _) => Exit::Ok,
        (_, Some(Reason::Starting | Reason::Stale)) => Exit::CannotTell,
        _ => Exit::NotUp,
    }
}

/// `gwready drain`.
pub(super) fn drain(options: &DrainOptions, config: &Config) -> Exit {
    let for_ms = options.duration.map(|duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
    acknowledge(&config.control_socket, &Request::Drain { for_ms, reason: options.reason.clone() })
}

/// `gwready undrain`.
pub(super) fn undrain(config: &Config) -> Exit {
    acknowledge(&config.control_socket, &Request::Undrain)
}

/// `gwready snapshot`.
pub(super) fn snapshot(options: &SnapshotOptions, config: &Config, engine: &dyn Engine) -> Exit {
    if options.fresh {
        return match engine.observe(config) {
            Ok(observation) => {
                output::print(&output::json(&observation.file));
                Exit::Ok
            }
            Err(failure) => failure.report(),
        };
    }
    match ask::<serde_json::Value>(&config.control_socket, &Request::Snapshot) {
        Ok(file) => {
            output::print(&output::json(&file));
            Exit::Ok
        }
        Err(exit) => exit,
    }
}

/// `gwready live`.
pub(super) fn live(options: &ProbeOptions) -> Exit {
    probe(options, &Request::Live)
}

/// `gwready ready`.
pub(super) fn ready(options: &ProbeOptions) -> Exit {
    probe(options, &Request::Ready)
}

fn probe(options: &ProbeOptions, request: &Request) -> Exit {
    match ask::<Readiness>(&probe_socket(options), request) {
        Ok(readiness) if readiness.is_fine() => {
            output::print("ok\n");
            Exit::Ok
        }
        Ok(readiness) => {
            output::print(&format!("{}\n", readiness.pending.join("\n")));
            Exit::NotUp
        }
        Err(exit) => exit,
    }
}

fn probe_socket(options: &ProbeOptions) -> PathBuf {
    let uid = rustix::process::geteuid().as_raw();
    options.socket.clone().unwrap_or_else(|| own_socket_path(std::env::var_os("TMPDIR").as_deref(), uid))
}

/// Asks for something and prints the daemon's sentence.
fn acknowledge(socket: &Path, request: &Request) -> Exit {
    match ask::<String>(socket, request) {
        Ok(sentence) => {
            output::print(&format!("{sentence}\n"));
            Exit::Ok
        }
        Err(exit) => exit,
    }
}

fn ask<T: DeserializeOwned>(socket: &Path, request: &Request) -> Result<T, Exit> {
    let answer = call(socket, request).map_err(|error| {
        let source = match &error {
            CallError::NoDaemon { source, .. } => format!(" ({source})"),
            _ => String::new(),
        };
        output::complain(&format!("gwready: {error}{source}\n"));
        match error {
            CallError::NoDaemon { .. } | CallError::NotAllowed { .. } => Exit::NoDaemon,
            CallError::Broken { .. } | CallError::Refused(_) => Exit::CannotTell,
        }
    })?;
    serde_json::from_value(answer).map_err(|error| {
        output::complain(&format!("gwready: the daemon's answer has another shape (another version?): {error}\n"));
        Exit::CannotTell
    })
}
