//! The first step of an explanation: every source of the snapshot, what it is and what became of its last read. Pure.

use std::fmt::Write;

use super::duration::render_age;
use super::sources::{SourceRead, source_reads, what_is};
use super::text::{clean_sentence, sanitise};
use super::wall::render_rfc3339;
use crate::condition::ConditionType;
use crate::net::Family;
use crate::replay::SnapshotFile;
use crate::time::Now;

/// What a judgement takes beside the sources that are read: it comes by itself and has no window.
pub(super) const BESIDE: [&str; 3] = ["queues", "signals", "drain"];

/// The sources a condition is judged from.
pub(super) const fn sources_of(kind: ConditionType) -> &'static [&'static str] {
    match kind {
        ConditionType::Observed => &["sockets"],
        ConditionType::EnvoyLive => &["owners", "envoy", "signals"],
        ConditionType::Listening => &["addresses", "sockets", "owners", "envoy", "lb_v4", "lb_v6", "cilium_agent"],
        ConditionType::OwnedByEnvoy => &["sockets", "owners", "lb_v4", "lb_v6"],
        ConditionType::NotIntercepted => {
            &["addresses", "lb_v4", "lb_v6", "cilium_agent", "l7", "tproxy", "steering", "sockets", "owners", "netfilter"]
        }
        ConditionType::Accepting => &["sockets", "queues", "owners"],
        ConditionType::Responding => &["probes", "sockets", "owners", "lb_v4", "lb_v6", "envoy"],
        ConditionType::TproxyPath => &["l7", "tproxy", "owners"],
        ConditionType::ConfigCurrent => &["envoy"],
        ConditionType::CiliumAgentAlive => &["cilium_agent"],
        ConditionType::InService => &["drain"],
    }
}

/// A line for each source: what became of its last read, and what it is where that needs no words of its own.
pub(super) fn push_sources(out: &mut String, file: &SnapshotFile) {
    out.push_str("\n1. Sources\n");
    for read in source_reads(&file.snapshot) {
        let _ = match read.failure.is_none() && read.not_there.is_none() {
            true => writeln!(out, "   {:<13}{:<28}  {}", read.name, state(&read, file.now), what_is(read.name)),
            false => writeln!(out, "   {:<13}{}", read.name, state(&read, file.now)),
        };
    }
    let beside = [
        (queues(file), "close samples of suspected accept queues"),
        (signals(file), "TERM on its way to Envoy, by eBPF"),
        (drain(file), "the operator's wish"),
    ];
    for (name, (state, what)) in BESIDE.into_iter().zip(beside) {
        let _ = writeln!(out, "   {name:<13}{state:<28}  {what}");
    }
}

/// The sources of a condition, for the family of its front, with those that could not be used marked.
pub(super) fn render_sources_of(kind: ConditionType, family: Option<Family>, file: &SnapshotFile) -> String {
    let reads = source_reads(&file.snapshot);
    let concerns = |source: &str| match family {
        Some(Family::Ipv4) => source != "lb_v6",
        Some(Family::Ipv6) => source != "lb_v4",
        None => true,
    };
    let marked = |source: &&str| {
        let read = reads.iter().find(|read| read.name == *source);
        let mark = match read.map(|read| (read.window, read.failure, read.not_there)) {
            Some((None, ..)) => " (not read)",
            Some((_, Some(_), _)) => " (NOT READABLE)",
            Some((.., Some(_))) => " (not there)",
            Some((Some(_), None, None)) | None => "",
        };
        format!("{source}{mark}")
    };
    sources_of(kind).iter().filter(|source| concerns(source)).map(marked).collect::<Vec<_>>().join(", ")
}

fn state(read: &SourceRead<'_>, now: Now) -> String {
    match (read.window, read.failure, read.not_there) {
        (None, ..) => "not read".to_owned(),
        (_, _, Some(why)) => format!("not there ({why})"),
        (_, Some(failure), None) => format!("NOT READABLE ({}): {}", failure.why.as_str(), clean_sentence(&failure.detail)),
        (Some(window), None, None) => {
            format!("read {} before, in {}", render_age(now.mono.since(window.end)), render_age(window.end.since(window.begin)))
        }
    }
}

fn queues(file: &SnapshotFile) -> String {
    let samples = &file.snapshot.queues.0;
    let mut sockets: Vec<u64> = samples.iter().map(|sample| sample.cookie).collect();
    sockets.sort_unstable();
    sockets.dedup();
    match samples.last() {
        None => "none is suspected".to_owned(),
        Some(newest) => format!(
            "{} samples of {} sockets, the newest {} before",
            samples.len(),
            sockets.len(),
            render_age(file.now.mono.since(newest.at))
        ),
    }
}

fn signals(file: &SnapshotFile) -> String {
    match &file.snapshot.terminating {
        None => "none seen".to_owned(),
        Some(term) => format!("to process {}, {} before", term.pid, render_age(file.now.mono.since(term.at))),
    }
}

fn drain(file: &SnapshotFile) -> String {
    match &file.snapshot.drain {
        None => "none".to_owned(),
        Some(drain) => {
            let until = drain.until_unix_ms.map_or_else(|| "undrain".to_owned(), render_rfc3339);
            format!("asked for by {} until {until}: {}", sanitise(&drain.by), sanitise(&drain.reason))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sources::SOURCES;
    use super::super::testing::{Scene, snapshot_file};
    use super::*;
    use crate::facts::platform::Termination;
    use crate::facts::queues::{QueueSample, QueueSamples};
    use crate::facts::{DrainRequest, Reading, Snapshot, Unavailable, Why};
    use crate::lb::facts::LbTable;
    use crate::time::{Mono, Window};

    const MS: u64 = 1_000_000;

    fn file(snapshot: Snapshot) -> SnapshotFile {
        snapshot_file(snapshot, Now { mono: Mono(10 * MS), ..Scene::up().judged_at })
    }

    /// A node where Cilium serves IPv4 only, and the owners can't be read.
    fn v4_only() -> Snapshot {
        let window = Window { begin: Mono(6 * MS), end: Mono(7 * MS) };
        let failed = |why| Unavailable { why, detail: "no".to_owned(), window };
        let mut snapshot = Snapshot { owners: Reading::Unavailable(failed(Why::Permission)), ..Snapshot::default() };
        snapshot.lb.v4 = Reading::Observed { value: LbTable::default(), window };
        snapshot.lb.v6 = Reading::Unavailable(failed(Why::Absent));
        snapshot
    }

    fn told(snapshot: Snapshot) -> String {
        let mut out = String::new();
        push_sources(&mut out, &file(snapshot));
        out
    }

    /// What is said of a source, without what it is.
    fn state_of<'a>(told: &'a str, source: &str) -> &'a str {
        let said = told.lines().find_map(|line| line.strip_prefix(&format!("   {source} "))).unwrap_or_default();
        said.trim().split("  ").next().unwrap_or_default()
    }

    #[test]
    fn every_source_is_listed_with_what_became_of_it() {
        let told = told(v4_only());
        for source in SOURCES.iter().chain(&BESIDE) {
            assert!(!state_of(&told, source).is_empty(), "{source} is not in\n{told}");
        }
        assert_eq!(state_of(&told, "lb_v4"), "read 3ms before, in 1ms");
        assert_eq!(state_of(&told, "lb_v6"), "not there (IPv6 is off in Cilium)");
        assert_eq!(state_of(&told, "owners"), "NOT READABLE (permission): no");
        assert_eq!(state_of(&told, "sockets"), "not read");
    }

    #[test]
    fn what_comes_by_itself_is_told_too() {
        let quiet = told(Snapshot::default());
        assert_eq!(["queues", "signals", "drain"].map(|source| state_of(&quiet, source)), ["none is suspected", "none seen", "none"]);
        let sample = |cookie, at| QueueSample { cookie, length: 1, at: Mono(at * MS) };
        let drain = DrainRequest { by: "uid 0".to_owned(), reason: "disk".to_owned(), asked_unix_ms: 0, until_unix_ms: Some(0) };
        let busy = told(Snapshot {
            queues: QueueSamples(vec![sample(1, 1), sample(2, 1), sample(1, 8)]),
            terminating: Some(Termination { pid: 7, at: Mono(9 * MS) }),
            drain: Some(drain),
            ..Snapshot::default()
        });
        assert_eq!(state_of(&busy, "queues"), "3 samples of 2 sockets, the newest 2ms before");
        assert_eq!(state_of(&busy, "signals"), "to process 7, 1ms before");
        assert_eq!(state_of(&busy, "drain"), "asked for by uid 0 until 1970-01-01T00:00:00.000Z: disk");
    }

    #[test]
    fn the_sources_of_a_condition_are_those_of_its_family_with_their_state() {
        let file = file(v4_only());
        let of = |family| render_sources_of(ConditionType::OwnedByEnvoy, family, &file);
        assert_eq!(of(Some(Family::Ipv4)), "sockets (not read), owners (NOT READABLE), lb_v4");
        assert_eq!(of(Some(Family::Ipv6)), "sockets (not read), owners (NOT READABLE), lb_v6 (not there)");
        assert_eq!(render_sources_of(ConditionType::InService, None, &file), "drain");
    }

    #[test]
    fn every_source_of_a_condition_exists_and_every_source_serves_one() {
        let used: Vec<&str> = ConditionType::ALL.iter().flat_map(|kind| sources_of(*kind)).copied().collect();
        for source in SOURCES.iter().chain(&BESIDE) {
            assert!(used.contains(source), "{source}");
        }
        assert!(used.iter().all(|source| SOURCES.contains(source) || BESIDE.contains(source)), "{used:?}");
    }
}
