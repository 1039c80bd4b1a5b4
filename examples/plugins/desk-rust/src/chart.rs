//! Returns an image.

use schemars::JsonSchema;
use serde::Deserialize;
use toolyard_plugin::{Error, ToolResult};

const WIDTH: usize = 320;
const HEIGHT: usize = 200;
const MARGIN: usize = 8;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Chart {
    #[schemars(length(min = 1))]
    title: String,
    /// The bars, from left to right.
    #[schemars(length(min = 1, max = 24))]
    values: Vec<Bar>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Bar {
    label: String,
    #[schemars(range(min = 0))]
    value: f64,
}

pub fn chart(Chart { title, values }: Chart) -> Result<ToolResult, Error> {
    let largest = values.iter().max_by(|a, b| a.value.total_cmp(&b.value));
    let largest = largest.ok_or_else(|| Error::invalid_params("a chart needs a value"))?;
    let bars = if values.len() == 1 { "bar" } else { "bars" };
    let text =
        format!("{} {bars}, the largest is \"{}\" with {}", values.len(), largest.label, largest.value);
    let image = png(title, &pixels(&values, largest.value))?;
    Ok(ToolResult::new().image(image, "image/png").text(text))
}

/// One byte for each pixel: 1 in a bar, else 0.
fn pixels(values: &[Bar], largest: f64) -> Vec<u8> {
    let mut pixels = vec![0; WIDTH * HEIGHT];
    let column = (WIDTH - 2 * MARGIN) / values.len();
    for (index, bar) in values.iter().enumerate() {
        let share = if largest > 0.0 { bar.value / largest } else { 0.0 };
        let top = HEIGHT - MARGIN - (share * (HEIGHT - 2 * MARGIN) as f64).round() as usize;
        let left = MARGIN + index * column;
        for row in top..HEIGHT - MARGIN {
            pixels[row * WIDTH + left..][..column - 2].fill(1);
        }
    }
    pixels
}

fn png(title: String, pixels: &[u8]) -> Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, WIDTH as u32, HEIGHT as u32);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_palette(&[255, 255, 255, 31, 119, 180][..]);
    encoder.add_itxt_chunk("Title".to_owned(), title)?;
    encoder.write_header()?.write_image_data(pixels)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_high_as_their_values() {
        let bar = |value| Bar { label: String::new(), value };
        let pixels = pixels(&[bar(1.0), bar(2.0), bar(0.0)], 2.0);
        let height = |x: usize| (0..HEIGHT).filter(|y| pixels[y * WIDTH + x] == 1).count();
        assert_eq!([height(10), height(120), height(220)], [92, 184, 0]);
        assert!(png(String::new(), &pixels).expect("an image").starts_with(b"\x89PNG"));
    }
}
