//! JSON with comments: reading, and editing that keeps everything else as it is written.

use crate::fields::Fields;
use crate::value::Value;
use jsonc_parser::ast::{ObjectPropName, Value as Node};
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

/// Comments and trailing commas, which VS Code and Zed allow in their files, and no other extension of JSON.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// The content of a text. A text without a value counts as an empty object.
pub fn parse(text: &str) -> Result<Value, String> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &OPTIONS).map_err(|error| lower(&error))?;
    Ok(parsed.value.as_ref().map_or_else(|| Value::Map(Vec::new()), value))
}

/// The parser's messages begin with a capital letter.
fn lower(error: &impl ToString) -> String {
    let mut text = error.to_string();
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    text
}

fn value(node: &Node<'_>) -> Value {
    match node {
        Node::StringLit(text) => Value::Text(text.value.clone().into_owned()),
        Node::NumberLit(number) => Value::Atom(number.value.to_owned()),
        Node::BooleanLit(truth) => Value::Atom(truth.value.to_string()),
        Node::NullKeyword(_) => Value::Atom("null".to_owned()),
        Node::Array(array) => Value::List(array.elements.iter().map(value).collect()),
        Node::Object(object) => {
            let entry = |property: &jsonc_parser::ast::ObjectProp<'_>| {
                let name = match &property.name {
                    ObjectPropName::String(name) => name.value.clone().into_owned(),
                    ObjectPropName::Word(name) => name.value.to_owned(),
                };
                (name, value(&property.value))
            };
            Value::Map(object.properties.iter().map(entry).collect())
        }
    }
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Text(text) => CstInputValue::String(text.clone()),
        Value::Atom(atom) => CstInputValue::Number(atom.clone()),
        Value::List(list) => CstInputValue::Array(list.iter().map(input).collect()),
        Value::Map(entries) => {
            CstInputValue::Object(entries.iter().map(|(name, value)| (name.clone(), input(value))).collect())
        }
    }
}

/// The text in which one entry has these fields, or without the entry if there are none.
pub fn edit(text: &str, section: &str, name: &str, fields: Option<&Fields>) -> Result<String, String> {
    let former = parse(text)?;
    let former = former.get(section).and_then(|servers| servers.get(name));
    let root = CstRootNode::parse(text, &OPTIONS).map_err(|error| lower(&error))?;
    let object = root.object_value_or_create().ok_or("the file is not an object")?;
    let not_an_object = || format!("`{section}` is not an object");
    let servers = match fields {
        None if object.get(section).is_none() => return Ok(text.to_owned()),
        _ => object.object_value_or_create(section).ok_or_else(not_an_object)?,
    };
    match (fields, servers.get(name)) {
        (None, None) => return Ok(text.to_owned()),
        (None, Some(entry)) => entry.remove(),
        (Some(fields), None) => {
            let fields = fields.set.iter().map(|(key, value)| ((*key).to_owned(), input(value))).collect();
            servers.append(name, CstInputValue::Object(fields));
        }
        (Some(fields), Some(entry)) => {
            let entry = entry.object_value().ok_or_else(|| format!("`{section}.{name}` is not an object"))?;
            update(&entry, former, fields);
        }
    }
    Ok(root.to_string())
}

/// Changes only the keys that differ, so that the others keep their comments.
fn update(entry: &CstObject, former: Option<&Value>, fields: &Fields) {
    for key in &fields.dropped {
        while let Some(property) = entry.get(key) {
            property.remove();
        }
    }
    for (key, value) in &fields.set {
        match entry.get(key) {
            Some(_) if former.and_then(|former| former.get(key)) == Some(value) => {}
            Some(property) => property.set_value(input(value)),
            None => drop(entry.append(key, input(value))),
        }
    }
}
