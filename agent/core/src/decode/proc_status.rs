//! `/proc/PID/status` to facts. By hand, because `Name:` may hold bytes that are not UTF-8 (anyone can set it) and the whole
//! file must not become unreadable for that. Must not read files.

use thiserror::Error;

/// What the agent wants from `/proc/PID/status` (fs/proc/array.c `proc_pid_status`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcStatus {
    /// First letter of `State:`.
    pub state: char,
    /// Parent pid in the reader's pid namespace (`PPid:`); 0 = none that the reader can see.
    pub parent: u32,
    /// Real uid (first of `Uid:`).
    pub uid: u32,
    /// `NoNewPrivs:`; none before Linux 4.10.
    pub no_new_privs: Option<bool>,
    /// `CapEff:`.
    pub cap_effective: Option<u64>,
    /// `CapPrm:`.
    pub cap_permitted: Option<u64>,
    /// Pid in the process's own pid namespace (last of `NSpid:`): 1 = the init of its container.
    pub own_pid: Option<u32>,
}

/// A status file without a field that every kernel writes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("no usable {field} line in status")]
pub struct StatusError {
    /// The line that is missing or malformed.
    pub field: &'static str,
}

/// Parses a whole status file. The kernel escapes newlines in `Name:`, so a process can't forge a line.
///
/// # Errors
/// `State`, `PPid` or `Uid` missing or malformed.
pub fn parse_proc_status(text: &[u8]) -> Result<ProcStatus, StatusError> {
    Ok(ProcStatus {
        state: value(text, "State").and_then(|v| v.chars().next()).ok_or(StatusError { field: "State" })?,
        parent: value(text, "PPid").and_then(|v| v.parse().ok()).ok_or(StatusError { field: "PPid" })?,
        uid: words(text, "Uid").next().and_then(|v| v.parse().ok()).ok_or(StatusError { field: "Uid" })?,
        no_new_privs: value(text, "NoNewPrivs").and_then(|v| match v {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        }),
        cap_effective: hexadecimal(text, "CapEff"),
        cap_permitted: hexadecimal(text, "CapPrm"),
        own_pid: words(text, "NSpid").last().and_then(|v| v.parse().ok()),
    })
}

/// The trimmed value of one line; none if the line is absent or not text.
fn value<'a>(text: &'a [u8], field: &str) -> Option<&'a str> {
    text.split(|&byte| byte == b'\n').find_map(|line| {
        let rest = line.strip_prefix(field.as_bytes())?.strip_prefix(b":")?;
        Some(std::str::from_utf8(rest).ok()?.trim())
    })
}

fn words<'a>(text: &'a [u8], field: &str) -> impl Iterator<Item = &'a str> {
    value(text, field).unwrap_or_default().split_ascii_whitespace()
}

fn hexadecimal(text: &[u8], field: &str) -> Option<u64> {
    value(text, field).and_then(|v| u64::from_str_radix(v, 16).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ENVOY: &[u8] = b"Name:\tcilium-envoy\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t4711\nPid:\t4711\nPPid:\t4700\nTracerPid:\t0\n\
Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nNStgid:\t4711\t7\nNSpid:\t4711\t7\nCapInh:\t0000000000000400\nCapPrm:\t0000000000000400\n\
CapEff:\t0000000000000400\nCapBnd:\t0000000000001400\nNoNewPrivs:\t1\nSeccomp:\t0\n";

    #[test]
    fn the_envoy_of_a_daemon_set() {
        let status = parse_proc_status(ENVOY).unwrap();
        let expected = ProcStatus {
            state: 'S',
            parent: 4700,
            uid: 0,
            no_new_privs: Some(true),
            cap_effective: Some(0x400),
            cap_permitted: Some(0x400),
            own_pid: Some(7),
        };
        assert_eq!(status, expected);
    }

    #[test]
    fn a_name_that_is_not_text_hides_nothing_else() {
        let text = [b"Name:\ta\xff\xfe)\\n Uid:\t9\n".as_slice(), ENVOY].concat();
        let status = parse_proc_status(&text).unwrap();
        assert_eq!((status.uid, status.parent), (0, 4700));
    }

    #[test]
    fn an_old_kernel_without_no_new_privs_says_none_not_false() {
        let text = String::from_utf8(ENVOY.to_vec()).unwrap().replace("NoNewPrivs:\t1\n", "").replace("NSpid:\t4711\t7\n", "");
        let status = parse_proc_status(text.as_bytes()).unwrap();
        assert_eq!((status.no_new_privs, status.own_pid), (None, None));
    }

    #[test]
    fn a_missing_line_is_an_error_that_names_it() {
        assert_eq!(parse_proc_status(b""), Err(StatusError { field: "State" }));
        assert_eq!(parse_proc_status(b"State:\tS (sleeping)\nPPid:\t1\nUid:\tx\n"), Err(StatusError { field: "Uid" }));
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_value_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_proc_status(&bytes);
            let _ = parse_proc_status(&[ENVOY, bytes.as_slice()].concat());
        }

        #[test]
        fn numbers_come_back(uid: u32, parent: u32, cap: u64) {
            let text = format!("State:\tT (stopped)\nPPid:\t{parent}\nUid:\t{uid}\t1\t1\t1\nCapEff:\t{cap:016x}\n");
            let status = parse_proc_status(text.as_bytes()).unwrap();
            prop_assert_eq!((status.uid, status.parent, status.cap_effective, status.state), (uid, parent, Some(cap), 'T'));
        }
    }
}
