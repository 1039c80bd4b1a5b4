//! WIT types, independent of the engine that compiled them.

use std::fmt;
use wasmtime::component::Type;

/// The maximum nesting depth of a type: arguments and results are JSON, whose depth is bounded too.
const MAX_DEPTH: usize = 60;
/// The maximum number of parts in a type. A part counts each time it is used.
const MAX_PARTS: usize = 4_000;
/// The maximum total length of all names in a type, in bytes, counted in the same way.
const MAX_NAMES: usize = 64 << 10;

/// A named part: a field of a record, or a parameter.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    pub name: String,
    pub shape: Shape,
}

/// A case of a variant.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Case {
    pub name: String,
    pub payload: Option<Shape>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Integer {
    S8,
    U8,
    S16,
    U16,
    S32,
    U32,
    S64,
    U64,
}

/// A WIT type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    Bool,
    Integer(Integer),
    F32,
    F64,
    Char,
    String,
    List(Box<Shape>),
    FixedList(Box<Shape>, u32),
    Map(Box<(Shape, Shape)>),
    Record(Vec<Field>),
    Tuple(Vec<Shape>),
    Variant(Vec<Case>),
    Enum(Vec<String>),
    Flags(Vec<String>),
    Option(Box<Shape>),
    /// A variant with the cases `ok` and `err`.
    Result(Box<[Case; 2]>),
}

impl Integer {
    /// The smallest and the largest value.
    pub const fn range(self) -> (i128, i128) {
        match self {
            Self::S8 => (i8::MIN as i128, i8::MAX as i128),
            Self::U8 => (0, u8::MAX as i128),
            Self::S16 => (i16::MIN as i128, i16::MAX as i128),
            Self::U16 => (0, u16::MAX as i128),
            Self::S32 => (i32::MIN as i128, i32::MAX as i128),
            Self::U32 => (0, u32::MAX as i128),
            Self::S64 => (i64::MIN as i128, i64::MAX as i128),
            Self::U64 => (0, u64::MAX as i128),
        }
    }

    /// Whether some of its values lose precision in some JSON readers.
    pub const fn is_wide(self) -> bool {
        matches!(self, Self::S64 | Self::U64)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::S8 => "s8",
            Self::U8 => "u8",
            Self::S16 => "s16",
            Self::U16 => "u16",
            Self::S32 => "s32",
            Self::U32 => "u32",
            Self::S64 => "s64",
            Self::U64 => "u64",
        }
    }
}

impl Shape {
    /// Whether its JSON form may be `null`.
    pub const fn is_nullable(&self) -> bool {
        matches!(self, Self::Option(_))
    }

    /// Whether its JSON form is always an object.
    pub fn is_object(&self) -> bool {
        match self {
            Self::Record(_) => true,
            Self::Map(entry) => entry.0 == Self::String,
            _ => false,
        }
    }

    /// Whether it is a byte list, whose JSON form is base64.
    pub fn is_bytes(&self) -> bool {
        matches!(self, Self::List(item) if **item == Self::Integer(Integer::U8))
    }
}

/// Converts types. One `Reading` serves all types of a function, so that the bounds apply to them
/// together.
#[derive(Default)]
pub(crate) struct Reading {
    parts: usize,
    names: usize,
}

impl Reading {
    /// The number of parts in the types so far.
    pub const fn parts(&self) -> usize {
        self.parts
    }

    /// The shape of a type.
    ///
    /// # Errors
    /// Why a value of this type cannot be JSON.
    pub fn shape(&mut self, of: &Type) -> Result<Shape, String> {
        self.at(of, 0)
    }

    /// Counts the name of a part or a parameter.
    ///
    /// # Errors
    /// If all names together are too long.
    pub fn name(&mut self, name: &str) -> Result<String, String> {
        self.names += name.len();
        if self.names > MAX_NAMES {
            return Err(format!("the names in its types are longer than {MAX_NAMES} bytes"));
        }
        Ok(name.to_owned())
    }

    fn names<'a>(&mut self, names: impl Iterator<Item = &'a str>) -> Result<Vec<String>, String> {
        names
            .map(|name| {
                self.parts += 1;
                self.name(name)
            })
            .collect()
    }

    fn at(&mut self, of: &Type, depth: usize) -> Result<Shape, String> {
        self.parts += 1;
        if self.parts > MAX_PARTS {
            return Err(format!("its types have more than {MAX_PARTS} parts"));
        }
        if depth > MAX_DEPTH {
            return Err(format!("its types nest deeper than {MAX_DEPTH} levels"));
        }
        let deeper = depth + 1;
        Ok(match of {
            Type::Bool => Shape::Bool,
            Type::S8 => Shape::Integer(Integer::S8),
            Type::U8 => Shape::Integer(Integer::U8),
            Type::S16 => Shape::Integer(Integer::S16),
            Type::U16 => Shape::Integer(Integer::U16),
            Type::S32 => Shape::Integer(Integer::S32),
            Type::U32 => Shape::Integer(Integer::U32),
            Type::S64 => Shape::Integer(Integer::S64),
            Type::U64 => Shape::Integer(Integer::U64),
            Type::Float32 => Shape::F32,
            Type::Float64 => Shape::F64,
            Type::Char => Shape::Char,
            Type::String => Shape::String,
            Type::List(list) => Shape::List(Box::new(self.at(&list.ty(), deeper)?)),
            Type::FixedLengthList(list) => {
                Shape::FixedList(Box::new(self.at(&list.ty(), deeper)?), list.len())
            }
            Type::Map(map) => {
                Shape::Map(Box::new((self.at(&map.key(), deeper)?, self.at(&map.value(), deeper)?)))
            }
            Type::Record(record) => {
                let field = |field: wasmtime::component::types::Field<'_>| {
                    let shape = self.at(&field.ty, deeper)?;
                    Ok(Field { name: self.name(field.name)?, shape })
                };
                Shape::Record(record.fields().map(field).collect::<Result<_, String>>()?)
            }
            Type::Tuple(tuple) => {
                Shape::Tuple(tuple.types().map(|item| self.at(&item, deeper)).collect::<Result<_, _>>()?)
            }
            Type::Variant(variant) => {
                let case = |case: wasmtime::component::types::Case<'_>| {
                    let payload = case.ty.map(|payload| self.at(&payload, deeper)).transpose()?;
                    Ok(Case { name: self.name(case.name)?, payload })
                };
                Shape::Variant(variant.cases().map(case).collect::<Result<_, String>>()?)
            }
            Type::Enum(names) => Shape::Enum(self.names(names.names())?),
            Type::Flags(names) => Shape::Flags(self.names(names.names())?),
            Type::Option(option) => Shape::Option(Box::new(self.at(&option.ty(), deeper)?)),
            Type::Result(result) => {
                let mut case = |name: &str, payload: Option<Type>| {
                    let payload = payload.map(|payload| self.at(&payload, deeper)).transpose()?;
                    Ok::<_, String>(Case { name: name.to_owned(), payload })
                };
                Shape::Result(Box::new([case("ok", result.ok())?, case("err", result.err())?]))
            }
            Type::Own(_) | Type::Borrow(_) => return Err("it passes a resource".to_owned()),
            Type::Stream(_) => return Err("it passes a stream".to_owned()),
            Type::Future(_) => return Err("it passes a future".to_owned()),
            Type::ErrorContext => return Err("it passes an error context".to_owned()),
        })
    }
}

/// WIT syntax. A component does not keep the names of types, so their parts are shown.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |f: &mut fmt::Formatter<'_>, kind: &str, names: &[String]| {
            write!(f, "{kind} {{ {} }}", names.join(", "))
        };
        match self {
            Self::Bool => f.write_str("bool"),
            Self::Integer(integer) => f.write_str(integer.name()),
            Self::F32 => f.write_str("f32"),
            Self::F64 => f.write_str("f64"),
            Self::Char => f.write_str("char"),
            Self::String => f.write_str("string"),
            Self::List(item) => write!(f, "list<{item}>"),
            Self::FixedList(item, length) => write!(f, "list<{item}, {length}>"),
            Self::Map(entry) => write!(f, "map<{}, {}>", entry.0, entry.1),
            Self::Record(fields) => {
                f.write_str("record { ")?;
                write_fields(f, fields)?;
                f.write_str(" }")
            }
            Self::Tuple(items) => {
                f.write_str("tuple<")?;
                for (index, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if index > 0 { ", " } else { "" })?;
                }
                f.write_str(">")
            }
            Self::Variant(cases) => {
                f.write_str("variant { ")?;
                for (index, case) in cases.iter().enumerate() {
                    write!(f, "{}{}", if index > 0 { ", " } else { "" }, case.name)?;
                    if let Some(payload) = &case.payload {
                        write!(f, "({payload})")?;
                    }
                }
                f.write_str(" }")
            }
            Self::Enum(cases) => names(f, "enum", cases),
            Self::Flags(flags) => names(f, "flags", flags),
            Self::Option(some) => write!(f, "option<{some}>"),
            Self::Result(cases) => match (&cases[0].payload, &cases[1].payload) {
                (None, None) => f.write_str("result"),
                (Some(ok), None) => write!(f, "result<{ok}>"),
                (None, Some(err)) => write!(f, "result<_, {err}>"),
                (Some(ok), Some(err)) => write!(f, "result<{ok}, {err}>"),
            },
        }
    }
}

/// Writes names and types as between the parentheses of a function.
pub(crate) fn write_fields(f: &mut impl fmt::Write, fields: &[Field]) -> fmt::Result {
    for (index, field) in fields.iter().enumerate() {
        write!(f, "{}{}: {}", if index > 0 { ", " } else { "" }, field.name, field.shape)?;
    }
    Ok(())
}
