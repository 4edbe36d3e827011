//! The cgroups of one process: pod, container, freezer, and the id that its sockets carry. Must not write a cgroup file.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use gwready_core::decode::cgroup::{Place, directory_candidates, parse_cgroup_events, parse_freezer_state, parse_proc_cgroup};

/// What one `/proc/PID/cgroup` text leads to. Valid while the text stays the same.
#[derive(Debug)]
pub(super) struct Cgroups {
    text: Vec<u8>,
    /// Pod and container.
    pub place: Place,
    /// Directory in the v2 hierarchy.
    unified: Option<PathBuf>,
    /// Directory in the v1 freezer hierarchy.
    freezer: Option<PathBuf>,
    /// Id of the v2 cgroup: the inode of its directory, what sock_diag reports for sockets created in it.
    pub id: Option<u64>,
}

impl Cgroups {
    pub(super) fn resolve(root: &Path, pid: u32, text: Vec<u8>) -> Self {
        let cgroup = parse_proc_cgroup(&text);
        let v2_only = root.join("cgroup.controllers").exists();
        let v2_root = if v2_only { root.to_owned() } else { root.join("unified") };
        let unified = cgroup.unified.as_ref().and_then(|path| directory(&v2_root, path, pid));
        let freezer = cgroup.freezer.as_ref().and_then(|path| directory(&root.join("freezer"), path, pid));
        let id = unified.as_ref().and_then(|path| path.metadata().ok()).map(|metadata| metadata.ino());
        Self { place: cgroup.place(), text, unified, freezer, id }
    }

    pub(super) fn is_of(&self, text: &[u8]) -> bool {
        self.text == text
    }

    /// Either freezer holds the process; none where neither could be read.
    pub(super) fn frozen(&self) -> Option<bool> {
        let v2 = self.unified.as_ref().and_then(|path| match std::fs::read(path.join("cgroup.events")) {
            Ok(text) => parse_cgroup_events(&text),
            Err(error) => cannot_freeze(path, &error).then_some(false),
        });
        let v1 = self.freezer.as_ref().and_then(|path| match std::fs::read(path.join("freezer.state")) {
            Ok(text) => parse_freezer_state(&text),
            Err(error) => cannot_freeze(path, &error).then_some(false),
        });
        match (v1, v2) {
            (None, None) => None,
            (v1, v2) => Some(v1 == Some(true) || v2 == Some(true)),
        }
    }

    /// Processes of the same v2 cgroup.
    pub(super) fn siblings(&self) -> Vec<u32> {
        self.unified.as_ref().map(|path| pids_in(path)).unwrap_or_default()
    }
}

/// A hierarchy's root has no file that tells whether it is frozen, for it can't be. Where the directory is gone, or the file is there
/// and can't be read, nothing is known.
fn cannot_freeze(directory: &Path, error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound && directory.join("cgroup.procs").exists()
}

/// Where the cgroup's directory is below `root`. A path that climbs is ambiguous: the directory that lists the process wins.
/// The lists are translated to the reader's pid namespace, so they may lack it: then a directory that is the only one counts.
fn directory(root: &Path, path: &str, pid: u32) -> Option<PathBuf> {
    let existing: Vec<PathBuf> = directory_candidates(path).iter().map(|tail| root.join(tail)).filter(|path| path.is_dir()).collect();
    if let [only] = existing.as_slice() {
        return Some(only.clone());
    }
    existing.into_iter().find(|path| pids_in(path).contains(&pid))
}

fn pids_in(directory: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: PathBuf, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn v2_only_frozen_and_thawed() {
        let root = tempfile::tempdir().unwrap();
        file(root.path().join("cgroup.controllers"), "");
        file(root.path().join("a/cgroup.procs"), "5\n6\n");
        file(root.path().join("a/cgroup.events"), "populated 1\nfrozen 1\n");
        let cgroups = Cgroups::resolve(root.path(), 5, b"0::/a\n".to_vec());
        assert_eq!(cgroups.frozen(), Some(true));
        assert_eq!(cgroups.siblings(), [5, 6]);
        assert_eq!(cgroups.id, Some(root.path().join("a").metadata().unwrap().ino()));
        file(root.path().join("a/cgroup.events"), "populated 1\nfrozen 0\n");
        assert_eq!(cgroups.frozen(), Some(false));
        std::fs::remove_dir_all(root.path().join("a")).unwrap();
        assert_eq!(cgroups.frozen(), None, "a directory that is gone tells nothing");
    }

    #[test]
    fn v1_freezer_beside_v2() {
        let root = tempfile::tempdir().unwrap();
        file(root.path().join("unified/a/cgroup.events"), "populated 1\nfrozen 0\n");
        file(root.path().join("freezer/b/freezer.state"), "FREEZING\n");
        let cgroups = Cgroups::resolve(root.path(), 5, b"7:freezer:/b\n0::/a\n".to_vec());
        assert_eq!(cgroups.frozen(), Some(true));
    }

    #[test]
    fn the_root_cgroup_is_never_frozen_and_an_unmounted_one_unknown() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Cgroups::resolve(root.path(), 5, b"0::/\n".to_vec()).frozen(), None);
        file(root.path().join("unified/cgroup.procs"), "5\n");
        assert_eq!(Cgroups::resolve(root.path(), 5, b"0::/\n".to_vec()).frozen(), Some(false));
    }

    #[test]
    fn a_climbing_path_is_resolved_by_membership() {
        let root = tempfile::tempdir().unwrap();
        let pod = "pod0fca34b1-9a3e-4c3d-8a69-5a9e3f6b7c21";
        for (class, pid) in [("burstable", 5), ("besteffort", 6)] {
            file(root.path().join(format!("unified/kubepods/{class}/{pod}/cgroup.procs")), &format!("{pid}\n"));
            file(root.path().join(format!("unified/kubepods/{class}/{pod}/cgroup.events")), &format!("frozen {}\n", u8::from(pid == 6)));
        }
        let text = format!("0::/../../{pod}\n").into_bytes();
        assert_eq!(Cgroups::resolve(root.path(), 5, text.clone()).frozen(), Some(false));
        assert_eq!(Cgroups::resolve(root.path(), 6, text.clone()).frozen(), Some(true));
        assert_eq!(Cgroups::resolve(root.path(), 7, text).frozen(), None, "which one is not known");
    }
}
