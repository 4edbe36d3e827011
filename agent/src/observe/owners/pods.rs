//! Names of pods from the kubelet's log folders. Must not fail a pass: a pod without a folder has no name, only a UID.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use gwready_core::decode::pod_folder::parse_pod_folder;
use gwready_core::time::Mono;

/// How long a pod without a folder is left alone before the next look.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Remembers names: a pod's UID never changes its names.
#[derive(Debug)]
pub(super) struct PodNames {
    folder: PathBuf,
    known: HashMap<String, (String, String)>,
    missed: HashMap<String, Mono>,
}

impl PodNames {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, known: HashMap::new(), missed: HashMap::new() }
    }

    /// Namespace and name of a pod.
    pub(super) fn of(&mut self, uid: &str, now: Mono) -> Option<(String, String)> {
        if let Some(names) = self.known.get(uid) {
            return Some(names.clone());
        }
        if self.missed.get(uid).is_some_and(|at| now.since(*at) < LOOK_AGAIN) {
            return None;
        }
        let Some(names) = self.look(uid) else {
            self.missed.retain(|_, at| now.since(*at) < LOOK_AGAIN);
            self.missed.insert(uid.to_owned(), now);
            return None;
        };
        // Pods come and go for years; the few that matter are found again at the price of one folder listing.
        if self.known.len() >= 256 {
            self.known.clear();
        }
        self.known.insert(uid.to_owned(), names.clone());
        Some(names)
    }

    fn look(&self, uid: &str) -> Option<(String, String)> {
        let folders = std::fs::read_dir(&self.folder).ok()?;
        folders.flatten().find_map(|folder| {
            let name = folder.file_name();
            let (namespace, pod) = parse_pod_folder(name.to_str()?, uid)?;
            Some((namespace.to_owned(), pod.to_owned()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "0fca34b1-9a3e-4c3d-8a69-5a9e3f6b7c21";

    #[test]
    fn a_folder_that_appears_later_is_found_after_a_while_and_then_remembered() {
        let root = tempfile::tempdir().unwrap();
        let mut names = PodNames::new(root.path().to_owned());
        assert_eq!(names.of(UID, Mono(0)), None);
        let folder = root.path().join(format!("kube-system_cilium-envoy-x_{UID}"));
        std::fs::create_dir(&folder).unwrap();
        assert_eq!(names.of(UID, Mono(0).plus(LOOK_AGAIN / 2)), None, "not listed again at every pass");
        let expected = Some(("kube-system".to_owned(), "cilium-envoy-x".to_owned()));
        assert_eq!(names.of(UID, Mono(0).plus(LOOK_AGAIN)), expected);
        std::fs::remove_dir(folder).unwrap();
        assert_eq!(names.of(UID, Mono(0).plus(LOOK_AGAIN)), expected);
    }

    #[test]
    fn no_log_folder_at_all_gives_no_name() {
        assert_eq!(PodNames::new(PathBuf::from("/nonexistent")).of(UID, Mono(0)), None);
    }
}
