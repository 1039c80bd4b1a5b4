//! What the tool says of itself.

use contract::Tool;
use contract::declaration::{object, tool};
use serde_json::{Value, json};

/// The name of the tool.
pub const NAME: &str = "fetch";

const MOST_BYTES: usize = 4 << 20;
const MOST_TIMEOUT: u64 = 110_000;

/// How much of a page is read where the call does not say.
pub fn default_bytes() -> usize {
    512 << 10
}

/// How long it may take where the call does not say, in milliseconds.
pub fn default_timeout() -> u64 {
    30_000
}

/// The tool.
pub fn fetch() -> Tool {
    let input = object(
        json!({
            "url": { "type": "string", "format": "uri", "description": "The page, with http or https." },
            "format": {
                "enum": ["markdown", "text", "raw"],
                "default": "markdown",
                "description": "What is made of HTML: Markdown, its text alone, or nothing.",
            },
            "maxBytes": {
                "type": "integer",
                "minimum": 1,
                "maximum": MOST_BYTES,
                "default": default_bytes(),
                "description": "How much of the page is read.",
            },
            "timeoutMs": {
                "type": "integer",
                "minimum": 1,
                "maximum": MOST_TIMEOUT,
                "default": default_timeout(),
                "description": "How long it may take, redirects included.",
            },
            "headers": {
                "type": "object",
                "maxProperties": 32,
                "additionalProperties": { "type": "string" },
                "description": "Headers of the request, such as Accept-Language.",
            },
        }),
        &["url"],
    );
    Tool {
        output_schema: Some(output().to_string()),
        annotations: json!({
            "readOnlyHint": true,
            "destructiveHint": false,
            "idempotentHint": true,
            "openWorldHint": true,
        })
        .to_string(),
        ..tool(
            NAME,
            "Fetch a page",
            "Fetches a page of the web and gives it as Markdown, as text, or as it is. Follows redirects. Only \
             hosts that the manifest grants can be reached.",
            input,
        )
    }
}

fn output() -> Value {
    object(
        json!({
            "url": { "type": "string", "description": "What was asked for." },
            "finalUrl": { "type": "string", "description": "Where it was after redirects." },
            "status": { "type": "integer" },
            "contentType": { "type": "string", "description": "As the server gave it." },
            "title": { "type": "string", "description": "Of an HTML page." },
            "bytes": { "type": "integer", "description": "How much of the page was read." },
            "truncated": { "type": "boolean", "description": "Whether there was more." },
        }),
        &["url", "finalUrl", "status", "contentType", "bytes", "truncated"],
    )
}
