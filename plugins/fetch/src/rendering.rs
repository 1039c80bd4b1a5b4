//! Makes the result.

use schemars::JsonSchema;
use serde::Serialize;
use toolyard_plugin::ToolResult;

use crate::fault::Fault;
use crate::journey::Arrived;
use crate::page::{self, Format, Kind};

/// The number of characters of an error's body that the result shows.
const ERROR_CHARS: usize = 2_000;

/// The metadata of a page.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct Fetched {
    /// The requested URL.
    url: String,
    /// The URL after redirects.
    final_url: String,
    status: u16,
    /// The Content-Type that the server sent.
    content_type: String,
    /// The title of an HTML page.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// The number of bytes read.
    bytes: usize,
    /// Whether the page was longer.
    truncated: bool,
}

/// Makes the result of the request for `asked`.
pub fn render(asked: &str, arrived: &Arrived, format: Format) -> Result<ToolResult<Fetched>, Fault> {
    let received = &arrived.received;
    let content_type = received.header("content-type").unwrap_or_default();
    if let Some(coding) = received.header("content-encoding").filter(|coding| *coding != "identity") {
        return Err(Fault::Unreadable(format!("the server sent it as {coding}, which was not asked for")));
    }
    let kind = page::kind(content_type, &received.body);
    let (mut result, title) = match kind {
        Kind::Image(mime_type) => (image(received, &mime_type)?, None),
        Kind::Other => {
            let name = if content_type.is_empty() { "of no said type" } else { content_type };
            return Err(Fault::Unreadable(format!("it is binary, {name}")));
        }
        Kind::Html | Kind::Text => {
            let is_html = kind == Kind::Html;
            let text = page::decode(content_type, &received.body, is_html);
            let (text, title) = if is_html { page::convert(&text, format) } else { (text, None) };
            if received.status >= 400 {
                return Err(Fault::Status(received.status, text.chars().take(ERROR_CHARS).collect()));
            }
            (ToolResult::new().text(text), title)
        }
    };
    if received.status >= 400 {
        return Err(Fault::Status(received.status, String::new()));
    }
    let bytes = received.body.len();
    if received.truncated {
        let note = format!("(Cut off after {bytes} bytes; there was more. A larger `maxBytes` reads on.)");
        result = result.text(note);
    }
    Ok(result.structured(Fetched {
        url: asked.to_owned(),
        final_url: arrived.url.to_string(),
        status: received.status,
        content_type: content_type.to_owned(),
        title,
        bytes,
        truncated: received.truncated,
    }))
}

fn image(received: &crate::journey::Received, mime_type: &str) -> Result<ToolResult, Fault> {
    if received.truncated {
        let bytes = received.body.len();
        return Err(Fault::Unreadable(format!(
            "an image of more than {bytes} bytes; `maxBytes` may be larger"
        )));
    }
    Ok(ToolResult::new().image(received.body.clone(), mime_type))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journey::Received;
    use serde_json::{Value, json};
    use toolyard_plugin::{Content, IntoResult, raw};

    fn arrived(status: u16, content_type: &str, body: &[u8], truncated: bool) -> Arrived {
        let headers = vec![("Content-Type".to_owned(), content_type.to_owned())];
        let received = Received { status, headers, body: body.to_vec(), truncated };
        Arrived { url: "https://a.example/x".parse().expect("a URL"), received }
    }

    fn rendered(asked: &str, arrived: &Arrived, format: Format) -> Result<raw::ToolResult, Fault> {
        Ok(render(asked, arrived, format)?.into_result().expect("it can be written"))
    }

    #[test]
    fn a_page_is_text_with_what_is_known_of_it() {
        let page = arrived(200, "text/html", b"<title>T</title><p>words", true);
        let made = rendered("https://a.example", &page, Format::Markdown).expect("a page");
        let [Content::Text(text), Content::Text(note)] = &made.content[..] else { panic!("two texts") };
        assert_eq!(text.text, "words");
        assert!(note.text.contains("Cut off after 24 bytes"), "{}", note.text);
        let said: Value =
            serde_json::from_str(made.structured_content.as_deref().expect("some")).expect("JSON");
        assert_eq!(
            said,
            json!({
                "url": "https://a.example", "finalUrl": "https://a.example/x", "status": 200,
                "contentType": "text/html", "title": "T", "bytes": 24, "truncated": true,
            })
        );
    }

    #[test]
    fn images_are_images_and_the_rest_is_refused() {
        let made =
            rendered("u", &arrived(200, "image/png", b"\x89PNG", false), Format::Raw).expect("an image");
        assert!(matches!(&made.content[..], [Content::Image(media)] if media.mime_type == "image/png"));
        for (page, says) in [
            (arrived(200, "image/png", b"\x89PNG", true), "an image of more than 4 bytes"),
            (arrived(200, "application/pdf", b"%PDF", false), "binary, application/pdf"),
            (arrived(404, "text/plain", b"no such page", false), "status 404:\n\nno such page"),
            (arrived(500, "image/png", b"", false), "status 500"),
        ] {
            let fault = rendered("u", &page, Format::Markdown).map(|_| ()).expect_err(says).to_string();
            assert!(fault.contains(says), "{fault}");
        }
    }
}
