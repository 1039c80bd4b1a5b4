//! The settings of a manifest beside its grants, for people who compare two manifests.

use toml::{Table, Value};

/// The sections whose settings are listed: limits, and what a tool says of itself and who approves its calls.
const SECTIONS: [&str; 2] = ["limits", "tools"];

/// The settings of these sections, one line each, sorted: `tools.deploy.confirm = "ask"`. None for text that is no
/// manifest.
pub(crate) fn setting_lines(manifest: &str) -> Vec<String> {
    let Ok(manifest) = manifest.parse::<Table>() else { return Vec::new() };
    let mut lines = Vec::new();
    for section in SECTIONS {
        if let Some(value) = manifest.get(section) {
            add(section, value, &mut lines);
        }
    }
    lines.sort_unstable();
    lines
}

fn add(key: &str, value: &Value, lines: &mut Vec<String>) {
    match value {
        Value::Table(table) => {
            table.iter().for_each(|(name, value)| add(&format!("{key}.{name}"), value, lines))
        }
        value => lines.push(format!("{key} = {value}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_words_and_approvals_are_lines_and_grants_are_not() {
        let manifest = r#"
            prefix = "x"
            [limits]
            memory = "64MiB"
            [http]
            allow = ["a.example"]
            [tools.deploy]
            confirm = "ask"
            annotations = { readOnlyHint = true }
        "#;
        let expected = [
            "limits.memory = \"64MiB\"",
            "tools.deploy.annotations.readOnlyHint = true",
            "tools.deploy.confirm = \"ask\"",
        ];
        assert_eq!(setting_lines(manifest), expected);
    }
}
