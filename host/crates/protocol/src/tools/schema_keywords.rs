//! The keywords of JSON Schema, of all drafts, that contain schemas.

/// How a keyword contains schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// The value is a schema.
    One,
    /// The value is a schema, or in drafts before 2020-12 a list of schemas.
    OneOrList,
    /// The items of its value are schemas.
    List,
    /// The members of its value are schemas. A member of `dependencies` may also be a list of names.
    Named,
}

/// How this keyword contains schemas; `None` if it contains none.
#[must_use]
pub fn contents(keyword: &str) -> Option<Contents> {
    Some(match keyword {
        "not"
        | "if"
        | "then"
        | "else"
        | "contains"
        | "contentSchema"
        | "propertyNames"
        | "additionalProperties"
        | "unevaluatedProperties"
        | "additionalItems"
        | "unevaluatedItems" => Contents::One,
        "items" => Contents::OneOrList,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => Contents::List,
        "properties" | "patternProperties" | "dependentSchemas" | "dependencies" | "$defs"
        | "definitions" => Contents::Named,
        _ => return None,
    })
}
