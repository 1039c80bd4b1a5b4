//! Errors of self-contained requests.

use super::Verdict;
use crate::schema::Schema;
use serde_json::Value;

/// Judges the error of a request. `status` is the HTTP status, if the error is the only message of the
/// response.
pub(super) fn of_call(schema: &Schema, message: &Value, error: &Value, status: Option<u16>) -> Verdict {
    let code = error["code"].as_i64().unwrap_or_default();
    let definition = match code {
        -32020 => "HeaderMismatchError",
        -32021 => "MissingRequiredClientCapabilityError",
        -32022 => "UnsupportedProtocolVersionError",
        _ => "JSONRPCErrorResponse",
    };
    let mut problems = schema.stateless.problems(definition, message);
    problems.extend(of_any(error));
    // On a stream, the status precedes the error.
    let fits = match (code, status) {
        (_, None | Some(200)) => !matches!((code, status), (-32601 | -32022..=-32020, Some(200))),
        (-32601, Some(status)) => status == 404,
        (_, Some(status)) => status != 404,
    };
    if !fits {
        problems.push(format!("26H-8: {code} under the status {}", status.unwrap_or_default()));
    }
    Verdict { taken_for: definition.to_owned(), problems }
}

/// Judges a response that answers no known request.
pub(super) fn without_id(schema: &Schema, message: &Value) -> Verdict {
    let taken_for = "JSONRPCErrorResponse";
    let mut problems = schema.stateless.problems(taken_for, message);
    match message.get("id") {
        Some(id) => problems.push(format!("26J-6: {id} is the id of no request")),
        // These errors concern a request that was read, so they must have its id.
        None if matches!(message["error"]["code"].as_i64(), Some(-32602 | -32601 | -32022..=-32020)) => {
            problems.push("26J-6: the id is not echoed".to_owned());
        }
        None => problems.extend(of_any(&message["error"])),
    }
    Verdict { taken_for: taken_for.to_owned(), problems }
}

/// The problems of any error, including inlined ones.
pub(super) fn of_any(error: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    if error["message"] == "" {
        problems.push("J-4: an error without a message".to_owned());
    }
    match error["code"].as_i64() {
        Some(-32700 | -32603..=-32600 | -32022..=-32020) => {}
        Some(code @ -32768..=-32000) => problems.push(format!("26J-7: {code} is not to be sent")),
        _ => {}
    }
    problems
}
