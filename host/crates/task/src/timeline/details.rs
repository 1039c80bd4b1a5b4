//! The details of an event in words.

use super::{EventKind, TimelineEvent};
use crate::approval::CONFIRM_KEY;
use serde_json::Value;

impl TimelineEvent {
    /// The details in one line. The text is the guest's or the caller's, and is not escaped.
    #[must_use]
    pub fn details(&self) -> String {
        let body: Value = self.body.decode().unwrap_or_default();
        let text = |name: &str| match &body[name] {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            // Whole numbers without a fraction.
            Value::Number(number) if number.is_f64() => number.as_f64().map(|value| value.to_string()),
            other => Some(other.to_string()),
        };
        match self.kind {
            EventKind::Log => {
                let logger = text("logger").map(|logger| format!(" {logger}:")).unwrap_or_default();
                let (level, data) = (text("level").unwrap_or_default(), text("data").unwrap_or_default());
                format!("{level}{logger} {data}")
            }
            EventKind::LeftOut => {
                let (events, bytes) = (text("events").unwrap_or_default(), text("bytes").unwrap_or_default());
                format!("{events} events are missing here ({bytes} bytes)")
            }
            EventKind::Stdout | EventKind::Stderr => text("text").unwrap_or_default(),
            EventKind::HostCall => host_call(&body),
            EventKind::Asked if body["key"] == CONFIRM_KEY => "for an approval".to_owned(),
            EventKind::Progress => {
                let of = text("total").map(|total| format!(" of {total}")).unwrap_or_default();
                let message = text("message").map(|message| format!(" {message}")).unwrap_or_default();
                format!("{}{of}{message}", text("progress").unwrap_or_default())
            }
            EventKind::Doubt => {
                let request = text("request").unwrap_or_default();
                let decision = match body["decision"].as_str() {
                    Some("resend") => "is sent again",
                    Some("error") => "is an error for the tool",
                    _ => "fails the task",
                };
                let by = match body["reason"].as_str() {
                    Some("method") => "its method is idempotent",
                    Some("idempotency_key") => "it has an idempotency key",
                    Some("manifest") => "the manifest says so",
                    _ => "a person decided so",
                };
                format!("{request} was under way when the host stopped; it {decision}, because {by}")
            }
            _ => {
                let names = ["status", "code", "key", "method", "reason", "message", "incarnation"];
                names.into_iter().filter_map(text).collect::<Vec<_>>().join(" ")
            }
        }
    }
}

/// A host call in one line.
fn host_call(body: &Value) -> String {
    let text = |name: &str| body[name].as_str().unwrap_or_default();
    if let Some(further) = body["further"].as_object() {
        let counts: Vec<_> = further.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        return format!("further ones: {}", counts.join(", "));
    }
    let took = format!("{} ms", body["took_ms"]);
    let yes = |name: &str, yes: &'static str, no: &'static str| if body[name] == true { yes } else { no };
    match text("kind") {
        "http" => {
            let status = body["status"].as_u64().map(|status| format!(" {status}")).unwrap_or_default();
            let error = body["error"].as_str().map(|error| format!(" {error}")).unwrap_or_default();
            format!(
                "{} {}://{}:{}{status}{error}, {took}, sent {} B, received {} B",
                text("method"),
                text("scheme"),
                text("host"),
                body["port"],
                body["sent"],
                body["received"]
            )
        }
        "socket" => {
            let allowed = yes("allowed", "allowed", "refused");
            format!("{} to {}, {allowed}", text("protocol"), text("peer"))
        }
        "question" => format!("question, {}, {took}", yes("answered", "answered", "not answered")),
        "permission" => format!("permission, {}, {took}", yes("given", "given", "not given")),
        other => format!("{other}, {took}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{RawJson, Timestamp};

    fn event(kind: EventKind, body: &'static str) -> TimelineEvent {
        TimelineEvent { seq: 1, attempt: 1, at: Timestamp(0), kind, body: RawJson::trusted(body) }
    }

    #[test]
    fn the_details_of_an_event_are_one_line_of_words() {
        use EventKind::{Doubt, Ended, HostCall, LeftOut, Log, Progress, Queued, Stderr};
        for (kind, body, expected) in [
            (Log, r#"{"level":"info","data":"so"}"#, "info so"),
            (Log, r#"{"level":"error","logger":"disk","data":{"full":1}}"#, r#"error disk: {"full":1}"#),
            (Progress, r#"{"progress":1.5,"total":3.0,"message":"half"}"#, "1.5 of 3 half"),
            (Ended, r#"{"status":"failed","code":-32603,"message":"broke"}"#, "failed -32603 broke"),
            (LeftOut, r#"{"events":3,"bytes":99}"#, "3 events are missing here (99 bytes)"),
            (Stderr, r#"{"text":"a\nb"}"#, "a\nb"),
            (
                HostCall,
                r#"{"kind":"http","took_ms":3.5,"method":"GET","scheme":"http","host":"a.example","port":80,"status":200,"sent":0,"received":7}"#,
                "GET http://a.example:80 200, 3.5 ms, sent 0 B, received 7 B",
            ),
            (HostCall, r#"{"further":{"http":1,"sleep":9}}"#, "further ones: 1 http, 9 sleep"),
            (
                Doubt,
                r#"{"request":"POST http://a.example/x","decision":"fail","reason":"manifest"}"#,
                "POST http://a.example/x was under way when the host stopped; it fails the task, because the \
                 manifest says so",
            ),
            (Queued, "{}", ""),
        ] {
            assert_eq!(event(kind, body).details(), expected);
        }
    }
}
