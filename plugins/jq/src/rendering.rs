//! The result of a run, as text and as structured content.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;
use toolyard_plugin::ToolResult;

use crate::run::{End, Outcome, Output};

/// The structured result.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Outputs {
    /// The outputs, in order.
    outputs: Vec<Box<RawValue>>,
    /// Whether a limit cut off further outputs.
    truncated: bool,
    /// The reason why the program failed after these outputs; absent if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Makes the result. The first block contains only outputs, one per line. Notes about them are a block of
/// their own.
pub fn render(outcome: Outcome, raw: bool) -> serde_json::Result<ToolResult<Outputs>> {
    let lines: Vec<&str> = outcome.outputs.iter().map(|output| line(output, raw)).collect();
    let count = outcome.outputs.len();
    let remark = match &outcome.end {
        End::Complete if count == 0 => Some("The program gave no output.".to_owned()),
        End::Complete => None,
        End::OverLimit => {
            Some(format!("Stopped after {count} outputs; there are more. `limit` sets how many."))
        }
        End::OverBytes => {
            Some(format!("Stopped after {count} outputs; the next would make the result too long."))
        }
        End::Failed(error) => Some(format!("The program failed after {count} outputs: {error}")),
        End::Stopped => Some(format!("Stopped from outside after {count} outputs.")),
    };

    let mut result = ToolResult::new();
    if count > 0 {
        result = result.text(lines.join("\n"));
    }
    if let Some(remark) = remark {
        result = result.text(remark);
    }
    if matches!(outcome.end, End::Failed(_) | End::Stopped) {
        result = result.failed();
    }
    Ok(result.structured(structured(outcome)?))
}

fn line(output: &Output, raw: bool) -> &str {
    match &output.string {
        Some(string) if raw => string,
        _ => &output.json,
    }
}

fn structured(outcome: Outcome) -> serde_json::Result<Outputs> {
    let truncated = matches!(outcome.end, End::OverLimit | End::OverBytes | End::Stopped);
    let error = match outcome.end {
        End::Failed(error) => Some(error),
        End::Stopped => Some("stopped".to_owned()),
        End::Complete | End::OverLimit | End::OverBytes => None,
    };
    // They stay text, so that no number loses digits in a conversion.
    let outputs = outcome.outputs.into_iter().map(|output| RawValue::from_string(output.json));
    Ok(Outputs { outputs: outputs.collect::<serde_json::Result<_>>()?, truncated, error })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolyard_plugin::{Content, IntoResult, raw};

    use super::*;

    fn outcome(end: End) -> Outcome {
        let text = Output { json: "\"a\\nb\"".to_owned(), string: Some("a\nb".to_owned()) };
        Outcome { outputs: vec![text, Output { json: "12345678901234567890".to_owned(), string: None }], end }
    }

    fn rendered(outcome: Outcome, raw: bool) -> raw::ToolResult {
        render(outcome, raw).expect("JSON").into_result().expect("it can be written")
    }

    fn texts(result: &raw::ToolResult) -> Vec<&str> {
        let mut texts = Vec::new();
        for content in &result.content {
            match content {
                Content::Text(block) => texts.push(block.text.as_str()),
                _ => panic!("only text"),
            }
        }
        texts
    }

    fn value(result: &raw::ToolResult) -> Value {
        let json = result.structured_content.as_deref().expect("there is structured content");
        serde_json::from_str(json).expect("it is JSON")
    }

    #[test]
    fn outputs_are_lines_and_values() {
        let result = rendered(outcome(End::Complete), false);
        assert_eq!(texts(&result), ["\"a\\nb\"\n12345678901234567890"]);
        assert_eq!(
            value(&result),
            json!({"outputs": ["a\nb", 12345678901234567890_u64], "truncated": false})
        );
        assert!(!result.is_error);
    }

    #[test]
    fn raw_changes_the_text_only_and_no_output_is_said() {
        let result = rendered(outcome(End::Complete), true);
        assert_eq!(texts(&result), ["a\nb\n12345678901234567890"]);
        assert_eq!(value(&result)["outputs"][0], "a\nb");
        let result = rendered(Outcome { outputs: Vec::new(), end: End::Complete }, false);
        assert_eq!(texts(&result), ["The program gave no output."]);
        assert_eq!(value(&result), json!({"outputs": [], "truncated": false}));
    }

    #[test]
    fn cuts_and_failures_are_said_apart_from_the_outputs() {
        let cases = [
            (End::OverLimit, false, true, Value::Null),
            (End::OverBytes, false, true, Value::Null),
            (End::Failed("bad \"x\"".to_owned()), true, false, json!("bad \"x\"")),
            (End::Stopped, true, true, json!("stopped")),
        ];
        for (end, is_error, truncated, error) in cases {
            let result = rendered(outcome(end), false);
            assert_eq!(texts(&result).len(), 2);
            assert_eq!(result.is_error, is_error);
            assert_eq!(value(&result)["truncated"], truncated);
            assert_eq!(value(&result)["error"], error);
        }
    }
}
