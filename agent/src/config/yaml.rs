//! YAML text to an untyped tree. The only place that knows the YAML crate.

use serde_json::Value;

/// Reads one document. Empty text is `null`. Duplicate keys are refused; `yes`, `on` and the like are text, as in YAML 1.2.
///
/// # Errors
/// One sentence with line and column where the crate knows them.
pub(super) fn parse_yaml(text: &str) -> Result<Value, String> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        with_snippet: false,
    };
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Value::Null);
    }
    serde_saphyr::from_str_with_options(text, options).map_err(|error| format!("not valid YAML: {}", error.to_string().replace('\n', " ")))
}

/// Writes a value as YAML.
///
/// # Errors
/// The crate's sentence.
pub(super) fn render_yaml(value: &impl serde::Serialize) -> Result<String, String> {
    serde_saphyr::to_string(value).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_text_is_null() {
        for text in ["", "\n\n", "# only a remark\n", "---\n"] {
            assert_eq!(parse_yaml(text), Ok(Value::Null), "{text:?}");
        }
    }

    #[test]
    fn a_duplicate_key_is_refused_and_named() {
        let sentence = parse_yaml("ebpf: true\nebpf: false\n").expect_err("duplicate");
        assert!(sentence.contains("ebpf") && sentence.contains('2'), "{sentence}");
    }

    #[test]
    fn words_that_look_like_booleans_or_octal_stay_text() {
        assert_eq!(parse_yaml("a: no\nb: 0755\nc: true\nd: [80, 443]"), Ok(json!({"a": "no", "b": "0755", "c": true, "d": [80, 443]})));
    }

    #[test]
    fn broken_text_is_one_line_with_a_position() {
        let sentence = parse_yaml("health: {listen: \"[::]:9680\"\nadmin: x").expect_err("broken");
        assert!(!sentence.contains('\n') && sentence.contains("line"), "{sentence}");
    }
}
