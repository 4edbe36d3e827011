//! Keys and values of `cilium_lxc`: the pods of this node and the node's own addresses as Cilium sees them.
//! Source: Cilium `bpf/lib/common.h` (`endpoint_key`, `endpoint_info`); pod names from `<run_dir>/state/<id>/ep_config.json`.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Bit of `flags`: an address of the node itself.
const FLAG_HOST: u32 = 1;

/// A pod, by the names that its endpoint folder has. Raw text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PodName {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// One row of `cilium_lxc`, with the pod's name where the endpoint folder has one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalEndpoint {
    /// Endpoint id; 0 for node addresses.
    pub id: u16,
    /// An address of the node itself.
    pub host: bool,
    /// The pod.
    pub pod: Option<PodName>,
}

impl LocalEndpoint {
    /// Decodes a value.
    #[must_use]
    pub const fn decode(bytes: &[u8; 48]) -> Self {
        let id = u16::from_ne_bytes([bytes[6], bytes[7]]);
        let flags = u32::from_ne_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
        Self { id, host: flags & FLAG_HOST != 0, pod: None }
    }
}

/// Encodes the key of an address (cluster id 0).
#[must_use]
pub fn encode_key(address: IpAddr) -> [u8; 20] {
    let mut key = [0; 20];
    let (octets, family): (&[u8], u8) = match &address {
        IpAddr::V4(v4) => (&v4.octets(), 1),
        IpAddr::V6(v6) => (&v6.octets(), 2),
    };
    for (to, from) in key.iter_mut().zip(octets) {
        *to = *from;
    }
    key[16] = family;
    key
}

/// Names the pod from the text of an `ep_config.json`; none if the text is no JSON or names no pod (host and health endpoints).
#[must_use]
pub fn parse_pod_name(text: &str) -> Option<PodName> {
    #[derive(Deserialize)]
    struct File {
        #[serde(rename = "K8sPodName", default)]
        name: String,
        #[serde(rename = "K8sNamespace", default)]
        namespace: String,
    }
    let file: File = serde_json::from_str(text).ok()?;
    (!file.name.is_empty()).then_some(PodName { namespace: file.namespace, name: file.name })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_of_both_families() {
        let mut v4 = [0; 20];
        v4[..4].copy_from_slice(&[10, 244, 1, 113]);
        v4[16] = 1;
        assert_eq!(encode_key(IpAddr::from([10, 244, 1, 113])), v4);
        assert_eq!(encode_key("fd00::1".parse().unwrap())[16], 2);
    }

    #[test]
    fn host_flag_and_id() {
        let mut value = [0; 48];
        value[6..8].copy_from_slice(&4321_u16.to_ne_bytes());
        assert_eq!(LocalEndpoint::decode(&value), LocalEndpoint { id: 4321, host: false, pod: None });
        value[8..12].copy_from_slice(&5_u32.to_ne_bytes());
        assert!(LocalEndpoint::decode(&value).host);
    }

    #[test]
    fn names_come_from_the_endpoint_file() {
        let text = r#"{"ID":7,"K8sPodName":"thief-x","K8sNamespace":"kube-system","IPv4":"10.42.1.7"}"#;
        assert_eq!(parse_pod_name(text).unwrap().to_string(), "kube-system/thief-x");
        assert_eq!(parse_pod_name(r#"{"K8sPodName":""}"#), None);
        assert_eq!(parse_pod_name("{"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_a_name_or_none(text in ".*") {
            let _ = parse_pod_name(&text);
        }
    }
}
