//! Scenarios as files: each moment that a test decides is a snapshot file below `files`, named after its test, with what the
//! judge says of it beside it as text. Must not judge in any other way than `gwready explain FILE` does.
//!
//! The tests are the generator of the files. `XTASK_WRITE_SCENARIOS=1 cargo test -p gwready-core --test scenarios` writes what
//! is new or differs, and only then; the difference is for a person to read. A file that reads as what its test makes is never
//! written again, so old files stay as old as they are.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use gwready_core::condition::{Condition, Status};
use gwready_core::judge::{Judgement, judge};
use gwready_core::memory::Memory;
use gwready_core::replay::{SnapshotFile, parse_snapshot_file};
use gwready_core::verdict::{State, Verdict};

use super::watch::outcome;

/// Longer JSON values are broken into lines.
const WIDTH: usize = 180;

/// The last judgement of this watch is a file, named after the test that calls; a test with several names each.
macro_rules! kept {
    ($watch:expr) => {
        $crate::kept!($watch, "")
    };
    ($watch:expr, $case:expr) => {{
        fn here() {}
        $crate::kept::keep(std::any::type_name_of_val(&here), $case.to_string().as_str(), $watch.last_file());
    }};
}
pub(crate) use kept;

/// The folder of all scenario files.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios/files")
}

/// The files were asked to be written anew.
pub fn may_write() -> bool {
    std::env::var_os("XTASK_WRITE_SCENARIOS").is_some()
}

/// Holds the committed file of a test against what the test makes now. `inside` is the full name of some item of the test.
#[track_caller]
pub fn keep(inside: &str, case: &str, made: &SnapshotFile) {
    let mut names = inside.split("::").skip(1);
    let (module, test) = (names.next().unwrap(), names.next().unwrap());
    let name = if case.is_empty() { test.to_owned() } else { format!("{test}.{case}") };
    let path = folder().join(module).join(format!("{name}.json"));
    let committed = std::fs::read_to_string(&path).ok().map(|text| parse_snapshot_file(&text).unwrap());
    let made = &without_idle_memory(made);
    if committed.as_ref() == Some(made) {
        return;
    }
    assert!(may_write(), "{} is not what its test makes: {HOW}", path.display());
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let nothing = format!("\"memory\":{},", serde_json::to_string(&Memory::default()).unwrap());
    write(&path, &lay_out(&serde_json::to_string(made).unwrap().replacen(&nothing, "", 1)));
    write(&path.with_extension("txt"), &render_expected(made));
}

/// A memory that changes nothing of what is said is left out, so that what is in a file matters. That of a node which was out of
/// service and is back always matters: how it came back is what its test is about.
fn without_idle_memory(made: &SnapshotFile) -> SnapshotFile {
    let without = SnapshotFile { memory: Memory::default(), ..made.clone() };
    let was_up = made.memory.node.is_none_or(|(state, _)| state == State::Up) && !made.memory.was_down;
    let is_idle = render_expected(&without) == render_expected(made);
    if is_idle && (was_up || judged(made).verdict.node.state != State::Up) { without } else { made.clone() }
}

/// Writes at once: other tests read the tree meanwhile.
pub fn write(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(&new, path).unwrap();
}

/// How the files are brought up to date.
pub const HOW: &str = "XTASK_WRITE_SCENARIOS=1 cargo test -p gwready-core --test scenarios writes it; read the difference";

/// The judgement of `gwready explain`.
pub fn judged(file: &SnapshotFile) -> Judgement {
    judge(&file.policy, &file.snapshot, &file.memory, file.now)
}

/// What is said of a file: the node, its addresses, their ports, and every condition that is not simply true.
pub fn render_expected(file: &SnapshotFile) -> String {
    let Verdict { node, addresses, endpoints, conditions, .. } = judged(file).verdict;
    let mut text = format!("node {}\n", outcome(&node));
    for address in &addresses {
        writeln!(text, "  {} {}", address.address, outcome(&address.outcome)).unwrap();
        for port in endpoints.iter().filter(|port| port.endpoint.address == address.address) {
            writeln!(text, "    {} {}", port.endpoint, outcome(&port.outcome)).unwrap();
        }
    }
    for condition in conditions.iter().filter(|condition| condition.status != Status::True || condition.reason.is_some()) {
        render_condition(condition, &mut text);
    }
    text
}

fn render_condition(condition: &Condition, text: &mut String) {
    let front = condition.front.map(|front| format!(" {}/{}", front.port, front.family)).unwrap_or_default();
    let reason = condition.reason.map(|reason| format!(" {reason}")).unwrap_or_default();
    let message = if condition.message.is_empty() { String::new() } else { format!(": {}", condition.message) };
    writeln!(text, "{}{front} {:?}{reason}{message}", condition.kind, condition.status).unwrap();
    for (name, value) in &condition.evidence {
        writeln!(text, "  {name}: {value}").unwrap();
    }
}

/// Compact JSON with long values broken into lines and without null members, which read the same when they are not there:
/// small enough to read, and a difference shows the member that differs.
pub fn lay_out(compact: &str) -> String {
    let mut text = String::new();
    break_lines(&without_nulls(compact), 0, &mut text);
    text.push('\n');
    text
}

fn without_nulls(value: &str) -> String {
    let Some(inner) = inner(value).filter(|inner| !inner.is_empty()) else { return value.to_owned() };
    let keyed = value.starts_with('{');
    let kept = members(inner, keyed).into_iter().filter(|(_, member)| !keyed || *member != "null");
    let kept: Vec<String> = kept.map(|(key, member)| format!("{key}{}", without_nulls(member))).collect();
    format!("{}{}{}", &value[..1], kept.join(","), &value[value.len() - 1..])
}

/// What is between the brackets; none of a plain value.
fn inner(value: &str) -> Option<&str> {
    value.strip_prefix(['{', '[']).and_then(|rest| rest.strip_suffix(['}', ']']))
}

fn break_lines(value: &str, indent: usize, text: &mut String) {
    let Some(inner) = inner(value).filter(|_| indent + value.len() > WIDTH) else {
        text.push_str(value);
        return;
    };
    text.push_str(&value[..1]);
    for (index, (key, member)) in members(inner, value.starts_with('{')).into_iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let space = if key.is_empty() { "" } else { " " };
        write!(text, "{comma}\n{:width$}{key}{space}", "", width = indent + 1).unwrap();
        break_lines(member, indent + 1, text);
    }
    write!(text, "\n{:indent$}{}", "", &value[value.len() - 1..]).unwrap();
}

/// The members of an object, with keys and colons, or of a list, without.
fn members(inner: &str, keyed: bool) -> Vec<(&str, &str)> {
    let (mut found, mut begin, mut colon, mut depth, mut quoted, mut escaped) = (vec![], 0, 0, 0, false, false);
    let member = |begin: usize, colon: usize, end: usize| match keyed {
        true => (&inner[begin..=colon], &inner[colon + 1..end]),
        false => ("", &inner[begin..end]),
    };
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b':' if depth == 0 => colon = at,
            b',' if depth == 0 => {
                found.push(member(begin, colon, at));
                begin = at + 1;
            }
            _ => {}
        }
    }
    found.push(member(begin, colon, inner.len()));
    found
}

/// Text of a file.
pub fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The text in the tree, after writing it anew where that was asked for.
pub fn committed(path: &Path, now: &str) -> String {
    if may_write() && std::fs::read_to_string(path).ok().as_deref() != Some(now) {
        write(path, now);
    }
    read(path)
}

/// Every file below the folder with this extension, by path.
pub fn all(extension: &str) -> Vec<PathBuf> {
    fn below(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { below(&path, found) } else { found.push(path) }
        }
    }
    let mut found = Vec::new();
    below(&folder(), &mut found);
    found.retain(|path| path.extension().is_some_and(|own| own == extension));
    found.sort();
    found
}
