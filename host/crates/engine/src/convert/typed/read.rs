//! Reads JSON into values of WIT types, in one pass over the text.
//!
//! The arguments have already been checked against the schema. This code rejects only what the
//! schema cannot express, and duplicate names.

use super::shape::{Case, Field, Integer, Shape};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize as _;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
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
        let place = self.place;
        match self.shape {
            Shape::Bool => bool::deserialize(reader).map(Val::Bool),
            Shape::Integer(integer) => {
                let text = <&RawValue>::deserialize(reader)?.get();
                integer_of(*integer, text).map_err(|why| place.fail(why))
            }
            Shape::F32 => {
                let text = <&RawValue>::deserialize(reader)?.get();
                float_of(text, f32::INFINITY).map(Val::Float32).map_err(|why| place.fail(why))
            }
            Shape::F64 => {
                let text = <&RawValue>::deserialize(reader)?.get();
                float_of(text, f64::INFINITY).map(Val::Float64).map_err(|why| place.fail(why))
            }
            Shape::Char => {
                let text = String::deserialize(reader)?;
                let mut chars = text.chars();
                match (chars.next(), chars.next()) {
                    (Some(one), None) => Ok(Val::Char(one)),
                    _ => Err(place.fail("a string of one character was expected".to_owned())),
                }
            }
            Shape::String => String::deserialize(reader).map(Val::String),
            Shape::List(item) if self.shape.is_bytes() => {
                reader.deserialize_any(BytesVisitor(ItemsVisitor { seed: self.of(item), length: None }))
            }
            Shape::List(item) => {
                let items = ItemsVisitor { seed: self.of(item), length: None };
                reader.deserialize_seq(items).map(Val::List)
            }
            Shape::FixedList(item, length) => {
                let items = ItemsVisitor { seed: self.of(item), length: Some(*length) };
                reader.deserialize_seq(items).map(Val::FixedLengthList)
            }
            Shape::Map(entry) if entry.0 == Shape::String => {
                reader.deserialize_map(EntriesVisitor { seed: self.of(&entry.1) }).map(Val::Map)
            }
            Shape::Map(entry) => {
                let pairs = PairsVisitor { key: self.of(&entry.0), value: self.of(&entry.1) };
                reader.deserialize_seq(pairs).map(Val::Map)
            }
            Shape::Record(fields) => {
                let values = reader.deserialize_map(FieldsVisitor { fields, place })?;
                Ok(Val::Record(fields.iter().map(|field| field.name.clone()).zip(values).collect()))
            }
            Shape::Tuple(items) => reader.deserialize_seq(TupleVisitor { items, place }).map(Val::Tuple),
            Shape::Variant(cases) => {
                let (name, payload) = reader.deserialize_any(CaseVisitor { cases, place })?;
                Ok(Val::Variant(name, payload))
            }
            Shape::Enum(names) => {
                let name = String::deserialize(reader)?;
                if names.contains(&name) {
                    Ok(Val::Enum(name))
                } else {
                    Err(place.fail(unknown(&name, names)))
                }
            }
            Shape::Flags(names) => {
                let mut given = Vec::<String>::deserialize(reader)?;
                if let Some(name) = given.iter().find(|name| !names.contains(name)) {
                    return Err(place.fail(unknown(name, names)));
                }
                given.sort_unstable();
                given.dedup();
                Ok(Val::Flags(given))
            }
            Shape::Option(some) => reader
                .deserialize_option(OptionVisitor(self.of(some)))
                .map(|some| Val::Option(some.map(Box::new))),
            Shape::Result(cases) => {
                let (name, payload) = reader.deserialize_any(CaseVisitor { cases: &**cases, place })?;
                Ok(Val::Result(if name == cases[0].name { Ok(payload) } else { Err(payload) }))
            }
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

/// Visits the items of an array.
struct ItemsVisitor<'a> {
    seed: Seed<'a>,
    /// The required number of items.
    length: Option<u32>,
}

impl<'de> Visitor<'de> for ItemsVisitor<'_> {
    type Value = Vec<Val>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<Val>, A::Error> {
        let Self { seed, length } = self;
        let mut items = Vec::new();
        while let Some(item) = seed.place.within(Step::Index(items.len()), || seq.next_element_seed(seed))? {
            items.push(item);
        }
        match length {
            Some(length) if items.len() != length as usize => {
                Err(seed.place.fail(format!("{} items, where there must be {length}", items.len())))
            }
            _ => Ok(items),
        }
    }
}

/// Visits bytes, in base64 or as an array of integers.
struct BytesVisitor<'a>(ItemsVisitor<'a>);

impl<'de> Visitor<'de> for BytesVisitor<'_> {
    type Value = Val;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string in base64, or an array of bytes")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Val, E> {
        match STANDARD.decode(text) {
            Ok(bytes) => Ok(Val::List(bytes.into_iter().map(Val::U8).collect())),
            Err(error) => Err(self.0.seed.place.fail(format!("it is not base64: {error}"))),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Val, A::Error> {
        self.0.visit_seq(seq).map(Val::List)
    }
}

/// Visits a map with string keys.
struct EntriesVisitor<'a> {
    seed: Seed<'a>,
}

impl<'de> Visitor<'de> for EntriesVisitor<'_> {
    type Value = Vec<(Val, Val)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            entries.push((Val::String(name), map.next_value_seed(self.seed)?));
        }
        Ok(entries)
    }
}

/// Visits a map with other keys: an array of pairs.
struct PairsVisitor<'a> {
    key: Seed<'a>,
    value: Seed<'a>,
}

impl<'de> Visitor<'de> for PairsVisitor<'_> {
    type Value = Vec<(Val, Val)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of pairs")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = seq.next_element_seed(Pair { key: self.key, value: self.value })? {
            entries.push(entry);
        }
        Ok(entries)
    }
}

struct Pair<'a> {
    key: Seed<'a>,
    value: Seed<'a>,
}

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
        let key = seq.next_element_seed(self.key)?;
        let value = seq.next_element_seed(self.value)?;
        match (key, value, seq.next_element::<IgnoredAny>()?) {
            (Some(key), Some(value), None) => Ok((key, value)),
            _ => Err(self.key.place.fail("an array of two items was expected".to_owned())),
        }
    }
}

struct TupleVisitor<'a> {
    items: &'a [Shape],
    place: &'a ValuePath<'a>,
}

impl<'de> Visitor<'de> for TupleVisitor<'_> {
    type Value = Vec<Val>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an array of {} items", self.items.len())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<Val>, A::Error> {
        let Self { items, place } = self;
        let wrong = || place.fail(format!("an array of {} items was expected", items.len()));
        let mut values = Vec::with_capacity(items.len());
        for (index, shape) in items.iter().enumerate() {
            let seed = Seed { shape, place };
            match place.within(Step::Index(index), || seq.next_element_seed(seed))? {
                Some(value) => values.push(value),
                None => return Err(wrong()),
            }
        }
        match seq.next_element::<IgnoredAny>()? {
            None => Ok(values),
            Some(_) => Err(wrong()),
        }
    }
}

/// Visits a case: its name, or an object of its name and its payload.
struct CaseVisitor<'a> {
    cases: &'a [Case],
    place: &'a ValuePath<'a>,
}

impl<'a> CaseVisitor<'a> {
    fn case<E: Error>(&self, name: &str) -> Result<&'a Case, E> {
        self.cases.iter().find(|case| case.name == name).ok_or_else(|| {
            let names: Vec<String> = self.cases.iter().map(|case| case.name.clone()).collect();
            self.place.fail(unknown(name, &names))
        })
    }
}

impl<'de> Visitor<'de> for CaseVisitor<'_> {
    type Value = (String, Option<Box<Val>>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a case, or an object with one member, named for a case")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        let case = self.case(name)?;
        match &case.payload {
            None => Ok((case.name.clone(), None)),
            Some(_) => Err(self.place.fail(format!("the case `{name}` has a value: {{\"{name}\": …}}"))),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let place = self.place;
        let one = || place.fail("an object with one member was expected".to_owned());
        let name = map.next_key::<String>()?.ok_or_else(one)?;
        let case = self.case(&name)?;
        let payload = match &case.payload {
            Some(shape) => {
                let seed = Seed { shape, place };
                Some(Box::new(place.within(Step::Name(&case.name), || map.next_value_seed(seed))?))
            }
            None => {
                map.next_value::<()>()?;
                None
            }
        };
        match map.next_key::<IgnoredAny>()? {
            None => Ok((name, payload)),
            Some(_) => Err(one()),
        }
    }
}

/// Visits an option; an option of an option is `{"some": …}`.
struct OptionVisitor<'a>(Seed<'a>);

impl<'de> Visitor<'de> for OptionVisitor<'_> {
    type Value = Option<Val>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("null or a value")
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        if self.0.shape.is_nullable() {
            reader.deserialize_map(SomeVisitor(self.0)).map(Some)
        } else {
            self.0.deserialize(reader).map(Some)
        }
    }
}

struct SomeVisitor<'a>(Seed<'a>);

impl<'de> Visitor<'de> for SomeVisitor<'_> {
    type Value = Val;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{\"some\": …}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Val, A::Error> {
        let place = self.0.place;
        let wrong = || place.fail("{\"some\": …} was expected".to_owned());
        if map.next_key::<String>()?.as_deref() != Some("some") {
            return Err(wrong());
        }
        let value = map.next_value_seed(self.0)?;
        match map.next_key::<IgnoredAny>()? {
            None => Ok(value),
            Some(_) => Err(wrong()),
        }
    }
}
