//! The embedded programs into the kernel: load, attach, prove, and say what could not be done and why.
//!
//! Nothing here is needed for a right answer: whatever fails, polling goes on. Loading reads the kernel's
//! type information and peaks at some tens of megabytes for a moment; do it after the health port answers.

use super::attach::{self, EXIT, Program, SIGNAL, SOCKET_STATE};
use super::log::{self, LogStream};
use super::offsets::{self, Offsets};
use super::prove;
use super::ring::Ring;
use super::watch::Watch;
use aya::maps::{Map, MapError};
use aya::{Ebpf, EbpfLoader};
use gwready_ebpf::names;

/// Empty where the agent was built without `XTASK_EBPF_OBJECT` (`agent/build.rs`).
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/gwready.bpf.o"));

/// Why there are no events at all.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Built by plain cargo instead of `cargo xtask build`.
    #[error("this binary was built without eBPF programs")]
    NotEmbedded,
    /// The kernel takes no maps from us, or the object is not what we expect.
    #[error("the eBPF object can't be loaded: {0}")]
    Refused(String),
    /// Loaded, but not one program could be attached.
    #[error("no eBPF program could be attached: {0}")]
    NothingAttached(String),
}

/// What to load.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Report only sockets of the calling thread's network namespace, as far as that can be told.
    pub own_namespace_only: bool,
    /// Pass the programs' debug lines on to tracing.
    pub debug: bool,
}

/// One program's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramState {
    /// Name, as in the metric `gwready_ebpf_attached{program}`.
    pub name: &'static str,
    /// Attached and proven, or why not: a sentence for a person.
    pub attached: Result<(), String>,
}

/// Loaded programs. They are detached when this is dropped.
pub struct Events {
    /// Where events arrive.
    pub ring: Ring,
    /// What is watched; nothing at first.
    pub watch: Watch,
    /// Debug lines, if asked for.
    pub log: Option<LogStream>,
    programs: Vec<ProgramState>,
    namespace: Option<u32>,
    own_only: bool,
    bpf: Ebpf,
}

/// Names of all programs, in the order of [`Events::programs`].
pub const PROGRAMS: [&str; 3] = [SOCKET_STATE.name, SIGNAL.name, EXIT.name];

/// Loads, attaches and proves the programs.
///
/// # Errors
/// No program could be attached. A part of them failing is no error: see [`Events::programs`].
pub fn load(options: Options) -> Result<Events, LoadError> {
    if OBJECT.is_empty() {
        return Err(LoadError::NotEmbedded);
    }
    crate::memory::keep_little();
    let outcome = load_proven(options);
    crate::memory::give_back();
    outcome
}

fn load_proven(options: Options) -> Result<Events, LoadError> {
    let known = Offsets::read();
    let offsets = known.clone().unwrap_or_default();
    let without = known.err().unwrap_or_else(|| "the kernel's type information lacks the fields it needs".to_owned());
    let own = offsets::own_namespace().filter(|_| offsets.has_namespace());
    let mut events = place(options, &offsets, own, &without)?;
    if own.is_some() && !events.prove(own) {
        // A wrong namespace hides every socket. Without it user space has to look for itself.
        tracing::debug!("the namespace of a socket can't be told: loading the programs without it");
        events = place(options, &offsets.without_namespace(), None, &without)?;
        events.prove(None);
    } else if own.is_none() {
        events.prove(None);
    }
    if events.programs.iter().any(|program| program.attached.is_ok()) {
        return Ok(events);
    }
    let first = events.programs.iter().find_map(|program| program.attached.clone().err());
    Err(LoadError::NothingAttached(first.unwrap_or_default()))
}

/// Loads the object with these offsets and attaches what can work with them; `without` says why offsets
/// are missing.
fn place(options: Options, offsets: &Offsets, own: Option<u32>, without: &str) -> Result<Events, LoadError> {
    let only = own.filter(|_| options.own_namespace_only).unwrap_or(0);
    let globals = offsets.globals(only);
    let level: u8 = if options.debug { 4 } else { 0 };
    let mut loader = EbpfLoader::new();
    // The loader has parsed all of the kernel's types by now; the object needs none of them.
    loader.btf(None);
    for (name, value) in &globals {
        loader.override_global(name, value, true);
    }
    loader.override_global(log::LEVEL_GLOBAL, &level, false);
    let mut bpf = loader.load(OBJECT).map_err(|error| LoadError::Refused(attach::explain_load(&error)))?;
    let ring = Ring::new(take(&mut bpf, names::RING)?, take(&mut bpf, names::LOST)?);
    let watch = Watch::new(take(&mut bpf, names::PORTS)?, take(&mut bpf, names::ESTABLISHED)?, take(&mut bpf, names::PIDS)?);
    let log = if options.debug { LogStream::open(&mut bpf) } else { None };
    let mut state = |program: Program, has_offsets: bool| ProgramState {
        name: program.name,
        attached: if has_offsets { attach::attach(&mut bpf, program) } else { Err(without.to_owned()) },
    };
    let programs = vec![state(SOCKET_STATE, offsets.has_socket()), state(SIGNAL, offsets.has_task()), state(EXIT, true)];
    Ok(Events { ring, watch, log, programs, namespace: None, own_only: only != 0, bpf })
}

fn take<T: TryFrom<Map, Error = MapError>>(bpf: &mut Ebpf, name: &str) -> Result<T, LoadError> {
    let map = bpf.take_map(name).ok_or_else(|| LoadError::Refused(format!("it has no map {name}")))?;
    T::try_from(map).map_err(|error| LoadError::Refused(format!("map {name}: {error}")))
}

impl Events {
    /// Every program and whether it is attached, in the order of [`PROGRAMS`].
    #[must_use]
    pub fn programs(&self) -> &[ProgramState] {
        &self.programs
    }

    /// Inode number of the network namespace by which sockets are told apart; `None` where they can't be:
    /// a listener event may then be of any namespace, and connections are not counted.
    #[must_use]
    pub const fn namespace(&self) -> Option<u32> {
        self.namespace
    }

    /// Takes out what does not see what it should. Returns whether the namespace was right.
    fn prove(&mut self, own: Option<u32>) -> bool {
        let proof = prove::prove(&mut self.ring, &mut self.watch);
        if own.is_some() && !proof.namespace {
            return false;
        }
        self.namespace = own;
        self.watch.trust_counts(own.is_some() && self.own_only);
        if let Err(reason) = proof.listener {
            self.withdraw(SOCKET_STATE, &reason);
        } else if !proof.pids {
            // Listeners are worth having without their actor's id; the other two are about ids alone.
            let reason = "process ids of the kernel are not those that this process sees (a pid namespace of its own)";
            self.withdraw(SIGNAL, reason);
            self.withdraw(EXIT, reason);
        }
        if !proof.signal {
            self.withdraw(SIGNAL, "a signal of our own is not reported");
        }
        true
    }

    /// A program that failed before keeps its first reason.
    fn withdraw(&mut self, program: Program, reason: &str) {
        if let Some(state) = self.programs.iter_mut().find(|state| state.name == program.name)
            && state.attached.is_ok()
        {
            state.attached = Err(reason.to_owned());
            attach::detach(&mut self.bpf, program);
        }
    }
}
