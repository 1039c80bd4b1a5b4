//! Four tools: `weather` calls an API, `chart` draws an image, `triage` sorts the files of a folder as the
//! user says, and `steps` continues from a stored state.

mod chart;
mod steps;
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
        Tool::new("steps", steps::steps)
            .title("Work in parts")
            .description("Does a number of parts, and continues in a fresh run after every two of them.")
            .pure(),
    ]
}
