//! `docs/configuration.md`, made from the table of keys.

use std::fmt::Write;

use super::keys::{KEYS, variable};

const HEAD: &str = "\
# Configuration

<!-- Generated from agent/src/config/keys.rs by `gwready docs configuration`; a test compares. Do not edit. -->

gwready reads one YAML file, named by `--config FILE` or the variable `GWREADY_CONFIG`. Without a file every key has its
default. Unknown keys are refused. All faults are reported at once; `gwready check-config FILE` shows them, or the
effective configuration. Exit code 78 means a fault.

Stronger than the file are environment variables, and stronger than those `--set path.to.key=value`, which may be repeated.
Their values are YAML too, or plain text where they are no YAML: `--set ports=[80,443]`, `--set health.listen=[::]:9680`, `GWREADY_POLICY_REQUIRE='{TproxyPath: required}'`. A variable that begins
with `GWREADY_` and has no key is a fault, save those that the kubelet adds for Services. `null` stands for the default.

Durations are whole numbers with a unit: `250ms`, `2s`, `1m30s`, `3d4h`.

```yaml
";

/// The whole page.
#[must_use]
pub fn render() -> String {
    let mut out = HEAD.to_owned();
    let mut section = "";
    for key in KEYS {
        let (parent, name) = key.path.rsplit_once('.').unwrap_or(("", key.path));
        if parent != section && !parent.is_empty() {
            let _ = writeln!(out, "{parent}:");
        }
        section = parent;
        let _ = writeln!(out, "{}{name}: {}", if parent.is_empty() { "" } else { "  " }, key.default);
    }
    out.push_str("```\n\n| key | values | default | variable |\n|---|---|---|---|\n");
    for key in KEYS {
        let _ = writeln!(
            out,
            "| [`{0}`](#{1}) | {2} | `{3}` | `{4}` |",
            key.path,
            anchor(key.path),
            key.values,
            key.default,
            variable(key.path)
        );
    }
    for key in KEYS {
        let _ = write!(out, "\n## {}\n\n{}\n\nValues: {}. Default: `{}`.\n", key.path, key.doc, key.values, key.default);
    }
    out
}

/// The anchor that renderers make of a heading: lower case, dots dropped.
fn anchor(path: &str) -> String {
    path.replace('.', "")
}
