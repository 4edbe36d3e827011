//! The entries of `probes`: each is a mapping with its own keys, so faults name `probes[1].host`.

use serde_json::{Map, Value};

use super::effective::ExtraProbe;
use super::faults::{Faults, Origin};
use super::keys::nearest;
use super::parse::{self, Parsed, shown};

const FIELDS: [&str; 5] = ["port", "host", "path", "sni", "expect_status"];

/// Reads the list; faulty entries are left out and reported.
pub(super) fn parse_probes(value: &Value, origin: &Origin, faults: &mut Faults) -> Vec<ExtraProbe> {
    let Value::Array(entries) = value else {
        faults.add(origin.clone(), "probes", format!("must be a list of mappings, not {}", shown(value)));
        return Vec::new();
    };
    let mut probes: Vec<ExtraProbe> = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let at = format!("probes[{index}]");
        let Value::Object(fields) = entry else {
            faults.add(origin.clone(), at, format!("must be a mapping with port and host, not {}", shown(entry)));
            continue;
        };
        let probe = parse_probe(&at, fields, origin, faults);
        if !faults.has(&at) {
            if probes.iter().any(|other| (other.port, &other.host, &other.path) == (probe.port, &probe.host, &probe.path)) {
                faults.add(origin.clone(), at, "repeats an earlier entry with the same port, host and path");
            }
            probes.push(probe);
        }
    }
    probes
}

fn parse_probe(at: &str, fields: &Map<String, Value>, origin: &Origin, faults: &mut Faults) -> ExtraProbe {
    for name in fields.keys().filter(|name| !FIELDS.contains(&name.as_str())) {
        let hint = nearest(name, FIELDS.into_iter()).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        faults.add(origin.clone(), format!("{at}.{name}"), format!("there is no such key{hint}"));
    }
    let mut entry = Entry { at, fields, origin, faults };
    ExtraProbe {
        port: entry.needed("port", parse::port).unwrap_or(0),
        host: entry.needed("host", parse::token).unwrap_or_default(),
        path: entry.given("path", request_path).unwrap_or_else(|| "/".to_owned()),
        sni: entry.given("sni", |value| parse::dns_name(&parse::text(value)?)),
        expect_status: entry.given("expect_status", statuses).unwrap_or_else(|| vec![200]),
    }
}

struct Entry<'a> {
    at: &'a str,
    fields: &'a Map<String, Value>,
    origin: &'a Origin,
    faults: &'a mut Faults,
}

impl Entry<'_> {
    fn given<T>(&mut self, name: &str, parse: impl Fn(&Value) -> Parsed<T>) -> Option<T> {
        let value = self.fields.get(name).filter(|value| !value.is_null())?;
        parse(value).map_err(|sentence| self.faults.add(self.origin.clone(), format!("{}.{name}", self.at), sentence)).ok()
    }

    fn needed<T>(&mut self, name: &str, parse: impl Fn(&Value) -> Parsed<T>) -> Option<T> {
        if self.fields.get(name).is_none_or(Value::is_null) {
            self.faults.add(self.origin.clone(), format!("{}.{name}", self.at), "is missing");
        }
        self.given(name, parse)
    }
}

fn request_path(value: &Value) -> Parsed<String> {
    parse::token(value)
        .and_then(|path| if path.starts_with('/') { Ok(path) } else { Err(format!("must begin with /, not {}", shown(value))) })
}

fn statuses(value: &Value) -> Parsed<Vec<u16>> {
    let list = parse::list(value, |status| {
        parse::number(status, 100, 599).and_then(|status| u16::try_from(status).map_err(|error| error.to_string()))
    })?;
    if list.is_empty() { Err("must name at least one status".to_owned()) } else { Ok(list) }
}
