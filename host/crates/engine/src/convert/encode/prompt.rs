//! Encodes rendered prompts (PR-3) and completions of their arguments (CO-2).

use super::{Bounded, write_content};
use crate::bindings::exports::toolyard::plugin::completion::Completions;
use crate::bindings::exports::toolyard::plugin::prompts::{Message, PromptResult, Role};
use crate::limits::failure::Failure;
use toolyard_task::provider::ProviderAnswer;
use toolyard_task::wire::{MAX_VALUES, RawJson};

/// Encodes a `GetPromptResult`.
pub(crate) fn made(result: PromptResult, limit: u64) -> Result<ProviderAnswer, Failure> {
    let PromptResult { description, messages } = result;
    let mut out = Bounded::new(0, limit);
    out.raw("{")?;
    if let Some(description) = description {
        out.raw("\"description\":")?;
        out.string(&description)?;
        out.raw(",")?;
    }
    out.raw("\"messages\":[")?;
    for (index, Message { role, content }) in messages.into_iter().enumerate() {
        if index > 0 {
            out.raw(",")?;
        }
        out.raw(match role {
            Role::User => "{\"role\":\"user\",\"content\":",
            Role::Assistant => "{\"role\":\"assistant\",\"content\":",
        })?;
        write_content(&mut out, content)?;
        out.raw("}")?;
    }
    out.raw("]}")?;
    Ok(ProviderAnswer::Prompt(RawJson::trusted(out.bytes)))
}

/// Encodes a `CompleteResult`. Values beyond the hundred that MCP allows are dropped, and `hasMore`
/// is set.
pub(crate) fn completed(given: Completions, limit: u64) -> Result<ProviderAnswer, Failure> {
    let Completions { values, total, has_more } = given;
    let mut out = Bounded::new(0, limit);
    out.raw("{\"completion\":{\"values\":[")?;
    for (index, value) in values.iter().take(MAX_VALUES).enumerate() {
        if index > 0 {
            out.raw(",")?;
        }
        out.string(value)?;
    }
    out.raw("]")?;
    if let Some(total) = total {
        out.raw(&format!(",\"total\":{total}"))?;
    }
    let has_more = has_more || values.len() > MAX_VALUES;
    out.raw(if has_more { ",\"hasMore\":true}}" } else { ",\"hasMore\":false}}" })?;
    Ok(ProviderAnswer::Completion(RawJson::trusted(out.bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bindings::toolyard::plugin::types::Content;
    use crate::convert::encode;

    const LIMIT: u64 = 1 << 10;

    #[test]
    fn pr_3_messages_have_a_role_and_content() {
        let message = |role, text: &str| Message { role, content: encode::text(text.to_owned()) };
        let result = PromptResult {
            description: Some("d".into()),
            messages: vec![message(Role::User, "hi"), message(Role::Assistant, "\n")],
        };
        match made(result, LIMIT).expect("fine") {
            ProviderAnswer::Prompt(json) => assert_eq!(
                json.as_str(),
                r#"{"description":"d","messages":[{"role":"user","content":{"type":"text","text":"hi"}},{"role":"assistant","content":{"type":"text","text":"\n"}}]}"#
            ),
            other => panic!("{other:?}"),
        }
        let none = PromptResult { description: None, messages: vec![] };
        assert_eq!(made(none, LIMIT), Ok(ProviderAnswer::Prompt(RawJson::trusted("{\"messages\":[]}"))));
        let malformed = Message { role: Role::User, content: Content::EmbeddedResource("{}".into()) };
        let result = PromptResult { description: None, messages: vec![malformed] };
        assert!(matches!(made(result, LIMIT), Err(Failure::Malformed(_))), "as for tools");
        let large =
            PromptResult { description: None, messages: vec![message(Role::User, &"x".repeat(2000))] };
        assert_eq!(made(large, LIMIT), Err(Failure::Output));
    }

    #[test]
    fn co_2_at_most_a_hundred_values() {
        let completed = |number: usize, total, has_more| {
            let values = (0..number).map(|n| n.to_string()).collect();
            match completed(Completions { values, total, has_more }, LIMIT).expect("fine") {
                ProviderAnswer::Completion(json) => json.decode::<serde_json::Value>().expect("JSON"),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(
            completed(1, Some(7), true),
            serde_json::json!({"completion":{"values":["0"],"total":7,"hasMore":true}})
        );
        assert_eq!(
            completed(0, None, false),
            serde_json::json!({"completion":{"values":[],"hasMore":false}})
        );
        let cut = completed(101, None, false);
        assert_eq!(cut["completion"]["values"].as_array().map(Vec::len), Some(100));
        assert_eq!(cut["completion"]["hasMore"], true);
    }
}
