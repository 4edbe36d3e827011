//! The chart against the agent's code: arguments, configuration, paths, privileges, times, versions.

use std::path::{Path, PathBuf};

use clap::Parser;
use gwready::cli::{Arguments, Command};
use gwready::config::{Config, HostNames, Sources, load};
use gwready::health::Limits;
use serde_json::Value;

use crate::chart::containers;
use crate::tools::{chart, deploy, helm_template, objects, only, read, repository, succeed};

fn pod() -> Value {
    only(&chart(), "DaemonSet")["spec"]["template"]["spec"].clone()
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
}

/// The configuration that the chart gives to the agent, read by the agent.
fn configuration(settings: &[&str]) -> Config {
    let objects = objects(&succeed(&mut helm_template(settings)));
    let maps: Vec<Value> = objects.into_iter().filter(|object| !object["data"]["gwready.yaml"].is_null()).collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gwready.yaml");
    std::fs::write(&file, maps[0]["data"]["gwready.yaml"].as_str().unwrap()).unwrap();
    let names = HostNames { node_name_variable: Some("worker-1".into()), host_name: "worker-1".into() };
    load(&Sources { file: Some(file), names, ..Sources::default() }).unwrap_or_else(|faults| panic!("{faults}"))
}

#[test]
fn every_command_line_in_the_chart_is_one_of_the_agents() {
    let pod = pod();
    let mut seen = Vec::new();
    for container in containers(&pod) {
        let args = strings(&container["args"]);
        seen.push(Arguments::try_parse_from(std::iter::once("gwready".to_owned()).chain(args)).unwrap());
        for kind in ["startupProbe", "livenessProbe", "readinessProbe"] {
            if let Some(probe) = container.get(kind) {
                let command = strings(&probe["exec"]["command"]);
                assert_eq!(command[0], "/gwready", "where the image has it");
                let parsed = Arguments::try_parse_from(command).unwrap();
                let ready = matches!(parsed.command, Command::Ready(_));
                assert_eq!(ready, kind == "readinessProbe", "{kind}");
                assert!(ready || matches!(parsed.command, Command::Live(_)), "{kind}");
            }
        }
    }
    let [check, run] = seen.as_slice() else { panic!("{} containers", seen.len()) };
    let Command::CheckConfig(options) = &check.command else { panic!("the first step checks the configuration") };
    assert!(matches!(run.command, Command::Run));
    assert_eq!(options.file, run.config, "what is checked is what is used");
    assert!(covered(run.config.as_ref().unwrap(), &pod["containers"][0]));
}

#[test]
fn the_agent_takes_the_charts_configuration_and_what_users_add() {
    let config = configuration(&[]);
    assert_eq!(config.host.cgroup, PathBuf::from("/host/cgroup"));
    assert_eq!((config.health.listen.port(), config.admin.listen.port()), (9680, 9681));
    let config = configuration(&["config={\"health\":{\"listen\":\"[::]:19680\"},\"log\":{\"format\":\"json\"}}"]);
    assert_eq!((config.health.listen.port(), config.host.cgroup), (19680, PathBuf::from("/host/cgroup")));
}

/// Some volume is mounted at the path or above it.
fn covered(path: &Path, container: &Value) -> bool {
    container["volumeMounts"].as_array().unwrap().iter().any(|mount| path.starts_with(mount["mountPath"].as_str().unwrap()))
}

#[test]
fn every_path_that_the_agent_uses_is_mounted_and_the_hosts_are_read_only() {
    let pod = pod();
    let agent = &pod["containers"][0];
    let config = configuration(&[]);
    for path in [
        &config.control_socket,
        &config.state_dir,
        &config.host.cgroup,
        &config.host.pod_logs,
        &config.cilium.bpffs,
        &config.cilium.run_dir,
        &config.envoy.admin_socket,
        &gwready::control::own_socket_path(None, 0),
    ] {
        assert!(covered(path, agent), "{}", path.display());
    }
    assert_eq!(config.host.proc, PathBuf::from("/proc"));
    assert_eq!(pod["hostPID"], true, "the container's /proc is the host's");
    let volume = |name: &Value| pod["volumes"].as_array().unwrap().iter().find(|volume| volume["name"] == *name).unwrap();
    for mount in agent["volumeMounts"].as_array().unwrap() {
        let writable = [config.state_dir.to_str().unwrap(), "/tmp"].contains(&mount["mountPath"].as_str().unwrap());
        assert_eq!(mount.get("readOnly").is_some_and(|word| *word == true), !writable, "{mount}");
        if let Some(host) = volume(&mount["name"]).get("hostPath") {
            let propagated = mount.get("mountPropagation").is_some_and(|word| *word == "HostToContainer");
            assert_eq!(propagated, !writable, "{host}: a file system that is mounted later must appear");
        }
    }
}

#[test]
fn the_agent_is_not_privileged_and_the_check_has_no_rights_at_all() {
    let pod = pod();
    for container in containers(&pod) {
        let context = &container["securityContext"];
        assert_ne!(context["privileged"], true);
        assert_eq!(context["allowPrivilegeEscalation"], false);
        assert_eq!(context["readOnlyRootFilesystem"], true);
        assert_eq!(strings(&context["capabilities"]["drop"]), ["ALL"]);
    }
    let check = &pod["initContainers"][0];
    assert_eq!(check["securityContext"]["runAsNonRoot"], true);
    assert_eq!(check["securityContext"]["capabilities"].get("add"), None);
    assert_eq!(check["volumeMounts"].as_array().unwrap().len(), 1);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
}

/// First cells of the table rows below a heading of deploy/README.md, code quotes removed.
fn table(heading: &str) -> Vec<String> {
    let page = read(&deploy("README.md"));
    let section = page.split(&format!("\n## {heading}\n")).nth(1).unwrap_or_else(|| panic!("no {heading}"));
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| row.split('|').nth(1).unwrap().trim().replace('`', "")).collect()
}

#[test]
fn the_tables_of_privileges_list_exactly_what_the_chart_grants() {
    let pod = pod();
    let agent = &pod["containers"][0];
    assert_eq!(table("Capabilities"), strings(&agent["securityContext"]["capabilities"]["add"]));
    let mounts: Vec<String> =
        agent["volumeMounts"].as_array().unwrap().iter().map(|mount| mount["mountPath"].as_str().unwrap().to_owned()).collect();
    let mut listed = table("Mounts and host namespaces");
    listed.retain(|name| name.starts_with('/'));
    assert_eq!(listed, mounts);
}

#[test]
fn the_grace_period_is_longer_than_a_retiring_agent_takes() {
    let limits = Limits::default();
    let longest = limits.retire_patience + limits.retire_grace + limits.finish + limits.drain;
    let grace = pod()["terminationGracePeriodSeconds"].as_u64().unwrap();
    assert!(grace >= longest.as_secs() + 3, "{grace} s for {longest:?}");
    // A node that goes down gives its pods this long; the balancers must hear of it well before.
    assert!(grace <= 15, "{grace}");
}

#[test]
fn the_memory_limit_leaves_room_to_load_the_programs() {
    let limit = pod()["containers"][0]["resources"]["limits"]["memory"].as_str().unwrap().to_owned();
    let mebibytes: u64 = limit.strip_suffix("Mi").unwrap().parse().unwrap();
    assert!(mebibytes >= 64, "{limit}");
    assert_eq!(pod()["containers"][0]["resources"]["limits"].get("cpu"), None, "throttled answers are late answers");
}

#[test]
fn chart_agent_and_kustomize_carry_one_version() {
    let version = env!("CARGO_PKG_VERSION");
    let chart = &objects(&read(&deploy("helm/gwready/Chart.yaml")))[0];
    assert_eq!(chart["version"], version);
    assert_eq!(chart["appVersion"], version);
    assert!(read(&repository().join("Cargo.toml")).contains(&format!("\nversion = \"{version}\"\n")));
    assert_eq!(pod()["containers"][0]["image"], format!("ghcr.io/gwready/gwready:{version}"));
}
