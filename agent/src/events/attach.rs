//! One program into the kernel and onto its tracepoint, or one sentence why not.

use aya::programs::{ProgramError, RawTracePoint};
use aya::{Ebpf, EbpfError};
use gwready_ebpf::names;
use std::error::Error;
use std::io;

/// A program of the object and where it belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Program {
    /// Name in the object, in logs and in the metric's label.
    pub(super) name: &'static str,
    /// Raw tracepoint.
    pub(super) tracepoint: &'static str,
}

pub(super) const SOCKET_STATE: Program = Program { name: names::SOCKET_STATE, tracepoint: "inet_sock_set_state" };
pub(super) const SIGNAL: Program = Program { name: names::SIGNAL, tracepoint: "signal_generate" };
pub(super) const EXIT: Program = Program { name: names::EXIT, tracepoint: "sched_process_exit" };

/// Loads and attaches.
///
/// # Errors
/// A sentence for a person.
pub(super) fn attach(bpf: &mut Ebpf, program: Program) -> Result<(), String> {
    let found = find(bpf, program)?;
    found.load().map_err(|error| explain(&error))?;
    match found.attach(program.tracepoint) {
        Ok(_link) => Ok(()),
        Err(error) if os_error(&error).is_some_and(|error| error.kind() == io::ErrorKind::NotFound) => {
            Err(format!("this kernel has no tracepoint {}", program.tracepoint))
        }
        Err(error) => Err(explain(&error)),
    }
}

/// Takes a program out of the kernel again; one that is not there is left alone.
pub(super) fn detach(bpf: &mut Ebpf, program: Program) {
    if let Ok(found) = find(bpf, program)
        && let Err(error) = found.unload()
    {
        tracing::debug!(program = program.name, "not loaded: {error}");
    }
}

fn find(bpf: &mut Ebpf, program: Program) -> Result<&mut RawTracePoint, String> {
    bpf.program_mut(program.name)
        .and_then(|found| found.try_into().ok())
        .ok_or_else(|| format!("the embedded object has no program {}", program.name))
}

fn explain(error: &ProgramError) -> String {
    let verifier = match error {
        ProgramError::LoadError { verifier_log, .. } => verifier_log.to_string(),
        _ => String::new(),
    };
    match os_error(error) {
        Some(os) => explain_os(os, &verifier),
        None => error.to_string(),
    }
}

/// Why the kernel refused a map or a program.
pub(super) fn explain_load(error: &EbpfError) -> String {
    match os_error(error) {
        Some(os) => explain_os(os, ""),
        None => error.to_string(),
    }
}

fn explain_os(error: &io::Error, verifier: &str) -> String {
    // The verifier ends with its figures; what it objects to stands before them.
    let objection = verifier.lines().map(str::trim).rfind(|line| !line.is_empty() && !is_statistics(line));
    match (error.kind(), objection) {
        (io::ErrorKind::PermissionDenied, None) => {
            "the kernel does not allow it: CAP_BPF and CAP_PERFMON are needed, and a kernel that is not locked down".to_owned()
        }
        (_, Some(objection)) => format!("the verifier refuses it: {objection} ({error})"),
        (_, None) => format!("the kernel refuses it: {error}"),
    }
}

fn is_statistics(line: &str) -> bool {
    ["processed ", "verification time", "stack depth", "max_states", "insns_processed"].iter().any(|prefix| line.starts_with(prefix))
}

/// The operating system's error at the root of `error`.
fn os_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a io::Error> {
    let mut link = Some(error);
    while let Some(error) = link {
        if let Some(os) = error.downcast_ref::<io::Error>() {
            return Some(os);
        }
        link = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_privilege_is_named() {
        let said = explain_os(&io::Error::from(io::ErrorKind::PermissionDenied), "");
        assert!(said.contains("CAP_BPF and CAP_PERFMON"), "{said}");
    }

    #[test]
    fn the_verifiers_objection_is_quoted_without_its_figures() {
        let log = "0: R1=ctx()\nR3 invalid mem access 'scalar'\nverification time 12 usec\nstack depth 0\nprocessed 4 insns\n";
        let said = explain_os(&io::Error::from_raw_os_error(libc::EINVAL), log);
        assert!(said.starts_with("the verifier refuses it: R3 invalid mem access 'scalar'"), "{said}");
    }

    #[test]
    fn the_root_of_an_error_is_found_behind_its_wrappers() {
        let error = aya::maps::MapError::CreateError { name: "PORTS".into(), io_error: io::Error::from_raw_os_error(libc::EPERM) };
        let said = explain_load(&EbpfError::MapError(error));
        assert!(said.contains("CAP_BPF"), "{said}");
    }
}
