//! Questions of guests to clients: forms are schemas, answers fit them, and URLs.

use crate::kit::{Recorder, engine, ok, only, run, settings, tool};
use serde_json::{Value, json};
use std::sync::Arc;
use toolyard_task::Catalog;
use toolyard_task::tool::Report;

/// The text that the guest got, and the number of questions to the client.
async fn heard(catalog: &Catalog, params: Value, answer: &str) -> (String, usize) {
    let recorder = Arc::new(Recorder { answer: Some(answer.to_owned()), ..Recorder::default() });
    let question = json!({ "key": "q", "method": "elicitation/create", "params": params });
    let arguments = json!({ "steps": [{ "ask": [question] }] }).to_string();
    let said = ok(&run(tool(catalog, "script"), &arguments, recorder.clone()).await);
    let asked = recorder.asked.lock().expect("free").len();
    (said, asked)
}

fn form() -> Value {
    json!({ "message": "How many?", "requestedSchema": {
        "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"],
    } })
}

#[tokio::test]
async fn e_3_an_answer_that_does_not_fit_the_form_is_refused_on_the_guests_behalf() {
    let catalog = only(&engine(&settings()), "script", "").await;
    let (said, _) = heard(&catalog, form(), r#"{"action":"accept","content":{"n":3}}"#).await;
    assert!(said.contains(r#""action":"accept""#), "{said}");
    let (said, asked) = heard(&catalog, form(), r#"{"action":"accept","content":{"n":"three"}}"#).await;
    assert!(said.contains("\"refused\":") && said.contains("-32602") && said.contains("at `/n`"), "{said}");
    assert_eq!(asked, 1);
}

#[tokio::test]
async fn e_6_a_guest_says_that_what_it_sent_the_user_to_do_is_done() {
    let catalog = only(&engine(&settings()), "script", "").await;
    for (key, heard) in [("q", true), ("", false), ("two words", false), (&*"k".repeat(129), false)] {
        let recorder = Arc::new(Recorder::default());
        let arguments = json!({ "steps": [{ "complete": key }] }).to_string();
        ok(&run(tool(&catalog, "script"), &arguments, recorder.clone()).await);
        let reports = recorder.reports.lock().expect("free").clone();
        let expected = Report::ElicitationComplete { key: key.to_owned() };
        assert_eq!(reports, if heard { vec![expected] } else { vec![] }, "{key}");
    }
}
