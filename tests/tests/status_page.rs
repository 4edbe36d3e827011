//! The status page of a live agent in a real browser: what it says, that it needs nothing from elsewhere, and that a phone
//! shows all of it without scrolling sideways.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::net::IpAddr;

use gwready_tests::browser::{dump_dom, paint};
use gwready_tests::lbmaps::{LbMaps, kind};
use gwready_tests::scene::tell_pod;
use gwready_tests::{Node, Scene};

const URL: &str = "http://127.0.0.1:9681/";
const DESKTOP: (u32, u32) = (1280, 900);
/// Taller than the page, so that nothing but a scroll bar can be painted at its lower edge.
const PHONE: (u32, u32) = (390, 6000);

/// HostPort entries for every address of the node: it is down, and a pod has its connections.
fn steal(scene: &mut Scene, maps: &mut LbMaps) {
    let pods: [IpAddr; 2] = [[10, 42, 1, 7].into(), [0xfd42, 0, 0, 0, 0, 0, 0, 7].into()];
    for (pod, id) in pods.into_iter().zip([7, 8]) {
        maps.add_endpoint(pod, id, false).unwrap();
        tell_pod(&scene.node, id, "kube-system", "rke2-ingress-nginx-controller-x").unwrap();
    }
    for address in scene.node.addresses() {
        maps.add(address, 80, kind::HOST_PORT, &[(pods[usize::from(address.is_ipv6())], 80)]).unwrap();
    }
    scene.wait_node_down("HostPort").unwrap();
}

/// The browser's document has no script, and nothing that would be fetched.
fn needs_nothing(dom: &str) {
    for word in ["<script", "<link", "<img", "<iframe", " src=", "@import", "url(", "https://", "http://"] {
        assert!(!dom.contains(word), "{word} in\n{dom}");
    }
}

/// The text of a row of the first table: condition, then its cells.
fn row<'a>(dom: &'a str, name: &str) -> &'a str {
    let begin = dom.find(&format!("<tr><td class=\"name\">{name}</td>")).unwrap_or_else(|| panic!("no row {name} in\n{dom}"));
    dom[begin..].split("</tr>").next().unwrap()
}

fn looks_right(node: &Node, state: &str) {
    let desktop = paint(node, URL, DESKTOP.0, DESKTOP.1).unwrap();
    assert_eq!((desktop.width, desktop.height), DESKTOP);
    assert!(!desktop.is_blank_from(0), "{state}: an empty page");
    let phone = paint(node, URL, PHONE.0, PHONE.1).unwrap();
    assert_eq!((phone.width, phone.height), PHONE);
    assert!(!phone.is_blank_from(0), "{state}: an empty page");
    assert!(phone.is_blank_from(PHONE.1 - 20), "{state}: a scroll bar below the page: it is wider than a phone");
}

#[test]
fn the_page_says_up_and_down_to_a_browser_and_fits_a_phone() {
    let (mut scene, mut maps) = Scene::up_with_maps().unwrap();
    let dom = dump_dom(&scene.node, URL).unwrap();
    needs_nothing(&dom);
    assert!(dom.contains("<title>worker-1 up</title>") && dom.contains("<span class=\"state bg-good\">up</span> worker-1"), "{dom}");
    for condition in ["Observed", "EnvoyLive", "Listening", "OwnedByEnvoy", "NotIntercepted", "Accepting", "Responding", "InService"] {
        assert!(row(&dom, condition).contains("class=\"good\""), "{condition}: {dom}");
    }
    assert_eq!(row(&dom, "NotIntercepted").matches("\u{2713}").count(), 4, "a cell for each front: {dom}");
    looks_right(&scene.node, "up");

    steal(&mut scene, &mut maps);
    let dom = dump_dom(&scene.node, URL).unwrap();
    needs_nothing(&dom);
    assert!(dom.contains("<title>worker-1 down</title>") && dom.contains("<span class=\"state bg-bad\">down</span> worker-1"), "{dom}");
    assert!(dom.contains("<b>HostPort</b> on port 80"), "{dom}");
    assert_eq!(row(&dom, "NotIntercepted").matches("\u{2717} Host<wbr>Port").count(), 2, "80 of both families: {dom}");
    assert!(row(&dom, "Listening").contains("class=\"good\""), "the sockets are perfect: {dom}");
    for part in
        ["pod kube-system/rke2-ingress-nginx-controller-x (10.42.1.7:80)", "docs/conditions/HostPort.md", "WARN node DOWN reason=HostPort"]
    {
        assert!(dom.contains(part), "{part} is not in\n{dom}");
    }
    for address in scene.node.addresses() {
        assert!(dom.contains(&format!("<td>{address}</td><td class=\"bad\">down</td><td>HostPort</td>")), "{dom}");
    }
    looks_right(&scene.node, "down");
}
