//! Single values of the configuration: YAML value → typed value, or one sentence that says what would be right. Pure.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use gwready_core::net::Family;
use gwready_core::policy::{AddressMatch, Choice};
use gwready_core::render::duration::render_exact;
use gwready_core::render::text::sanitise;
use ipnet::IpNet;
use serde_json::Value;

use super::duration::parse_duration;

/// A typed value or the sentence of a fault.
pub(super) type Parsed<T> = Result<T, String>;

/// The value as a person would recognise it, harmless.
pub(super) fn shown(value: &Value) -> String {
    sanitise(&value.to_string())
}

pub(super) fn text(value: &Value) -> Parsed<String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        other => Err(format!("must be text, not {}; put it in quotes", shown(other))),
    }
}

pub(super) fn boolean(value: &Value) -> Parsed<bool> {
    value.as_bool().ok_or_else(|| format!("must be true or false, not {}", shown(value)))
}

pub(super) fn number(value: &Value, low: u32, high: u32) -> Parsed<u32> {
    let fault = || format!("must be a whole number from {low} to {high}, not {}", shown(value));
    value.as_u64().and_then(|number| u32::try_from(number).ok()).filter(|number| (low..=high).contains(number)).ok_or_else(fault)
}

pub(super) fn word<T: Copy>(value: &Value, words: &[(&str, T)]) -> Parsed<T> {
    let fault = || format!("must be {}, not {}", words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(" or "), shown(value));
    let given = value.as_str().ok_or_else(fault)?;
    words.iter().find(|(word, _)| *word == given).map(|(_, meaning)| *meaning).ok_or_else(fault)
}

pub(super) fn duration(value: &Value, low: Duration, high: Duration) -> Parsed<Duration> {
    let given = match value {
        Value::String(text) => parse_duration(text)?,
        other => return Err(format!("must be a duration with a unit, e.g. 250ms or 2s, not {}", shown(other))),
    };
    if (low..=high).contains(&given) {
        Ok(given)
    } else {
        Err(format!("must be from {} to {}, not {}", render_exact(low), render_exact(high), render_exact(given)))
    }
}

pub(super) fn path(value: &Value) -> Parsed<PathBuf> {
    let text = text(value)?;
    if text.starts_with('/') && !text.contains('\0') {
        Ok(PathBuf::from(text))
    } else {
        Err(format!("must be an absolute path, not {}", shown(value)))
    }
}

pub(super) fn port(value: &Value) -> Parsed<u16> {
    let fault = || format!("must be a port from 1 to 65535, not {}", shown(value));
    value.as_u64().and_then(|number| u16::try_from(number).ok()).filter(|port| *port > 0).ok_or_else(fault)
}

pub(super) fn listen(value: &Value) -> Parsed<SocketAddr> {
    let fault = || format!("must be address:port, e.g. \"[::]:9680\" or \"0.0.0.0:9680\", not {}", shown(value));
    let address: SocketAddr = text(value)?.parse().map_err(|_| fault())?;
    if address.port() == 0 { Err("the port must be from 1 to 65535".to_owned()) } else { Ok(address) }
}

/// A list whose faulty entries are reported with their index; `auto` where allowed.
pub(super) fn list<T>(value: &Value, each: impl Fn(&Value) -> Parsed<T>) -> Parsed<Vec<T>> {
    let Value::Array(entries) = value else { return Err(format!("must be a list, not {}", shown(value))) };
    let parsed: Vec<Parsed<T>> = entries.iter().map(each).collect();
    let faults: Vec<String> = parsed
        .iter()
        .enumerate()
        .filter_map(|(index, entry)| entry.as_ref().err().map(|fault| format!("entry {}: {fault}", index + 1)))
        .collect();
    if faults.is_empty() { Ok(parsed.into_iter().flatten().collect()) } else { Err(faults.join("; ")) }
}

/// `auto`, or a list that is not empty and has no duplicates; the list comes back sorted.
pub(super) fn choice<T: Ord + Clone + std::fmt::Display>(value: &Value, each: impl Fn(&Value) -> Parsed<T>) -> Parsed<Choice<T>> {
    if value.as_str() == Some("auto") {
        return Ok(Choice::Auto);
    }
    let mut entries = list(value, each).map_err(|fault| format!("{fault} (or write auto)"))?;
    entries.sort();
    if entries.is_empty() {
        return Err("must be auto or a list with at least one entry".to_owned());
    }
    match entries.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("names {} twice", pair[0])),
        None => Ok(Choice::Only(entries)),
    }
}

pub(super) fn family(value: &Value) -> Parsed<Family> {
    word(value, &[("ipv4", Family::Ipv4), ("ipv6", Family::Ipv6)])
}

pub(super) fn network(value: &Value) -> Parsed<IpNet> {
    let text = text(value)?;
    let net = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    net.map(|net| net.trunc()).map_err(|_| format!("must be a network or an address, e.g. 10.0.0.0/8 or fd00::/8, not {}", shown(value)))
}

/// A network, an address, or an interface name (`dev_valid_name`, net/core/dev.c: at most 15 bytes, no slash, colon or blank).
pub(super) fn address_match(value: &Value) -> Parsed<AddressMatch> {
    if let Ok(net) = network(value) {
        return Ok(AddressMatch::Net(net));
    }
    let name = text(value)?;
    let is_name = !name.is_empty()
        && name.len() <= 15
        && name != "."
        && name != ".."
        && !name.contains(|c: char| c == '/' || c == ':' || c.is_whitespace());
    if is_name {
        Ok(AddressMatch::Interface(name))
    } else {
        Err(format!("must be a network, an address or an interface name of at most 15 bytes, not {}", shown(value)))
    }
}

/// RFC 1123 subdomain as Kubernetes takes it: labels of a-z, 0-9 and -, at most 63 each and 253 in all.
pub(super) fn dns_name(name: &str) -> Parsed<String> {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if name.len() <= 253 && name.split('.').all(label) {
        Ok(name.to_owned())
    } else {
        Err(format!("must be a DNS name of lower-case letters, digits, - and . (RFC 1123), not \"{}\"", sanitise(name)))
    }
}

/// Text that goes into a request line or header: printable ASCII without blanks.
pub(super) fn token(value: &Value) -> Parsed<String> {
    let text = text(value)?;
    if !text.is_empty() && text.len() <= 1024 && text.bytes().all(|b| b.is_ascii_graphic()) {
        Ok(text)
    } else {
        Err(format!("must be printable ASCII without blanks, not {}", shown(value)))
    }
}
