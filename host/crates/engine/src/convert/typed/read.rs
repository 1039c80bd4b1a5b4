//! Reads JSON into values of WIT types, in one pass over the text.
//!
//! The arguments have already been checked against the schema. This code rejects only what the
//! schema cannot express, and duplicate names.

use super::shape::{Case, Field, Integer, Shape};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize as _;
use serde::de::{
    DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde_json::value::RawValue;
use std::cell::RefCell;
use std::fmt;
use wasmtime::component::Val;

/// Reads a JSON object with these members. The values are in the order of the fields.
///
/// # Errors
/// The value that does not fit, and its path.
pub(crate) fn fields(fields: &[Field], json: &str) -> Result<Vec<Val>, String> {
    let place = ValuePath::default();
    let mut reader = serde_json::Deserializer::from_str(json);
    let read = reader.deserialize_map(FieldsVisitor { fields, place: &place });
    read.map_err(|error| place.tell(&error))
}

/// The current position within the value, for error messages.
#[derive(Default)]
struct ValuePath<'a> {
    steps: RefCell<Vec<Step<'a>>>,
    why: RefCell<Option<String>>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Name(&'a str),
    Index(usize),
}

impl<'a> ValuePath<'a> {
    /// Reads a part of the value. If the read fails, the step stays on the path.
    fn within<T, E>(&self, step: Step<'a>, read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.steps.borrow_mut().push(step);
        let read = read()?;
        self.steps.borrow_mut().pop();
        Ok(read)
    }

    fn fail<E: Error>(&self, why: String) -> E {
        let error = E::custom(&why);
        self.why.borrow_mut().get_or_insert(why);
        error
    }

    fn tell(&self, error: &serde_json::Error) -> String {
        use fmt::Write as _;
        let mut out = String::from("at `");
        let steps = self.steps.borrow();
        for step in steps.iter() {
            // Writing to a `String` cannot fail.
            let _ = match step {
                Step::Name(name) => write!(out, "/{name}"),
                Step::Index(index) => write!(out, "/{index}"),
            };
        }
        if steps.is_empty() {
            out.push('/');
        }
        let why = self.why.borrow();
        let _ = write!(out, "`: {}", why.as_deref().unwrap_or(&error.to_string()));
        out
    }
}

/// Reads a value of a shape.
#[derive(Clone, Copy)]
struct Seed<'a> {
    shape: &'a Shape,
    place: &'a ValuePath<'a>,
}

impl<'a> Seed<'a> {
    fn of(self, shape: &'a Shape) -> Self {
        Self { shape, ..self }
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Val;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Val, D::Error> {
        // The text of a number tells more than its value.
        let read = match self.shape {
            Shape::Integer(integer) => integer_of(*integer, <&RawValue>::deserialize(reader)?.get()),
            Shape::F32 => float_of(<&RawValue>::deserialize(reader)?.get(), f32::INFINITY).map(Val::Float32),
            Shape::F64 => float_of(<&RawValue>::deserialize(reader)?.get(), f64::INFINITY).map(Val::Float64),
            Shape::Option(_) => return reader.deserialize_option(self),
            _ => return reader.deserialize_any(self),
        };
        read.map_err(|why| self.place.fail(why))
    }
}

/// Visits a value of the seed's shape.
impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Val;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.shape {
            Shape::Bool => "a boolean",
            Shape::Integer(_) | Shape::F32 | Shape::F64 => "a number",
            Shape::Char | Shape::String | Shape::Enum(_) => "a string",
            Shape::List(_) if self.shape.is_bytes() => "a string in base64, or an array of bytes",
            Shape::Map(entry) if entry.0 != Shape::String => "an array of pairs",
            Shape::List(_) | Shape::FixedList(..) | Shape::Tuple(_) | Shape::Flags(_) => "an array",
            Shape::Map(_) | Shape::Record(_) => "an object",
            Shape::Variant(_) | Shape::Result(_) => {
                "the name of a case, or an object with one member, named for a case"
            }
            Shape::Option(some) if some.is_nullable() => "null or {\"some\": …}",
            Shape::Option(_) => "null or a value",
        })
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Val, E> {
        match self.shape {
            Shape::Bool => Ok(Val::Bool(value)),
            _ => Err(E::invalid_type(Unexpected::Bool(value), &self)),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Val, E> {
        let Self { shape, place } = self;
        match shape {
            Shape::String => Ok(Val::String(text.to_owned())),
            Shape::Char => {
                let mut chars = text.chars();
                match (chars.next(), chars.next()) {
                    (Some(one), None) => Ok(Val::Char(one)),
                    _ => Err(place.fail("a string of one character was expected".to_owned())),
                }
            }
            Shape::Enum(names) => match names.iter().find(|name| *name == text) {
                Some(name) => Ok(Val::Enum(name.clone())),
                None => Err(place.fail(unknown(text, names))),
            },
            Shape::List(_) if shape.is_bytes() => match STANDARD.decode(text) {
                Ok(bytes) => Ok(Val::List(bytes.into_iter().map(Val::U8).collect())),
                Err(error) => Err(place.fail(format!("it is not base64: {error}"))),
            },
            Shape::Variant(_) | Shape::Result(_) => {
                let case = self.case(text)?;
                match &case.payload {
                    None => Ok(self.of_case(case, None)),
                    Some(_) => Err(place.fail(format!("the case `{text}` has a value: {{\"{text}\": …}}"))),
                }
            }
            _ => Err(E::invalid_type(Unexpected::Str(text), &self)),
        }
    }

    fn visit_none<E: Error>(self) -> Result<Val, E> {
        Ok(Val::Option(None))
    }

    fn visit_unit<E: Error>(self) -> Result<Val, E> {
        match self.shape {
            Shape::Option(_) => Ok(Val::Option(None)),
            _ => Err(E::invalid_type(Unexpected::Unit, &self)),
        }
    }

    fn visit_some<D: Deserializer<'de>>(self, reader: D) -> Result<Val, D::Error> {
        match self.shape {
            // An option of an option is `{"some": …}`.
            Shape::Option(some) if some.is_nullable() => reader.deserialize_map(self),
            Shape::Option(some) => Ok(Val::Option(Some(Box::new(self.of(some).deserialize(reader)?)))),
            _ => reader.deserialize_any(self),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Val, A::Error> {
        match self.shape {
            Shape::List(item) => Ok(Val::List(self.items(item, seq)?)),
            Shape::FixedList(item, length) => {
                let items = self.items(item, seq)?;
                if items.len() != *length as usize {
                    let why = format!("{} items, where there must be {length}", items.len());
                    return Err(self.place.fail(why));
                }
                Ok(Val::FixedLengthList(items))
            }
            Shape::Tuple(items) => {
                let wrong = || self.place.fail(format!("an array of {} items was expected", items.len()));
                let mut values = Vec::with_capacity(items.len());
                for (index, shape) in items.iter().enumerate() {
                    let value =
                        self.place.within(Step::Index(index), || seq.next_element_seed(self.of(shape)))?;
                    values.push(value.ok_or_else(wrong)?);
                }
                match seq.next_element::<IgnoredAny>()? {
                    None => Ok(Val::Tuple(values)),
                    Some(_) => Err(wrong()),
                }
            }
            Shape::Flags(names) => {
                let mut given = Vec::new();
                while let Some(name) = seq.next_element::<String>()? {
                    if !names.contains(&name) {
                        return Err(self.place.fail(unknown(&name, names)));
                    }
                    given.push(name);
                }
                given.sort_unstable();
                given.dedup();
                Ok(Val::Flags(given))
            }
            Shape::Map(entry) if entry.0 != Shape::String => {
                let mut entries = Vec::new();
                while let Some(pair) = seq.next_element_seed(Pair(self.of(&entry.0), self.of(&entry.1)))? {
                    entries.push(pair);
                }
                Ok(Val::Map(entries))
            }
            _ => Err(A::Error::invalid_type(Unexpected::Seq, &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Val, A::Error> {
        let place = self.place;
        match self.shape {
            Shape::Map(entry) if entry.0 == Shape::String => {
                let mut entries = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    entries.push((Val::String(name), map.next_value_seed(self.of(&entry.1))?));
                }
                Ok(Val::Map(entries))
            }
            Shape::Record(fields) => {
                let values = FieldsVisitor { fields, place }.visit_map(map)?;
                Ok(Val::Record(fields.iter().map(|field| field.name.clone()).zip(values).collect()))
            }
            Shape::Variant(_) | Shape::Result(_) => {
                let one = || place.fail("an object with one member was expected".to_owned());
                let case = self.case(&map.next_key::<String>()?.ok_or_else(one)?)?;
                let payload = match &case.payload {
                    Some(shape) => {
                        let step = Step::Name(&case.name);
                        Some(Box::new(place.within(step, || map.next_value_seed(self.of(shape)))?))
                    }
                    None => {
                        map.next_value::<()>()?;
                        None
                    }
                };
                match map.next_key::<IgnoredAny>()? {
                    None => Ok(self.of_case(case, payload)),
                    Some(_) => Err(one()),
                }
            }
            Shape::Option(some) => {
                let wrong = || place.fail("{\"some\": …} was expected".to_owned());
                if map.next_key::<String>()?.as_deref() != Some("some") {
                    return Err(wrong());
                }
                let value = map.next_value_seed(self.of(some))?;
                match map.next_key::<IgnoredAny>()? {
                    None => Ok(Val::Option(Some(Box::new(value)))),
                    Some(_) => Err(wrong()),
                }
            }
            _ => Err(A::Error::invalid_type(Unexpected::Map, &self)),
        }
    }
}

impl<'a> Seed<'a> {
    /// The items of an array.
    fn items<'de, A: SeqAccess<'de>>(self, item: &'a Shape, mut seq: A) -> Result<Vec<Val>, A::Error> {
        let mut items = Vec::new();
        let seed = self.of(item);
        while let Some(item) = self.place.within(Step::Index(items.len()), || seq.next_element_seed(seed))? {
            items.push(item);
        }
        Ok(items)
    }

    /// The case of this name.
    fn case<E: Error>(self, name: &str) -> Result<&'a Case, E> {
        let cases: &[Case] = match self.shape {
            Shape::Variant(cases) => cases,
            Shape::Result(cases) => &**cases,
            _ => &[],
        };
        cases.iter().find(|case| case.name == name).ok_or_else(|| {
            let names: Vec<String> = cases.iter().map(|case| case.name.clone()).collect();
            self.place.fail(unknown(name, &names))
        })
    }

    fn of_case(self, case: &Case, payload: Option<Box<Val>>) -> Val {
        match self.shape {
            Shape::Result(cases) if case.name == cases[0].name => Val::Result(Ok(payload)),
            Shape::Result(_) => Val::Result(Err(payload)),
            _ => Val::Variant(case.name.clone(), payload),
        }
    }
}

/// Reads an integer from its JSON text. A wide integer may be a string of digits.
fn integer_of(integer: Integer, text: &str) -> Result<Val, String> {
    let number = match text.strip_prefix('"') {
        None => text.parse::<i128>().ok().or_else(|| whole(text)),
        Some(quoted) if integer.is_wide() => quoted.strip_suffix('"').and_then(digits),
        Some(_) => None,
    };
    let number = number.ok_or_else(|| "an integer was expected".to_owned())?;
    let (least, greatest) = integer.range();
    if !(least..=greatest).contains(&number) {
        return Err(format!("{number} is not between {least} and {greatest}"));
    }
    // The value is in range, so none of these casts truncates it.
    Ok(match integer {
        Integer::S8 => Val::S8(number as i8),
        Integer::U8 => Val::U8(number as u8),
        Integer::S16 => Val::S16(number as i16),
        Integer::U16 => Val::U16(number as u16),
        Integer::S32 => Val::S32(number as i32),
        Integer::U32 => Val::U32(number as u32),
        Integer::S64 => Val::S64(number as i64),
        Integer::U64 => Val::U64(number as u64),
    })
}

/// An integer written with a zero fraction or an exponent, such as 1.0 or 1e3, which JSON Schema
/// accepts as an integer.
fn whole(text: &str) -> Option<i128> {
    let number: f64 = text.parse().ok()?;
    (number.fract() == 0.0 && number.abs() <= super::MAX_EXACT as f64).then_some(number as i128)
}

/// An integer in a string, in its only accepted spelling. A plus sign, a fraction or leading zeros
/// would be another spelling of the same value.
fn digits(text: &str) -> Option<i128> {
    let number = text.parse::<i128>().ok()?;
    (number.to_string() == text).then_some(number)
}

/// Reads a float from its JSON text; `infinity` is that of the type.
fn float_of<F>(text: &str, infinity: F) -> Result<F, String>
where
    F: std::str::FromStr + PartialEq + Copy + std::ops::Neg<Output = F>,
{
    match text {
        "\"NaN\"" | "\"Infinity\"" | "\"-Infinity\"" => text.trim_matches('"').parse().ok(),
        _ if text.starts_with('"') => None,
        _ => match text.parse::<F>() {
            Ok(number) if number == infinity || number == -infinity => {
                return Err(format!("{text} is out of the range of its type"));
            }
            number => number.ok(),
        },
    }
    .ok_or_else(|| "a number, \"NaN\", \"Infinity\" or \"-Infinity\" was expected".to_owned())
}

fn unknown(name: &str, names: &[String]) -> String {
    format!("`{}` is none of: {}", toolyard_task::wire::visible::clip(name, 100), names.join(", "))
}

/// Visits the members of an object, by field.
struct FieldsVisitor<'a> {
    fields: &'a [Field],
    place: &'a ValuePath<'a>,
}

impl<'de> Visitor<'de> for FieldsVisitor<'_> {
    type Value = Vec<Val>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<Val>, A::Error> {
        let Self { fields, place } = self;
        let mut values: Vec<Option<Val>> = vec![None; fields.len()];
        while let Some(name) = map.next_key::<String>()? {
            let Some(index) = fields.iter().position(|field| field.name == name) else {
                return Err(place.fail(format!(
                    "there is nothing called `{}`",
                    toolyard_task::wire::visible::clip(&name, 100)
                )));
            };
            let field = &fields[index];
            let seed = Seed { shape: &field.shape, place };
            let value = place.within(Step::Name(&field.name), || map.next_value_seed(seed))?;
            if values[index].replace(value).is_some() {
                return Err(place.fail(format!("`{name}` stands twice")));
            }
        }
        let whole = values.into_iter().zip(fields).map(|(value, field)| match value {
            Some(value) => Ok(value),
            None if field.shape.is_nullable() => Ok(Val::Option(None)),
            None => Err(place.fail(format!("`{}` is missing", field.name))),
        });
        whole.collect()
    }
}

/// A pair of a map whose keys are not strings.
struct Pair<'a>(Seed<'a>, Seed<'a>);

impl<'de> DeserializeSeed<'de> for Pair<'_> {
    type Value = (Val, Val);

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Pair<'_> {
    type Value = (Val, Val);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of two items")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let key = seq.next_element_seed(self.0)?;
        let value = seq.next_element_seed(self.1)?;
        match (key, value, seq.next_element::<IgnoredAny>()?) {
            (Some(key), Some(value), None) => Ok((key, value)),
            _ => Err(self.0.place.fail("an array of two items was expected".to_owned())),
        }
    }
}
