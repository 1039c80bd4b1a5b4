//! The inputs of fields.

use super::{FieldFault, Kind, Shape, below, name_of, text_of};
use crate::form::{Pairs, values};
use crate::text::line;
use maud::{Markup, html};
use serde_json::Value;
use toolyard_dispatch::{Field, visible};

/// Up to so many choices are radio buttons.
const FEW_CHOICES: usize = 5;

/// The inputs of fields, with what was entered and what is wrong with it. `id` begins the ids of the inputs.
pub(crate) fn inputs(fields: &[Field], id: &str, entered: &Pairs, faults: &[FieldFault]) -> Markup {
    Inputs { entered, faults }.all(fields, id, "", 0)
}

/// The faults of a form together, with links to their fields. It takes the focus.
pub(crate) fn summary(fields: &[Field], id: &str, faults: &[FieldFault]) -> Markup {
    html! {
        @if !faults.is_empty() {
            div.error role="alert" tabindex="-1" autofocus {
                p { strong { "Not sent:" } }
                ul.tools {
                    @for fault in faults {
                        li {
                            @match id_of(fields, id, "", &fault.pointer, 0) {
                                Some(id) => a href={ "#" (id) } { (line(&fault.title)) },
                                None => (line(&fault.title)),
                            }
                            " " (line(&fault.text))
                        }
                    }
                }
            }
        }
    }
}

/// The id of the input that a pointer leads to, or of the nearest one above it.
fn id_of(fields: &[Field], id: &str, pointer: &str, wanted: &str, depth: usize) -> Option<String> {
    fields.iter().enumerate().find_map(|(number, field)| {
        let (id, pointer) = (format!("{id}-{number}"), below(pointer, &field.name));
        if !is_at_or_below(wanted, &pointer) {
            return None;
        }
        match Shape::of(field, depth).kind {
            Kind::Object(members) => id_of(&members, &id, &pointer, wanted, depth + 1).or(Some(id)),
            _ => Some(id),
        }
    })
}

fn is_at_or_below(pointer: &str, above: &str) -> bool {
    pointer.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

struct Inputs<'a> {
    entered: &'a Pairs,
    faults: &'a [FieldFault],
}

impl Inputs<'_> {
    fn all(&self, fields: &[Field], id: &str, pointer: &str, depth: usize) -> Markup {
        html! {
            @for (number, field) in fields.iter().enumerate() {
                (self.one(field, &format!("{id}-{number}"), &below(pointer, &field.name), depth))
            }
        }
    }

    fn one(&self, field: &Field, id: &str, pointer: &str, depth: usize) -> Markup {
        let shape = Shape::of(field, depth);
        let name = name_of(pointer);
        let entered: Vec<&str> = values(self.entered, &name).collect();
        let first = entered.first().copied().filter(|text| !text.is_empty());
        let is_about = |fault: &&FieldFault| match shape.kind {
            Kind::Object(_) => fault.pointer == pointer,
            _ => is_at_or_below(&fault.pointer, pointer),
        };
        let faults: Vec<&FieldFault> = self.faults.iter().filter(is_about).collect();
        let hint = shape.schema["description"].as_str().map(line);
        let hint_id = hint.as_ref().map(|_| format!("{id}-hint"));
        let fault_id = (!faults.is_empty()).then(|| format!("{id}-fault"));
        let described: Vec<&str> = [&fault_id, &hint_id].into_iter().filter_map(|id| id.as_deref()).collect();
        let described = (!described.is_empty()).then(|| described.join(" "));
        let invalid = (!faults.is_empty()).then_some("true");
        let required = field.required;
        let label = html! { (line(&field.title)) @if !required { span.muted { " (optional)" } } };
        let is_chosen = |choice: &str| entered.contains(&choice);
        let listed =
            |choices: &[Value]| choices.iter().map(text_of).map(|value| (line(&value), value)).collect();
        // A choice among a few, or of several: each a word and its value.
        let group = |kind: &str, choices: Vec<(String, String)>| {
            html! {
                fieldset id=(id) aria-describedby=[&described] {
                    legend { (label) }
                    @for (word, value) in choices {
                        label.choice {
                            input type=(kind) name=(name) value=(value) checked[is_chosen(&value)] required[required && kind == "radio"];
                            " " (word)
                        }
                    }
                    @if kind == "radio" && !required {
                        label.choice { input type="radio" name=(name) value="" checked[first.is_none()]; " not set" }
                    }
                }
            }
        };
        let input = match &shape.kind {
            Kind::Object(members) => html! {
                fieldset id=(id) aria-describedby=[&described] {
                    legend { (label) }
                    (self.all(members, id, pointer, depth + 1))
                }
            },
            Kind::Many(choices) => group("checkbox", listed(choices)),
            Kind::Boolean => {
                let words = [("yes", "true"), ("no", "false")];
                group("radio", words.map(|(word, value)| (word.to_owned(), value.to_owned())).to_vec())
            }
            Kind::One(choices) if choices.len() <= FEW_CHOICES => group("radio", listed(choices)),
            Kind::One(choices) => html! {
                label for=(id) { (label) }
                select id=(id) name=(name) required[required] aria-describedby=[&described] aria-invalid=[invalid] {
                    option value="" { @if required { "choose" } @else { "not set" } }
                    @for choice in choices.iter().map(text_of) {
                        option value=(choice) selected[is_chosen(&choice)] { (line(&choice)) }
                    }
                }
            },
            Kind::Text { is_long: true } | Kind::Lines { .. } | Kind::Json => {
                let is_code = matches!(shape.kind, Kind::Json);
                html! {
                    label for=(id) {
                        (label)
                        @match shape.kind {
                            Kind::Lines { .. } => span.muted { " one a line" },
                            Kind::Json => span.muted { " as JSON" },
                            _ => {},
                        }
                    }
                    textarea.code[is_code] id=(id) name=(name) rows="4" required[required] spellcheck=[is_code.then_some("false")]
                        aria-describedby=[&described] aria-invalid=[invalid] { "\n" (first.unwrap_or_default()) }
                }
            }
            kind => html! {
                label for=(id) { (label) }
                input id=(id) name=(name) type=(type_of(kind, &shape.schema)) step=[matches!(kind, Kind::Number).then_some("any")]
                    placeholder=[(shape.schema["format"] == "date-time").then_some("2026-11-27T09:00:00Z")]
                    value=[first] required[required] aria-describedby=[&described] aria-invalid=[invalid];
            },
        };
        html! {
            div.field {
                (input)
                @if let Some(fault_id) = &fault_id {
                    p.bad id=(fault_id) { @for fault in &faults { (line(&fault.text)) ". " } }
                }
                @if let Some(hint) = &hint { p.muted id=[&hint_id] { (hint) } }
                @if matches!(shape.kind, Kind::Json) { (schema(&shape.schema)) }
            }
        }
    }
}

fn type_of(kind: &Kind, schema: &Value) -> &'static str {
    match (kind, schema["format"].as_str()) {
        (Kind::Integer | Kind::Number, _) => "number",
        (_, Some("email")) => "email",
        (_, Some("uri")) => "url",
        (_, Some("date")) => "date",
        _ => "text",
    }
}

/// The schema of a field that is entered as JSON.
pub(crate) fn schema(schema: &Value) -> Markup {
    let text = serde_json::to_string_pretty(schema).unwrap_or_default();
    let end = text.floor_char_boundary(16 << 10);
    html! { details.raw { summary { "Its schema" } pre.text { (visible::text(&text[..end])) } } }
}
