//! Values of WIT types for the access rules: one form for each value, however the client wrote it.

use super::shape::{Case, Field, Shape};
use std::borrow::Cow;
use toolyard_task::ArgumentValue;
use wasmtime::component::Val;

/// The arguments of a function. `None` if a value does not match its type.
pub(crate) fn of_fields(fields: &[Field], values: &[Val]) -> Option<ArgumentValue<'static>> {
    let members = fields.iter().zip(values).map(|(field, value)| {
        let name = Cow::Owned(field.name.clone());
        Some((name, of(&field.shape, value)?))
    });
    Some(ArgumentValue::Object(members.collect::<Option<_>>()?))
}

fn of(shape: &Shape, value: &Val) -> Option<ArgumentValue<'static>> {
    Some(match (shape, value) {
        (_, Val::Bool(value)) => ArgumentValue::Bool(*value),
        (_, Val::S8(value)) => ArgumentValue::Exact(value.to_string()),
        (_, Val::U8(value)) => ArgumentValue::Exact(value.to_string()),
        (_, Val::S16(value)) => ArgumentValue::Exact(value.to_string()),
        (_, Val::U16(value)) => ArgumentValue::Exact(value.to_string()),
        (_, Val::S32(value)) => ArgumentValue::Exact(value.to_string()),
        (_, Val::U32(value)) => ArgumentValue::Exact(value.to_string()),
        (_, Val::S64(value)) => ArgumentValue::Exact(value.to_string()),
        (_, Val::U64(value)) => ArgumentValue::Exact(value.to_string()),
        (_, Val::Float32(value)) => float(f64::from(*value), value.to_string()),
        (_, Val::Float64(value)) => float(*value, value.to_string()),
        (_, Val::Char(value)) => text(&value.to_string()),
        (_, Val::String(value)) => text(value),
        (Shape::List(_), Val::List(items)) if shape.is_bytes() => {
            let bytes = items.iter().map(|item| if let Val::U8(byte) = item { Some(*byte) } else { None });
            ArgumentValue::Bytes(bytes.collect::<Option<_>>()?)
        }
        (Shape::List(item), Val::List(items)) => list(items.iter().map(|value| of(item, value)))?,
        (Shape::FixedList(item, _), Val::FixedLengthList(items)) => {
            list(items.iter().map(|value| of(item, value)))?
        }
        (Shape::Tuple(shapes), Val::Tuple(items)) => {
            list(shapes.iter().zip(items).map(|(shape, value)| of(shape, value)))?
        }
        (Shape::Map(entry), Val::Map(entries)) if entry.0 == Shape::String => {
            let members = entries.iter().map(|(key, value)| match key {
                Val::String(key) => Some((Cow::Owned(key.clone()), of(&entry.1, value)?)),
                _ => None,
            });
            ArgumentValue::Object(members.collect::<Option<_>>()?)
        }
        (Shape::Map(entry), Val::Map(entries)) => {
            list(entries.iter().map(|(key, value)| {
                Some(ArgumentValue::List(vec![of(&entry.0, key)?, of(&entry.1, value)?]))
            }))?
        }
        (Shape::Record(fields), Val::Record(values)) => {
            let members = fields.iter().zip(values).map(|(field, (_, value))| {
                let name = Cow::Owned(field.name.clone());
                Some((name, of(&field.shape, value)?))
            });
            ArgumentValue::Object(members.collect::<Option<_>>()?)
        }
        (Shape::Variant(cases), Val::Variant(name, payload)) => {
            case(cases.iter().find(|case| case.name == *name)?, payload.as_deref())?
        }
        (_, Val::Enum(name)) => text(name),
        (_, Val::Flags(names)) => ArgumentValue::List(names.iter().map(|name| text(name)).collect()),
        (Shape::Option(_), Val::Option(None)) => ArgumentValue::Null,
        (Shape::Option(some), Val::Option(Some(value))) if some.is_nullable() => {
            ArgumentValue::Object(vec![(Cow::Borrowed("some"), of(some, value)?)])
        }
        (Shape::Option(some), Val::Option(Some(value))) => of(some, value)?,
        (Shape::Result(cases), Val::Result(result)) => match result {
            Ok(value) => case(&cases[0], value.as_deref())?,
            Err(value) => case(&cases[1], value.as_deref())?,
        },
        _ => return None,
    })
}

fn text(text: &str) -> ArgumentValue<'static> {
    ArgumentValue::Text(Cow::Owned(text.to_owned()))
}

/// `shortest` is the shortest text that parses to the same value.
fn float(value: f64, shortest: String) -> ArgumentValue<'static> {
    if value.is_nan() {
        text("NaN")
    } else if value.is_infinite() {
        text(if value > 0.0 { "Infinity" } else { "-Infinity" })
    } else {
        ArgumentValue::Exact(shortest)
    }
}

fn list(items: impl Iterator<Item = Option<ArgumentValue<'static>>>) -> Option<ArgumentValue<'static>> {
    Some(ArgumentValue::List(items.collect::<Option<_>>()?))
}

fn case(case: &Case, payload: Option<&Val>) -> Option<ArgumentValue<'static>> {
    match (&case.payload, payload) {
        (None, None) => Some(text(&case.name)),
        (Some(shape), Some(value)) => {
            Some(ArgumentValue::Object(vec![(Cow::Owned(case.name.clone()), of(shape, value)?)]))
        }
        _ => None,
    }
}
