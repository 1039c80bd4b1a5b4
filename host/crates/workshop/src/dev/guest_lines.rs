//! The log of `toolyard dev`: lines that guests write to their standard output and error, and log messages of
//! the host itself. Log messages of guests are shown with their calls, not here.

use super::show::{DIM, RED, RESET, Show, clipped};
use serde_json::json;
use std::fmt::{Debug, Write as _};
use std::sync::Arc;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// A log layer that shows the lines that guests write, and log messages of the host.
pub struct GuestLines(pub(super) Arc<Show>);

impl<S: Subscriber> Layer<S> for GuestLines {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let level = *event.metadata().level();
        if event.metadata().target() == "guest" && fields.is_log_message && level > Level::WARN {
            return;
        }
        let Fields { message, plugin, tool, stream, rest, .. } = fields;
        let source =
            [("plugin", &plugin), ("tool", &tool)].into_iter().filter(|(_, value)| !value.is_empty());
        let source: String = source.map(|(name, value)| format!(" {name}={value}")).collect();
        if let Some(stream) = stream
            && level > Level::WARN
        {
            let text = format!("{tool} {stream}: {}", clipped(&message));
            let json = json!({"plugin": plugin, "tool": tool, "stream": stream, "line": message});
            return self.0.say("guest", RESET, &text, json);
        }
        let colour = if level <= Level::WARN { RED } else { DIM };
        let (level, fields) = (level.as_str().to_lowercase(), format!("{source}{rest}"));
        let json = json!({"level": level, "message": message, "fields": fields.trim()});
        self.0.say("host", colour, &format!("{level}: {message}{fields}"), json);
    }
}

/// The fields of an event that this log shows.
#[derive(Default)]
struct Fields {
    message: String,
    plugin: String,
    tool: String,
    stream: Option<String>,
    is_log_message: bool,
    rest: String,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "stream" => self.stream = Some(value.to_owned()),
            "logger" => self.is_log_message = true,
            _ => self.record_debug(field, &format_args!("{value}")),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = format!("{value:?}");
        match field.name() {
            "message" => self.message = text,
            "plugin" => self.plugin = text,
            "tool" => self.tool = text,
            // Writing to a String does not fail.
            name => drop(write!(self.rest, " {name}={text}")),
        }
    }
}
