//! The configuration as given: which keys were written, with what value, and by whom. Unknown keys are refused here;
//! values are not looked at yet.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::faults::{Faults, Origin};
use super::keys::{self, KEYS, Key, Kind};

/// What the operator wrote, key by key. A later source replaces a key of an earlier one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Given {
    values: BTreeMap<&'static str, (Value, Origin)>,
}

impl Given {
    /// Takes over a whole document. `null` stands for "not given".
    pub fn take_tree(&mut self, tree: &Value, origin: &Origin, faults: &mut Faults) {
        match tree {
            Value::Null => {}
            Value::Object(entries) => self.take_section("", entries, origin, faults),
            _ => faults.add(origin.clone(), "", "must be a mapping of keys to values at the top"),
        }
    }

    fn take_section(&mut self, section: &str, entries: &Map<String, Value>, origin: &Origin, faults: &mut Faults) {
        for (name, value) in entries {
            let path = if section.is_empty() { name.clone() } else { format!("{section}.{name}") };
            if let Some(key) = keys::find(&path) {
                self.take_value(key, value.clone(), origin);
                continue;
            }
            match value {
                _ if !keys::is_section(&path) => faults.add(origin.clone(), path.clone(), unknown_key(&path)),
                Value::Null => {}
                Value::Object(inner) => self.take_section(&path, inner, origin, faults),
                _ => faults.add(origin.clone(), path, "must be a mapping, as it holds further keys"),
            }
        }
    }

    /// Sets one dotted path, as overrides do: a key, an entry of a map key, or a whole section.
    pub fn take_path(&mut self, path: &str, value: Value, origin: &Origin, faults: &mut Faults) {
        if let Some(key) = keys::find(path) {
            return self.take_value(key, value, origin);
        }
        if let Some((key, entry)) = KEYS.iter().find_map(|key| map_entry(key, path)) {
            let mut entries = match self.values.get(key.path) {
                Some((Value::Object(entries), _)) => entries.clone(),
                _ => Map::new(),
            };
            entries.insert(entry.to_owned(), value);
            self.values.insert(key.path, (Value::Object(entries), origin.clone()));
            return;
        }
        match value {
            Value::Object(entries) if keys::is_section(path) => self.take_section(path, &entries, origin, faults),
            _ if keys::is_section(path) => faults.add(origin.clone(), path, "must be a mapping, as it holds further keys"),
            _ => faults.add(origin.clone(), path, unknown_key(path)),
        }
    }

    fn take_value(&mut self, key: &Key, value: Value, origin: &Origin) {
        let path = key.path;
        if value.is_null() {
            self.values.remove(path);
        } else {
            self.values.insert(path, (value, origin.clone()));
        }
    }

    /// The value of a key and who gave it; none = not given.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<(&Value, &Origin)> {
        self.values.get(path).map(|(value, origin)| (value, origin))
    }

    /// Who gave a key.
    #[must_use]
    pub fn origin(&self, path: &str) -> Origin {
        self.values.get(path).map(|(_, origin)| origin.clone()).unwrap_or_default()
    }
}

fn map_entry<'a>(key: &'static Key, path: &'a str) -> Option<(&'static Key, &'a str)> {
    let entry = path.strip_prefix(key.path)?.strip_prefix('.')?;
    (key.kind == Kind::Map && !entry.is_empty()).then_some((key, entry))
}

fn unknown_key(path: &str) -> String {
    match keys::nearest(path, KEYS.iter().map(|key| key.path)) {
        Some(near) => format!("there is no such key; did you mean {near}?"),
        None => "there is no such key; docs/configuration.md lists all".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn take(tree: Value) -> (Given, Faults) {
        let (mut given, mut faults) = (Given::default(), Faults::default());
        given.take_tree(&tree, &Origin::File("f".to_owned()), &mut faults);
        (given, faults)
    }

    #[test]
    fn every_unknown_key_is_refused_with_its_path() {
        let (_, faults) = take(json!({"health": {"lisen": "x", "detail": true}, "zebra": 1, "timing": 5, "admin": null}));
        let text = faults.to_string();
        assert!(text.contains("f: health.lisen: there is no such key; did you mean health.listen?"), "{text}");
        assert!(text.contains("f: zebra: there is no such key"), "{text}");
        assert!(text.contains("f: timing: must be a mapping"), "{text}");
        assert_eq!(faults.iter().count(), 3);
    }

    #[test]
    fn null_means_not_given() {
        let (given, faults) = take(json!({"ports": null, "health": {"listen": null}}));
        assert!(faults.is_empty());
        assert_eq!(given, Given::default());
    }

    #[test]
    fn one_entry_of_a_map_key_can_be_set() {
        let (mut given, mut faults) = take(json!({"policy": {"require": {"Responding": "advisory"}}}));
        given.take_path("policy.require.TproxyPath", json!("required"), &Origin::Set, &mut faults);
        assert_eq!(given.get("policy.require").expect("given").0, &json!({"Responding": "advisory", "TproxyPath": "required"}));
        given.take_path("policy.wrong.TproxyPath", json!("required"), &Origin::Set, &mut faults);
        assert_eq!(faults.iter().count(), 1);
    }

    #[test]
    fn a_list_at_the_top_is_refused() {
        assert_eq!(take(json!([1])).1.to_string(), "f: must be a mapping of keys to values at the top");
    }
}
