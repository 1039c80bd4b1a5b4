//! Compiles the JSON of a schema into a list of rules, one entry for each schema.

use crate::allowance::Allowance;
use crate::pattern::Pattern;
use crate::references;
use crate::rules::{
    ArrayRules, Bound, Choices, Contains, Id, InPlace, NumberRules, ObjectRules, Rules, StringRules, Types,
};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use toolyard_protocol::tools::schema_keywords::{Contents, contents};
use toolyard_protocol::visible::clip;

pub(super) const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";
/// The bounds of a schema.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The maximum length of the text, in bytes.
    pub bytes: usize,
    /// The maximum nesting depth.
    pub depth: usize,
}

/// Compiles the schema of an object into the rules of each schema in it, with the whole one first.
///
/// # Errors
/// The fault of the schema; completes "its schema …".
pub(super) fn compile(
    value: &Value,
    bounds: Bounds,
    allowance: &mut Allowance,
) -> Result<Vec<Rules>, String> {
    if depth(value) > bounds.depth {
        return Err(format!("nests deeper than {} levels", bounds.depth));
    }
    let Some(members) = value.as_object() else {
        return Err("is not a JSON object".to_owned());
    };
    if members.get("type").and_then(Value::as_str) != Some("object") {
        return Err("does not have `\"type\": \"object\"`".to_owned());
    }
    compile_any(value, allowance)
}

/// Compiles a schema of any type.
pub(super) fn compile_any(value: &Value, allowance: &mut Allowance) -> Result<Vec<Rules>, String> {
    let mut found = Subschemas::default();
    found.collect(value)?;
    allowance.take_subschemas(found.order.len())?;
    let mut compiler = Compiler { found: &found, whole: value, allowance, place: Vec::new() };
    let mut rules = Vec::with_capacity(found.order.len());
    for &schema in &found.order {
        rules.push(compiler.rules(schema).map_err(|fault| match fault {
            Fault::Whole(what) => what,
            Fault::At(what) => {
                let steps = found.place_of(schema).into_iter().chain(compiler.place.drain(..));
                let place = steps.map(|step| format!("/{}", escaped(&step))).collect::<String>();
                let place = if place.is_empty() { "/" } else { &place };
                format!("is not valid JSON Schema 2020-12: at `{}`: {what}", clip(place, 300))
            }
        })?);
    }
    references::settle(&mut rules)?;
    Ok(rules)
}

fn depth(value: &Value) -> usize {
    // The text nests no deeper than `MAX_DEPTH`, so neither does this recursion.
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Escapes a name for a JSON pointer (RFC 6901).
pub(super) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Keywords of earlier drafts. This dialect does not know them.
const EARLIER: [&str; 2] = ["additionalItems", "dependencies"];

/// All subschemas of a schema, by memory address.
#[derive(Default)]
struct Subschemas<'a> {
    ids: HashMap<*const Value, Id>,
    order: Vec<&'a Value>,
    /// The location of each: its parent, and the steps from there.
    above: Vec<Option<(Id, &'a str, Option<Step<'a>>)>>,
    anchors: HashMap<&'a str, Id>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Name(&'a str),
    Index(usize),
}

impl<'a> Subschemas<'a> {
    fn collect(&mut self, schema: &'a Value) -> Result<(), String> {
        self.add(schema, None);
        let mut next = 0;
        while let Some(schema) = self.order.get(next).copied() {
            let id = next as Id;
            next += 1;
            let Some(members) = schema.as_object() else { continue };
            if let Some(dialect) = members.get("$schema").and_then(Value::as_str)
                && dialect.trim_end_matches('#') != DIALECT
            {
                return Err(format!("has the dialect {:?}; only 2020-12 is supported", clip(dialect, 100)));
            }
            if id != 0 && members.contains_key("$id") {
                return Err("has an `$id` below its top, which is not supported".to_owned());
            }
            for key in ["$anchor", "$dynamicAnchor"] {
                if let Some(name) = members.get(key).and_then(Value::as_str) {
                    self.anchors.insert(name, id);
                }
            }
            for (key, value) in members {
                match (contents(key).filter(|_| !EARLIER.contains(&key.as_str())), value) {
                    (Some(Contents::One | Contents::OneOrList), value) => {
                        self.add(value, Some((id, key, None)))
                    }
                    (Some(Contents::List), Value::Array(items)) => {
                        for (index, item) in items.iter().enumerate() {
                            self.add(item, Some((id, key, Some(Step::Index(index)))));
                        }
                    }
                    (Some(Contents::Named), Value::Object(named)) => {
                        for (name, item) in named {
                            self.add(item, Some((id, key, Some(Step::Name(name)))));
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, schema: &'a Value, above: Option<(Id, &'a str, Option<Step<'a>>)>) {
        self.ids.insert(std::ptr::from_ref(schema), self.order.len() as Id);
        self.order.push(schema);
        self.above.push(above);
    }

    fn id(&self, schema: &Value) -> Option<Id> {
        self.ids.get(&std::ptr::from_ref(schema)).copied()
    }

    fn place_of(&self, schema: &Value) -> Vec<String> {
        let mut steps = Vec::new();
        let mut at = self.id(schema);
        while let Some((above, keyword, step)) =
            at.and_then(|id| self.above.get(id as usize).copied().flatten())
        {
            match step {
                Some(Step::Name(name)) => steps.push(clip(name, 100)),
                Some(Step::Index(index)) => steps.push(index.to_string()),
                None => {}
            }
            steps.push(keyword.to_owned());
            at = Some(above);
        }
        steps.reverse();
        steps
    }
}

enum Fault {
    /// A fault of the whole schema.
    Whole(String),
    /// A fault at the compiler's current location.
    At(String),
}

struct Compiler<'a, 'b> {
    found: &'b Subschemas<'a>,
    whole: &'a Value,
    allowance: &'b mut Allowance,
    /// The path of keywords from the compiled schema to the current one.
    place: Vec<String>,
}

impl<'a> Compiler<'a, '_> {
    fn rules(&mut self, schema: &'a Value) -> Result<Rules, Fault> {
        let members = match schema {
            Value::Bool(verdict) => return Ok(Rules { verdict: Some(*verdict), ..Rules::default() }),
            Value::Object(members) => members,
            other => return Err(Fault::At(format!("{} is no schema", shown(other)))),
        };
        let mut rules = Rules::default();
        for (key, value) in members {
            self.place.push(clip(key, 100));
            self.keyword(&mut rules, key, value, members)?;
            self.place.pop();
        }
        Ok(rules)
    }

    fn keyword(
        &mut self,
        rules: &mut Rules,
        key: &str,
        value: &'a Value,
        members: &'a Map<String, Value>,
    ) -> Result<(), Fault> {
        fn number(rules: &mut Rules) -> &mut NumberRules {
            rules.number.get_or_insert_default()
        }
        fn string(rules: &mut Rules) -> &mut StringRules {
            rules.string.get_or_insert_default()
        }
        fn array(rules: &mut Rules) -> &mut ArrayRules {
            rules.array.get_or_insert_default()
        }
        fn object(rules: &mut Rules) -> &mut ObjectRules {
            rules.object.get_or_insert_default()
        }
        match key {
            "type" => rules.types = Some(types(value)?),
            "const" => rules.constant = Some(value.clone()),
            "enum" => rules.choices = Some(choices(list(value)?)),
            "multipleOf" => {
                let bound = self::bound(value)?;
                if value.as_f64().is_none_or(|bound| bound <= 0.0) {
                    return Err(Fault::At(format!("{} is not above 0", shown(value))));
                }
                number(rules).multiple_of = Some(bound);
            }
            "minimum" => number(rules).minimum = Some(bound(value)?),
            "maximum" => number(rules).maximum = Some(bound(value)?),
            "exclusiveMinimum" => number(rules).above = Some(bound(value)?),
            "exclusiveMaximum" => number(rules).below = Some(bound(value)?),
            "minLength" => string(rules).min_length = Some(count(value)?),
            "maxLength" => string(rules).max_length = Some(count(value)?),
            "pattern" => string(rules).pattern = Some(self.pattern(text(value)?)?),
            "minItems" => array(rules).min_items = Some(count(value)?),
            "maxItems" => array(rules).max_items = Some(count(value)?),
            "uniqueItems" => array(rules).unique = flag(value)?,
            "prefixItems" => array(rules).prefix = self.schemas(value)?,
            "items" => array(rules).items = Some(self.schema(value)?),
            "contains" => {
                let least = members.get("minContains").map(count).transpose()?.unwrap_or(1);
                let most = members.get("maxContains").map(count).transpose()?;
                array(rules).contains = Some(Contains { schema: self.schema(value)?, least, most });
            }
            "minContains" | "maxContains" => drop(count(value)?),
            "minProperties" => object(rules).min_properties = Some(count(value)?),
            "maxProperties" => object(rules).max_properties = Some(count(value)?),
            "required" => object(rules).required = names(value)?,
            "properties" => {
                for (name, schema) in self.named(value)? {
                    object(rules).properties.insert(name.as_str().into(), schema);
                }
            }
            "patternProperties" => {
                for (name, schema) in self.named(value)? {
                    let pattern = self.pattern(name)?;
                    object(rules).patterns.push((pattern, schema));
                }
            }
            "additionalProperties" => object(rules).additional = Some(self.schema(value)?),
            "propertyNames" => object(rules).names = Some(self.schema(value)?),
            "dependentRequired" => {
                for (name, needed) in self::members(value)? {
                    object(rules).dependent_required.push((name.as_str().into(), names(needed)?));
                }
            }
            "dependentSchemas" => {
                for (name, schema) in self.named(value)? {
                    object(rules).dependent_schemas.push((name.as_str().into(), schema));
                }
            }
            "unevaluatedItems" => rules.unevaluated_items = Some(self.schema(value)?),
            "unevaluatedProperties" => rules.unevaluated_properties = Some(self.schema(value)?),
            "$ref" | "$dynamicRef" => rules.in_place.push(InPlace::Reference(self.target(value)?)),
            "allOf" => rules.in_place.push(InPlace::All(self.schemas(value)?)),
            "anyOf" => rules.in_place.push(InPlace::Any(self.schemas(value)?)),
            "oneOf" => rules.in_place.push(InPlace::One(self.schemas(value)?)),
            "not" => rules.in_place.push(InPlace::Not(self.schema(value)?)),
            "if" => {
                let branch = |name| members.get(name).map(|branch| self.schema(branch)).transpose();
                let (then, otherwise) = (branch("then")?, branch("else")?);
                rules.in_place.push(InPlace::If { condition: self.schema(value)?, then, otherwise });
            }
            // Annotations, and parts of other keywords. Their types are checked nevertheless.
            "then" | "else" | "contentSchema" => drop(self.schema(value)?),
            "$defs" | "definitions" => drop(self.named(value)?),
            "$schema" | "$id" | "$comment" | "title" | "description" | "format" | "contentEncoding"
            | "contentMediaType" => drop(text(value)?),
            "$anchor" | "$dynamicAnchor" => {
                let name = text(value)?;
                let first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
                let later = |byte: u8| first(byte) || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
                if !(name.bytes().take(1).all(first) && name.bytes().all(later) && !name.is_empty()) {
                    return Err(Fault::At(format!("{} is not an anchor name", shown(value))));
                }
            }
            "deprecated" | "readOnly" | "writeOnly" => drop(flag(value)?),
            "examples" => drop(list(value)?),
            _ => {}
        }
        Ok(())
    }

    fn schema(&self, value: &Value) -> Result<Id, Fault> {
        let id = self.found.id(value).ok_or_else(|| Fault::At("holds no schema".to_owned()))?;
        match value {
            Value::Object(_) | Value::Bool(_) => Ok(id),
            other => Err(Fault::At(format!("{} is no schema", shown(other)))),
        }
    }

    /// The schemas in an object, by name.
    fn named(&mut self, value: &'a Value) -> Result<Vec<(&'a String, Id)>, Fault> {
        let mut schemas = Vec::new();
        for (name, value) in members(value)? {
            self.place.push(clip(name, 100));
            schemas.push((name, self.schema(value)?));
            self.place.pop();
        }
        Ok(schemas)
    }

    fn schemas(&self, value: &'a Value) -> Result<Vec<Id>, Fault> {
        let items = list(value)?;
        if items.is_empty() {
            return Err(Fault::At("has no schema in it".to_owned()));
        }
        items.iter().map(|item| self.schema(item)).collect()
    }

    fn pattern(&mut self, source: &str) -> Result<Arc<Pattern>, Fault> {
        self.allowance.patterns.compile(source).map_err(Fault::At)
    }

    /// The schema that a reference points to.
    fn target(&self, reference: &Value) -> Result<Id, Fault> {
        let text = text(reference)?;
        let Some(fragment) = text.strip_prefix('#') else {
            return Err(Fault::Whole(format!("refers to {:?}, outside of itself", clip(text, 100))));
        };
        if !(fragment.is_empty() || fragment.starts_with('/')) {
            let anchor = self.found.anchors.get(fragment).copied();
            return anchor
                .ok_or_else(|| Fault::Whole(format!("refers to {:?}, which is not there", clip(text, 100))));
        }
        let pointer = percent_decode_str(fragment).decode_utf8_lossy();
        let target = self.whole.pointer(&pointer).and_then(|value| self.found.id(value));
        target.ok_or_else(|| {
            Fault::Whole(format!("refers to {:?}, which is no subschema of it", clip(text, 100)))
        })
    }
}

fn shown(value: &Value) -> String {
    clip(&value.to_string(), 100)
}

fn wrong(value: &Value, wanted: &str) -> Fault {
    Fault::At(format!("{} is not {wanted}", shown(value)))
}

fn text(value: &Value) -> Result<&str, Fault> {
    value.as_str().ok_or_else(|| wrong(value, "a string"))
}

fn flag(value: &Value) -> Result<bool, Fault> {
    value.as_bool().ok_or_else(|| wrong(value, "a boolean"))
}

fn list(value: &Value) -> Result<&Vec<Value>, Fault> {
    value.as_array().ok_or_else(|| wrong(value, "an array"))
}

fn members(value: &Value) -> Result<&Map<String, Value>, Fault> {
    value.as_object().ok_or_else(|| wrong(value, "an object"))
}

fn bound(value: &Value) -> Result<Bound, Fault> {
    if value.is_number() { Ok(Bound(value.to_string().into())) } else { Err(wrong(value, "a number")) }
}

/// A count; `2.0` is also valid.
fn count(value: &Value) -> Result<u64, Fault> {
    let whole = |float: f64| (float >= 0.0 && float.fract() == 0.0 && float < 1e15).then_some(float as u64);
    value.as_u64().or_else(|| value.as_f64().and_then(whole)).ok_or_else(|| wrong(value, "a count"))
}

fn names(value: &Value) -> Result<Vec<Box<str>>, Fault> {
    let names: Vec<Box<str>> =
        list(value)?.iter().map(|name| text(name).map(Into::into)).collect::<Result<_, _>>()?;
    if names.iter().collect::<HashSet<_>>().len() < names.len() {
        return Err(Fault::At("has a name twice".to_owned()));
    }
    Ok(names)
}

fn types(value: &Value) -> Result<Types, Fault> {
    let one = |name: &Value| {
        text(name)
            .ok()
            .and_then(Types::of)
            .ok_or_else(|| wrong(name, &format!("one of {}", Types::NAMES.join(", "))))
    };
    match value {
        Value::Array(names) if !names.is_empty() => names.iter().try_fold(Types(0), |types, name| {
            let one = one(name)?;
            if types.0 & one.0 != 0 {
                Err(wrong(value, "a list of different types"))
            } else {
                Ok(Types(types.0 | one.0))
            }
        }),
        name => one(name),
    }
}

fn choices(values: &[Value]) -> Choices {
    let mut choices = Choices::default();
    for value in values {
        match value {
            Value::String(text) => drop(choices.strings.insert(text.as_str().into())),
            other => choices.others.push(other.clone()),
        }
    }
    let shown: Vec<String> = values.iter().take(20).map(shown).collect();
    choices.shown = clip(&shown.join(", "), 300);
    choices
}
