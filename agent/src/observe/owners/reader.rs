//! One read of the owner source per pass: verify, look at candidates, describe, and leave the rest to the walker. Must not
//! search /proc itself, and must not judge.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use gwready_core::facts::processes::{Owners, Process, RunState};
use gwready_core::facts::sockets::Listener;
use gwready_core::facts::{Reading, Unavailable, Why};
use gwready_core::time::{Mono, Window};
use rustix::io::Errno;

use super::candidates::search_candidates;
use super::known::KnownPids;
use super::pods::PodNames;
use super::process::{Surroundings, Tracked, is_envoy};
use super::procfs_root::{Fault, ProcRoot};
use super::settings::Settings;
use super::sockets::Sockets;
use super::starts::Starts;
use super::walk::{Hit, Job, Walked};
use super::walker::{Ended, Message, Wake, Walker};
use crate::clock;

/// While there is no Envoy, all processes are named again this often: one may have become Envoy by exec long after its birth.
const NAME_ALL_AGAIN: Duration = Duration::from_secs(10);

/// Most openers remembered: a storm of listeners is for the walk.
const OPENERS: usize = 32;

/// Reads who holds the sockets of the expected ports.
pub struct OwnerReader {
    settings: Settings,
    wake: Wake,
    root: Option<Arc<ProcRoot>>,
    walker: Option<Walker>,
    pub(super) last_walk: Option<Walked>,
    sockets: Sockets,
    processes: HashMap<u32, Tracked>,
    known: KnownPids,
    pods: PodNames,
    starts: Starts,
    /// Said to have begun to listen, and not yet asked for their sockets.
    openers: BTreeSet<u32>,
    /// Every process was named once and none was an Envoy, and none has been seen since.
    absent: bool,
    /// The last read that found an Envoy.
    envoy_seen_at: Option<Mono>,
    /// The last read found no Envoy and had no time to name every process.
    unnamed: bool,
}

impl std::fmt::Debug for OwnerReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnerReader").field("settings", &self.settings).field("sockets", &self.sockets).finish_non_exhaustive()
    }
}

impl OwnerReader {
    /// Reads nothing yet. `wake` is called from another thread when a walk found something: then [`OwnerReader::read`] should
    /// be called again soon. The first read must come from the thread (capabilities, network namespace) of all others.
    #[must_use]
    pub fn new(settings: Settings, wake: Wake) -> Self {
        let pods = PodNames::new(settings.pod_logs.clone());
        Self {
            settings,
            wake,
            root: None,
            walker: None,
            last_walk: None,
            sockets: Sockets::default(),
            processes: HashMap::new(),
            known: KnownPids::default(),
            pods,
            starts: Starts::default(),
            openers: BTreeSet::new(),
            absent: false,
            envoy_seen_at: None,
            unnamed: false,
        }
    }

    /// Who holds `listeners` (LISTEN rows and picked sockets, in any order, twice is fine), and the Envoys of this network
    /// namespace. Never waits for a walk, except the first time, for `first_walk` at most.
    ///
    /// Unavailable when the procfs can't be opened or the walker's thread has ended.
    pub fn read(&mut self, listeners: &[Listener]) -> Reading<Owners> {
        let begin = clock::mono();
        match self.pass(listeners, begin) {
            Ok(value) => Reading::Observed { value, window: Window { begin, end: clock::mono() } },
            Err((why, detail)) => Reading::Unavailable(Unavailable { why, detail, window: Window { begin, end: clock::mono() } }),
        }
    }

    /// These processes are said to have just begun to listen on a port of ours: they are the first to be asked when a new socket
    /// appears, so that a thief has its name before a walk has found it. A wrong pid costs a look.
    pub fn note_openers(&mut self, pids: impl IntoIterator<Item = u32>) {
        self.openers.extend(pids);
        while self.openers.len() > OPENERS {
            self.openers.pop_first();
        }
    }

    /// A walk is ordered or under way; `wake` will be called.
    #[must_use]
    pub fn searching(&self) -> bool {
        self.walker.as_ref().is_some_and(Walker::busy)
    }

    /// The last read answered from half a search for Envoy: none was found, and only the time within a pass kept it from naming
    /// every process. A further read gets further; a daemon makes it with its next pass.
    #[must_use]
    pub const fn half_searched(&self) -> bool {
        self.unnamed
    }

    /// Takes this long instead of the usual time within a read for looking at new processes while there is no Envoy: for who reads
    /// a few times only and has nobody waiting for the next read.
    pub const fn take_time(&mut self, scan_time: Duration) {
        self.settings.scan_time = scan_time;
    }

    /// `pid` and its parents up to the init of its container, nearest first: the processes whose TERM or KILL announces the end
    /// of `pid`. Empty if it is gone.
    #[must_use]
    pub fn ancestors(&self, pid: u32) -> Vec<u32> {
        self.root.as_ref().map(|root| super::ancestors::ancestors(root, pid, &self.settings.envoy_exe)).unwrap_or_default()
    }

    fn pass(&mut self, listeners: &[Listener], now: Mono) -> Result<Owners, (Why, String)> {
        let root = self.open_root()?;
        self.sockets.keep(listeners, now);
        self.collect()?;
        self.sockets.verify(&self.processes, now);
        self.ask_candidates(&root, now);
        let mut described = BTreeMap::new();
        self.describe(&root, now, &mut described)?;
        let scanned = self.look_for_envoy(&root, now, &mut described)?;
        self.order_walk(&root, now, &described)?;
        if self.last_walk.is_none() {
            self.wait_for_first_walk(now)?;
            self.describe(&root, now, &mut described)?;
        }
        Ok(self.facts(&root, now, described, scanned))
    }

    fn open_root(&mut self) -> Result<Arc<ProcRoot>, (Why, String)> {
        if let Some(root) = &self.root {
            return Ok(Arc::clone(root));
        }
        let path = &self.settings.proc_root;
        let root = ProcRoot::open(path).map_err(|errno| {
            let why = match errno {
                Errno::ACCESS | Errno::PERM => Why::Permission,
                Errno::NOENT | Errno::NOTDIR => Why::Absent,
                _ => Why::Failed,
            };
            (why, format!("{}: {errno}", path.display()))
        })?;
        Ok(Arc::clone(self.root.insert(Arc::new(root))))
    }

    /// Takes in what the walker has found so far.
    fn collect(&mut self) -> Result<(), (Why, String)> {
        loop {
            let message = match &mut self.walker {
                Some(walker) => walker.take().map_err(ended)?,
                None => None,
            };
            match message {
                Some(message) => self.take_in(message),
                None => return Ok(()),
            }
        }
    }

    fn take_in(&mut self, message: Message) {
        match message {
            Message::Hit(hit) => self.remember(hit),
            Message::Done(walked) => {
                self.sockets.note_walk(&walked);
                self.known.learn(&walked.pids, walked.begin);
                self.last_walk = Some(walked);
            }
        }
    }

    /// A process that is remembered already under the same start time keeps what was resolved for it.
    fn remember(&mut self, hit: Hit) {
        let pid = hit.process.dir.pid();
        let same = self.processes.get(&pid).is_some_and(|known| known.start_ticks() == hit.process.start_ticks());
        if !same {
            self.sockets.forget(pid, clock::mono());
            self.processes.insert(pid, hit.process);
        }
        self.sockets.note(pid, &hit.sockets);
    }

    fn ask_candidates(&mut self, root: &ProcRoot, now: Mono) {
        let fresh = self.sockets.take_fresh();
        if fresh.is_empty() {
            return;
        }
        let openers = std::mem::take(&mut self.openers);
        let found = search_candidates(root, &self.processes, &fresh, &openers, now);
        for (pid, sockets) in found.known {
            self.sockets.note(pid, &sockets);
        }
        for hit in found.new {
            self.remember(hit);
        }
    }

    /// Describes every remembered process that is not described yet; forgets those that are gone, and those that neither hold a
    /// socket of ours nor are an Envoy.
    ///
    /// Fails where we have no descriptor or memory left: a process that can't be described for that reason is not gone.
    fn describe(&mut self, root: &ProcRoot, now: Mono, described: &mut BTreeMap<u32, Process>) -> Result<(), (Why, String)> {
        let mut around =
            Surroundings { root, cgroup_root: &self.settings.cgroup_root, pods: &mut self.pods, own_netns: root.own_netns(), now };
        let mut gone = Vec::new();
        for (pid, process) in &mut self.processes {
            if described.contains_key(pid) {
                continue;
            }
            match process.describe(&mut around) {
                Ok(facts) if self.sockets.holds_any(*pid) || named_envoy(&facts, &self.settings.envoy_exe) => {
                    described.insert(*pid, facts);
                }
                Err(Fault::Exhausted(why)) => return Err((Why::Failed, format!("pid {pid} can't be described: {why}"))),
                Ok(_) => gone.push(*pid),
                Err(Fault::Gone | Fault::Refused(_) | Fault::Failed(_)) => {
                    self.known.forget(*pid);
                    gone.push(*pid);
                }
            }
        }
        for pid in gone {
            self.processes.remove(&pid);
            self.sockets.forget(pid, now);
        }
        Ok(())
    }

    /// With no Envoy left, looks at new processes. Returns whether every process is named now.
    fn look_for_envoy(&mut self, root: &ProcRoot, now: Mono, described: &mut BTreeMap<u32, Process>) -> Result<bool, (Why, String)> {
        let all_named = self.last_walk.as_ref().is_some_and(|walked| walked.all_named);
        if !all_named || !self.envoys(described).is_empty() {
            return Ok(all_named);
        }
        let mut scan = self.known.scan(root, &self.settings.envoy_exe, now, clock::mono().plus(self.settings.scan_time));
        for dir in scan.envoys {
            let pid = dir.pid();
            match Tracked::new(dir) {
                Ok(process) => self.remember(Hit { process, sockets: Vec::new() }),
                Err(Fault::Gone) => {}
                Err(_) => {
                    self.known.forget(pid);
                    scan.complete = false;
                }
            }
        }
        self.describe(root, now, described)?;
        Ok(scan.complete)
    }

    fn envoys(&self, described: &BTreeMap<u32, Process>) -> Vec<u32> {
        let ours = described.values().filter(|process| {
            process.state != RunState::Dead && process.same_netns != Some(false) && named_envoy(process, &self.settings.envoy_exe)
        });
        ours.map(|process| process.pid).collect()
    }

    fn order_walk(&mut self, root: &Arc<ProcRoot>, now: Mono, described: &BTreeMap<u32, Process>) -> Result<(), (Why, String)> {
        let rename = self.last_walk.as_ref().map_or(Some(now), |last| {
            let nameless = now.since(last.end) >= NAME_ALL_AGAIN && self.envoys(described).is_empty();
            nameless.then_some(now)
        });
        let Some(not_before) = rename.or_else(|| self.sockets.walk_due_at()) else { return Ok(()) };
        if self.walker.is_none() {
            let walker = Walker::spawn(Arc::clone(root), self.settings.envoy_exe.clone(), Arc::clone(&self.wake));
            self.walker = Some(walker.map_err(|error| (Why::Failed, format!("the owner search can't start: {error}")))?);
        }
        let first = self.processes.keys().copied().collect();
        let job = Job { wanted: self.sockets.inodes(), first, not_before, deadline: self.settings.walk_deadline };
        self.walker.as_mut().map_or(Ok(()), |walker| walker.order(job)).map_err(ended)
    }

    fn wait_for_first_walk(&mut self, begin: Mono) -> Result<(), (Why, String)> {
        let until = begin.plus(self.settings.first_walk);
        while self.last_walk.is_none() {
            let message = match &mut self.walker {
                Some(walker) => walker.wait(until).map_err(ended)?,
                None => None,
            };
            match message {
                Some(message) => self.take_in(message),
                None => break,
            }
        }
        Ok(())
    }

    fn facts(&mut self, root: &ProcRoot, now: Mono, described: BTreeMap<u32, Process>, scanned: bool) -> Owners {
        let envoys = self.envoys(&described);
        let (at, boot) = (clock::mono(), clock::boot());
        // Where namespaces are hidden, any pod's Envoy might be ours: only one with a socket of ours counts, or a node full of
        // other Envoys would look like one that restarts in a loop.
        let ours = |process: &&Process| process.same_netns == Some(true) || self.sockets.holds_any(process.pid);
        for process in envoys.iter().filter_map(|pid| described.get(pid)).filter(ours) {
            self.starts.note(process.pid, process.start_ticks, at, boot);
        }
        if !envoys.is_empty() {
            self.envoy_seen_at = Some(at);
        }
        // A walk within this read, or one that began after the last sight of an Envoy and found none.
        let tells =
            |walked: &Walked| walked.begin >= now || (envoys.is_empty() && self.envoy_seen_at.is_none_or(|seen| walked.begin > seen));
        let named = scanned || self.last_walk.as_ref().is_some_and(|walked| walked.all_named && tells(walked));
        // New processes that there was no time to name do not undo the proof: on a busy node that would hide the cause of a
        // down node again and again. An Envoy among them is found by a later read, or at once by the sockets that it holds.
        self.absent = envoys.is_empty() && (named || self.absent);
        // A walk that was refused some names will be refused them again: nothing to wait for.
        self.unnamed = envoys.is_empty() && !self.absent && self.last_walk.as_ref().is_none_or(|walked| walked.all_named);
        let processes = described.into_iter().filter(|(pid, _)| envoys.contains(pid) || self.sockets.holds_any(*pid)).collect();
        Owners {
            holders: self.sockets.holders(),
            processes,
            envoys,
            envoys_complete: (named || self.absent) && !self.sockets.beyond_sight(),
            envoy_starts: self.starts.list(),
            unprivileged_port_start: root.unprivileged_port_start(),
        }
    }
}

fn named_envoy(process: &Process, envoy_exe: &str) -> bool {
    is_envoy(&process.exe, || Some(process.comm.clone()), envoy_exe)
}

fn ended(_: Ended) -> (Why, String) {
    (Why::Failed, "the owner search has ended unexpectedly".to_owned())
}
