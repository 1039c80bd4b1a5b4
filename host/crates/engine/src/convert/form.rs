//! Forms that guests request (E-2, E-3). The schema is compiled before the client is asked, and the
//! guest receives the content of an accepted form only if it fits. Each question carries its check,
//! so that the host can repeat the question where the protocol allows it (26M-5, 26T-22).
//!
//! The dispatcher checks whether a schema has the flat shape that forms require. Here it is plain
//! JSON Schema.

use serde::Deserialize;
use serde_json::value::RawValue;
use std::sync::Arc;
use toolyard_schema::{Allowance, Bounds, Budget, Schema, Verdict};
use toolyard_task::AskError;
use toolyard_task::tool::{AnswerCheck, AskedQuestion, GivenAnswer};
use toolyard_task::wire::{RawJson, RpcError};

/// The maximum size of a form's schema, in bytes: a form must fit on a screen.
const MAX_SCHEMA_BYTES: usize = 64 << 10;
/// The maximum number of steps for the check of an answer: some milliseconds. A form is flat, so
/// this suffices for any answer that a person gives.
const MAX_ANSWER_STEPS: u64 = 200_000;

/// The form schemas among the questions of one `ask`, by key.
pub(crate) struct Forms(Vec<(String, Arc<Form>)>);

/// The schema that the content of an accepted form must match.
struct Form(Schema);

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(default)]
    mode: Option<String>,
    #[serde(borrow, default, rename = "requestedSchema")]
    schema: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Elicited<'a> {
    action: String,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

impl Forms {
    /// Compiles the schemas and attaches each check to its question.
    ///
    /// # Errors
    /// The key of the first faulty question and its fault.
    pub fn compile(questions: &mut [AskedQuestion], bounds: Bounds) -> Result<Self, String> {
        let bounds = Bounds { bytes: bounds.bytes.min(MAX_SCHEMA_BYTES), ..bounds };
        let mut allowance = Allowance::of_forms();
        let mut forms = Vec::new();
        for AskedQuestion { key, method, params, check } in questions {
            if method != "elicitation/create" {
                continue;
            }
            let params: Params<'_> =
                params.decode().map_err(|error| format!("the params of the question `{key}`: {error}"))?;
            if params.mode.is_some_and(|mode| mode != "form") {
                continue;
            }
            let Some(schema) = params.schema else {
                return Err(format!("the form of the question `{key}` has no `requestedSchema`"));
            };
            let schema = RawJson::trusted(schema.get().to_owned());
            let schema = Schema::compile(&schema, bounds, &mut allowance)
                .map_err(|what| format!("the `requestedSchema` of the question `{key}` {what}"))?;
            let form = Arc::new(Form(schema));
            *check = Some(form.clone());
            forms.push((key.clone(), form));
        }
        Ok(Self(forms))
    }

    /// Checks an answer. An answer that does not fit its form becomes a refusal.
    pub fn check(&self, mut answer: GivenAnswer) -> GivenAnswer {
        let form = self.0.iter().find(|(key, _)| *key == answer.key).map(|(_, form)| form);
        if let (Some(form), Ok(result)) = (form, &answer.outcome)
            && let Err(what) = form.check(result)
        {
            let message = format!("The content of the answer does not fit the form: {what}");
            answer.outcome = Err(AskError::Refused(RpcError::invalid_params(message)));
        }
        answer
    }
}

impl AnswerCheck for Form {
    fn check(&self, result: &RawJson) -> Result<(), String> {
        let elicited: Elicited<'_> = result.decode().map_err(|error| error.to_string())?;
        if elicited.action != "accept" {
            return Ok(());
        }
        // A client may omit the content of a form without fields.
        let content = elicited
            .content
            .map_or_else(RawJson::empty_object, |content| RawJson::trusted(content.get().to_owned()));
        match self.0.check(&content, &mut Budget::steps(MAX_ANSWER_STEPS)) {
            Ok(Verdict::Fits) => Ok(()),
            Ok(Verdict::Misfit(what)) => Err(what),
            Err(_) => Err("it is larger than any form".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    fn question(method: &str, params: &str) -> AskedQuestion {
        let params = RawJson::parse(params.to_owned()).expect("test JSON");
        AskedQuestion { key: "k".into(), method: method.into(), params, check: None }
    }

    fn compile(params: &str) -> Result<Forms, String> {
        Forms::compile(&mut [question("elicitation/create", params)], Settings::default().schema_bounds())
    }

    fn checked(forms: &Forms, result: &str) -> Result<RawJson, AskError> {
        let outcome = Ok(RawJson::parse(result.to_owned()).expect("test JSON"));
        forms.check(GivenAnswer { key: "k".into(), outcome }).outcome
    }

    const FORM: &str = r#"{"message":"m","requestedSchema":
        {"type":"object","properties":{"n":{"type":"integer","minimum":1}},"required":["n"]}}"#;

    #[test]
    fn e_3_the_content_of_an_accepted_form_fits_its_schema() {
        let forms = compile(FORM).expect("fine");
        for result in [
            r#"{"action":"accept","content":{"n":1}}"#,
            r#"{"action":"accept","content":{"n":1,"more":"x"}}"#,
            r#"{"action":"decline"}"#,
            r#"{"action":"cancel","content":null}"#,
        ] {
            assert!(checked(&forms, result).is_ok(), "{result}");
        }
        for (result, says) in [
            (r#"{"action":"accept","content":{"n":0}}"#, "at `/n`"),
            (r#"{"action":"accept","content":{"n":"1"}}"#, "at `/n`"),
            (r#"{"action":"accept","content":{}}"#, "\"n\" is a required property"),
            (r#"{"action":"accept","content":[]}"#, "object"),
            (r#"{"action":"accept"}"#, "required"),
            (r#"{}"#, "action"),
        ] {
            match checked(&forms, result) {
                Err(AskError::Refused(error)) => {
                    assert_eq!(error.code, -32602);
                    assert!(error.message.contains(says), "{error}");
                }
                other => panic!("{result}: {other:?}"),
            }
        }
        // 26X-9: a number may have a fraction.
        let much = FORM.replace("integer", "number");
        let result = r#"{"action":"accept","content":{"n":1.5}}"#;
        assert!(checked(&compile(&much).expect("fine"), result).is_ok());
        assert!(checked(&forms, result).is_err(), "an integer has none");
    }

    #[test]
    fn _26t_22_a_form_carries_the_check_of_its_answers_with_it() {
        let mut asked = [question("elicitation/create", FORM), question("roots/list", "{}")];
        Forms::compile(&mut asked, Settings::default().schema_bounds()).expect("fine");
        let check = asked[0].check.as_ref().expect("a form has one");
        let checked = |result: &str| check.check(&RawJson::parse(result.to_owned()).expect("test JSON"));
        assert_eq!(checked(r#"{"action":"accept","content":{"n":1}}"#), Ok(()));
        assert_eq!(checked(r#"{"action":"decline"}"#), Ok(()));
        let what = checked(r#"{"action":"accept","content":{"n":0}}"#).expect_err("below the minimum");
        assert!(what.contains("at `/n`"), "{what}");
        assert!(asked[1].check.is_none(), "only a form has a check");
    }

    #[test]
    fn e_2_a_schema_that_is_none_is_refused_before_anybody_is_asked() {
        let large = format!(
            r#"{{"requestedSchema":{{"type":"object","description":"{}"}}}}"#,
            "x".repeat(MAX_SCHEMA_BYTES)
        );
        for (params, says) in [
            (r#"{"message":"m"}"#, "no `requestedSchema`"),
            (r#"{"mode":"form","requestedSchema":{"type":"string"}}"#, "\"type\": \"object\""),
            (r#"{"requestedSchema":[]}"#, "not a JSON object"),
            (r#"{"requestedSchema":{"type":"object","properties":{"a":{"type":"text"}}}}"#, "not valid"),
            (r##"{"requestedSchema":{"type":"object","$ref":"#"}}"##, "circle"),
            (&large, "larger than 65536 bytes"),
        ] {
            let what = compile(params).err().unwrap_or_else(|| panic!("taken: {params}"));
            assert!(what.contains("`k`") && what.contains(says), "{what}");
        }
    }

    #[test]
    fn what_is_no_form_is_left_alone() {
        let bounds = Settings::default().schema_bounds();
        for question in [
            question("elicitation/create", r#"{"mode":"url","url":"https://x.example"}"#),
            question("sampling/createMessage", r#"{"requestedSchema":5}"#),
        ] {
            let mut asked = [question];
            let forms = Forms::compile(&mut asked, bounds).expect("no form");
            assert!(asked[0].check.is_none());
            assert!(checked(&forms, r#"{"action":"accept","content":7}"#).is_ok());
        }
        let failed = GivenAnswer { key: "k".into(), outcome: Err(AskError::TimedOut) };
        assert_eq!(compile(FORM).expect("fine").check(failed).outcome, Err(AskError::TimedOut));
    }
}
