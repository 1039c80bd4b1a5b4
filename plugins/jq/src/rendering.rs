//! The result of a run, for people and for programs.

use contract::{ToolResult, result};

use crate::run::{End, Outcome, Output};

/// Makes the result. The first block holds nothing but outputs, one a line;
/// what there is to say about them is a block of its own.
pub fn render(outcome: &Outcome, raw: bool) -> ToolResult {
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

    let mut content = Vec::new();
    if count > 0 {
        content.push(result::block(lines.join("\n")));
    }
    content.extend(remark.map(result::block));
    ToolResult {
        content,
        structured_content: Some(structured(outcome)),
        is_error: matches!(outcome.end, End::Failed(_) | End::Stopped),
        meta: None,
    }
}

fn line(output: &Output, raw: bool) -> &str {
    match &output.string {
        Some(string) if raw => string,
        _ => &output.json,
    }
}

/// Put together from texts that are JSON already, so that no number loses digits
/// on the way through another type.
fn structured(outcome: &Outcome) -> String {
    let outputs: Vec<&str> = outcome.outputs.iter().map(|output| output.json.as_str()).collect();
    let truncated = matches!(outcome.end, End::OverLimit | End::OverBytes | End::Stopped);
    let error = match &outcome.end {
        End::Failed(error) => format!(",\"error\":{}", serde_json::Value::from(error.as_str())),
        End::Stopped => ",\"error\":\"stopped\"".to_owned(),
        End::Complete | End::OverLimit | End::OverBytes => String::new(),
    };
    format!("{{\"outputs\":[{}],\"truncated\":{truncated}{error}}}", outputs.join(","))
}

#[cfg(test)]
mod tests {
    use contract::Content;
    use serde_json::{Value, json};

    use super::*;

    fn outcome(end: End) -> Outcome {
        let text = Output { json: "\"a\\nb\"".to_owned(), string: Some("a\nb".to_owned()) };
        Outcome { outputs: vec![text, Output { json: "12345678901234567890".to_owned(), string: None }], end }
    }

    fn texts(result: &ToolResult) -> Vec<&str> {
        let mut texts = Vec::new();
        for content in &result.content {
            match content {
                Content::Text(block) => texts.push(block.text.as_str()),
                _ => panic!("only text"),
            }
        }
        texts
    }

    fn value(result: &ToolResult) -> Value {
        let json = result.structured_content.as_deref().expect("there is structured content");
        serde_json::from_str(json).expect("it is JSON")
    }

    #[test]
    fn outputs_are_lines_and_values() {
        let result = render(&outcome(End::Complete), false);
        assert_eq!(texts(&result), ["\"a\\nb\"\n12345678901234567890"]);
        assert_eq!(
            value(&result),
            json!({"outputs": ["a\nb", 12345678901234567890_u64], "truncated": false})
        );
        assert!(!result.is_error);
    }

    #[test]
    fn raw_changes_the_text_only() {
        let result = render(&outcome(End::Complete), true);
        assert_eq!(texts(&result), ["a\nb\n12345678901234567890"]);
        assert_eq!(value(&result)["outputs"][0], "a\nb");
    }

    #[test]
    fn no_output_is_said() {
        let result = render(&Outcome { outputs: Vec::new(), end: End::Complete }, false);
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
            let result = render(&outcome(end), false);
            assert_eq!(texts(&result).len(), 2);
            assert_eq!(result.is_error, is_error);
            assert_eq!(value(&result)["truncated"], truncated);
            assert_eq!(value(&result)["error"], error);
        }
    }
}
