//! Real Envoy in a node: start, listeners by LDS, signals, admin requests, end.
//!
//! Stock Envoy can't have Cilium's marks and Cilium's capability set at once: putting the marks on
//! listen sockets needs full root. [`Caps::All`] gives marks, [`Caps::BindOnly`] gives CapPrm 0x400
//! and NoNewPrivs without marks. A test says which it uses.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::bootstrap;
use crate::certificate::Certificate;
use crate::client::{self, Answer};
use crate::listener::{Around, Listener, SNI};
use crate::node::Node;
use crate::paths;
use crate::process::{Place, Process};
use crate::unix_http;
use crate::wait::eventually;

/// Bound of everything that Envoy should do promptly.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Capabilities that Envoy runs with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caps {
    /// Full root, Cilium's marks on the listen sockets.
    All,
    /// `CAP_NET_BIND_SERVICE` alone and NoNewPrivs, as with `keepCapNetBindService`; no marks.
    BindOnly,
    /// None: binding port 80 fails with EACCES.
    None,
}

/// What Envoy should be like.
#[derive(Debug, Clone)]
#[must_use]
pub struct EnvoyBuilder {
    node: Node,
    caps: Caps,
    marks: bool,
    starter: bool,
    concurrency: u32,
    base_id: u32,
    second: bool,
    exe: Option<PathBuf>,
    control_plane: Option<SocketAddr>,
    certificate_days: u32,
    overload: bool,
    listeners: Vec<Listener>,
}

/// A running Envoy. Ends when dropped.
#[derive(Debug)]
pub struct Envoy {
    // Ends before the box does.
    process: Process,
    node: Node,
    builder: EnvoyBuilder,
    around: Around,
    lds_dir: PathBuf,
    admin: PathBuf,
    version: u64,
    listeners: Vec<Listener>,
    _silent: TcpListener,
}

impl EnvoyBuilder {
    /// Default [`Caps::All`].
    pub fn caps(mut self, caps: Caps) -> Self {
        self.caps = caps;
        self
    }

    /// Cilium's mark and transparent bit; default true, and only with [`Caps::All`].
    pub fn marks(mut self, marks: bool) -> Self {
        self.marks = marks;
        self
    }

    /// Runs it below a `cilium-envoy-starter` in a pid namespace of its own.
    pub fn starter(mut self) -> Self {
        self.starter = true;
        self
    }

    /// Worker threads; default 2.
    pub fn concurrency(mut self, workers: u32) -> Self {
        self.concurrency = workers;
        self
    }

    /// A further Envoy beside Cilium's in one node: own base id, own admin socket, no health
    /// listener.
    pub fn second(mut self, base_id: u32) -> Self {
        self.second = true;
        self.base_id = base_id;
        self
    }

    /// Another executable, e.g. a copy under another name.
    pub fn exe(mut self, path: impl Into<PathBuf>) -> Self {
        self.exe = Some(path.into());
        self
    }

    /// A control plane to connect to, beside the listeners from a file.
    pub fn control_plane(mut self, at: SocketAddr) -> Self {
        self.control_plane = Some(at);
        self
    }

    /// Validity of the gateway's certificate from now; default 90.
    pub fn certificate_days(mut self, days: u32) -> Self {
        self.certificate_days = days;
        self
    }

    /// With an overload manager: see [`Envoy::set_pressure`].
    pub fn overload(mut self) -> Self {
        self.overload = true;
        self
    }

    /// Instead of [`Listener::gateway`].
    pub fn listeners(mut self, listeners: Vec<Listener>) -> Self {
        self.listeners = listeners;
        self
    }

    /// Starts it and waits until it serves from outside.
    pub fn start(self) -> Result<Envoy> {
        let mut envoy = self.spawn()?;
        envoy.wait_serving()?;
        Ok(envoy)
    }

    /// Starts it and waits for its admin interface alone: for listeners that can't come up.
    pub fn start_unserved(self) -> Result<Envoy> {
        let mut envoy = self.spawn()?;
        envoy.wait_live()?;
        Ok(envoy)
    }

    /// Starts it and waits for nothing.
    pub fn spawn(self) -> Result<Envoy> {
        let node = self.node.clone();
        let lds_dir = node.fresh_path("envoy");
        fs::create_dir(&lds_dir)?;
        let admin = if self.second { lds_dir.join("admin.sock") } else { node.admin_socket() };
        let silent = node.enter(|| Ok(TcpListener::bind("127.0.0.1:0")?))?;
        let around = Around {
            ipv6: node.has_ipv6(),
            marks: self.marks && self.caps == Caps::All,
            certificate: Certificate::self_signed(&lds_dir, &[SNI], self.certificate_days)?,
            empty_sds: lds_dir.join("sds.json"),
        };
        fs::write(&around.empty_sds, json!({"resources": []}).to_string())?;
        let paths = bootstrap::Paths { admin: &admin, lds_dir: &lds_dir };
        let mut config = bootstrap::render(&paths, silent.local_addr()?, node.has_ipv6(), !self.second);
        if let Some(at) = self.control_plane {
            bootstrap::add_control_plane(&mut config, at);
        }
        if self.overload {
            let pressure = lds_dir.join("pressure");
            fs::write(&pressure, "0")?;
            bootstrap::add_overload(&mut config, &pressure);
        }
        fs::write(lds_dir.join("bootstrap-config.json"), config.to_string())?;
        write_lds(&lds_dir, 0, &self.listeners, &around)?;
        Ok(Envoy {
            process: self.launch(&lds_dir)?,
            listeners: self.listeners.clone(),
            builder: self,
            node,
            around,
            lds_dir,
            admin,
            version: 0,
            _silent: silent,
        })
    }

    fn launch(&self, lds_dir: &Path) -> Result<Process> {
        let envoy = self.exe.clone().map_or_else(paths::envoy, Ok)?;
        let mut command = if self.starter {
            let mut command = Command::new(paths::own("cilium-envoy-starter")?);
            match self.caps {
                Caps::All => command.arg("--keep-all-caps"),
                Caps::BindOnly => command.arg("--keep-cap-net-bind-service"),
                Caps::None => &mut command,
            };
            command.env("CILIUM_ENVOY", envoy).arg("--");
            command
        } else {
            // setpriv executes Envoy in its own place, so pid and executable are Envoy's.
            let kept = match self.caps {
                Caps::All => return self.finish(Command::new(envoy), lds_dir),
                Caps::BindOnly => "-all,+net_bind_service",
                Caps::None => "-all",
            };
            let mut command = Command::new("setpriv");
            command.arg(format!("--bounding-set={kept}"));
            command.args(["--inh-caps=-all", "--no-new-privs"]).arg(envoy);
            command
        };
        command.env_remove("LD_PRELOAD");
        self.finish(command, lds_dir)
    }

    fn finish(&self, mut command: Command, lds_dir: &Path) -> Result<Process> {
        let config = lds_dir.join("bootstrap-config.json");
        // Cilium's manifests put option and value into one argument.
        command.arg(format!("-c {}", config.display()));
        command.arg(format!("--base-id {}", self.base_id));
        command.arg(format!("--concurrency {}", self.concurrency));
        command.args(["--log-level", "info"]);
        let place = if self.starter { Place::Init } else { Place::Plain };
        Process::start(self.node.space(), command, &lds_dir.join("log"), place)
    }
}

impl Envoy {
    /// Cilium's Envoy in this node.
    pub fn builder(node: &Node) -> EnvoyBuilder {
        EnvoyBuilder {
            node: node.clone(),
            caps: Caps::All,
            marks: true,
            starter: false,
            concurrency: 2,
            base_id: 0,
            second: false,
            exe: None,
            control_plane: None,
            certificate_days: 90,
            overload: false,
            listeners: vec![Listener::gateway()],
        }
    }

    /// With marks, without a starter, serving.
    pub fn start(node: &Node) -> Result<Self> {
        Self::builder(node).start()
    }

    /// Envoy's own process id, as the host sees it.
    pub fn pid(&self) -> Result<i32> {
        let pid = self.process.pid();
        if !self.builder.starter {
            return Ok(pid);
        }
        let mut children = String::new();
        for task in fs::read_dir(format!("/proc/{pid}/task"))? {
            children += &fs::read_to_string(task?.path().join("children"))?;
        }
        let first = children.split_whitespace().next();
        Ok(first.context("the starter has no child")?.parse()?)
    }

    /// The starter's process id; an error when there is none.
    pub fn starter_pid(&self) -> Result<i32> {
        ensure!(self.builder.starter, "Envoy runs without a starter");
        Ok(self.process.pid())
    }

    /// The process that the box started: the starter, or Envoy itself.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// All that Envoy logged.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Signal to Envoy itself (KILL, TERM, STOP, CONT).
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(self.pid()?).context("pid 0")?;
        kill_process(pid, signal).with_context(|| format!("{signal:?} to Envoy"))
    }

    /// STOP, and waits until every thread has stopped: until then a worker may still answer.
    pub fn stop(&self) -> Result<()> {
        self.signal(Signal::STOP)?;
        let tasks = format!("/proc/{}/task", self.pid()?);
        eventually(PATIENCE, || {
            for task in fs::read_dir(&tasks)? {
                let stat = fs::read_to_string(task?.path().join("stat"))?;
                // The state follows the name, which may itself contain ')'.
                let (_, fields) = stat.rsplit_once(") ").context("no state")?;
                ensure!(fields.starts_with('T'), "a thread still runs: {stat}");
            }
            Ok(())
        })
    }

    /// CONT.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// KILL to all of it (starter too), and waits for its end.
    pub fn kill(&mut self) -> Result<()> {
        self.process.kill()
    }

    /// Starts it anew, same configuration, after it has ended. Does not wait: see
    /// [`Envoy::wait_serving`].
    pub fn start_again(&mut self) -> Result<()> {
        self.process.kill()?;
        self.process = self.builder.launch(&self.lds_dir)?;
        Ok(())
    }

    /// GET on the admin socket.
    pub fn get(&self, path: &str) -> Result<String> {
        unix_http::request(&self.admin, "GET", path)
    }

    /// POST on the admin socket, e.g. `/drain_listeners`.
    pub fn post(&self, path: &str) -> Result<String> {
        unix_http::request(&self.admin, "POST", path)
    }

    /// Replaces the listeners by LDS. Envoy takes them within about 50 ms, or rejects them.
    pub fn set_listeners(&mut self, listeners: &[Listener]) -> Result<()> {
        self.version += 1;
        self.listeners = listeners.to_vec();
        write_lds(&self.lds_dir, self.version, listeners, &self.around)
    }

    /// Tells the overload manager a pressure between 0 and 1. From 0.9 on Envoy closes every new connection.
    pub fn set_pressure(&self, pressure: f64) -> Result<()> {
        replace(&self.lds_dir, "pressure", |path| Ok(fs::write(path, pressure.to_string())?))
    }

    /// Blocks Envoy's main thread for good: its next LDS update is a pipe that nobody writes to. The workers serve on.
    pub fn block_main_thread(&self) -> Result<()> {
        replace(&self.lds_dir, "lds.json", |path| Ok(mknodat(CWD, path, FileType::Fifo, Mode::RUSR, 0)?))
    }

    /// Waits until `/ready` says LIVE.
    pub fn wait_live(&mut self) -> Result<()> {
        let (process, admin) = (&mut self.process, &self.admin);
        eventually(PATIENCE, || {
            process.ensure_running()?;
            let body = unix_http::request(admin, "GET", "/ready")?;
            ensure!(body.trim() == "LIVE", "/ready says {body}");
            Ok(())
        })
    }

    /// Waits until a neighbour is served by Envoy on every address and port of its listeners.
    pub fn wait_serving(&mut self) -> Result<()> {
        self.wait_live()?;
        for (address, port) in self.fronts() {
            eventually(PATIENCE, || {
                let answer = client::ask(self.node.outside(), address, port)?;
                ensure!(answer == Answer::Envoy, "{address}:{port}: {answer:?}");
                Ok(())
            })
            .map_err(|error| anyhow!("{error:#}; Envoy's log:\n{}", self.log()))?;
        }
        Ok(())
    }

    /// Local addresses and ports that its listeners should serve.
    #[must_use]
    pub fn fronts(&self) -> Vec<(std::net::IpAddr, u16)> {
        let mut fronts = Vec::new();
        for listener in &self.listeners {
            for (bound, port) in listener.sockets(self.node.has_ipv6()) {
                let local = self
                    .node
                    .addresses()
                    .into_iter()
                    .filter(|address| *address == bound || (bound.is_unspecified() && bound.is_ipv4() == address.is_ipv4()));
                fronts.extend(local.map(|address| (address, port)));
            }
        }
        fronts
    }
}

fn write_lds(dir: &Path, version: u64, listeners: &[Listener], around: &Around) -> Result<()> {
    let rendered: Vec<_> = listeners.iter().map(|one| one.render(around)).collect();
    let update = json!({"version_info": version.to_string(), "resources": rendered});
    replace(dir, "lds.json", |path| Ok(fs::write(path, update.to_string())?))
}

/// Puts a new file in the place of another. Envoy looks when a file is moved into the folder, and so never reads half of one.
fn replace(dir: &Path, name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let fresh = dir.join(format!("{name}.new"));
    make(&fresh)?;
    Ok(fs::rename(fresh, dir.join(name))?)
}
