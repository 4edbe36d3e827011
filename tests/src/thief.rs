//! Programs that take the gateway's ports: our own small one with every socket option that
//! matters, and real nginx.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::node::Node;
use crate::paths;
use crate::process::{Place, Process};
use crate::space::Space;
use crate::wait::eventually;

const PATIENCE: Duration = Duration::from_secs(10);

/// How a thief listens.
#[derive(Debug, Clone)]
#[must_use]
pub struct ThiefBuilder {
    node: Node,
    args: Vec<String>,
    exe_name: Option<String>,
}

/// A running thief. Ends when dropped.
#[derive(Debug)]
pub struct Thief {
    process: Process,
    // Processes end before the box does.
    _node: Node,
}

impl ThiefBuilder {
    /// The name in its banner; default `thief`.
    pub fn name(self, name: &str) -> Self {
        self.with(&["--name", name])
    }

    /// `SO_REUSEPORT`.
    pub fn reuseport(self) -> Self {
        self.with(&["--reuseport"])
    }

    /// `SO_BINDTODEVICE`.
    pub fn device(self, name: &str) -> Self {
        self.with(&["--device", name])
    }

    /// `IPV6_V6ONLY`.
    pub fn v6only(self, on: bool) -> Self {
        self.with(&["--v6only", if on { "on" } else { "off" }])
    }

    /// Accept-queue limit; default 128.
    pub fn backlog(self, limit: u32) -> Self {
        self.with(&["--backlog", &limit.to_string()])
    }

    /// Listens and never accepts.
    pub fn no_accept(self) -> Self {
        self.with(&["--no-accept"])
    }

    /// A second socket in its `SO_REUSEPORT` group from which it never accepts, as of a stuck worker.
    pub fn idle_member(self) -> Self {
        self.with(&["--reuseport", "--idle-member"])
    }

    /// With the marks of Cilium's Envoy on its socket (IPv4).
    pub fn marked(self) -> Self {
        self.with(&["--marked"])
    }

    /// Accepts and never answers.
    pub fn mute(self) -> Self {
        self.with(&["--manner", "mute"])
    }

    /// Answers every request with 404, `server: thief`.
    pub fn http(self) -> Self {
        self.with(&["--manner", "http"])
    }

    /// Accepts and closes at once.
    pub fn closing(self) -> Self {
        self.with(&["--manner", "close"])
    }

    /// Waits after each accept.
    pub fn pause(self, pause: Duration) -> Self {
        self.with(&["--pause", &pause.as_millis().to_string()])
    }

    /// Name of its main thread as `/proc/PID/comm` shows it (15 bytes).
    pub fn comm(self, comm: &str) -> Self {
        self.with(&["--comm", comm])
    }

    /// Runs from a copy with this base name, e.g. `cilium-envoy`.
    pub fn exe_name(mut self, name: &str) -> Self {
        self.exe_name = Some(name.into());
        self
    }

    fn with(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|&arg| arg.to_owned()));
        self
    }

    /// Starts it and waits until it listens; an error with its words when it can't.
    pub fn start(self) -> Result<Thief> {
        let mut exe = paths::own("thief")?;
        if let Some(name) = &self.exe_name {
            let folder = self.node.fresh_path("exe");
            fs::create_dir(&folder)?;
            let copy = folder.join(name);
            paths::copy_program(&exe, &copy)?;
            exe = copy;
        }
        let mut command = Command::new(exe);
        command.args(&self.args);
        let log = self.node.fresh_path("thief");
        let process = Process::start(self.node.space(), command, &log, Place::Plain)?;
        let mut thief = Thief { process, _node: self.node };
        let process = &mut thief.process;
        eventually(PATIENCE, || {
            process.ensure_running()?;
            ensure!(process.log().contains("listening"), "not yet listening");
            Ok(())
        })?;
        Ok(thief)
    }
}

impl Thief {
    /// A thief that will listen at this address and port.
    pub fn at(node: &Node, address: IpAddr, port: u16) -> ThiefBuilder {
        ThiefBuilder { node: node.clone(), args: vec![SocketAddr::new(address, port).to_string()], exe_name: None }
    }

    /// Its process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.process.pid()
    }
}

/// Debian's nginx with one server block. Ends when dropped.
#[derive(Debug)]
pub struct Nginx {
    process: Process,
    _node: Node,
}

impl Nginx {
    /// Starts it with these `listen` values, e.g. `80 reuseport` or `10.77.0.1:80`, and waits
    /// until it listens; an error with its words when it can't.
    pub fn start(node: &Node, listens: &[&str]) -> Result<Self> {
        Self::start_answering(node, listens, "404")
    }

    /// As [`Nginx::start`], with another status for every request.
    pub fn start_answering(node: &Node, listens: &[&str], status: &str) -> Result<Self> {
        Self::start_in(node, node.space(), listens, status)
    }

    /// As [`Nginx::start_answering`], in another namespace that ends no later than the node.
    pub(crate) fn start_in(node: &Node, space: &Space, listens: &[&str], status: &str) -> Result<Self> {
        let folder = node.fresh_path("nginx");
        fs::create_dir(&folder)?;
        let config = write_nginx(&folder, listens, status)?;
        let mut command = Command::new(paths::installed("nginx")?);
        command.arg("-e").arg(folder.join("error.log"));
        command.arg("-c").arg(&config);
        let log = folder.join("log");
        let process = Process::start(space, command, &log, Place::Plain)?;
        let mut nginx = Self { process, _node: node.clone() };
        let pid_file = folder.join("pid");
        eventually(PATIENCE, || {
            nginx.process.ensure_running()?;
            // Written after all listens have succeeded.
            fs::metadata(&pid_file).context("nginx has not written its pid")?;
            Ok(())
        })?;
        Ok(nginx)
    }

    /// Its master process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

fn write_nginx(folder: &std::path::Path, listens: &[&str], status: &str) -> Result<PathBuf> {
    let dir = folder.display();
    let lines: String = listens.iter().map(|one| format!("listen {one};\n")).collect();
    let config = format!(
        "daemon off;\nuser root;\nworker_processes 1;\npid {dir}/pid;\nerror_log {dir}/error.log;\n\
         events {{}}\n\
         http {{\n\
         access_log off;\n\
         client_body_temp_path {dir}/body;\nproxy_temp_path {dir}/proxy;\n\
         fastcgi_temp_path {dir}/fastcgi;\nuwsgi_temp_path {dir}/uwsgi;\nscgi_temp_path {dir}/scgi;\n\
         server {{\n{lines}return {status};\n}}\n}}\n"
    );
    let path = folder.join("nginx.conf");
    fs::write(&path, config)?;
    Ok(path)
}
