//! `toolyard call --save`: writes the images, sounds and files of a result into a folder.

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::io::Write as _;
use std::path::Path;
use toolyard_cli::tell;

/// The longest name that is taken from a URI, in bytes.
const NAME_BYTES: usize = 100;

/// Extensions by media type. Others are `bin`.
const EXTENSIONS: [(&str, &str); 15] = [
    ("application/json", "json"),
    ("application/pdf", "pdf"),
    ("application/zip", "zip"),
    ("audio/mpeg", "mp3"),
    ("audio/ogg", "ogg"),
    ("audio/wav", "wav"),
    ("image/gif", "gif"),
    ("image/jpeg", "jpg"),
    ("image/png", "png"),
    ("image/svg+xml", "svg"),
    ("image/webp", "webp"),
    ("text/csv", "csv"),
    ("text/html", "html"),
    ("text/markdown", "md"),
    ("text/plain", "txt"),
];

/// Writes each block of a result that has data into the folder, which is made if it is not there, and says
/// where. No file is replaced.
///
/// # Errors
/// If a file exists already or cannot be written, or the data is not base64.
pub fn save(result: &Value, folder: &Path) -> anyhow::Result<()> {
    for (index, block) in result["content"].as_array().into_iter().flatten().enumerate() {
        let Some((name, bytes)) = file_of(block, index + 1)? else { continue };
        let path = folder.join(name);
        let cannot = || format!("cannot save {}", path.display());
        std::fs::create_dir_all(folder).with_context(cannot)?;
        let mut file = std::fs::File::create_new(&path).with_context(cannot)?;
        file.write_all(&bytes).with_context(cannot)?;
        tell!("toolyard: saved {}", path.display());
    }
    Ok(())
}

/// The name and the bytes of a block; `None` if it has none. `number` is its place in the result.
fn file_of(block: &Value, number: usize) -> anyhow::Result<Option<(String, Vec<u8>)>> {
    let decoded = |data: &Value| {
        let data = data.as_str().unwrap_or_default();
        STANDARD.decode(data).with_context(|| format!("block {number} is not valid base64"))
    };
    Ok(match block["type"].as_str() {
        Some(kind @ ("image" | "audio")) => {
            let name = format!("{kind}-{number}.{}", extension(&block["mimeType"]));
            Some((name, decoded(&block["data"])?))
        }
        Some("resource") => {
            let resource = &block["resource"];
            let bytes = match resource["text"].as_str() {
                Some(text) => text.as_bytes().to_vec(),
                None => decoded(&resource["blob"])?,
            };
            let name = match name_in(resource["uri"].as_str().unwrap_or_default()) {
                Some(name) => format!("{number}-{name}"),
                None => format!("file-{number}.{}", extension(&resource["mimeType"])),
            };
            Some((name, bytes))
        }
        _ => None,
    })
}

fn extension(media_type: &Value) -> &'static str {
    let media_type = media_type.as_str().unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    EXTENSIONS.iter().find(|(known, _)| known.eq_ignore_ascii_case(media_type)).map_or("bin", |(_, end)| end)
}

/// A file name from the end of a URI. It comes from the tool, so only harmless characters stay.
fn name_in(uri: &str) -> Option<String> {
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    let last = path.rsplit('/').next().unwrap_or_default();
    let harmless = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let name: String = last.chars().map(harmless).take(NAME_BYTES).collect();
    (!name.trim_matches(['.', '_']).is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn blocks_with_data_become_files_and_none_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let result = json!({"content": [
            {"type": "text", "text": "stays"},
            {"type": "image", "mimeType": "image/png", "data": "AQID"},
            {"type": "audio", "mimeType": "audio/x-odd", "data": "AQ=="},
            {"type": "resource", "resource": {"uri": "file:///a/../b/no te.csv?x#y", "text": "a,b"}},
            {"type": "resource", "resource": {"uri": "file:///..", "mimeType": "text/plain; charset=utf-8", "blob": "AQI="}},
            {"type": "resource_link", "uri": "file:///x", "name": "x"},
        ]});
        let into = folder.path().join("out");
        save(&result, &into).expect("saved");
        for (name, bytes) in [
            ("image-2.png", &b"\x01\x02\x03"[..]),
            ("audio-3.bin", b"\x01"),
            ("4-no_te.csv", b"a,b"),
            ("file-5.txt", b"\x01\x02"),
        ] {
            assert_eq!(std::fs::read(into.join(name)).unwrap_or_else(|_| panic!("{name}")), bytes, "{name}");
        }
        assert_eq!(std::fs::read_dir(&into).expect("a folder").count(), 4);
        let again = save(&result, &into).expect_err("nothing is replaced").to_string();
        assert!(again.contains("image-2.png"), "{again}");
    }

    #[test]
    fn a_name_from_a_tool_stays_in_the_folder() {
        for (uri, name) in [
            ("file:///etc/passwd", Some("passwd")),
            ("a/..", None),
            ("", None),
            ("x:\\..\\..\\boot.ini", Some("x__.._.._boot.ini")),
            ("https://a.example/report.pdf?download=1", Some("report.pdf")),
        ] {
            assert_eq!(name_in(uri).as_deref(), name, "{uri}");
        }
        assert_eq!(name_in(&"a".repeat(1_000)).expect("a name").len(), NAME_BYTES);
    }
}
