//! Programs that come from Debian packages: the tests' real monitors and thieves, and network tools.
//!
//! A program that is there already, from whatever source, is left alone. Nothing that is installed
//! here is started: a policy file forbids it while packages are set up.

use crate::command::Step;
use crate::place;
use anyhow::{Context, Result, bail};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A program, or a file by its full path, and the package that brings it.
pub(super) type Need = (&'static str, &'static str);

pub(super) const RUN: &[Need] = &[("ip", "iproute2"), ("nsenter", "util-linux")];

pub(super) const TEST: &[Need] = &[
    ("ip", "iproute2"),
    ("ss", "iproute2"),
    ("nsenter", "util-linux"),
    ("nginx", "nginx"),
    ("/usr/lib/nginx/modules/ngx_stream_module.so", "libnginx-mod-stream"),
    ("haproxy", "haproxy"),
    ("keepalived", "keepalived"),
    ("prometheus", "prometheus"),
    ("promtool", "prometheus"),
    ("prometheus-blackbox-exporter", "prometheus-blackbox-exporter"),
    ("socat", "socat"),
    ("nft", "nftables"),
    ("iptables", "iptables"),
    // What the documentation's commands call besides.
    ("curl", "curl"),
    ("jq", "jq"),
    ("openssl", "openssl"),
    ("pgrep", "procps"),
    ("bpftool", "bpftool"),
    // 100 MB with what it needs, the browser itself 124 MB: the status page is looked at by a real one.
    ("chromium-headless-shell", "chromium-headless-shell"),
];

pub(super) const IMAGE: &[Need] = &[("buildah", "buildah")];
pub(super) const BENCH: &[Need] = &[
    ("ip", "iproute2"),
    ("ss", "iproute2"),
    ("nsenter", "util-linux"),
    ("nginx", "nginx"),
    ("wrk", "wrk"),
    ("nft", "nftables"),
    ("iptables", "iptables"),
];

/// What running the image takes: a container runtime with its default seccomp profile, and another processor.
pub(super) const TRY: &[Need] = &[
    ("podman", "podman"),
    ("runc", "runc"),
    ("/usr/share/containers/seccomp.json", "golang-github-containers-common"),
    ("qemu-aarch64-static", "qemu-user-static"),
];

/// What fetching a Python wheel needs. pip is a module, so it is asked for itself.
pub(super) const WHEELS: &[Need] = &[("python3", "python3"), (PIP, "python3-pip")];
const PIP: &str = "python3 -m pip";

pub(super) fn install(needs: &[Need]) -> Result<()> {
    let packages = missing(needs, &is_there);
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    if place::program("apt-get").is_none() {
        bail!("these Debian packages or their like are missing, and there is no apt-get to install them: {list}");
    }
    if !rustix::process::geteuid().is_root() {
        bail!("root is needed to install: {list} (or install them first, then try again)");
    }
    let _quiet = ServicesHeld::hold()?;
    if !candidates_known(&packages) {
        apt(&["update"]).about("reading Debian's package lists").read()?;
    }
    if let Err(first) = fetch(&packages) {
        // Lists that are too old name files that are gone: read them anew and try once more.
        apt(&["update"]).about("reading Debian's package lists again").read()?;
        fetch(&packages).with_context(|| format!("cannot install {list}; first try: {first:#}"))?;
    }
    match missing(needs, &is_there).as_slice() {
        [] => Ok(()),
        still => bail!("installed, but still missing: {}", still.join(" ")),
    }
}

fn fetch(packages: &[&str]) -> Result<()> {
    apt(&["install", "--yes", "--no-install-recommends"])
        .args(packages)
        .about(format!("installing Debian packages: {}", packages.join(" ")))
        .read()
        .map(drop)
}

fn apt(args: &[&str]) -> Step {
    Step::new("apt-get").arg("-qq").args(args).env("DEBIAN_FRONTEND", "noninteractive")
}

/// Packages for the needs that `there` denies, each once, in order.
fn missing<'a>(needs: &[(&'a str, &'a str)], there: &dyn Fn(&str) -> bool) -> Vec<&'a str> {
    let mut packages = Vec::new();
    for (program, package) in needs {
        if !packages.contains(package) && !there(program) {
            packages.push(*package);
        }
    }
    packages
}

fn is_there(program: &str) -> bool {
    if program == PIP {
        return Step::new("python3").args(["-m", "pip", "--version"]).read().is_ok();
    }
    place::program(program).is_some()
}

fn candidates_known(packages: &[&str]) -> bool {
    Step::new("apt-cache").args(["show", "--quiet", "--no-all-versions"]).args(packages).read().is_ok()
}

/// While it lives, Debian's maintainer scripts start no service (policy-rc.d answers 101).
struct ServicesHeld {
    ours: bool,
}

impl ServicesHeld {
    const POLICY: &'static str = "/usr/sbin/policy-rc.d";

    fn hold() -> Result<Self> {
        let policy = Path::new(Self::POLICY);
        if policy.exists() {
            return Ok(Self { ours: false });
        }
        std::fs::write(policy, "#!/bin/sh\nexit 101\n").context("cannot keep new services from starting")?;
        std::fs::set_permissions(policy, std::fs::Permissions::from_mode(0o755))?;
        Ok(Self { ours: true })
    }
}

impl Drop for ServicesHeld {
    fn drop(&mut self) {
        if self.ours
            && let Err(error) = std::fs::remove_file(Self::POLICY)
        {
            eprintln!("xtask: remove {} by hand: {error}", Self::POLICY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_asked_for_once_and_only_if_a_program_of_it_is_missing() {
        let needs = [("ip", "iproute2"), ("ss", "iproute2"), ("socat", "socat"), ("tc", "iproute2")];
        assert_eq!(missing(&needs, &|program| program == "socat"), ["iproute2"]);
        assert_eq!(missing(&needs, &|program| program != "ss"), ["iproute2"]);
        assert!(missing(&needs, &|_| true).is_empty());
    }

    #[test]
    fn what_run_needs_is_part_of_what_test_needs() {
        assert!(RUN.iter().all(|need| TEST.contains(need)));
    }
}
