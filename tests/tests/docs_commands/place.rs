//! Where the commands are run: a node in a box whose paths are those of a real node (`/run/gwready`, `/var/run/cilium`,
//! `/sys/fs/bpf`), with Envoy, an agent, Cilium's maps with a HostPort entry, netfilter rules and a small cluster behind kubectl.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use gwready_tests::lbmaps::{LbMaps, kind};
use gwready_tests::node::{UPLINK, node_v4, run_batch};
use gwready_tests::scene::{self, tell_pod};
use gwready_tests::{Envoy, Node, Scene, paths};

use crate::blocks::Step;
use crate::root;
use crate::rules::{ALLOWED, COMPLAINTS, EXPECTED, SUBSTITUTES};

/// The node, and what the page at hand has set.
pub(crate) struct Place {
    scene: Scene,
    maps: LbMaps,
    tools: PathBuf,
    known: BTreeMap<&'static str, String>,
    set: Vec<String>,
    stolen: Vec<Ipv4Addr>,
    fine: BTreeSet<String>,
    expected: BTreeSet<&'static str>,
}

/// The addresses that the pages use for the nodes worker-1, worker-2, worker-3.
const WORKERS: [&str; 3] = ["10.0.0.11", "10.0.0.12", "10.0.0.13"];
const POD: [u8; 4] = [10, 42, 1, 7];

impl Place {
    pub(crate) fn make() -> Result<Self> {
        let node = Node::new()?;
        for address in WORKERS {
            run_batch(node.space(), &format!("addr add {address}/24 dev {UPLINK}\n"))?;
        }
        let hosts: String = WORKERS.iter().zip(1..).map(|(address, n)| format!("{address} worker-{n}\n")).collect();
        let file = node.dir().join("hosts");
        fs::write(&file, hosts)?;
        // In the node's own mount namespace.
        let script = format!(
            "set -e; mount -t tmpfs tmpfs /run; mkdir /run/cilium /run/gwready /run/lock; mount --bind {} /run/cilium; \
             mount --bind {} /sys/fs/bpf; mount --bind {} /etc/hosts",
            node.run_dir().display(),
            node.bpffs().display(),
            file.display()
        );
        node.space().output("sh", &["-c", &script])?;
        node.space().output(
            "nft",
            &["add table inet docs; add chain inet docs input { type filter hook input priority 0; }; add rule inet docs input tcp dport 9999 drop"],
        )?;
        let mut maps = scene::maps(&node)?;
        maps.add_endpoint(POD.into(), 7, false)?;
        tell_pod(&node, 7, "kube-system", "rke2-ingress-nginx-controller-x")?;
        for family in ["-4", "-6"] {
            let rule = format!(
                "ip {family} rule add fwmark 0x200/0xf00 pref 9 lookup 2004; ip {family} route add local default dev lo table 2004"
            );
            node.space().output("sh", &["-c", &rule])?;
        }
        let envoy = Envoy::start(&node)?;
        let tools = tools(&node, &envoy)?;
        let agent = scene::quick(&node)
            .set("state_dir", "/run/gwready")
            .set("control_socket", "/run/gwready/gwready.sock")
            .env("TMPDIR", "/run/gwready");
        let scene = Scene::with(&node, envoy, agent)?;
        let known = [
            ("NODE", "worker-1".to_owned()),
            ("IP", node_v4(2).to_string()),
            ("PORT", "80".to_owned()),
            ("PID", scene.envoy.pid()?.to_string()),
            ("CILIUM", "pod/x".to_owned()),
            ("ENVOY", "pod/x".to_owned()),
            ("GWREADY", "pod/x".to_owned()),
        ];
        Ok(Self {
            scene,
            maps,
            tools,
            known: known.into(),
            set: Vec::new(),
            stolen: Vec::new(),
            fine: BTreeSet::new(),
            expected: BTreeSet::new(),
        })
    }

    /// What an earlier page has set is unknown to this one. The page of the HostPort entry finds one at `$IP:$PORT`.
    pub(crate) fn begin_page(&mut self, name: &str) -> Result<()> {
        self.set.clear();
        if name == "docs/conditions/HostPort.md" {
            self.steal(node_v4(2))?;
        }
        Ok(())
    }

    /// Takes back what a page may leave: a drain, a theft.
    pub(crate) fn end_page(&mut self) -> Result<()> {
        self.shell("gwready undrain")?;
        while let Some(address) = self.stolen.pop() {
            self.maps.remove(address.into(), 80)?;
            self.scene.wait_up(address.into())?;
        }
        Ok(())
    }

    /// Whether a command of this rule was run.
    pub(crate) fn was_expected(&self, part: &str) -> bool {
        self.expected.contains(part)
    }

    /// Runs what a setting runs, and keeps it for the commands after it, with this node's values.
    pub(crate) fn set(&mut self, text: &str) -> Result<()> {
        // Many pages begin with the same ones.
        if !self.fine.contains(text) {
            self.checked(text)?;
            self.fine.insert(text.to_owned());
        }
        if text.contains("() {") {
            self.set.push(text.to_owned());
            return Ok(());
        }
        for word in text.split_whitespace() {
            let Some((name, _)) = word.split_once('=').filter(|(name, _)| name.bytes().all(|b| b.is_ascii_uppercase())) else { break };
            let value = self.known.get(name).with_context(|| format!("what is {name} here?"))?;
            self.set.push(format!("{name}={value}"));
        }
        Ok(())
    }

    /// Runs a command and looks at what it said.
    pub(crate) fn run(&mut self, step: &Step) -> Result<()> {
        if step.text.starts_with("kill -USR1 <pid of the box>") {
            return if self.stolen.is_empty() { self.steal(node_v4(1)) } else { self.end_page() };
        }
        let text = SUBSTITUTES.iter().fold(step.text.clone(), |text, (from, to)| text.replace(from, to));
        let text = text.replace("/task/TID/", &format!("/task/{}/", self.known["PID"]));
        let out = self.checked(&text)?;
        for rule in EXPECTED.iter().filter(|rule| step.text.contains(rule.part)) {
            self.expected.insert(rule.part);
            for part in rule.shows {
                ensure!(out.contains(part), "{part:?} is not in what it shows:\n{out}");
            }
        }
        for line in &step.shows {
            let begin = line.split('…').next().unwrap_or_default();
            ensure!(step.text.starts_with("gwready check") || out.contains(begin), "the page shows {line:?}, it shows:\n{out}");
        }
        Ok(())
    }

    /// A HostPort entry for port 80 of this address.
    fn steal(&mut self, address: Ipv4Addr) -> Result<()> {
        self.maps.add(address.into(), 80, kind::HOST_PORT, &[(POD.into(), 80)])?;
        self.stolen.push(address);
        self.scene.wait_down(address.into(), "HostPort").map(drop)
    }

    /// Runs `text` as a shell would with what was set before, in the project's folder.
    fn checked(&self, text: &str) -> Result<String> {
        let script = format!("set -u; cd '{}'\n{}\n{text}", root().display(), self.set.join("\n"));
        let (code, out, err) = self.shell(&script)?;
        for complaint in COMPLAINTS {
            ensure!(!err.contains(complaint), "{err}");
        }
        let greps = last_program(text) == "grep";
        let allowed = ALLOWED.iter().any(|(part, allowed)| text.contains(part) && *allowed == code);
        ensure!(code == 0 || allowed || (greps && code == 1), "it ends with {code}:\n{out}{err}");
        Ok(out)
    }

    fn shell(&self, script: &str) -> Result<(i32, String, String)> {
        let mut command = self.scene.node.command("timeout");
        let path = format!("{}:{}", self.tools.display(), std::env::var("PATH").unwrap_or_default());
        command.args(["20", "bash", "-c", script]).env_clear();
        command.envs([("PATH", path.as_str()), ("TMPDIR", "/run/gwready"), ("HOME", "/run"), ("LC_ALL", "C.UTF-8")]);
        command.env("REAL", kubernetes("kubectl")?).stdin(Stdio::null());
        let output = command.output().with_context(|| format!("bash: {script}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let Some(code) = output.status.code() else { bail!("{}", output.status) };
        Ok((code, text(&output.stdout), text(&output.stderr)))
    }
}

/// The program whose exit code is the line's: quoted text and comments left out, behind the last `|` or `;`.
fn last_program(text: &str) -> &str {
    let (mut quote, mut before, mut start, mut end) = (None, ' ', 0, text.len());
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if open == c => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '|' | ';') => start = at + 1,
            (None, '#') if before == ' ' => {
                end = at;
                break;
            }
            _ => {}
        }
        before = c;
    }
    text.get(start..end).and_then(|last| last.split_whitespace().next()).unwrap_or_default()
}

/// A folder for PATH: the agent under test, helm, kubectl with its small cluster, and a pgrep that sees this node's processes
/// only: on the machine there may be other boxes.
fn tools(node: &Node, envoy: &Envoy) -> Result<PathBuf> {
    let folder = node.dir().join("tools");
    fs::create_dir(&folder)?;
    symlink(paths::gwready()?, folder.join("gwready"))?;
    symlink(kubernetes("helm")?, folder.join("helm"))?;
    let pgrep = folder.join("pgrep");
    let of_this_node = format!("exec {} --ns {} --nslist net \"$@\"", paths::installed("pgrep")?.display(), envoy.pid()?);
    fs::write(&pgrep, format!("#!/bin/sh\n{of_this_node}\n"))?;
    fs::set_permissions(&pgrep, fs::Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(root().join("tests/tests/docs_commands/kubectl"))? {
        let path = entry?.path();
        fs::copy(&path, folder.join(path.file_name().context("a file without a name")?))?;
    }
    Ok(folder)
}

fn kubernetes(name: &str) -> Result<PathBuf> {
    let folder = std::env::var_os("XTASK_KUBERNETES_TOOLS").context("XTASK_KUBERNETES_TOOLS: run `cargo xtask test`")?;
    Ok(Path::new(&folder).join(name))
}
