//! The form of a question.

use crate::action::{Action, FIELD};
use crate::html::View;
use crate::route::value;
use crate::text::{line, span};
use crate::user::Role;
use maud::{Markup, html};
use serde_json::Value;
use toolyard_dispatch::{Field, Form, Question, QuestionKind, Task};
use toolyard_protocol::visible;

/// A text field with more characters than this is a text area.
const LONG: u64 = 80;
/// Up to so many choices are radio buttons.
const FEW_CHOICES: usize = 5;

/// A question with the form that answers it.
pub(super) fn form(view: &View<'_>, task: &Task, question: &Question) -> Markup {
    let key = question.wire_key();
    let left = question.deadline.0.saturating_sub(view.console.dispatch.now().0).max(0);
    let misfit = value(view.query, "misfit").filter(|_| value(view.query, "key") == Some(&*key));
    let id = task.id.to_string();
    if view.session.role < Role::of_action(Action::Answer(&id)) {
        return view.hidden();
    }
    let fields = match (question.kind, Form::read(&question.params)) {
        (QuestionKind::Form | QuestionKind::Url, Ok(form)) => html! {
            p.muted { "The tool " (line(&task.tool)) " asks (" code { (line(&question.key)) } ", " (span(left)) " left):" }
            p.said { (visible::text(&form.message)) }
            @if let Some(url) = &form.url {
                p { "It sends you to this page. Open it only if you trust it: " code { (line(url)) } }
            }
            @if let Some(misfit) = misfit { p.bad role="alert" tabindex="-1" autofocus { "Not sent: " (line(misfit)) "." } }
            @for (number, field) in form.fields.iter().enumerate() {
                (input(field, &format!("{}-{number}", question.key), entered(view, misfit.is_some(), field)))
            }
            input type="hidden" name="key" value=(key);
            p.buttons {
                button name="do" value="decline" formnovalidate { "Decline" }
                " "
                button.primary name="do" value="accept" {
                    @if form.url.is_some() { "I have opened it" } @else { "Send the answer" }
                }
            }
        },
        _ => html! {
            p { "The tool waits for something that only its client can give (" code { (question.kind.method()) } ")." }
        },
    };
    html! { div.question { (view.form(Action::Answer(&id), fields)) } }
}

/// The values that were entered before the answer was refused, or the field's default.
fn entered(view: &View<'_>, is_again: bool, field: &Field) -> Vec<String> {
    if is_again {
        let name = format!("{FIELD}{}", field.name);
        return view
            .query
            .iter()
            .filter(|(known, _)| *known == name)
            .map(|(_, value)| value.clone())
            .collect();
    }
    match &field.default {
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(other) => vec![other.to_string()],
        None => Vec::new(),
    }
}

fn input(field: &Field, id: &str, entered: Vec<String>) -> Markup {
    let name = format!("{FIELD}{}", field.name);
    let first = entered.first().map(String::as_str);
    let hint = field.schema["description"].as_str().map(line);
    let hint_id = hint.as_ref().map(|_| format!("{id}-hint"));
    let required = field.required;
    let is_chosen = |choice: &str| entered.iter().any(|entered| entered == choice);
    let label = html! { (line(&field.title)) @if !required { span.muted { " (optional)" } } };
    let choices = match field.type_name() {
        Some("boolean") => Some(vec!["true".to_owned(), "false".to_owned()]),
        _ => field.choices(),
    };
    let is_many = field.type_name() == Some("array");
    html! {
        div.field {
            @match choices {
                Some(choices) if is_many || choices.len() <= FEW_CHOICES => {
                    fieldset aria-describedby=[hint_id.as_deref()] {
                        legend { (label) }
                        @for choice in &choices {
                            label.choice {
                                input type=(if is_many { "checkbox" } else { "radio" }) name=(name) value=(choice)
                                    checked[is_chosen(choice)] required[required && !is_many];
                                " " (shown(field, choice))
                            }
                        }
                        @if !required && !is_many {
                            label.choice { input type="radio" name=(name) value="" checked[first.is_none()]; " not set" }
                        }
                    }
                }
                Some(choices) => {
                    label for=(id) { (label) }
                    select id=(id) name=(name) required[required] aria-describedby=[hint_id.as_deref()] {
                        option value="" { "choose" }
                        @for choice in &choices { option value=(choice) selected[is_chosen(choice)] { (shown(field, choice)) } }
                    }
                }
                None => {
                    label for=(id) { (label) }
                    @if field.schema["maxLength"].as_u64().is_some_and(|most| most > LONG) {
                        textarea id=(id) name=(name) rows="4" required[required] aria-describedby=[hint_id.as_deref()] { (first.unwrap_or_default()) }
                    } @else {
                        input id=(id) name=(name) type=(kind(field)) step=[step(field)] value=[first] required[required]
                            aria-describedby=[hint_id.as_deref()];
                    }
                }
            }
            @if let Some(hint) = hint { p.muted id=[hint_id] { (hint) } }
        }
    }
}

/// A choice in words.
fn shown(field: &Field, choice: &str) -> String {
    if field.type_name() == Some("boolean") {
        return if choice == "true" { "yes" } else { "no" }.to_owned();
    }
    line(choice)
}

fn kind(field: &Field) -> &'static str {
    match (field.type_name(), field.schema["format"].as_str()) {
        (Some("integer" | "number"), _) => "number",
        (_, Some("email")) => "email",
        (_, Some("uri")) => "url",
        (_, Some("date")) => "date",
        _ => "text",
    }
}

/// A browser rejects fractions unless this is `any`.
fn step(field: &Field) -> Option<&'static str> {
    (field.type_name() == Some("number")).then_some("any")
}
