//! The form of a question.

use crate::action::Action;
use crate::fields::{defaults, entered, inputs};
use crate::form::{Pairs, value};
use crate::html::View;
use crate::text::{line, span};
use maud::{Markup, html};
use toolyard_dispatch::{Field, Form, Question, QuestionKind, Task};
use toolyard_protocol::visible;

/// A question with the form that answers it.
pub(super) fn form(view: &View<'_>, task: &Task, question: &Question) -> Markup {
    let key = question.wire_key();
    let left = question.deadline.0.saturating_sub(view.console.dispatch.now().0).max(0);
    let misfit = value(view.query, "misfit").filter(|_| value(view.query, "key") == Some(&*key));
    let id = task.id.to_string();
    if view.session.role < Action::Answer(&id).facts().role {
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
            (inputs(&form.fields, &format!("q-{}", task.open_questions().position(|open| open.wire_key() == key).unwrap_or_default()), &given(view, misfit.is_some(), &form.fields), &[]))
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

/// The entries before the answer was refused, or the defaults of the fields.
fn given(view: &View<'_>, is_again: bool, fields: &[Field]) -> Pairs {
    if is_again { view.query.clone() } else { entered(fields, &defaults(fields)) }
}
