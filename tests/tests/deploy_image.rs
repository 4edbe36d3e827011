//! The image of this machine's architecture, run by a container runtime with exactly what the chart gives it: capabilities,
//! mounts, read-only root, no new privileges, default seccomp profile. In a node in a box, beside real Envoy.
//!
//! Needs the image, so it is not part of a plain `cargo test`: `cargo xtask image --try` builds the image and runs this.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use gwready_tests::lbmaps::{LbMaps, kind};
use gwready_tests::process::{Place, Process};
use gwready_tests::{Envoy, Node, client, eventually};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(30);

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A file that `cargo xtask image` made; `XTASK_IMAGES` names their folder.
fn made(name: &str) -> PathBuf {
    let folder = std::env::var_os("XTASK_IMAGES").map_or_else(|| repository().join("target/image"), PathBuf::from);
    let file = folder.join(name);
    assert!(file.is_file(), "{}: run `cargo xtask image --try`", file.display());
    file
}

/// Containers of the DaemonSet, as the kustomize base has them: the chart's, which a test compares.
fn daemon_set() -> Value {
    let text = std::fs::read_to_string(repository().join("deploy/kustomize/base/daemonset.yaml")).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
}

/// A container of the chart in the node. Removed when dropped.
struct Container {
    node: Node,
    folder: tempfile::TempDir,
    process: Option<Process>,
}

impl Container {
    fn new(node: &Node) -> Self {
        Self { node: node.clone(), folder: tempfile::tempdir().unwrap(), process: None }
    }

    /// podman with storage of its own, in the node's network and mount namespace.
    fn podman(&self) -> Command {
        let mut command = self.node.command("podman");
        command.arg("--root").arg(self.folder.path().join("root")).arg("--runroot").arg(self.folder.path().join("run"));
        command.args(["--storage-driver", "vfs", "--runtime", "runc", "--cgroup-manager", "cgroupfs", "--events-backend", "none"]);
        command
    }

    /// The host's side of a volume, inside the box.
    fn host_path(&self, volume: &str) -> PathBuf {
        let node = &self.node;
        match volume {
            "state" => node.state_dir(),
            "bpffs" => node.bpffs(),
            "cilium-run" => node.run_dir(),
            "cgroup" => "/sys/fs/cgroup".into(),
            "pod-logs" => node.pod_logs(),
            "config" => {
                let folder = self.folder.path().join("config");
                std::fs::create_dir_all(&folder).unwrap();
                std::fs::copy(repository().join("deploy/kustomize/base/gwready.yaml"), folder.join("gwready.yaml")).unwrap();
                folder
            }
            other => panic!("a volume that this test does not know: {other}"),
        }
    }

    /// Debian's default profile is from before CAP_BPF; containerd's has this rule since 1.7.
    fn seccomp_profile(&self) -> PathBuf {
        let text = std::fs::read_to_string("/usr/share/containers/seccomp.json").unwrap();
        let mut profile: Value = serde_json::from_str(&text).unwrap();
        let rules = profile["syscalls"].as_array_mut().unwrap();
        for rule in rules.iter_mut() {
            rule["names"].as_array_mut().unwrap().retain(|name| name != "bpf");
        }
        rules.push(json!({"names": ["bpf"], "action": "SCMP_ACT_ALLOW", "args": [], "includes": {"caps": ["CAP_BPF"]}, "excludes": {}}));
        let file = self.folder.path().join("seccomp.json");
        std::fs::write(&file, profile.to_string()).unwrap();
        file
    }

    fn start(&mut self, container: &Value) {
        let context = &container["securityContext"];
        assert_eq!(context["readOnlyRootFilesystem"], true);
        assert_eq!(context["allowPrivilegeEscalation"], false);
        let mut command = self.podman();
        command.args(["run", "--name", "gwready", "--network", "host", "--pid", "host"]);
        command.args(["--read-only", "--read-only-tmpfs=false", "--security-opt", "no-new-privileges", "--cap-drop", "all"]);
        command.args(["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", "--env", "NODE_NAME=worker-1"]);
        command.arg("--security-opt").arg(format!("seccomp={}", self.seccomp_profile().display()));
        for name in strings(&context["capabilities"]["add"]) {
            command.args(["--cap-add", &name]);
        }
        for mount in container["volumeMounts"].as_array().unwrap() {
            let (name, inside) = (mount["name"].as_str().unwrap(), mount["mountPath"].as_str().unwrap());
            if name == "tmp" {
                command.args(["--tmpfs", &format!("{inside}:size=1m")]);
            } else {
                let mode = if mount["readOnly"] == true { "ro" } else { "rw" };
                command.args(["--volume", &format!("{}:{inside}:{mode},rslave", self.host_path(name).display())]);
            }
        }
        command.arg(format!("oci-archive:{}", made("gwready-amd64.oci.tar").display())).args(strings(&container["args"]));
        let log = self.folder.path().join("log");
        self.process = Some(Process::start(self.node.space(), command, &log, Place::Plain).unwrap());
    }

    fn log(&self) -> String {
        self.process.as_ref().map_or_else(String::new, Process::log)
    }

    /// Runs a probe of the chart.
    fn exec(&self, words: &[String]) -> std::process::Output {
        self.podman().args(["exec", "gwready"]).args(words).output().unwrap()
    }

    fn wait_state(&self, wanted: &str) {
        let address = self.node.addresses()[0];
        eventually(PATIENCE, || {
            let request = b"GET /healthz HTTP/1.1\r\nHost: gw\r\n\r\n";
            let exchange = || Ok(client::exchange((address, 9680).into(), request, Duration::from_secs(5))?);
            let reply = self.node.outside().enter(exchange).with_context(|| self.log())?;
            let reply = String::from_utf8_lossy(&reply).into_owned();
            ensure!(reply.lines().any(|line| line.starts_with("state=") && line.contains(wanted)), "{reply}\n{}", self.log());
            Ok(())
        })
        .unwrap();
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.podman().args(["rm", "--force", "--time", "5", "gwready"]).output();
        self.process = None;
    }
}

#[test]
fn the_image_gives_the_right_answers_with_the_charts_rights() {
    let node = Node::new().unwrap();
    let mut maps = node.enter(|| LbMaps::create(&node.bpffs(), 1024)).unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let pod = &daemon_set()["spec"]["template"]["spec"];
    let agent = &pod["containers"][0];
    let mut container = Container::new(&node);
    container.start(agent);
    container.wait_state("state=up");
    assert!(!container.log().contains("cannot be observed"), "{}", container.log());
    assert!(container.log().contains("programs attached"), "{}", container.log());
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let output = container.exec(&strings(&agent[probe]["exec"]["command"]));
        assert!(output.status.success(), "{probe}: {output:?}");
    }
    // A HostPort in Cilium's map: seen through the read-only mount.
    let address = node.addresses()[0];
    node.enter(|| maps.add(address, 80, kind::HOST_PORT, &[("10.42.1.7".parse()?, 80)])).unwrap();
    container.wait_state("reason=HostPort");
    node.enter(|| maps.remove(address, 80)).unwrap();
    container.wait_state("state=up");
}

/// Variables that tell the tests something would be configuration to the agent.
fn without_our_variables(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("GWREADY_")) {
        command.env_remove(name);
    }
    command
}

#[test]
fn the_binary_for_aarch64_runs() {
    let node = Node::new().unwrap();
    let run = |args: &[&str]| {
        let mut command = node.command("qemu-aarch64-static");
        let output = without_our_variables(command.arg(made("gwready-aarch64")).args(args)).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
    };
    assert_eq!(run(&["--version"]), (Some(0), format!("gwready {}\n", env!("CARGO_PKG_VERSION"))));
    let configuration = repository().join("deploy/kustomize/base/gwready.yaml");
    let (code, text) = run(&["check-config", configuration.to_str().unwrap()]);
    assert!(code == Some(0) && text.contains("/host/cgroup"), "{text}");
    // What this machine saw, judged by that one.
    let snapshot = node.dir().join("snapshot.json");
    let program = gwready_tests::paths::gwready().unwrap();
    let here = |args: &[&str]| without_our_variables(node.command(&program).args(args)).output().unwrap();
    std::fs::write(&snapshot, here(&["snapshot", "--fresh"]).stdout).unwrap();
    let expected = here(&["explain", snapshot.to_str().unwrap()]);
    assert!(expected.stdout.len() > 100, "{expected:?}");
    let (code, text) = run(&["explain", snapshot.to_str().unwrap()]);
    assert_eq!((code, text), (expected.status.code(), String::from_utf8_lossy(&expected.stdout).into_owned()));
}
