//! The kubelet's pod log folders: `<namespace>_<pod>_<uid>` to names. Must not read directories.

/// Namespace and pod name of one folder under `/var/log/pods`, if it belongs to `uid` (kubelet
/// `pkg/kubelet/kuberuntime/helpers.go` `BuildPodLogsDirectory`). Neither namespace nor pod name can hold an underscore.
#[must_use]
pub fn parse_pod_folder<'a>(folder: &'a str, uid: &str) -> Option<(&'a str, &'a str)> {
    let names = folder.strip_suffix(uid)?.strip_suffix('_')?;
    let (namespace, pod) = names.split_once('_')?;
    (!namespace.is_empty() && !pod.is_empty() && !pod.contains('_')).then_some((namespace, pod))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UID: &str = "0fca34b1-9a3e-4c3d-8a69-5a9e3f6b7c21";

    #[test]
    fn the_folder_of_the_pod_gives_its_names() {
        let folder = format!("kube-system_cilium-envoy-x7k2p_{UID}");
        assert_eq!(parse_pod_folder(&folder, UID), Some(("kube-system", "cilium-envoy-x7k2p")));
    }

    #[test]
    fn other_folders_give_nothing() {
        for folder in
            ["", UID, "a_b", &format!("kube-system_{UID}"), &format!("_x_{UID}"), &format!("a_b_c_{UID}"), &format!("ns_pod-{UID}")]
        {
            assert_eq!(parse_pod_folder(folder, UID), None, "{folder}");
        }
        assert_eq!(parse_pod_folder(&format!("ns_pod_{UID}"), "ffffffff-9a3e-4c3d-8a69-5a9e3f6b7c21"), None);
    }

    proptest! {
        #[test]
        fn total(folder in ".{0,80}", uid in ".{0,40}") {
            let _ = parse_pod_folder(&folder, &uid);
        }

        #[test]
        fn names_come_back(namespace in "[a-z0-9-]{1,20}", pod in "[a-z0-9.-]{1,30}") {
            let folder = format!("{namespace}_{pod}_{UID}");
            prop_assert_eq!(parse_pod_folder(&folder, UID), Some((namespace.as_str(), pod.as_str())));
        }
    }
}
