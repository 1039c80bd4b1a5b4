//! The smallest image and the shortest sound.

use toolyard_plugin::raw::{Content, Media};

/// One red pixel.
pub const PNG: &[u8] = include_bytes!("pixel.png");

/// A millisecond of silence.
const WAV: &[u8] = include_bytes!("silence.wav");

/// The image as a block.
pub fn image() -> Content {
    Content::Image(media(PNG, "image/png"))
}

/// The sound as a block.
pub fn audio() -> Content {
    Content::Audio(media(WAV, "audio/wav"))
}

fn media(data: &[u8], mime_type: &str) -> Media {
    Media { data: data.to_vec(), mime_type: mime_type.to_owned(), annotations: None, meta: None }
}
