//! Writes cases: `toolyard call --record` records them, and `toolyard test --update` updates them.

use crate::answers::{Given, written_answer};
use crate::case::{Case, MAX_BYTES};
use crate::compare::{Outcome, text_of};
use crate::run_call::Ending;
use crate::toml_json::toml;
use serde_json::{Map, Value, json};

/// A call that becomes a case.
pub struct Recorded<'a> {
    /// The tool.
    pub tool: &'a str,
    /// Whether it ran as a task.
    pub task: bool,
    /// The arguments.
    pub arguments: &'a Map<String, Value>,
    /// The keys of the questions and their answers, in the order of asking.
    pub answers: &'a [(String, Given)],
    /// The entries for its HTTP requests.
    pub http: Vec<toml::Value>,
    /// How it ended.
    pub outcome: &'a Outcome,
}

/// The text of a case that passes if the call ends the same way again.
///
/// # Errors
/// If no expectation can describe the outcome.
pub fn write(recorded: &Recorded<'_>) -> Result<String, String> {
    let expect = expected(recorded.outcome, false)?;
    let mut out = line("tool", recorded.tool.into());
    if recorded.task {
        out.push_str(&line("task", true.into()));
    }
    let arguments = Value::Object(recorded.arguments.clone());
    match toml(&arguments) {
        _ if recorded.arguments.is_empty() => {}
        Some(arguments) => out.push_str(&section("arguments", arguments)),
        None => out.push_str(&line("arguments-json", arguments.to_string().into())),
    }
    for (key, given) in recorded.answers {
        match toml(&written_answer(given)) {
            Some(answer) => out.push_str(&section("answers", toml_table(key, answer))),
            None => return Err(format!("the answer to `{key}` has a null in it, which TOML cannot say")),
        }
    }
    if !recorded.http.is_empty() {
        out.push_str(&section("http", recorded.http.clone().into()));
    }
    out.push_str(&section("expect", expect));
    if out.len() as u64 > MAX_BYTES {
        return Err(format!(
            "a case is at most {} MiB, and this one has {} bytes",
            MAX_BYTES >> 20,
            out.len()
        ));
    }
    // The written text must parse as the same value.
    Case::of_text(&out).map_err(|error| format!("the file would not be valid: {error}"))?;
    Ok(out)
}

/// The text of a case file with its expectations replaced by the actual outcome. The rest, including
/// comments, stays the same if possible.
///
/// # Errors
/// If no expectation can describe the outcome.
pub fn update(text: &str, outcome: &Outcome) -> Result<String, String> {
    let case = Case::of_text(text)?;
    let expect = section("expect", expected(outcome, case.expect.progress.is_some())?);
    let kept = without_expect(text);
    let updated = format!("{}\n{expect}", kept.trim_end());
    let mut wanted = case;
    wanted.expect = Case::of_text(&format!("tool = ''\n{expect}"))?.expect;
    if Case::of_text(&updated).is_ok_and(|case| case == wanted) {
        return Ok(updated);
    }
    // The file's form does not allow removing the expectations by lines.
    let mut table: toml::Table = text.parse().map_err(|error| format!("{error}"))?;
    table.remove("expect");
    let rest = toml::to_string_pretty(&table).map_err(|error| error.to_string())?;
    Ok(format!("{}\n{expect}", rest.trim_end()))
}

/// The lines outside all `expect` tables.
fn without_expect(text: &str) -> String {
    let mut within = false;
    let mut kept = String::new();
    for line in text.lines() {
        let trimmed = line.trim_start();
        if trimmed.starts_with('[') {
            let name = trimmed.trim_start_matches('[').trim_start();
            let rest = name.strip_prefix("expect").map(str::trim_start);
            within = rest.is_some_and(|rest| rest.starts_with([']', '.']));
        }
        if !within {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// The expectations that this outcome meets.
fn expected(outcome: &Outcome, with_progress: bool) -> Result<toml::Value, String> {
    let mut expect = toml::Table::new();
    match &outcome.ending {
        Ending::Stopped => return Err("the call was stopped before it ended".to_owned()),
        Ending::Error(error) => {
            let error = json!({"code": error.code, "message-contains": error.message});
            expect.extend(toml(&error).map(|error| ("error".to_owned(), error)));
        }
        Ending::Result(result) => {
            let result: Value =
                result.decode().map_err(|error| format!("cannot read the result: {error}"))?;
            if result["isError"] == true {
                expect.insert("is-error".to_owned(), true.into());
            }
            match result.get("structuredContent") {
                Some(structured) => match toml(structured) {
                    Some(value) => drop(expect.insert("structured".to_owned(), value)),
                    None => drop(expect.insert("structured-json".to_owned(), structured.to_string().into())),
                },
                None => drop(expect.insert("text".to_owned(), text_of(&result).into())),
            }
        }
    }
    if with_progress {
        let progress = i64::try_from(outcome.progress).unwrap_or(i64::MAX);
        expect.insert("progress".to_owned(), progress.into());
    }
    Ok(expect.into())
}

fn line(key: &str, value: toml::Value) -> String {
    toml::to_string_pretty(&toml_table(key, value)).unwrap_or_default()
}

fn section(name: &str, value: toml::Value) -> String {
    format!("\n{}", line(name, value))
}

fn toml_table(key: &str, value: toml::Value) -> toml::Value {
    toml::Value::Table(toml::Table::from_iter([(key.to_owned(), value)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Expect;
    use crate::compare::compare;
    use toolyard_dispatch::{RawJson, RpcError};

    fn outcome(result: Value) -> Outcome {
        Outcome { ending: Ending::Result(RawJson::of(&result)), progress: 4 }
    }

    fn text(text: &str) -> Outcome {
        outcome(json!({"content": [{"type": "text", "text": text}]}))
    }

    fn written(arguments: Value, outcome: &Outcome) -> Case {
        let given =
            crate::answers::read_answer("who", json!({"action": "accept", "content": {"name": "Ada"}}))
                .expect("an answer");
        let answers = [("who".to_owned(), given)];
        let arguments = arguments.as_object().expect("an object").clone();
        let recorded = Recorded {
            tool: "hello",
            task: true,
            arguments: &arguments,
            answers: &answers,
            http: Vec::new(),
            outcome,
        };
        let text = write(&recorded).expect("it can be written");
        Case::of_text(&text).unwrap_or_else(|error| panic!("{text}\n{error}"))
    }

    #[test]
    fn what_is_recorded_passes() {
        let nested = json!({"a": {"b": [{"c": 1}]}, "s": "x\n\"'''\u{1}", "z": [1, "two"]});
        for outcome in [
            text("Hello"),
            text("two\nlines\n"),
            text("'''\n\"\"\"\\"),
            outcome(json!({"content": [], "structuredContent": {"n": null}})),
            outcome(json!({"content": [], "structuredContent": nested, "isError": true})),
            Outcome { ending: Ending::Error(RpcError::new(-5, "no \"luck\"")), progress: 0 },
        ] {
            for arguments in [json!({}), json!({"n": null}), nested.clone()] {
                let case = written(arguments.clone(), &outcome);
                assert_eq!(compare(&case.expect, &outcome), [], "{outcome:?}");
                assert_eq!(Value::from(case.arguments), arguments);
                assert!(case.task && case.answers.iter().count() == 1);
            }
        }
        let (outcome, nothing) = (&Outcome { ending: Ending::Stopped, progress: 0 }, &Map::new());
        let (http, tool) = (Vec::new(), "a");
        let stopped = Recorded { tool, task: false, arguments: nothing, answers: &[], http, outcome };
        assert!(write(&stopped).is_err());
    }

    #[test]
    fn an_update_changes_the_expectations_only() {
        let before = "# why\ntool = \"hello\" # which\n\n[expect] # what\ntext = \"old\"\nprogress = 1\n\n\
                      [arguments]\n# the name\nname = \"[expect]\"\n";
        let after = update(before, &text("new")).expect("updated");
        assert!(
            after.contains("# why") && after.contains("# which") && after.contains("# the name"),
            "{after}"
        );
        let case = Case::of_text(&after).expect("a case");
        assert_eq!((case.expect.text.as_deref(), case.expect.progress), (Some("new"), Some(4)));
        assert_eq!(case.arguments["name"], "[expect]");
        assert!(!after.contains("old"));
    }

    #[test]
    fn an_update_finds_expectations_however_they_are_written() {
        for before in [
            "tool = 'hello'\nexpect = { text = 'old' }\n[arguments]\na = 1",
            "tool = 'hello'\nexpect.text = 'old'\n[arguments]\na = 1",
            "tool = 'hello'\n[arguments]\na = 1\n[expect.error]\ncode = 1",
            "tool = 'hello'\n[expect]\ntext = 'old'\n[[http]]\nrequest = 'GET http://a/'\nstatus = 200\n[arguments]\na = 1",
            "tool = 'hello'\n[arguments]\na = 1\nb = '''\n[expect]\n'''\n[ expect ]\ntext = 'old'",
        ] {
            let after = update(before, &text("new")).expect("updated");
            let (case, was) =
                (Case::of_text(&after).expect("a case"), Case::of_text(before).expect("a case"));
            assert_eq!(case.expect, Expect { text: Some("new".into()), ..Expect::default() }, "{after}");
            assert_eq!((case.arguments, case.http), (was.arguments, was.http), "{after}");
        }
    }
}
