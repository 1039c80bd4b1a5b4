//! Three tools: `weather` calls an API, `chart` draws an image, and `triage` sorts the files of a folder as
//! the user says.

mod chart;
mod triage;
mod weather;

use toolyard_plugin::{Tool, plugin};

plugin! {
    tools: [
        Tool::new("weather", weather::weather)
            .title("Weather")
            .description("Tells the present weather in a city.")
            .read_only()
            .open_world(true),
        Tool::new("chart", chart::chart)
            .title("Chart")
            .description("Draws a bar chart of up to 24 values as a PNG image.")
            .pure(),
        Tool::new("triage", triage::triage)
            .title("Sort the inbox")
            .description("Asks the user what to do with each text file in the inbox, and moves the files.")
            .additive()
            .open_world(true),
    ]
}
