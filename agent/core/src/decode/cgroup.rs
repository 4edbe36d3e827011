//! `/proc/PID/cgroup` to pod UID and container id, and the freezers' files to a fact. Must not read files.
//!
//! Forms seen: cgroupfs and systemd drivers; containerd, CRI-O, docker; cgroup v1 (one line per hierarchy), v2 and both;
//! kubelets nested in a container; paths that climb (`/../..`) because the reader sits in a cgroup namespace of its own.

/// One process's cgroups, as the reader's cgroup namespace shows them (cgroups(7)).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProcCgroup {
    /// Path in the v2 hierarchy (`0::PATH`).
    pub unified: Option<String>,
    /// Path in the v1 freezer hierarchy.
    pub freezer: Option<String>,
    /// Every path, in file order.
    pub paths: Vec<String>,
}

/// Where a process runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// Pod UID with dashes (a static pod's UID is a hash without any).
    pub pod_uid: Option<String>,
    /// Container id, 64 hexadecimal digits.
    pub container_id: Option<String>,
}

/// Parses `/proc/PID/cgroup`. Lines that are not `ID:CONTROLLERS:PATH` are left out.
#[must_use]
pub fn parse_proc_cgroup(text: &[u8]) -> ProcCgroup {
    let mut found = ProcCgroup::default();
    for line in text.split(|&byte| byte == b'\n') {
        let line = String::from_utf8_lossy(line);
        let mut fields = line.splitn(3, ':');
        let (Some(id), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else { continue };
        if !path.starts_with('/') {
            continue;
        }
        // A cgroup that was removed while a process is still in it gets this mark (kernel/cgroup/cgroup.c proc_cgroup_show).
        let path = path.strip_suffix(" (deleted)").unwrap_or(path).to_owned();
        if id == "0" && controllers.is_empty() {
            found.unified = Some(path.clone());
        }
        if controllers.split(',').any(|controller| controller == "freezer") {
            found.freezer = Some(path.clone());
        }
        found.paths.push(path);
    }
    found
}

impl ProcCgroup {
    /// Pod and container: from the path that names both, else from the one that names most. v2 first.
    #[must_use]
    pub fn place(&self) -> Place {
        self.unified
            .iter()
            .chain(&self.paths)
            .map(|path| place_of(path))
            .max_by_key(|place| (place.pod_uid.is_some(), place.container_id.is_some()))
            .unwrap_or_default()
    }
}

/// Pod and container named by one cgroup path.
#[must_use]
pub fn place_of(path: &str) -> Place {
    let mut place = Place::default();
    // The colon form `SLICE:cri-containerd:ID` is containerd with the cgroupfs driver under a systemd kubelet.
    for part in path.split(['/', ':']) {
        if let Some(uid) = pod_uid(part) {
            // A container id above the pod is that of the machine's own container (kind, nested kubelets).
            place = Place { pod_uid: Some(uid), container_id: None };
        } else if let Some(id) = container_id(part) {
            place.container_id = Some(id.to_owned());
        }
    }
    place
}

/// Directories, relative to the mounted hierarchy, in which the cgroup may be, best first. A path that climbs out of the
/// reader's namespace says where it ends, not where it begins: systemd's slice names spell out their parents, and the
/// cgroupfs driver has three places. The reader has to check which one holds the process.
#[must_use]
pub fn directory_candidates(path: &str) -> Vec<String> {
    let tail: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let climbs = tail.iter().take_while(|part| **part == "..").count();
    let below = tail.get(climbs..).unwrap_or_default();
    if below.contains(&"..") {
        return Vec::new();
    }
    let joined = below.join("/");
    if climbs == 0 {
        return vec![joined];
    }
    let mut candidates = vec![joined.clone()];
    if let Some(first) = below.first().filter(|first| first.ends_with(".slice")) {
        candidates.push([slice_parents(first), vec![joined.clone()]].concat().join("/"));
    }
    for base in ["kubepods", "kubepods/burstable", "kubepods/besteffort", "system.slice"] {
        candidates.push(format!("{base}/{joined}"));
    }
    candidates
}

/// `a-b-c.slice` lives in `a.slice/a-b.slice/` (systemd.slice(5)).
fn slice_parents(slice: &str) -> Vec<String> {
    let stem = slice.strip_suffix(".slice").unwrap_or(slice);
    stem.match_indices('-').filter_map(|(at, _)| stem.get(..at)).map(|parent| format!("{parent}.slice")).collect()
}

/// `podUID`, `kubepods-burstable-podUID.slice`; systemd's form has underscores for dashes.
fn pod_uid(part: &str) -> Option<String> {
    let stem = part.strip_suffix(".slice").unwrap_or(part);
    let uid = match stem.strip_prefix("pod") {
        Some(uid) => uid,
        None => stem.rsplit_once("-pod")?.1,
    };
    let uid = uid.replace('_', "-");
    let hexadecimal = uid.bytes().filter(u8::is_ascii_hexdigit).count();
    let dashes = uid.bytes().filter(|&byte| byte == b'-').count();
    (hexadecimal == 32 && hexadecimal + dashes == uid.len() && (dashes == 4 || dashes == 0)).then_some(uid)
}

/// `ID`, `cri-containerd-ID.scope`, `crio-ID.scope`, `crio-ID` (cgroupfs), `docker-ID.scope`. CRI-O's `crio-conmon-ID.scope` holds
/// the monitor, not the container.
fn container_id(part: &str) -> Option<&str> {
    let stem = part.strip_suffix(".scope").unwrap_or(part);
    let id = match stem.rsplit_once('-') {
        Some((prefix, _)) if prefix.ends_with("conmon") => return None,
        Some((_, id)) => id,
        None => stem,
    };
    (id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(id)
}

/// `cgroup.events` of cgroup v2: whether the cgroup is frozen, by itself or by an ancestor; none if the line is absent (before 5.2).
#[must_use]
pub fn parse_cgroup_events(text: &[u8]) -> Option<bool> {
    text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"frozen ")).map(|value| value == b"1")
}

/// `freezer.state` of cgroup v1: `THAWED`, `FREEZING` or `FROZEN` (Documentation/admin-guide/cgroup-v1/freezer-subsystem.rst).
#[must_use]
pub fn parse_freezer_state(text: &[u8]) -> Option<bool> {
    match text.trim_ascii() {
        b"THAWED" => Some(false),
        b"FREEZING" | b"FROZEN" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UID: &str = "0fca34b1-9a3e-4c3d-8a69-5a9e3f6b7c21";
    const UID_: &str = "0fca34b1_9a3e_4c3d_8a69_5a9e3f6b7c21";
    const CID: &str = "8f3c0a5d1b7e9246f0a1b2c3d4e5f60718293a4b5c6d7e8f9012a3b4c5d6e7f8";
    const OUTER: &str = "1111111111111111111111111111111111111111111111111111111111111111";

    fn both() -> Place {
        Place { pod_uid: Some(UID.to_owned()), container_id: Some(CID.to_owned()) }
    }

    #[test]
    fn every_driver_and_runtime_names_pod_and_container() {
        let paths = [
            format!("/kubepods/burstable/pod{UID}/{CID}"),
            format!("/kubepods/pod{UID}/{CID}"),
            format!("/kubepods/besteffort/pod{UID}/crio-{CID}"),
            format!("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID_}.slice/cri-containerd-{CID}.scope"),
            format!("/kubepods.slice/kubepods-pod{UID_}.slice/crio-{CID}.scope"),
            format!("/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UID_}.slice/docker-{CID}.scope"),
            format!("/system.slice/containerd.service/kubepods-burstable-pod{UID_}.slice:cri-containerd:{CID}"),
            format!("/docker/{OUTER}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UID_}.slice/cri-containerd-{CID}.scope"),
            format!("/../../kubepods-burstable-pod{UID_}.slice/cri-containerd-{CID}.scope"),
            format!("/../../../burstable/pod{UID}/{CID}/init.scope"),
        ];
        for path in paths {
            assert_eq!(place_of(&path), both(), "{path}");
            assert_eq!(parse_proc_cgroup(format!("0::{path}\n").as_bytes()).place(), both(), "{path}");
        }
    }

    #[test]
    fn the_container_of_the_machine_is_not_the_container_of_the_pod() {
        let path = format!("/docker/{OUTER}/kubepods/pod{UID}");
        assert_eq!(place_of(&path), Place { pod_uid: Some(UID.to_owned()), container_id: None });
    }

    #[test]
    fn a_container_without_a_pod_and_a_sibling_of_the_own_pod() {
        let alone = Place { pod_uid: None, container_id: Some(CID.to_owned()) };
        assert_eq!(place_of(&format!("/system.slice/docker-{CID}.scope")), alone);
        assert_eq!(place_of(&format!("/../cri-containerd-{CID}.scope")), alone);
    }

    #[test]
    fn no_pod_and_no_container() {
        let monitor = format!("/kubepods.slice/crio-conmon-{CID}.scope");
        for path in ["/", "/init.scope", "/system.slice/nginx.service", "/../../podman/pod1", "/user.slice/pod-x.slice", &monitor] {
            assert_eq!(place_of(path), Place::default(), "{path}");
        }
    }

    #[test]
    fn a_static_pod_has_a_hash_for_uid() {
        let place = place_of("/kubepods/burstable/pod3ab1c0f5d2e49a7788990011aabbccdd");
        assert_eq!(place.pod_uid.as_deref(), Some("3ab1c0f5d2e49a7788990011aabbccdd"));
    }

    #[test]
    fn v1_files_have_many_lines_and_the_best_one_wins() {
        let text = format!(
            "12:pids:/system.slice\n9:cpu,cpuacct:/kubepods/burstable/pod{UID}/{CID}\n7:freezer:/kubepods/burstable/pod{UID}/{CID}\n\
             1:name=systemd:/kubepods/burstable/pod{UID}/{CID} (deleted)\n0::/system.slice/containerd.service\n"
        );
        let cgroup = parse_proc_cgroup(text.as_bytes());
        assert_eq!(cgroup.place(), both());
        assert_eq!(cgroup.unified.as_deref(), Some("/system.slice/containerd.service"));
        assert_eq!(cgroup.freezer, Some(format!("/kubepods/burstable/pod{UID}/{CID}")));
        assert_eq!(cgroup.paths.len(), 5);
    }

    #[test]
    fn a_plain_path_is_its_own_directory() {
        assert_eq!(directory_candidates("/kubepods/x"), ["kubepods/x"]);
        assert_eq!(directory_candidates("/"), [""]);
    }

    #[test]
    fn a_climbing_path_is_looked_for_where_its_name_says() {
        let candidates = directory_candidates(&format!("/../../kubepods-burstable-pod{UID_}.slice/cri-containerd-{CID}.scope"));
        let full = format!("kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID_}.slice/cri-containerd-{CID}.scope");
        assert!(candidates.contains(&full), "{candidates:?}");
        assert!(directory_candidates(&format!("/../pod{UID}/{CID}")).contains(&format!("kubepods/burstable/pod{UID}/{CID}")));
    }

    #[test]
    fn frozen_by_either_hierarchy() {
        assert_eq!(parse_cgroup_events(b"populated 1\nfrozen 1\n"), Some(true));
        assert_eq!(parse_cgroup_events(b"populated 1\nfrozen 0\n"), Some(false));
        assert_eq!(parse_cgroup_events(b"populated 1\n"), None);
        assert_eq!(parse_freezer_state(b"FROZEN\n"), Some(true));
        assert_eq!(parse_freezer_state(b"FREEZING\n"), Some(true));
        assert_eq!(parse_freezer_state(b"THAWED\n"), Some(false));
        assert_eq!(parse_freezer_state(b""), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let cgroup = parse_proc_cgroup(&bytes);
            let _ = cgroup.place();
            let _ = parse_cgroup_events(&bytes);
            let _ = parse_freezer_state(&bytes);
        }

        #[test]
        fn candidates_never_climb(path in "[a-z./-]{0,60}") {
            for candidate in directory_candidates(&path) {
                prop_assert!(!candidate.split('/').any(|part| part == ".."), "{} gave {}", path, candidate);
                prop_assert!(!candidate.starts_with('/'));
            }
        }
    }
}
