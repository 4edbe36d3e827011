//! The full search of /proc: every process's name and descriptors. Takes as long as the node is busy, so it runs on a thread of
//! its own (`walker`). Must not remember anything.

use std::collections::HashSet;
use std::time::Duration;

use gwready_core::facts::processes::Readable;
use gwready_core::time::Mono;

use super::descriptors::{Budget, Descriptors, search_descriptors};
use super::process::{Tracked, is_envoy};
use super::procfs_root::{Fault, NO_EXECUTABLE, ProcRoot, ProcessDir};
use crate::clock;

/// What to look for.
#[derive(Debug, Clone)]
pub(super) struct Job {
    /// Socket inodes.
    pub wanted: HashSet<u64>,
    /// Processes to begin with: whoever held a socket of ours, or is an Envoy, is the likeliest to hold the next, and may not be missed
    /// by a search that runs out of time.
    pub first: Vec<u32>,
    /// Not before this moment.
    pub not_before: Mono,
    /// How long it may take.
    pub deadline: Duration,
}

/// A process worth remembering.
#[derive(Debug)]
pub(super) struct Hit {
    pub process: Tracked,
    /// Wanted sockets it holds, with a descriptor number each.
    pub sockets: Descriptors,
}

/// How thoroughly a search was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Coverage {
    /// Every descriptor of every process was looked at.
    #[default]
    Whole,
    /// Holders may have been missed, and another walk would miss them too: one sentence why.
    Partly(String),
    /// The reader itself failed (no descriptor or memory left), which says nothing about anybody: one sentence why.
    Failed(String),
}

/// How a walk went.
#[derive(Debug, Default)]
pub(super) struct Walked {
    /// The sockets that were looked for.
    pub wanted: HashSet<u64>,
    /// Processes seen.
    pub pids: Vec<u32>,
    /// Whether holders may have been missed.
    pub coverage: Coverage,
    /// Every process could be named.
    pub all_named: bool,
    pub begin: Mono,
    pub end: Mono,
}

/// Walks all of /proc, after the likeliest the newest pids first: who has just bound a port has often just started. Each hit is handed out at once.
pub(super) fn walk(root: &ProcRoot, envoy_exe: &str, job: &Job, mut hit: impl FnMut(Hit)) -> Walked {
    let mut walked = Walked { wanted: job.wanted.clone(), all_named: true, begin: clock::mono(), ..Walked::default() };
    match root.pids() {
        Ok(pids) => walked.pids = pids,
        Err(errno) => {
            let why = format!("{} can't be listed: {errno}", root.path().display());
            return walked.end_as(Fault::from(errno).coverage(why));
        }
    }
    walked.pids.sort_unstable();
    // hidepid=invisible leaves out whatever may not be looked at; pid 1 always exists and is among the first to go.
    if walked.pids.first() != Some(&1) {
        walked = walked.end_as(Coverage::Partly(format!("{} does not show pid 1: processes are hidden (hidepid)", root.path().display())));
    }
    let until = walked.begin.plus(job.deadline);
    let mut budget = Budget { left: usize::MAX, until };
    let (mut refused, mut example): (u32, Option<(u32, Fault)>) = (0, None);
    let rest = walked.pids.iter().rev().filter(|pid| !job.first.contains(pid));
    for pid in job.first.iter().chain(rest) {
        if budget.left == 0 || clock::mono() >= until {
            walked.coverage = Coverage::Partly("the search ran out of time".to_owned());
            walked.all_named = false;
            break;
        }
        let looked = look_at(root, *pid, envoy_exe, job, &mut budget);
        walked.all_named &= looked.named;
        if let Some(fault) = looked.fault {
            refused += 1;
            example.get_or_insert((*pid, fault.clone()));
            if let Fault::Exhausted(_) = fault {
                example = Some((*pid, fault));
            }
        }
        if let Some(found) = looked.hit {
            hit(found);
        }
    }
    if let (Some((pid, fault)), Coverage::Whole) = (example, &walked.coverage) {
        let name = root.name_of(pid).unwrap_or_default();
        let count = walked.pids.len();
        walked.coverage =
            fault.coverage(format!("the descriptors of {refused} of {count} processes can't be read (pid {pid} {name}: {fault})"));
    }
    walked.end = clock::mono();
    walked
}

impl Walked {
    fn end_as(mut self, coverage: Coverage) -> Self {
        self.coverage = coverage;
        self.all_named = false;
        self.end = clock::mono();
        self
    }
}

impl Fault {
    /// What a search is worth that met this fault.
    const fn coverage(&self, why: String) -> Coverage {
        match self {
            Self::Exhausted(_) => Coverage::Failed(why),
            Self::Gone | Self::Refused(_) | Self::Failed(_) => Coverage::Partly(why),
        }
    }
}

/// What one process gave: a refusal of the descriptors does not hide the name.
#[derive(Debug)]
struct LookedAt {
    hit: Option<Hit>,
    named: bool,
    fault: Option<Fault>,
}

fn look_at(root: &ProcRoot, pid: u32, envoy_exe: &str, job: &Job, budget: &mut Budget) -> LookedAt {
    let mut looked = LookedAt { hit: None, named: true, fault: None };
    let named = root.process(pid).and_then(|dir| name(&dir, envoy_exe).map(|named| (dir, named)));
    let (dir, named) = match named {
        Ok(named) => named,
        Err(Fault::Gone) => return looked,
        Err(fault) => return LookedAt { named: false, fault: Some(fault), ..looked },
    };
    let mut sockets = Vec::new();
    let envoy = named == Named::Envoy;
    if !job.wanted.is_empty() && named != Named::Bodiless {
        match search_descriptors(&dir, &job.wanted, budget) {
            Ok(held) => sockets = held.sockets,
            Err(Fault::Gone) => return looked,
            Err(fault) => looked.fault = Some(fault),
        }
    }
    if envoy || !sockets.is_empty() {
        match Tracked::new(dir) {
            Ok(process) => looked.hit = Some(Hit { process, sockets }),
            Err(Fault::Gone) => {}
            Err(fault) => looked.fault = Some(fault),
        }
    }
    looked
}

/// What a process is by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    Envoy,
    /// Another program, which may still exec.
    Other,
    /// A zombie or a kernel thread: it has no executable, and never will have one.
    Bodiless,
}

/// Names a process.
///
/// # Errors
/// Neither executable nor comm could be read.
pub(super) fn name(dir: &ProcessDir, envoy_exe: &str) -> Result<Named, Fault> {
    let exe = dir.exe();
    let comm = || -> Result<String, Fault> { Ok(String::from_utf8_lossy(dir.read("comm")?.trim_ascii_end()).into_owned()) };
    let comm = if exe.get().is_some() { None } else { Some(comm()?) };
    Ok(match exe {
        _ if is_envoy(&exe, || comm, envoy_exe) => Named::Envoy,
        Readable::Hidden(why) if why == NO_EXECUTABLE => Named::Bodiless,
        Readable::Is(_) | Readable::Hidden(_) => Named::Other,
    })
}
