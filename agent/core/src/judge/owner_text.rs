//! How a process is named to a person: pod first, then executable and pid.

use crate::facts::processes::{Owners, Process, Readable};

/// E.g. `pod web/nginx-1 (nginx[412])`, `nginx[412]`, `python3[7] (calls itself cilium-envoy)`, `pid 7`.
#[must_use]
pub fn describe_process(owners: &Owners, pid: u32) -> String {
    let Some(process) = owners.processes.get(&pid) else {
        return format!("pid {pid}");
    };
    let name = match &process.exe {
        Readable::Is(exe) if process.comm == *exe || exe.starts_with(&process.comm) => format!("{exe}[{pid}]"),
        Readable::Is(exe) => format!("{exe}[{pid}] (calls itself {})", process.comm),
        Readable::Hidden(_) => format!("{}[{pid}] (executable hidden)", process.comm),
    };
    match pod_name(process) {
        Some(pod) => format!("pod {pod} ({name})"),
        None => name,
    }
}

fn pod_name(process: &Process) -> Option<String> {
    let pod = process.pod.as_ref()?;
    Some(match (&pod.namespace, &pod.name) {
        (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
        _ => format!("uid {}", pod.uid),
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::Scene;
    use super::*;
    use crate::facts::processes::Pod;

    #[test]
    fn a_pod_is_named_by_namespace_and_name_and_else_by_uid() {
        let mut scene = Scene::new(&[]).process(7, "nginx");
        assert_eq!(describe_process(scene.owners(), 7), "nginx[7]");
        let pod = Pod { uid: "u-1".into(), container_id: None, namespace: Some("web".into()), name: Some("nginx-1".into()) };
        scene.owners().processes.get_mut(&7).unwrap().pod = Some(pod.clone());
        assert_eq!(describe_process(scene.owners(), 7), "pod web/nginx-1 (nginx[7])");
        scene.owners().processes.get_mut(&7).unwrap().pod = Some(Pod { namespace: None, name: None, ..pod });
        assert_eq!(describe_process(scene.owners(), 7), "pod uid u-1 (nginx[7])");
    }

    #[test]
    fn a_borrowed_name_is_shown_beside_the_executable() {
        let mut scene = Scene::new(&[]).process(7, "python3");
        scene.owners().processes.get_mut(&7).unwrap().comm = "cilium-envoy".into();
        assert_eq!(describe_process(scene.owners(), 7), "python3[7] (calls itself cilium-envoy)");
        assert_eq!(describe_process(scene.owners(), 8), "pid 8");
    }
}
