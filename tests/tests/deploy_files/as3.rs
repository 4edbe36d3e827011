//! The AS3 declaration against what F5's AS3 schema reference says of each class in it: names of properties, their kinds
//! and bounds, references that lead somewhere. F5's own schema file is on no package registry and is not copied here.

use regex_lite::Regex;
use serde_json::{Value, json};

use crate::tools::{deploy, read};

/// What a property may be.
enum Kind {
    Is(Value),
    OneOf(&'static [&'static str]),
    /// Shown to people: 64 characters of a limited set at most.
    Label,
    Text,
    Flag,
    Number(u64, u64),
    Addresses,
    /// A reference to an object of this class beside it, bare or as `{"use": …}`.
    To(&'static str, &'static str),
    Each(&'static Kind),
    Class(&'static str),
}

use Kind::{Addresses, Class, Each, Flag, Is, Label, Number, OneOf, Text, To};

/// Properties of a class; those with `true` must be there. Where objects have names of their own, the last entry says what
/// they may be. Of optional properties only those are listed that the declaration may have a use for.
fn properties(class: &str) -> Vec<(&'static str, bool, Kind)> {
    match class {
        "AS3" => vec![
            ("$schema", false, Text),
            ("class", true, Is(json!("AS3"))),
            ("action", false, OneOf(&["deploy", "dry-run", "redeploy", "remove", "retrieve"])),
            ("persist", false, Flag),
            ("declaration", true, Class("ADC")),
        ],
        "ADC" => vec![
            ("class", true, Is(json!("ADC"))),
            ("schemaVersion", true, Text),
            ("id", false, Text),
            ("label", false, Label),
            ("*", false, Class("Tenant")),
        ],
        "Tenant" => vec![("class", true, Is(json!("Tenant"))), ("label", false, Label), ("*", false, Class("Application"))],
        "Application" => vec![
            ("class", true, Is(json!("Application"))),
            ("template", false, OneOf(&["generic"])),
            ("label", false, Label),
            ("*", false, Class("Monitor|Pool|Service_TCP")),
        ],
        "Monitor" => vec![
            ("class", true, Is(json!("Monitor"))),
            ("label", false, Label),
            ("monitorType", true, Is(json!("http"))),
            ("targetPort", false, Number(0, 65535)),
            ("interval", false, Number(1, 3600)),
            ("timeout", false, Number(1, 900)),
            ("upInterval", false, Number(0, 3600)),
            ("timeUntilUp", false, Number(0, 3600)),
            ("send", false, Text),
            ("receive", false, Text),
            ("receiveDown", false, Text),
            ("reverse", false, Flag),
            ("adaptive", false, Flag),
        ],
        "Pool" => vec![
            ("class", true, Is(json!("Pool"))),
            ("label", false, Label),
            ("loadBalancingMode", false, OneOf(&["round-robin", "least-connections-member", "ratio-member"])),
            ("monitors", false, Each(&To("use", "Monitor"))),
            // 1 by default: one monitor that succeeds hides another that fails.
            ("minimumMonitors", false, Is(json!("all"))),
            ("serviceDownAction", false, OneOf(&["drop", "none", "reselect", "reset"])),
            ("slowRampTime", false, Number(0, 900)),
            ("members", false, Each(&Class("member"))),
        ],
        "member" => vec![("servicePort", true, Number(0, 65535)), ("serverAddresses", false, Addresses)],
        "Service_TCP" => vec![
            ("class", true, Is(json!("Service_TCP"))),
            ("label", false, Label),
            ("virtualAddresses", false, Addresses),
            ("virtualPort", true, Number(0, 65535)),
            ("pool", false, To("", "Pool")),
            ("profileTCP", false, OneOf(&["normal", "lan", "wan", "mobile"])),
        ],
        other => panic!("no class {other}"),
    }
}

/// Every fault in an object of one of these classes; `beside` has the objects that it may refer to.
fn faults_of(object: &Value, classes: &str, path: &str, beside: &Value) -> Vec<String> {
    let Some(found) = object.as_object() else { return vec![format!("{path}: no object")] };
    let named = object["class"].as_str().unwrap_or(classes);
    let Some(class) = classes.split('|').find(|class| *class == named) else { return vec![format!("{path}: class {named}")] };
    let beside = if class == "Application" { object } else { beside };
    let known = properties(class);
    let missing = known.iter().filter(|(name, needed, _)| *needed && !found.contains_key(*name));
    let mut faults: Vec<String> = missing.map(|(name, ..)| format!("{path}: no {name}")).collect();
    for (key, value) in found {
        let path = format!("{path}/{key}");
        let own = known.iter().find(|(name, ..)| name == key);
        // AS3 names of tenants, applications and objects in them.
        let may_be_named = Regex::new("^[A-Za-z][0-9A-Za-z_]{0,63}$").unwrap().is_match(key) && value.is_object();
        match own.or_else(|| known.iter().find(|(name, ..)| *name == "*" && may_be_named)) {
            Some((_, _, kind)) => faults.extend(faults_in(value, kind, &path, beside)),
            None => faults.push(format!("{path}: not a property of {class}")),
        }
    }
    if class == "Monitor" && object["reverse"] == true && found.contains_key("receiveDown") {
        faults.push(format!("{path}: reverse excludes receiveDown"));
    }
    faults
}

fn faults_in(value: &Value, kind: &Kind, path: &str, beside: &Value) -> Vec<String> {
    let fine = match kind {
        Class(classes) => return faults_of(value, classes, path, beside),
        Each(kind) => {
            let list = value.as_array().map_or(&[][..], Vec::as_slice);
            let mut faults: Vec<String> = list.iter().flat_map(|item| faults_in(item, kind, path, beside)).collect();
            faults.extend(list.is_empty().then(|| format!("{path}: no list, or an empty one")));
            return faults;
        }
        Is(wanted) => value == wanted,
        OneOf(words) => words.iter().any(|word| value == word),
        Label => Regex::new(r##"^[^\x00-\x1f"#&*<>?\[\\\]`\x7f]{0,64}$"##).unwrap().is_match(value.as_str().unwrap_or("\n")),
        Text => value.as_str().is_some_and(|text| !text.is_empty()),
        Flag => value.is_boolean(),
        Number(low, high) => value.as_u64().is_some_and(|number| (*low..=*high).contains(&number)),
        Addresses => value.as_array().is_some_and(|list| {
            let address = |item: &Value| item.as_str().is_some_and(|text| text.parse::<std::net::IpAddr>().is_ok());
            !list.is_empty() && list.iter().all(address)
        }),
        To(key, class) => {
            let name = if key.is_empty() { value.as_str() } else { value[key].as_str() };
            name.is_some_and(|name| beside[name]["class"] == *class)
        }
    };
    if fine { Vec::new() } else { vec![format!("{path}: {value}")] }
}

fn declaration() -> Value {
    serde_json::from_str(&read(&deploy("balancers/f5/as3.json"))).unwrap()
}

fn faults(declaration: &Value) -> Vec<String> {
    faults_of(declaration, "AS3", "", &Value::Null)
}

#[test]
fn the_declaration_has_only_what_as3_knows() {
    assert_eq!(faults(&declaration()), Vec::<String>::new());
}

#[test]
fn every_monitor_decides_by_both_of_our_tokens() {
    let application = &declaration()["declaration"]["gateway"]["public"];
    let monitors: Vec<&Value> = application.as_object().unwrap().values().filter(|object| object["class"] == "Monitor").collect();
    assert_eq!(monitors.len(), 2);
    for monitor in monitors {
        assert_eq!((&monitor["receive"], &monitor["receiveDown"]), (&json!("state=up"), &json!("state=drain")));
        // Latency is nobody's fault here: a slow and right answer must not evict the node.
        assert_eq!(monitor["adaptive"], false);
        // BIG-IP wants the escapes as text: two backslashes in JSON.
        assert!(monitor["send"].as_str().unwrap().ends_with(r"\r\n\r\n"));
    }
}

#[test]
fn a_fault_in_the_declaration_is_found() {
    let good = declaration();
    let public = "/declaration/gateway/public";
    for (place, key, value, said) in [
        ("gwready_80", "recieve", json!("state=up"), "gwready_80/recieve: not a property of Monitor"),
        ("gwready_80", "monitorType", json!("HTTP"), "gwready_80/monitorType: \"HTTP\""),
        ("gwready_80", "timeout", json!("7"), "gwready_80/timeout: \"7\""),
        ("gwready_80", "interval", json!(0), "gwready_80/interval: 0"),
        ("gwready_80", "reverse", json!(true), "gwready_80: reverse excludes receiveDown"),
        ("gwready_80", "class", json!("Monitor_HTTP"), "gwready_80: class Monitor_HTTP"),
        ("pool_80", "monitors", json!([{"use": "gwready_81"}]), "pool_80/monitors: {\"use\":\"gwready_81\"}"),
        ("pool_80", "monitors", json!([{"use": "pool_443"}]), "pool_80/monitors: {\"use\":\"pool_443\"}"),
        ("pool_80", "minimumMonitors", json!(1), "pool_80/minimumMonitors: 1"),
        ("pool_80", "members", json!([{"serverAddresses": ["10.0.0.11"]}]), "pool_80/members: no servicePort"),
        ("service_80", "pool", json!("pool_8080"), "service_80/pool: \"pool_8080\""),
        ("service_80", "virtualAddresses", json!(["web"]), "service_80/virtualAddresses: [\"web\"]"),
    ] {
        let mut broken = good.clone();
        broken["declaration"]["gateway"]["public"][place][key] = value;
        assert_eq!(faults(&broken).first(), Some(&format!("{public}/{said}")));
    }
}
