//! `read_file`.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolyard_plugin::ToolResult;

use crate::place::{Fault, Place};

/// The most bytes of text that one call returns.
const MOST_TEXT: usize = 256 << 10;
/// The largest file that is returned as bytes.
const MOST_BYTES: u64 = 4 << 20;
/// The number of bytes that decide whether a file is text.
const SAMPLE: usize = 8 << 10;

/// The arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadOf {
    /// The path of the file, such as docs/plan.txt.
    #[schemars(length(min = 1, max = 1_024))]
    path: String,
    /// The first line of a text to return.
    #[serde(default = "first_line")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    offset: usize,
    /// The most lines to return.
    #[serde(default = "default_lines")]
    #[schemars(range(min = 1, max = 100_000))]
    limit: usize,
}

fn first_line() -> usize {
    1
}

fn default_lines() -> usize {
    2_000
}

/// Reads one file.
pub fn read(root: &Path, of: &ReadOf) -> Result<ToolResult, Fault> {
    let place = Place::of(root, &of.path)?;
    let failed = |error: std::io::Error| place.fault(&error);
    let mut file = File::open(&place.path).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    if about.is_dir() {
        return Err(place.fault(&std::io::ErrorKind::IsADirectory.into()));
    }
    let mut sample = Vec::new();
    file.by_ref().take(SAMPLE as u64).read_to_end(&mut sample).map_err(failed)?;
    file.rewind().map_err(failed)?;
    if is_text(&sample) {
        return text(&place, BufReader::new(file), of);
    }
    let size = about.len();
    if size > MOST_BYTES {
        return Err(Fault(format!(
            "{} is not text and has {size} bytes; such a file is returned only up to {MOST_BYTES} bytes.",
            place.name()
        )));
    }
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes).map_err(failed)?;
    Ok(blob(&place, bytes))
}

/// Whether a file that begins with `sample` is text.
pub fn is_text(sample: &[u8]) -> bool {
    let is_utf_8 = match std::str::from_utf8(sample) {
        Ok(_) => true,
        // The sample may end within a character.
        Err(error) => error.error_len().is_none() && sample.len() - error.valid_up_to() < 4,
    };
    is_utf_8 && !sample.contains(&0)
}

fn text(place: &Place, mut file: impl BufRead, of: &ReadOf) -> Result<ToolResult, Fault> {
    let mut text = Vec::new();
    let (mut line, mut last, mut is_cut) = (0, 0, false);
    let mut one = Vec::new();
    loop {
        one.clear();
        // A line that is longer than the limit need not be read completely.
        let read = file.by_ref().take(MOST_TEXT as u64 + 1).read_until(b'\n', &mut one);
        if read.map_err(|error| place.fault(&error))? == 0 {
            break;
        }
        line += 1;
        if line < of.offset {
            continue;
        }
        if line >= of.offset.saturating_add(of.limit) || text.len() + one.len() > MOST_TEXT {
            is_cut = true;
            if text.is_empty() {
                one.truncate(MOST_TEXT);
                text.append(&mut one);
                last = line;
            }
            break;
        }
        text.append(&mut one);
        last = line;
    }
    if text.is_empty() && of.offset > 1 {
        return Err(Fault(format!("{} has {line} lines; there is no line {}.", place.name(), of.offset)));
    }
    let mut result = ToolResult::new().text(String::from_utf8_lossy(&text));
    if is_cut {
        let said = format!(
            "(Lines {} to {last} of {}; there is more. Go on with offset {}.)",
            of.offset,
            place.name(),
            last + 1
        );
        result = result.text(said);
    }
    Ok(result)
}

/// Returns an image as an image, and other bytes as a resource.
fn blob(place: &Place, bytes: Vec<u8>) -> ToolResult {
    match image(&bytes) {
        Some(kind) => ToolResult::new().image(bytes, kind),
        None => ToolResult::new().resource(json!({
            "uri": format!("files:///{}", escaped(&place.shown)),
            "mimeType": "application/octet-stream",
            "blob": STANDARD.encode(bytes),
        })),
    }
}

/// The media type of an image, from its first bytes.
fn image(bytes: &[u8]) -> Option<&'static str> {
    let is_riff_of = |kind: &[u8]| bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(kind);
    match bytes {
        _ if bytes.starts_with(b"\x89PNG\r\n\x1a\n") => Some("image/png"),
        _ if bytes.starts_with(b"\xff\xd8\xff") => Some("image/jpeg"),
        _ if bytes.starts_with(b"GIF8") => Some("image/gif"),
        _ if is_riff_of(b"WEBP") => Some("image/webp"),
        _ => None,
    }
}

/// A path, percent-encoded for a URI.
fn escaped(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    path.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use toolyard_plugin::{Content, IntoResult};

    use super::*;
    use crate::testing::folder;

    fn read(root: &Path, of: &ReadOf) -> Result<Vec<Content>, Fault> {
        Ok(super::read(root, of)?.into_result().expect("it can be written").content)
    }

    fn of(path: &str, offset: usize, limit: usize) -> ReadOf {
        ReadOf { path: path.to_owned(), offset, limit }
    }

    fn texts(content: &[Content]) -> Vec<String> {
        let text = |content: &Content| match content {
            Content::Text(block) => block.text.clone(),
            _ => panic!("a text"),
        };
        content.iter().map(text).collect()
    }

    #[test]
    fn text_is_given_by_lines_and_what_is_left_is_said() {
        let root = folder(&[("a", b"one\ntwo\nthree\nfour"), ("empty", b"")]);
        let lines = |offset, limit| read(root.path(), &of("a", offset, limit)).expect("read");
        assert_eq!(texts(&lines(1, 10)), ["one\ntwo\nthree\nfour"]);
        assert_eq!(
            texts(&lines(2, 2)),
            ["two\nthree\n", "(Lines 2 to 3 of a; there is more. Go on with offset 4.)"]
        );
        assert_eq!(texts(&lines(4, 1)), ["four"]);
        let fault = read(root.path(), &of("a", 5, 1)).expect_err("there is none");
        assert_eq!(fault.0, "a has 4 lines; there is no line 5.");
        assert_eq!(texts(&read(root.path(), &of("empty", 1, 5)).expect("read")), [""]);
    }

    #[test]
    fn long_text_is_cut_between_lines_and_a_long_line_within() {
        let long = "x".repeat(100 << 10);
        let lines = format!("{long}\n{long}\n{long}\n");
        let root = folder(&[("lines", lines.as_bytes()), ("line", "y".repeat(300 << 10).as_bytes())]);
        let result = read(root.path(), &of("lines", 1, 100)).expect("read");
        assert_eq!(texts(&result)[0].len(), 2 * (long.len() + 1));
        assert!(texts(&result)[1].contains("Go on with offset 3."), "{:?}", texts(&result)[1]);
        let result = read(root.path(), &of("line", 1, 100)).expect("read");
        assert_eq!(texts(&result)[0].len(), MOST_TEXT);
        assert!(texts(&result)[1].contains("there is more"));
    }

    #[test]
    fn what_is_no_text_is_an_image_or_bytes() {
        let png = b"\x89PNG\r\n\x1a\n\0rest";
        let large = vec![0; MOST_BYTES as usize + 1];
        let root =
            folder(&[("i.dat", png), ("b b.bin", b"\0\x01"), ("latin", b"caf\xe9 x"), ("large", &large)]);
        let file = |name: &str| read(root.path(), &of(name, 1, 1));
        let image = file("i.dat").expect("read");
        let [Content::Image(media)] = &image[..] else { panic!("an image") };
        assert_eq!((media.mime_type.as_str(), &media.data[..]), ("image/png", &png[..]));
        let bytes = file("b b.bin").expect("read");
        let [Content::EmbeddedResource(json)] = &bytes[..] else { panic!("a resource") };
        assert!(json.contains("files:///b%20b.bin") && json.contains("\"AAE=\""), "{json}");
        assert!(matches!(file("latin").expect("read")[0], Content::EmbeddedResource(_)));
        assert!(file("large").expect_err("too large").0.contains("is not text and has"));
        assert!(file("").expect_err("a folder").0.contains("is a folder"));
    }

    #[test]
    fn a_sample_may_end_within_a_character() {
        let euro = "\u{20ac}".as_bytes();
        assert!(is_text(b"") && is_text(euro) && is_text(&euro[..2]));
        assert!(!is_text(&[euro[0], b'x']) && !is_text(b"a\0"));
    }
}
