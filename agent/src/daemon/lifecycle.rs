//! `gwready run`: bind, observe, serve, retire. A long task that ends or panics ends the process with a message.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::thread;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use gwready_core::memory::Memory;

use super::board::Board;
use super::calls::Calls;
use super::journal::Journal;
use super::kernel_events::KernelEvents;
use super::observer::Observer;
use super::settings::{answer_settings, health_settings, probe_settings};
use super::sources::{Background, Sources};
use super::wake::{self, Wake};
use super::{schedule::Trigger, start_notice};
use crate::cli::{Exit, Failure};
use crate::clock;
use crate::config::{Config, LogLevel};
use crate::control;
use crate::health::{self, BindError};
use crate::metrics::Metrics;
use crate::observe::envoy::{AdminSettings, EnvoyAdminReader, LatestAdmin};
use crate::observe::queue_sampler::QueueSampler;
use crate::probe::Prober;
use crate::publish::Publisher;
use crate::{logging, privileges};

type Task = Pin<Box<dyn Future<Output = String>>>;

/// Runs the daemon until TERM or INT.
///
/// # Errors
/// The port is taken (69), something needed at start is refused, or a long task ended (2).
pub fn run(config: &Config) -> Result<(), Failure> {
    logging::init(&config.log);
    end_on_panic();
    let hidden = start_notice::not_visible();
    start_notice::write(config, &hidden);
    let bound = health::bind(health_settings(config)).map_err(|error| bind_failure(&error))?;
    let (journal, saved) = Journal::open(&config.state_dir);
    let (waker, wake) = wake::pair().map_err(failure("cannot make an eventfd"))?;
    let publisher = Arc::new(Publisher::new(answer_settings(config)));
    let stats = bound.stats();
    let metrics = Metrics::new(Box::new(move || stats.label_counts()));
    let memory = saved.recall(clock::now().unix_ms);
    let board = Arc::new(Board::new(Arc::clone(&publisher), metrics, saved, waker.clone()));
    let (envoy, prober, observer_end) = {
        let wake_up = |waker: &wake::Waker| {
            let waker = waker.clone();
            move || waker.wake(Trigger::Probe)
        };
        // The observer starts first: threads inherit capabilities, and everything after this line has none.
        let (parts_for_observer, parts) = std::sync::mpsc::channel();
        let guard = health::PortGuard::new(bound.ports());
        let end = spawn_observer(config.clone(), memory, guard, Arc::clone(&board), waker.clone(), wake, parts)?;
        privileges::drop_all().map_err(failure("cannot drop capabilities"))?;
        let admin = AdminSettings::new(config.envoy.admin_socket.clone());
        let envoy =
            EnvoyAdminReader::spawn(admin, wake_up(&waker)).map_err(failure("cannot start the reader of Envoy's admin interface"))?;
        let (prober, handle) = Prober::new(probe_settings(config), envoy.latest(), wake_up(&waker));
        // The receiver is gone only if the observer has ended, which is noticed below.
        let queues = QueueSampler::spawn().map_err(failure("cannot start the sampler of queues"))?;
        let _ = parts_for_observer.send((envoy.latest(), Background { probes: handle, queues }));
        (envoy, prober, end)
    };
    let calls = Arc::new(Calls { board: Arc::clone(&board), journal: Arc::new(journal), config: config.clone(), not_visible: hidden });
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(2).build().map_err(failure("cannot start"))?;
    let outcome = runtime.block_on(serve(config, bound, &publisher, calls, prober, observer_end));
    drop(envoy);
    outcome
}

/// No half agent: a panic of any thread ends the process, after the usual message.
fn end_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        tracing::error!("a part of the agent panicked, the process ends: {panic}");
        std::process::abort();
    }));
}

type Parts = std::sync::mpsc::Receiver<(LatestAdmin, Background)>;

/// Starts the only thread that keeps its capabilities. The receiver resolves when it ends, which it never should.
fn spawn_observer(
    config: Config,
    memory: Memory,
    guard: health::PortGuard,
    board: Arc<Board>,
    waker: wake::Waker,
    wake: Wake,
    parts: Parts,
) -> Result<oneshot::Receiver<String>, Failure> {
    let (ended, end) = oneshot::channel();
    let body = move || {
        let Ok((envoy, background)) = parts.recv() else { return };
        let sources = Sources::new(&config, envoy, Some(background), &waker);
        let events = KernelEvents::new(config.ebpf, matches!(config.log.level, LogLevel::Debug | LogLevel::Trace));
        let timing = (config.timing.resync, config.timing.lb_poll);
        let observer = Observer::new(config.policy(), sources, events, timing, wake, memory, board).guarding(guard);
        let error = match observer.run() {
            Ok(()) => "without an error".to_owned(),
            Err(error) => error.to_string(),
        };
        // Nobody waits for it only if the process is ending anyway. A panic drops the sender, which tells as much.
        let _ = ended.send(format!("the observer ended: {error}"));
    };
    thread::Builder::new().name("observer".to_owned()).spawn(body).map_err(failure("cannot start the observer"))?;
    Ok(end)
}

/// Everything that runs on the capability-free runtime, until a signal or the end of any part.
async fn serve(
    config: &Config,
    bound: health::Bound,
    publisher: &Arc<Publisher>,
    calls: Arc<Calls>,
    prober: Prober,
    observer_end: oneshot::Receiver<String>,
) -> Result<(), Failure> {
    let board = Arc::clone(&calls.board);
    let mut term = signal(SignalKind::terminate()).map_err(failure("cannot listen for signals"))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failure("cannot listen for signals"))?;
    let background = background(config, &calls, prober)?;
    let observer = async { observer_end.await.unwrap_or_else(|_| "the observer panicked".to_owned()) };
    let mut background = std::pin::pin!(async {
        tokio::select! {
            sentence = first_end(background) => sentence,
            sentence = observer => sentence,
        }
    });
    let mut serving = tokio::select! {
        serving = bound.serve_when_ready(Arc::clone(publisher)) => serving.map_err(failure("cannot serve the health port"))?,
        sentence = &mut background => return Err(ended(sentence)),
        _ = term.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    board.set_serving();
    tracing::info!("health port answers on {}", serving.address().map_or_else(String::new, |address| address.to_string()));
    let outcome = tokio::select! {
        sentence = serving.failed() => Err(ended(sentence)),
        sentence = &mut background => Err(ended(sentence)),
        _ = term.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    };
    if outcome.is_ok() {
        tracing::info!("asked to end: handing the health port over");
        // The verdict is kept up to date while a successor takes over: TERM to the agent drains nothing.
        tokio::select! {
            () = serving.retire() => {}
            sentence = &mut background => return Err(ended(sentence)),
        }
        board.tell_rest();
        // A failure to save was said when it first happened.
        let _ = calls.journal.save_now(&board).await;
    }
    outcome
}

/// The long tasks beside health port and observer. Each resolves with a sentence when it ends, which it never should.
fn background(config: &Config, calls: &Arc<Calls>, prober: Prober) -> Result<Vec<Task>, Failure> {
    let uid = rustix::process::geteuid().as_raw();
    let own_path = control::own_socket_path(std::env::var_os("TMPDIR").as_deref(), uid);
    control::prepare_own_folder(&own_path, uid).map_err(failure("cannot prepare the folder of the probe socket"))?;
    let mut tasks: Vec<Task> = Vec::new();
    for path in [&own_path, &config.control_socket] {
        let socket = control::bind(path).map_err(failure(&format!("cannot listen on {}", path.display())))?;
        let calls = Arc::clone(calls);
        let sentence = format!("the task of {} ended", path.display());
        tasks.push(Box::pin(async move {
            control::serve(socket, uid, calls).await;
            sentence
        }));
    }
    let (listen, allow, pages) = (config.admin.listen, config.admin.allow.clone(), Arc::clone(calls));
    tasks.push(Box::pin(async move {
        match crate::admin::serve(listen, allow, pages).await {
            Ok(()) => format!("the admin port {listen} ended"),
            Err(error) => format!("cannot serve the admin port {listen}: {error}"),
        }
    }));
    let (journal, board) = (Arc::clone(&calls.journal), Arc::clone(&calls.board));
    tasks.push(Box::pin(async move {
        journal.run(board).await;
        "the journal ended".to_owned()
    }));
    tasks.push(Box::pin(async move {
        prober.run().await;
        "the prober ended".to_owned()
    }));
    Ok(tasks)
}

/// The sentence of the first task that ends. A panic in one of them is a panic here: the process ends with its message.
async fn first_end(tasks: Vec<Task>) -> String {
    let mut set = tokio::task::JoinSet::new();
    let local = tokio::task::LocalSet::new();
    for task in tasks {
        set.spawn_local_on(task, &local);
    }
    local
        .run_until(async {
            match set.join_next().await {
                Some(Ok(sentence)) => sentence,
                Some(Err(error)) => format!("a task panicked: {error}"),
                None => "no task runs".to_owned(),
            }
        })
        .await
}

fn ended(sentence: String) -> Failure {
    Failure { exit: Exit::CannotTell, sentence }
}

fn failure(what: &str) -> impl FnOnce(io::Error) -> Failure {
    let what = what.to_owned();
    move |error| Failure { exit: Exit::CannotTell, sentence: format!("{what}: {error}") }
}

fn bind_failure(error: &BindError) -> Failure {
    let exit = match error {
        BindError::InUse { .. } => Exit::AddressInUse,
        BindError::Failed { .. } => Exit::CannotTell,
    };
    let source = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
    Failure { exit, sentence: format!("{error}{source}") }
}
