//! The JSON of what was entered, and back.

use super::{FieldFault, Kind, Shape, below, name_of, text_of};
use crate::form::{Pairs, value, values};
use serde_json::{Map, Value};
use toolyard_dispatch::Field;

/// How strict a form is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// An answer: a required text may be empty.
    Answer,
    /// Arguments of a call: a required field must be entered.
    Arguments,
}

/// The object of what was entered, and what is wrong with it. An optional field that was not entered is left out. A
/// text that is no value of its type stays a text, so that a check names it.
pub(crate) fn read(
    fields: &[Field],
    form: &Pairs,
    reading: Reading,
) -> (Map<String, Value>, Vec<FieldFault>) {
    let mut reader = Reader { form, reading, faults: Vec::new() };
    let value = reader.object(fields, "", 0);
    (value, reader.faults)
}

struct Reader<'a> {
    form: &'a Pairs,
    reading: Reading,
    faults: Vec<FieldFault>,
}

impl Reader<'_> {
    fn object(&mut self, fields: &[Field], pointer: &str, depth: usize) -> Map<String, Value> {
        let mut object = Map::new();
        for field in fields {
            let pointer = below(pointer, &field.name);
            let shape = Shape::of(field, depth);
            let value = match self.value(field, &shape, &pointer, depth) {
                None if field.required && shape.is_nullable => Some(Value::Null),
                None if field.required && self.reading == Reading::Arguments => {
                    self.fault(field, &pointer, "is required".to_owned());
                    None
                }
                value => value,
            };
            object.extend(value.map(|value| (field.name.clone(), value)));
        }
        object
    }

    fn fault(&mut self, field: &Field, pointer: &str, text: String) {
        self.faults.push(FieldFault { pointer: pointer.to_owned(), title: field.title.clone(), text });
    }

    /// The value of a field; `None` if nothing was entered.
    fn value(&mut self, field: &Field, shape: &Shape, pointer: &str, depth: usize) -> Option<Value> {
        let name = name_of(pointer);
        let first = value(self.form, &name).unwrap_or_default();
        let typed = Some(first.trim()).filter(|text| !text.is_empty());
        match &shape.kind {
            Kind::Boolean => match first {
                "true" => Some(Value::Bool(true)),
                "false" => Some(Value::Bool(false)),
                _ => None,
            },
            Kind::Integer | Kind::Number => typed.map(|text| self.number(field, pointer, text)),
            Kind::Text { .. } => {
                let may_be_empty = field.required && self.reading == Reading::Answer;
                // Browsers end the lines of text areas by two characters.
                (!first.is_empty() || may_be_empty).then(|| first.replace("\r\n", "\n").into())
            }
            Kind::One(choices) => (!first.is_empty()).then(|| self.choice(field, pointer, choices, first)),
            Kind::Many(choices) => {
                let given: Vec<&str> = values(self.form, &name).filter(|text| !text.is_empty()).collect();
                let chosen: Vec<Value> =
                    given.into_iter().map(|text| self.choice(field, pointer, choices, text)).collect();
                (!chosen.is_empty() || field.required).then_some(Value::Array(chosen))
            }
            Kind::Lines { are_texts } => {
                let lines = first.lines().map(str::trim_end).filter(|line| !line.is_empty());
                let item = |line: &str| match are_texts {
                    true => line.into(),
                    false => self.number(field, pointer, line.trim()),
                };
                let items: Vec<Value> = lines.map(item).collect();
                (!items.is_empty() || field.required).then_some(Value::Array(items))
            }
            Kind::Object(members) => {
                let before = self.faults.len();
                let object = self.object(members, pointer, depth + 1);
                if object.is_empty() && !field.required {
                    // It was left out as a whole, with its required members.
                    self.faults.truncate(before);
                    return None;
                }
                Some(Value::Object(object))
            }
            Kind::Json => typed.map(|text| {
                serde_json::from_str(text).unwrap_or_else(|error| {
                    self.fault(field, pointer, format!("is not valid JSON: {error}"));
                    text.into()
                })
            }),
        }
    }

    fn number(&mut self, field: &Field, pointer: &str, text: &str) -> Value {
        match serde_json::from_str::<serde_json::Number>(text) {
            Ok(number) => Value::Number(number),
            Err(_) => {
                self.fault(field, pointer, "must be a number".to_owned());
                text.into()
            }
        }
    }

    fn choice(&mut self, field: &Field, pointer: &str, choices: &[Value], text: &str) -> Value {
        match choices.iter().find(|choice| text_of(choice) == text) {
            Some(choice) => choice.clone(),
            None => {
                self.fault(field, pointer, "must be one of the choices".to_owned());
                text.into()
            }
        }
    }
}

/// The defaults of fields.
pub(crate) fn defaults(fields: &[Field]) -> Map<String, Value> {
    fields.iter().filter_map(|field| Some((field.name.clone(), field.default.clone()?))).collect()
}

/// The entries that give these values.
pub(crate) fn entered(fields: &[Field], values: &Map<String, Value>) -> Pairs {
    let mut pairs = Vec::new();
    enter(fields, values, "", 0, &mut pairs);
    pairs
}

fn enter(fields: &[Field], values: &Map<String, Value>, pointer: &str, depth: usize, pairs: &mut Pairs) {
    for field in fields {
        let Some(value) = values.get(&field.name) else { continue };
        let pointer = below(pointer, &field.name);
        let shape = Shape::of(field, depth);
        let mut push = |text: String| pairs.push((name_of(&pointer), text));
        match (&shape.kind, value) {
            (_, Value::Null) if shape.is_nullable => {}
            (Kind::Object(members), Value::Object(values)) => {
                enter(members, values, &pointer, depth + 1, pairs)
            }
            (Kind::Many(_), Value::Array(items)) => items.iter().map(text_of).for_each(push),
            (Kind::Lines { .. }, Value::Array(items)) => {
                push(items.iter().map(text_of).collect::<Vec<_>>().join("\n"));
            }
            (Kind::Json, value) => push(serde_json::to_string_pretty(value).unwrap_or_default()),
            (_, value) => push(text_of(value)),
        }
    }
}
