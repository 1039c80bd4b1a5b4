//! `prompts/list` and `prompts/get` (PR-1 to PR-4).

use crate::error::RpcError;
use crate::raw::RawJson;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A prompt, as `prompts/list` shows it (PR-2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PromptDescription {
    /// The name of the prompt.
    pub name: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The arguments of the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<PromptArgument>,
    /// A JSON array of icons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icons: Option<RawJson>,
    /// A JSON object.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<RawJson>,
}

/// An argument of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptArgument {
    /// The name of the argument.
    pub name: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The meaning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it is required.
    #[serde(default)]
    pub required: bool,
}

/// The params of `prompts/get`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GetParams {
    /// The prompt.
    pub name: String,
    /// The arguments, by name; all of them strings (PR-3).
    pub arguments: BTreeMap<String, String>,
}

impl GetParams {
    /// Decodes the params.
    ///
    /// # Errors
    /// `-32602` that says what is missing or of the wrong type.
    pub fn decode(params: Option<&RawJson>) -> Result<Self, RpcError> {
        #[derive(Deserialize)]
        struct Wire {
            name: String,
            #[serde(default)]
            arguments: Option<BTreeMap<String, String>>,
        }
        let raw = params.ok_or_else(|| RpcError::invalid_params("prompts/get needs params"))?;
        let wire: Wire = raw.decode().map_err(|error| {
            RpcError::invalid_params(format!("prompts/get: {error}; the values of arguments are strings"))
        })?;
        Ok(Self { name: wire.name, arguments: wire.arguments.unwrap_or_default() })
    }

    /// Checks the arguments against what the prompt declares (PR-4).
    ///
    /// # Errors
    /// `-32602` that names the argument which is missing or unknown.
    pub fn check(&self, prompt: &PromptDescription) -> Result<(), RpcError> {
        for argument in prompt.arguments.iter().filter(|argument| argument.required) {
            if !self.arguments.contains_key(&argument.name) {
                return Err(RpcError::invalid_params(format!(
                    "prompts/get: the prompt `{}` needs the argument `{}`",
                    prompt.name, argument.name
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(text: &str) -> Result<GetParams, RpcError> {
        GetParams::decode(Some(&RawJson::parse(text.to_owned()).expect("test JSON")))
    }

    #[test]
    fn pr_3_arguments_are_strings_by_name() {
        let params = decode(r#"{"name":"p","arguments":{"a":"1"}}"#).expect("fits");
        assert_eq!(params.arguments["a"], "1");
        assert!(decode(r#"{"name":"p"}"#).expect("none").arguments.is_empty());
        for wrong in
            r#"{} {"name":1} {"name":"p","arguments":{"a":1}} {"name":"p","arguments":[]}"#.split(' ')
        {
            assert_eq!(decode(wrong).expect_err(wrong).code, -32602);
        }
    }

    #[test]
    fn pr_4_a_missing_required_argument_is_named() {
        let prompt = r#"{"name":"p","arguments":[{"name":"must","required":true},{"name":"may"}]}"#;
        let prompt: PromptDescription = serde_json::from_str(prompt).expect("a prompt");
        let check = |name: &str| {
            decode(&format!(r#"{{"name":"p","arguments":{{"{name}":""}}}}"#)).expect("fits").check(&prompt)
        };
        let error = check("may").expect_err("incomplete");
        assert_eq!(error.code, -32602);
        assert!(error.message.contains("`must`"), "{error}");
        check("must").expect("complete");
    }
}
