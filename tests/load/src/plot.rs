//! Plots of the tables as SVG.

use anyhow::anyhow;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::Path;

/// A bar chart.
#[derive(Debug, Clone)]
pub struct Bars {
    /// The title of the chart.
    pub title: &'static str,
    /// The name and the value of each bar.
    pub bars: Vec<(String, f64)>,
}

const WIDTH: u32 = 900;
const HEAD: u32 = 48;
const BAR: u32 = 26;
/// The x position of the bars, after the names.
const NAMES: i32 = 300;
/// The space after the longest bar, for its figure.
const FIGURE: i32 = 90;
const OURS: RGBColor = RGBColor(0x1f, 0x6f, 0xb2);
const OTHERS: RGBColor = RGBColor(0x9a, 0xa5, 0xb1);

impl Bars {
    /// Writes the SVG file.
    pub fn write(&self, file: &Path) -> anyhow::Result<()> {
        let height = HEAD + BAR * u32::try_from(self.bars.len())? + 12;
        let area = SVGBackend::new(file, (WIDTH, height)).into_drawing_area();
        self.draw(&area).map_err(|error| anyhow!("{}: {error}", file.display()))
    }

    fn draw<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, plotters::coord::Shift>,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        let text = |size: i32| ("sans-serif", size).into_font().color(&BLACK);
        area.fill(&WHITE)?;
        area.draw(&Text::new(self.title, (12, 12), text(18)))?;
        let most = self.bars.iter().map(|(_, figure)| *figure).fold(f64::MIN_POSITIVE, f64::max);
        let widest = f64::from(WIDTH as i32 - NAMES - FIGURE);
        let names = text(14).pos(Pos::new(HPos::Right, VPos::Center));
        let figures = text(14).pos(Pos::new(HPos::Left, VPos::Center));
        for (row, (name, figure)) in (0..).zip(&self.bars) {
            let top = HEAD as i32 + row * BAR as i32;
            let middle = top + BAR as i32 / 2;
            let end = NAMES + (widest * figure / most) as i32;
            let colour = if name.starts_with("toolyard") { OURS } else { OTHERS };
            area.draw(&Text::new(name.replace('`', ""), (NAMES - 8, middle), names.clone()))?;
            area.draw(&Rectangle::new([(NAMES, top + 4), (end, top + BAR as i32 - 4)], colour.filled()))?;
            area.draw(&Text::new(crate::stats::shown(*figure), (end + 6, middle), figures.clone()))?;
        }
        area.present()
    }
}
