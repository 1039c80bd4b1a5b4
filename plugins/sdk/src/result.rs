//! The results of tools.

use std::any::Any;
use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::raw::{Content, Media, TextBlock};
use crate::{Error, raw, schema};

/// The return types of a tool's function.
///
/// - Any type that is [`Serialize`] and [`JsonSchema`]: structured content, with an output schema of that
///   type, and the same JSON as text for clients that do not read structured content. A value that is not a
///   JSON object is wrapped as `{"result": value}`.
/// - `String` and `&'static str`: a text. `()`: nothing.
/// - [`ToolResult`]: content blocks that you choose; [`ToolResult<T>`] adds structured content.
pub trait IntoResult {
    /// The schema of the structured content; `None` if there is none.
    fn output_schema() -> Option<Value>;
    /// Converts the value to a result.
    fn into_result(self) -> Result<raw::ToolResult, Error>;
}

impl<R: Serialize + JsonSchema + 'static> IntoResult for R {
    fn output_schema() -> Option<Value> {
        let plain = TEXTS_AND_NOTHING.iter().any(|is_plain| is_plain(&None::<R>));
        (!plain).then(schema::output::<R>)
    }

    fn into_result(self) -> Result<raw::ToolResult, Error> {
        let mut result = Some(self);
        // Texts implement the same traits as structured content, so only a check at run time can tell them
        // apart.
        if let Some(text) = taken::<String>(&mut result) {
            return Ok(ToolResult::new().text(text).into_raw());
        }
        if let Some(text) = taken::<&'static str>(&mut result) {
            return Ok(ToolResult::new().text(text).into_raw());
        }
        if let Some(text) = taken::<Cow<'static, str>>(&mut result) {
            return Ok(ToolResult::new().text(text).into_raw());
        }
        if taken::<()>(&mut result).is_some() {
            return Ok(ToolResult::new().into_raw());
        }
        match result {
            Some(value) => ToolResult::new().structured(value).into_result(),
            None => Ok(ToolResult::new().into_raw()),
        }
    }
}

type IsOf = fn(&dyn Any) -> bool;

/// The types that `into_result` treats as text or nothing.
const TEXTS_AND_NOTHING: [IsOf; 4] = [
    |result| result.is::<Option<String>>(),
    |result| result.is::<Option<&'static str>>(),
    |result| result.is::<Option<Cow<'static, str>>>(),
    |result| result.is::<Option<()>>(),
];

fn taken<T: 'static>(result: &mut dyn Any) -> Option<T> {
    result.downcast_mut::<Option<T>>().and_then(Option::take)
}

/// A result with content blocks, structured content and `_meta` of your choice.
///
/// ```
/// use toolyard_plugin::ToolResult;
///
/// let chart = vec![0x89, b'P', b'N', b'G'];
/// let result = ToolResult::new().text("The week in a chart.").image(chart, "image/png");
/// # let _ = result;
/// ```
#[derive(Debug)]
pub struct ToolResult<T = Unstructured> {
    content: Vec<Content>,
    structured: T,
    is_error: bool,
    meta: Option<Value>,
}

/// Marks a [`ToolResult`] without structured content.
#[derive(Debug, Clone, Copy)]
pub struct Unstructured;

impl ToolResult {
    /// An empty result.
    pub fn new() -> Self {
        Self { content: Vec::new(), structured: Unstructured, is_error: false, meta: None }
    }

    /// A tool error, for the model to read.
    pub fn failure(message: impl Into<String>) -> Self {
        Self::new().text(message).failed()
    }

    /// Adds structured content, whose type becomes the tool's output schema.
    pub fn structured<T: Serialize + JsonSchema>(self, value: T) -> ToolResult<T> {
        let Self { content, structured: Unstructured, is_error, meta } = self;
        ToolResult { content, structured: value, is_error, meta }
    }

    pub(crate) fn into_raw(self) -> raw::ToolResult {
        self.with(None)
    }
}

impl Default for ToolResult {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> ToolResult<T> {
    /// Adds a text.
    pub fn text(self, text: impl Into<String>) -> Self {
        self.block(Content::Text(TextBlock { text: text.into(), annotations: None, meta: None }))
    }

    /// Adds an image.
    pub fn image(self, bytes: Vec<u8>, mime_type: &str) -> Self {
        self.block(Content::Image(media(bytes, mime_type)))
    }

    /// Adds audio.
    pub fn audio(self, bytes: Vec<u8>, mime_type: &str) -> Self {
        self.block(Content::Audio(media(bytes, mime_type)))
    }

    /// Adds a link to a resource: MCP `ResourceLink`. `uri` and `name` are required; `more` is an object of
    /// further members, or `null`.
    pub fn link(self, uri: &str, name: &str, more: Value) -> Self {
        let mut link = if more.is_object() { more } else { json!({}) };
        link["uri"] = uri.into();
        link["name"] = name.into();
        self.block(Content::ResourceLink(link.to_string()))
    }

    /// Adds an embedded resource: MCP `TextResourceContents` or `BlobResourceContents`.
    pub fn resource(self, resource: Value) -> Self {
        self.block(Content::EmbeddedResource(json!({ "resource": resource }).to_string()))
    }

    /// Adds a file as an embedded resource: as text if it is UTF-8, else as bytes.
    pub fn file(self, uri: &str, mime_type: &str, bytes: impl Into<Vec<u8>>) -> Self {
        let content = match String::from_utf8(bytes.into()) {
            Ok(text) => ("text", text),
            Err(error) => ("blob", base64(error.as_bytes())),
        };
        self.resource(json!({ "uri": uri, "mimeType": mime_type, content.0: content.1 }))
    }

    /// Adds any block.
    pub fn block(mut self, content: Content) -> Self {
        self.content.push(content);
        self
    }

    /// Marks the result as an error.
    pub fn failed(mut self) -> Self {
        self.is_error = true;
        self
    }

    /// Sets this object as `_meta`.
    pub fn meta(mut self, meta: Value) -> Self {
        self.meta = Some(meta);
        self
    }

    /// The structured content, for inspection.
    pub fn value(&self) -> &T {
        &self.structured
    }

    fn with(self, structured_content: Option<String>) -> raw::ToolResult {
        let Self { mut content, structured: _, is_error, meta } = self;
        if let (Some(json), true) = (&structured_content, content.is_empty()) {
            content.push(Content::Text(TextBlock { text: json.clone(), annotations: None, meta: None }));
        }
        raw::ToolResult { content, structured_content, is_error, meta: meta.map(|meta| meta.to_string()) }
    }
}

impl IntoResult for ToolResult {
    fn output_schema() -> Option<Value> {
        None
    }

    fn into_result(self) -> Result<raw::ToolResult, Error> {
        Ok(self.into_raw())
    }
}

impl<T: Serialize + JsonSchema> IntoResult for ToolResult<T> {
    fn output_schema() -> Option<Value> {
        Some(schema::output::<T>())
    }

    fn into_result(self) -> Result<raw::ToolResult, Error> {
        let json = serde_json::to_string(&self.structured)
            .map_err(|error| Error::new(format!("The result cannot be written as JSON: {error}.")))?;
        Ok(self.with(Some(schema::wrapped(json))))
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let at = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            let value = bits >> (18 - 6 * digit) & 63;
            text.push(if digit <= three.len() { char::from(DIGITS[value as usize]) } else { '=' });
        }
    }
    text
}

fn media(data: Vec<u8>, mime_type: &str) -> Media {
    Media { data, mime_type: mime_type.to_owned(), annotations: None, meta: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, JsonSchema)]
    struct Point {
        x: i32,
    }

    /// The texts, the structured content, and whether there is an output schema.
    fn given<R: IntoResult>(result: R) -> (Vec<String>, Option<String>, bool) {
        let made = result.into_result().expect("it can be written");
        let text = |content: &Content| match content {
            Content::Text(block) => block.text.clone(),
            _ => panic!("a text"),
        };
        (made.content.iter().map(text).collect(), made.structured_content, R::output_schema().is_some())
    }

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn texts_are_texts_and_nothing_is_nothing() {
        assert_eq!(given("a".to_owned()), (texts(&["a"]), None, false));
        assert_eq!(given("a"), (texts(&["a"]), None, false));
        assert_eq!(given(Cow::Borrowed("a")), (texts(&["a"]), None, false));
        assert_eq!(given(()), (Vec::new(), None, false));
    }

    #[test]
    fn everything_else_is_structured_and_always_an_object() {
        let point = Some("{\"x\":1}".to_owned());
        assert_eq!(given(Point { x: 1 }), (texts(&["{\"x\":1}"]), point.clone(), true));
        let list = "{\"result\":[1,2]}";
        assert_eq!(given(vec![1, 2]), (texts(&[list]), Some(list.to_owned()), true));
        let beside = ToolResult::new().text("one").structured(Point { x: 1 });
        assert_eq!(given(beside), (texts(&["one"]), point, true));
    }

    #[test]
    fn what_is_made_by_hand_stays_as_it_is() {
        let made =
            ToolResult::failure("no").link("a:/b", "b", Value::Null).meta(json!({ "m": 1 })).into_raw();
        assert!(made.is_error);
        assert_eq!(made.meta.as_deref(), Some("{\"m\":1}"));
        let [Content::Text(_), Content::ResourceLink(link)] = &made.content[..] else { panic!("two blocks") };
        assert_eq!(link, "{\"name\":\"b\",\"uri\":\"a:/b\"}");
    }

    #[test]
    fn a_file_is_text_or_bytes() {
        let resource = |bytes: &[u8]| {
            let made = ToolResult::new().file("file:///a", "x/y", bytes).into_raw();
            let [Content::EmbeddedResource(json)] = &made.content[..] else { panic!("one resource") };
            serde_json::from_str::<Value>(json).expect("JSON")["resource"].clone()
        };
        assert_eq!(resource(b"abc"), json!({ "uri": "file:///a", "mimeType": "x/y", "text": "abc" }));
        for (bytes, blob) in
            [(&b"\xff"[..], "/w=="), (b"\xffa", "/2E="), (b"\xffab", "/2Fi"), (b"\xffabc", "/2FiYw==")]
        {
            assert_eq!(resource(bytes)["blob"], blob);
        }
    }

    #[test]
    fn what_json_cannot_say_is_a_failure() {
        #[derive(Serialize, JsonSchema)]
        struct Odd {
            #[schemars(with = "String")]
            map: std::collections::BTreeMap<(u8, u8), u8>,
        }
        let map = std::collections::BTreeMap::from([((1, 2), 3)]);
        let error = Odd { map }.into_result().expect_err("a key that is a pair");
        assert!(error.to_string().contains("cannot be written"), "{error}");
    }
}
