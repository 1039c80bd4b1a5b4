//! Random types and values of them.

use super::super::shape::{Case, Field, Integer, Shape};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::Union;
use serde_json::Value;
use wasmtime::component::Val;

fn names(count: usize) -> Vec<String> {
    // Names in kebab case, as WIT requires.
    (0..count).map(|index| format!("n{index}-x")).collect()
}

fn integer() -> impl Strategy<Value = Integer> {
    use Integer::{S8, S16, S32, S64, U8, U16, U32, U64};
    proptest::sample::select(&[S8, U8, S16, U16, S32, U32, S64, U64][..])
}

/// A type; `is_new` includes types that components rarely use yet.
pub fn shape(is_new: bool) -> BoxedStrategy<Shape> {
    let leaf = prop_oneof![
        Just(Shape::Bool),
        integer().prop_map(Shape::Integer),
        Just(Shape::F32),
        Just(Shape::F64),
        Just(Shape::Char),
        Just(Shape::String),
        (1..6_usize).prop_map(|count| Shape::Enum(names(count))),
        (1..40_usize).prop_map(|count| Shape::Flags(names(count))),
    ];
    leaf.prop_recursive(4, 24, 5, move |inner| {
        let payload = || proptest::option::of(inner.clone());
        let fields = vec(inner.clone(), 1..5).prop_map(|shapes| {
            let field = |(name, shape)| Field { name, shape };
            Shape::Record(names(shapes.len()).into_iter().zip(shapes).map(field).collect())
        });
        let cases = vec(payload(), 1..5).prop_map(|payloads| {
            let case = |(name, payload)| Case { name, payload };
            Shape::Variant(names(payloads.len()).into_iter().zip(payloads).map(case).collect())
        });
        let result = (payload(), payload()).prop_map(|(ok, err)| {
            let case = |name: &str, payload| Case { name: name.to_owned(), payload };
            Shape::Result(Box::new([case("ok", ok), case("err", err)]))
        });
        let mut all = vec![
            inner.clone().prop_map(|item| Shape::List(Box::new(item))).boxed(),
            inner.clone().prop_map(|some| Shape::Option(Box::new(some))).boxed(),
            vec(inner.clone(), 1..5).prop_map(Shape::Tuple).boxed(),
            fields.boxed(),
            cases.boxed(),
            result.boxed(),
        ];
        if is_new {
            let key = prop_oneof![Just(Shape::String), integer().prop_map(Shape::Integer)];
            all.push((key, inner.clone()).prop_map(|entry| Shape::Map(Box::new(entry))).boxed());
            all.push(
                (inner, 1..4_u32).prop_map(|(item, length)| Shape::FixedList(Box::new(item), length)).boxed(),
            );
        }
        Union::new(all)
    })
    .boxed()
}

/// A value of a type.
pub fn value(shape: &Shape) -> BoxedStrategy<Val> {
    match shape {
        Shape::Bool => any::<bool>().prop_map(Val::Bool).boxed(),
        Shape::Integer(Integer::S8) => any::<i8>().prop_map(Val::S8).boxed(),
        Shape::Integer(Integer::U8) => any::<u8>().prop_map(Val::U8).boxed(),
        Shape::Integer(Integer::S16) => any::<i16>().prop_map(Val::S16).boxed(),
        Shape::Integer(Integer::U16) => any::<u16>().prop_map(Val::U16).boxed(),
        Shape::Integer(Integer::S32) => any::<i32>().prop_map(Val::S32).boxed(),
        Shape::Integer(Integer::U32) => any::<u32>().prop_map(Val::U32).boxed(),
        Shape::Integer(Integer::S64) => any::<i64>().prop_map(Val::S64).boxed(),
        Shape::Integer(Integer::U64) => any::<u64>().prop_map(Val::U64).boxed(),
        Shape::F32 => any::<u32>().prop_map(|bits| Val::Float32(f32::from_bits(bits))).boxed(),
        Shape::F64 => any::<u64>().prop_map(|bits| Val::Float64(f64::from_bits(bits))).boxed(),
        Shape::Char => any::<char>().prop_map(Val::Char).boxed(),
        Shape::String => any::<String>().prop_map(Val::String).boxed(),
        Shape::List(item) => vec(value(item), 0..4).prop_map(Val::List).boxed(),
        Shape::FixedList(item, length) => {
            vec(value(item), *length as usize).prop_map(Val::FixedLengthList).boxed()
        }
        Shape::Map(entry) => vec((value(&entry.0), value(&entry.1)), 0..4).prop_map(Val::Map).boxed(),
        Shape::Record(fields) => {
            let names: Vec<String> = fields.iter().map(|field| field.name.clone()).collect();
            let values: Vec<_> = fields.iter().map(|field| value(&field.shape)).collect();
            values.prop_map(move |values| Val::Record(names.iter().cloned().zip(values).collect())).boxed()
        }
        Shape::Tuple(items) => items.iter().map(value).collect::<Vec<_>>().prop_map(Val::Tuple).boxed(),
        Shape::Variant(cases) => Union::new(cases.iter().map(|case| {
            let name = case.name.clone();
            payload(case).prop_map(move |payload| Val::Variant(name.clone(), payload)).boxed()
        }))
        .boxed(),
        Shape::Enum(names) => proptest::sample::select(names.clone()).prop_map(Val::Enum).boxed(),
        Shape::Flags(names) => {
            proptest::sample::subsequence(names.clone(), 0..=names.len()).prop_map(Val::Flags).boxed()
        }
        Shape::Option(some) => {
            proptest::option::of(value(some)).prop_map(|some| Val::Option(some.map(Box::new))).boxed()
        }
        Shape::Result(cases) => prop_oneof![
            payload(&cases[0]).prop_map(|ok| Val::Result(Ok(ok))),
            payload(&cases[1]).prop_map(|err| Val::Result(Err(err))),
        ]
        .boxed(),
    }
}

fn payload(case: &Case) -> BoxedStrategy<Option<Box<Val>>> {
    match &case.payload {
        None => Just(None).boxed(),
        Some(shape) => value(shape).prop_map(|value| Some(Box::new(value))).boxed(),
    }
}

/// A type and a value of it.
pub fn shape_and_value(is_new: bool) -> impl Strategy<Value = (Shape, Val)> {
    shape(is_new).prop_flat_map(|shape| {
        let value = value(&shape);
        (Just(shape), value)
    })
}

/// The value in a form that can be compared: all NaNs are equal, and flags and map entries are
/// sorted without duplicates.
pub fn normal(value: Val) -> Val {
    let all = |items: Vec<Val>| items.into_iter().map(normal).collect();
    let boxed = |value: Option<Box<Val>>| value.map(|value| Box::new(normal(*value)));
    match value {
        Val::Float32(value) if value.is_nan() => Val::String("NaN".to_owned()),
        Val::Float64(value) if value.is_nan() => Val::String("NaN".to_owned()),
        Val::List(items) => Val::List(all(items)),
        Val::FixedLengthList(items) => Val::FixedLengthList(all(items)),
        Val::Tuple(items) => Val::Tuple(all(items)),
        Val::Record(fields) => {
            Val::Record(fields.into_iter().map(|(name, value)| (name, normal(value))).collect())
        }
        Val::Map(entries) => {
            let by_key: std::collections::BTreeMap<String, (Val, Val)> = entries
                .into_iter()
                .map(|(key, value)| (format!("{key:?}"), (normal(key), normal(value))))
                .collect();
            Val::Map(by_key.into_values().collect())
        }
        Val::Variant(name, payload) => Val::Variant(name, boxed(payload)),
        Val::Option(some) => Val::Option(boxed(some)),
        Val::Result(Ok(ok)) => Val::Result(Ok(boxed(ok))),
        Val::Result(Err(err)) => Val::Result(Err(boxed(err))),
        Val::Flags(mut names) => {
            names.sort_unstable();
            Val::Flags(names)
        }
        other => other,
    }
}

/// Random JSON with the names that the types above use.
pub fn json() -> impl Strategy<Value = Value> {
    let name =
        prop_oneof![proptest::sample::select(names(4)), "ok|err|some|[a-z]{1,3}".prop_map(String::from)];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-300..300_i64).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        name.clone().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((name.clone(), inner), 0..4).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}
