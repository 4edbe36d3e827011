//! The flagship fault to play with: a HostPort entry in Cilium's LB map takes one address of the node, while Envoy's
//! sockets stay perfect. For `cargo xtask run`; tests write their maps themselves.

use std::fs;
use std::net::IpAddr;

use anyhow::Result;

use crate::Node;
use crate::lbmaps::{LbMaps, kind};

/// The pod that takes the connections.
const POD: [u8; 4] = [10, 42, 1, 7];
/// Its endpoint id, and the name of its state folder.
const ENDPOINT: u16 = 7;
/// Room of the maps, as in a small cluster.
const ENTRIES: u32 = 4096;

/// Cilium's maps of a node, with a HostPort entry that can be put in and taken out.
pub struct HostPortTheft {
    maps: LbMaps,
    address: IpAddr,
    on: bool,
}

impl HostPortTheft {
    /// Maps without a theft, and the thief's state folder.
    pub fn prepare(node: &Node, address: IpAddr) -> Result<Self> {
        let bpffs = node.bpffs().to_owned();
        let mut maps = node.enter(move || LbMaps::create(&bpffs, ENTRIES))?;
        for own in node.addresses() {
            maps.add_endpoint(own, 0, true)?;
        }
        maps.add_endpoint(POD.into(), ENDPOINT, false)?;
        let state = node.run_dir().join("state").join(ENDPOINT.to_string());
        fs::create_dir_all(&state)?;
        let pod = serde_json::json!({"K8sPodName": "rke2-ingress-nginx-controller-x", "K8sNamespace": "kube-system"});
        fs::write(state.join("ep_config.json"), pod.to_string())?;
        Ok(Self { maps, address, on: false })
    }

    /// Puts the entry for port 80 in, or takes it out again. Returns a sentence that says which.
    pub fn toggle(&mut self) -> Result<String> {
        self.on = !self.on;
        if self.on {
            self.maps.add(self.address, 80, kind::HOST_PORT, &[(POD.into(), 80)])?;
            return Ok(format!("a HostPort entry takes {}:80", self.address));
        }
        self.maps.remove(self.address, 80)?;
        Ok(format!("the HostPort entry of {}:80 is gone", self.address))
    }

    /// Writes the cilium-agent's liveness stamp; a live one does so every second.
    pub fn stamp(&mut self) -> Result<()> {
        self.maps.stamp(gwready::clock::mono().0)
    }
}
