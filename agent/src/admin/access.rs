//! Who may read the status.

use std::net::IpAddr;

use ipnet::IpNet;

/// Loopback, and the networks of `admin.allow`. A v4-mapped client of a dual-stack socket is the IPv4 client that it is.
pub(super) fn is_allowed(client: IpAddr, allow: &[IpNet]) -> bool {
    let client = client.to_canonical();
    client.is_loopback() || allow.iter().any(|net| net.contains(&client))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_and_listed_networks_only() {
        let allow: Vec<IpNet> = ["10.0.0.0/8", "fd00::/8"].iter().map(|net| net.parse().expect("net")).collect();
        for (client, allowed, listed) in [
            ("127.0.0.1", true, true),
            ("127.8.8.8", true, true),
            ("::1", true, true),
            ("::ffff:127.0.0.1", true, true),
            ("10.1.2.3", false, true),
            ("::ffff:10.1.2.3", false, true),
            ("fd12::1", false, true),
            ("11.0.0.1", false, false),
            ("::ffff:11.0.0.1", false, false),
            ("::10.1.2.3", false, false),
            ("2001:db8::1", false, false),
        ] {
            let client: IpAddr = client.parse().expect("address");
            assert_eq!((is_allowed(client, &[]), is_allowed(client, &allow)), (allowed, listed), "{client}");
        }
    }

    #[test]
    fn everyone_can_be_listed() {
        let all: Vec<IpNet> = ["0.0.0.0/0", "::/0"].iter().map(|net| net.parse().expect("net")).collect();
        assert!(is_allowed("::ffff:8.8.8.8".parse().expect("address"), &all[..1]));
        assert!(is_allowed("2001:db8::1".parse().expect("address"), &all[1..]));
    }
}
