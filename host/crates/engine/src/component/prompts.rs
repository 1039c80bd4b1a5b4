//! Converts the result of `list-prompts` into prompts that can be listed (PR-2). An offer from the
//! cache passes the same checks.

use crate::bindings::exports::toolyard::plugin::prompts as wit;
use crate::component::describe::{self, MAX_DESCRIPTION_BYTES, MAX_TITLE_BYTES, text};
use crate::error::Refusal;
use std::collections::HashSet;
use toolyard_task::wire::visible::clip;
use toolyard_task::wire::{PromptArgument, PromptDescription, is_tool_name};

/// The maximum number of prompts in one component.
const MAX_PROMPTS: usize = 256;
/// The maximum number of arguments of one prompt.
const MAX_ARGUMENTS: usize = 64;
/// The maximum length of an argument's name, in bytes.
const MAX_ARGUMENT_BYTES: usize = 256;

/// Converts the prompts that the guest listed.
pub(crate) fn describe(listed: Vec<wit::Prompt>) -> Result<Vec<PromptDescription>, Refusal> {
    if listed.len() > MAX_PROMPTS {
        return Err(Refusal::TooManyPrompts(listed.len()));
    }
    let describe = |prompt: wit::Prompt| {
        let name = prompt.name.clone();
        if !is_tool_name(&name) {
            return Err(Refusal::PromptName(clip(&name, 140)));
        }
        describe_one(prompt).map_err(|what| Refusal::Prompt { prompt: name, what })
    };
    listed.into_iter().map(describe).collect()
}

fn describe_one(prompt: wit::Prompt) -> Result<PromptDescription, String> {
    let wit::Prompt { name, title, description, arguments, icons, meta } = prompt;
    if arguments.len() > MAX_ARGUMENTS {
        return Err(format!("it has {} arguments; {MAX_ARGUMENTS} are the most", arguments.len()));
    }
    let mut names = HashSet::new();
    let mut taken = Vec::with_capacity(arguments.len());
    for wit::Argument { name, title, description, required } in arguments {
        if !(1..=MAX_ARGUMENT_BYTES).contains(&name.len()) || name.chars().any(char::is_control) {
            return Err(format!(
                "the name of an argument is not made of 1 to {MAX_ARGUMENT_BYTES} bytes without control characters"
            ));
        }
        if !names.insert(name.clone()) {
            return Err(format!("two of its arguments are called `{name}`"));
        }
        taken.push(PromptArgument {
            title: text("argument's title", title, MAX_TITLE_BYTES)?,
            description: text("argument's description", description, MAX_DESCRIPTION_BYTES)?,
            name,
            required,
        });
    }
    Ok(PromptDescription {
        title: text("title", title, MAX_TITLE_BYTES)?,
        description: text("description", description, MAX_DESCRIPTION_BYTES)?,
        arguments: taken,
        icons: describe::icons(icons)?,
        meta: describe::meta(meta)?,
        name,
    })
}

/// Checks the prompts as a set.
pub(crate) fn declare(described: Vec<PromptDescription>) -> Result<Vec<PromptDescription>, Refusal> {
    let mut names = HashSet::new();
    for description in &described {
        if !names.insert(&description.name) {
            return Err(Refusal::DuplicatePrompt(description.name.clone()));
        }
    }
    Ok(described)
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolyard_task::wire::RawJson;

    fn argument(name: &str) -> wit::Argument {
        wit::Argument { name: name.into(), title: None, description: None, required: true }
    }

    fn prompt(name: &str) -> wit::Prompt {
        wit::Prompt {
            name: name.into(),
            title: None,
            description: None,
            arguments: vec![argument("a")],
            icons: "[]".into(),
            meta: None,
        }
    }

    fn declared(prompts: Vec<wit::Prompt>) -> Result<Vec<PromptDescription>, Refusal> {
        declare(describe(prompts)?)
    }

    #[test]
    fn pr_2_a_prompt_is_taken_over_without_what_is_empty() {
        let taken =
            declared(vec![prompt("p"), wit::Prompt { arguments: vec![], ..prompt("q") }]).expect("fine");
        assert_eq!(
            RawJson::of(&taken[0]).as_str(),
            r#"{"name":"p","arguments":[{"name":"a","required":true}]}"#
        );
        assert_eq!(RawJson::of(&taken[1]).as_str(), r#"{"name":"q"}"#);
    }

    #[test]
    fn pr_2_malformed_prompts_are_refused_by_name() {
        for (wrong, says) in [
            (vec![prompt("")], "the prompt name \"\""),
            (vec![prompt("a b")], "the prompt name \"a b\""),
            (vec![prompt("p"), prompt("p")], "two prompts are called `p`"),
            ((0..257).map(|n| prompt(&n.to_string())).collect(), "257 prompts"),
            (vec![wit::Prompt { icons: "{}".into(), ..prompt("p") }], "`p`: its icons is not a JSON array"),
            (vec![wit::Prompt { meta: Some("[".into()), ..prompt("p") }], "`p`: its meta is not valid JSON"),
            (vec![wit::Prompt { title: Some("x".repeat(2000)), ..prompt("p") }], "`p`: its title is longer"),
            (
                vec![wit::Prompt { arguments: vec![argument("x"), argument("x")], ..prompt("p") }],
                "`p`: two of its arguments are called `x`",
            ),
            (vec![wit::Prompt { arguments: vec![argument("")], ..prompt("p") }], "1 to 256 bytes"),
            (vec![wit::Prompt { arguments: vec![argument("x"); 65], ..prompt("p") }], "65 arguments"),
        ] {
            let refusal = declared(wrong).expect_err(says).to_string();
            assert!(refusal.contains(says), "{refusal}");
        }
    }
}
