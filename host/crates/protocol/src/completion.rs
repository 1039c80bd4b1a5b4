//! `completion/complete` (CO-1 to CO-3).

use crate::error::RpcError;
use crate::raw::RawJson;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The maximum number of values in one answer (CO-2).
pub const MAX_VALUES: usize = 100;

/// The object whose argument is completed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "type")]
pub enum Reference {
    /// An argument of a prompt.
    #[serde(rename = "ref/prompt")]
    Prompt {
        /// The prompt.
        name: String,
    },
    /// A variable of a resource template.
    #[serde(rename = "ref/resource")]
    Template {
        /// The URI template.
        uri: String,
    },
}

/// The params of `completion/complete`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompleteParams {
    /// The object whose argument is completed.
    pub reference: Reference,
    /// The name of the argument or variable.
    pub name: String,
    /// The text so far.
    pub value: String,
    /// The arguments that are settled already: an object of strings.
    pub settled: BTreeMap<String, String>,
}

impl CompleteParams {
    /// Decodes the params.
    ///
    /// # Errors
    /// `-32602` that says what is missing or of the wrong type.
    pub fn decode(params: Option<&RawJson>) -> Result<Self, RpcError> {
        #[derive(Deserialize)]
        struct Wire {
            #[serde(rename = "ref")]
            reference: Reference,
            argument: Argument,
            #[serde(default)]
            context: Option<Context>,
        }
        #[derive(Deserialize)]
        struct Argument {
            name: String,
            value: String,
        }
        #[derive(Deserialize)]
        struct Context {
            #[serde(default)]
            arguments: BTreeMap<String, String>,
        }
        let wrong =
            |error: serde_json::Error| RpcError::invalid_params(format!("completion/complete: {error}"));
        let params = params.ok_or_else(|| RpcError::invalid_params("completion/complete needs params"))?;
        // An internally tagged enum would be decoded through a buffered value.
        let value: serde_json::Value = params.decode().map_err(wrong)?;
        let wire: Wire = serde_json::from_value(value).map_err(wrong)?;
        Ok(Self {
            reference: wire.reference,
            name: wire.argument.name,
            value: wire.argument.value,
            settled: wire.context.map(|context| context.arguments).unwrap_or_default(),
        })
    }
}

/// Whether a URI template (RFC 6570) has a variable of this name.
#[must_use]
pub fn has_variable(template: &str, name: &str) -> bool {
    let expressions = template.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
    expressions.into_iter().any(|(expression, _)| {
        let variables = expression.trim_start_matches(['+', '#', '.', '/', ';', '?', '&']);
        let bare = |variable: &str| variable.split([':', '*']).next().unwrap_or_default() == name;
        variables.split(',').any(bare)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn co_2_a_reference_is_to_a_prompt_or_to_a_template() {
        let decode = |text: &'static str| CompleteParams::decode(Some(&RawJson::trusted(text)));
        let params = decode(
            r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"x"},
                "context":{"arguments":{"b":"c"}}}"#,
        )
        .expect("fits");
        assert_eq!(params.reference, Reference::Prompt { name: "p".into() });
        assert_eq!((params.name.as_str(), params.value.as_str()), ("a", "x"));
        assert_eq!(params.settled["b"], "c");
        let template =
            decode(r#"{"ref":{"type":"ref/resource","uri":"t://{id}"},"argument":{"name":"id","value":""}}"#);
        assert_eq!(template.expect("fits").reference, Reference::Template { uri: "t://{id}".into() });
        let malformed = r#"{} {"ref":{"type":"ref/tool","name":"p"},"argument":{"name":"a","value":"x"}}
                        {"ref":{"type":"ref/prompt"},"argument":{"name":"a","value":"x"}}
                        {"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a"}}"#;
        for wrong in malformed.split_whitespace() {
            assert_eq!(decode(wrong).expect_err(wrong).code, -32602, "CO-3");
        }
    }

    #[test]
    fn r_3_the_variables_of_a_template_are_those_of_rfc_6570() {
        for (template, has) in [("notes:///{name}", true), ("t://name", false), ("t://{name", false)] {
            assert_eq!(has_variable(template, "name"), has, "{template}");
        }
        for (name, has) in [("a", true), ("b", true), ("c", true), ("d", false)] {
            assert_eq!(has_variable("t://{a,b*}/{?c:3}", name), has, "{name}");
        }
    }
}
