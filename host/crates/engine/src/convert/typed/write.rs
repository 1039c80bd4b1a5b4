//! Writes values of WIT types as JSON text.

use super::MAX_EXACT;
use super::shape::{Case, Shape};
use crate::convert::encode::Bounded;
use crate::limits::failure::Failure;
use wasmtime::component::Val;

/// The JSON form of a value, of at most `limit` bytes.
///
/// # Errors
/// [`Failure::Output`] if it is longer.
pub(crate) fn json(shape: &Shape, value: &Val, limit: u64) -> Result<String, Failure> {
    let mut out = Bounded::new(64, limit);
    write(&mut out, shape, value)?;
    // Only complete strings were written.
    String::from_utf8(out.into_bytes()).map_err(|_| mismatch())
}

/// The engine returned a value of another type than the function declares.
pub(crate) fn mismatch() -> Failure {
    Failure::Malformed("its result is not of its type".to_owned())
}

fn write(out: &mut Bounded, shape: &Shape, value: &Val) -> Result<(), Failure> {
    match (shape, value) {
        (Shape::Bool, Val::Bool(value)) => out.raw(if *value { "true" } else { "false" }),
        (Shape::Integer(_), Val::S8(value)) => integer(out, (*value).into()),
        (Shape::Integer(_), Val::U8(value)) => integer(out, (*value).into()),
        (Shape::Integer(_), Val::S16(value)) => integer(out, (*value).into()),
        (Shape::Integer(_), Val::U16(value)) => integer(out, (*value).into()),
        (Shape::Integer(_), Val::S32(value)) => integer(out, (*value).into()),
        (Shape::Integer(_), Val::U32(value)) => integer(out, (*value).into()),
        (Shape::Integer(_), Val::S64(value)) => integer(out, (*value).into()),
        (Shape::Integer(_), Val::U64(value)) => integer(out, (*value).into()),
        (Shape::F32, Val::Float32(value)) => float(out, f64::from(*value), &format!("{value:?}")),
        (Shape::F64, Val::Float64(value)) => float(out, *value, &format!("{value:?}")),
        (Shape::Char, Val::Char(value)) => out.string(value.encode_utf8(&mut [0; 4])),
        (Shape::String, Val::String(value)) => out.string(value),
        (Shape::List(_), Val::List(items)) if shape.is_bytes() => bytes(out, items),
        (Shape::List(item), Val::List(items)) => array(out, items, |_| Ok(item)),
        (Shape::FixedList(item, _), Val::FixedLengthList(items)) => array(out, items, |_| Ok(item)),
        (Shape::Tuple(shapes), Val::Tuple(items)) => {
            array(out, items, |index| shapes.get(index).ok_or_else(mismatch))
        }
        (Shape::Map(entry), Val::Map(entries)) if entry.0 == Shape::String => {
            // If a key occurs twice, the last value counts, as WIT requires.
            let last: std::collections::BTreeMap<&str, &Val> = entries
                .iter()
                .map(|(key, value)| match key {
                    Val::String(key) => Ok((key.as_str(), value)),
                    _ => Err(mismatch()),
                })
                .collect::<Result<_, _>>()?;
            members(out, last.into_iter().map(|(key, value)| (key, &entry.1, value)))
        }
        (Shape::Map(entry), Val::Map(entries)) => {
            out.raw("[")?;
            for (index, (key, value)) in entries.iter().enumerate() {
                out.raw(if index > 0 { ",[" } else { "[" })?;
                write(out, &entry.0, key)?;
                out.raw(",")?;
                write(out, &entry.1, value)?;
                out.raw("]")?;
            }
            out.raw("]")
        }
        (Shape::Record(fields), Val::Record(values)) if fields.len() == values.len() => {
            let given = fields.iter().zip(values);
            // A `none` option is omitted.
            let given = given.filter(|(_, (_, value))| !matches!(value, Val::Option(None)));
            members(out, given.map(|(field, (_, value))| (field.name.as_str(), &field.shape, value)))
        }
        (Shape::Variant(cases), Val::Variant(name, payload)) => {
            let case = cases.iter().find(|case| case.name == *name).ok_or_else(mismatch)?;
            variant(out, case, payload.as_deref())
        }
        (Shape::Enum(_), Val::Enum(name)) => out.string(name),
        (Shape::Flags(_), Val::Flags(names)) => {
            out.raw("[")?;
            for (index, name) in names.iter().enumerate() {
                out.raw(if index > 0 { "," } else { "" })?;
                out.string(name)?;
            }
            out.raw("]")
        }
        (Shape::Option(_), Val::Option(None)) => out.raw("null"),
        (Shape::Option(some), Val::Option(Some(value))) if some.is_nullable() => {
            members(out, [("some", &**some, &**value)])
        }
        (Shape::Option(some), Val::Option(Some(value))) => write(out, some, value),
        (Shape::Result(cases), Val::Result(result)) => match result {
            Ok(value) => variant(out, &cases[0], value.as_deref()),
            Err(value) => variant(out, &cases[1], value.as_deref()),
        },
        _ => Err(mismatch()),
    }
}

fn integer(out: &mut Bounded, value: i128) -> Result<(), Failure> {
    // Digits need no escaping.
    if value.unsigned_abs() > u128::from(MAX_EXACT) {
        out.raw(&format!("\"{value}\""))
    } else {
        out.raw(&value.to_string())
    }
}

/// `shortest` is the shortest text that parses to the same value.
fn float(out: &mut Bounded, value: f64, shortest: &str) -> Result<(), Failure> {
    if value.is_nan() {
        out.raw("\"NaN\"")
    } else if value.is_infinite() {
        out.raw(if value > 0.0 { "\"Infinity\"" } else { "\"-Infinity\"" })
    } else {
        out.raw(shortest)
    }
}

fn bytes(out: &mut Bounded, items: &[Val]) -> Result<(), Failure> {
    let bytes = items.iter().map(|item| if let Val::U8(byte) = item { Ok(*byte) } else { Err(mismatch()) });
    let bytes: Vec<u8> = bytes.collect::<Result<_, _>>()?;
    out.raw("\"")?;
    out.base64(&bytes)?;
    out.raw("\"")
}

fn array<'a>(
    out: &mut Bounded,
    items: &[Val],
    shape: impl Fn(usize) -> Result<&'a Shape, Failure>,
) -> Result<(), Failure> {
    out.raw("[")?;
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.raw(",")?;
        }
        write(out, shape(index)?, item)?;
    }
    out.raw("]")
}

fn members<'a>(
    out: &mut Bounded,
    members: impl IntoIterator<Item = (&'a str, &'a Shape, &'a Val)>,
) -> Result<(), Failure> {
    out.raw("{")?;
    for (index, (name, shape, value)) in members.into_iter().enumerate() {
        if index > 0 {
            out.raw(",")?;
        }
        out.string(name)?;
        out.raw(":")?;
        write(out, shape, value)?;
    }
    out.raw("}")
}

fn variant(out: &mut Bounded, case: &Case, payload: Option<&Val>) -> Result<(), Failure> {
    match (&case.payload, payload) {
        (None, None) => out.string(&case.name),
        (Some(shape), Some(value)) => members(out, [(case.name.as_str(), shape, value)]),
        _ => Err(mismatch()),
    }
}
