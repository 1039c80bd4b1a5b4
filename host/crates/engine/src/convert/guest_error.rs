//! Errors with which guests end a request: their own JSON-RPC errors and missing capabilities.

use crate::bindings::toolyard::plugin::types::{CallError, RpcError as GuestError};
use crate::convert::guest_input::cut;
use serde_json::{Map, Value};
use toolyard_task::wire::error::{INTERNAL_ERROR, URL_ELICITATION_REQUIRED};
use toolyard_task::wire::{MISSING_CAPABILITY, RawJson, RpcError, check_page};

/// The maximum length of a message (`types.rpc-error`), in bytes.
const MAX_MESSAGE_BYTES: usize = 8 << 10;
/// The maximum number of URLs in one error.
const MAX_ELICITATIONS: usize = 16;
/// The maximum length of an `elicitationId` that a guest provides, in bytes.
const MAX_ID_BYTES: usize = 256;
/// The maximum size of a missing capability that is shown, in bytes.
const MAX_CAPABILITY_BYTES: usize = 1 << 10;

/// The error for the client. `subject` names the object of the request, such as ``tool `x` ``.
pub(crate) fn rpc_error(subject: &str, error: GuestError) -> RpcError {
    let GuestError { code, message, data } = error;
    let message = cut(message, MAX_MESSAGE_BYTES);
    if code == URL_ELICITATION_REQUIRED {
        return match elicitations(data) {
            Ok(data) => RpcError { code, message, data: Some(data) },
            Err(what) => RpcError::internal(format!(
                "The {subject} ended with the error {code} and malformed data: {what}"
            )),
        };
    }
    let data = data.and_then(|data| match RawJson::parse(data) {
        // Storing and re-reading `null` would yield no data, so `null` counts as no data from the
        // start.
        Ok(data) => (data.as_str() != "null").then_some(data),
        Err(error) => {
            tracing::debug!(subject, "the data of a guest's JSON-RPC error is left out: {error}");
            None
        }
    });
    RpcError { code, message, data }
}

/// The error for a request that is not a tool call. `told` says whether the client knows the error
/// code for a missing capability.
pub(crate) fn call_error(subject: &str, error: CallError, told: bool) -> RpcError {
    match error {
        CallError::Rpc(error) => rpc_error(subject, error),
        CallError::MissingCapability(what) => {
            let missing = Missing::of(subject, &what);
            match missing.error() {
                Some(error) if told => error,
                Some(error) => RpcError { code: INTERNAL_ERROR, ..error },
                None => RpcError::internal(missing.sentence),
            }
        }
    }
}

/// A capability that the client lacks.
pub(crate) struct Missing {
    /// The message for the client.
    pub sentence: String,
    /// A `ClientCapabilities` object, if the guest provided one.
    wanted: Option<RawJson>,
}

impl Missing {
    pub fn of(subject: &str, what: &str) -> Self {
        let wanted = capabilities(what);
        let sentence = match &wanted {
            Some(wanted) => {
                format!("The {subject} needs a client with these capabilities: {}", wanted.as_str())
            }
            None => format!("The {subject} needs a capability that the client does not have"),
        };
        Self { sentence, wanted }
    }

    /// The error that names the capability (26R-4); `None` if the guest named none.
    pub fn error(&self) -> Option<RpcError> {
        let wanted = self.wanted.as_ref()?;
        let error = RpcError::new(MISSING_CAPABILITY, &self.sentence);
        Some(error.with_data(&serde_json::json!({ "requiredCapabilities": wanted })))
    }
}

fn capabilities(what: &str) -> Option<RawJson> {
    let json = (what.len() <= MAX_CAPABILITY_BYTES).then(|| RawJson::parse(what.to_owned()).ok())?;
    json.filter(RawJson::is_object)
}

/// The data of `-32042`: the params of elicitations in URL mode. Adds a `mode` and an
/// `elicitationId` where they are missing.
fn elicitations(data: Option<String>) -> Result<RawJson, String> {
    let data = data.ok_or("there is none")?;
    let data = RawJson::parse(data).map_err(|error| error.to_string())?;
    let mut data: Map<String, Value> = data.decode().map_err(|_| "it is not a JSON object")?;
    let list = data.get_mut("elicitations").and_then(Value::as_array_mut);
    let list = list.ok_or("`elicitations` is not an array")?;
    if list.is_empty() || list.len() > MAX_ELICITATIONS {
        return Err(format!("{} elicitations; 1 to {MAX_ELICITATIONS} are allowed", list.len()));
    }
    for (index, entry) in list.iter_mut().enumerate() {
        complete(entry).map_err(|what| format!("`elicitations[{index}]` {what}"))?;
    }
    Ok(RawJson::of(&data))
}

fn complete(entry: &mut Value) -> Result<(), String> {
    let entry = entry.as_object_mut().ok_or("is not an object")?;
    match entry.get("mode") {
        None => {
            entry.insert("mode".to_owned(), "url".into());
        }
        Some(mode) if mode == "url" => {}
        Some(_) => return Err("has a `mode` that is not \"url\"".to_owned()),
    }
    if entry.get("message").and_then(Value::as_str).is_none_or(|text| text.len() > MAX_MESSAGE_BYTES) {
        return Err(format!("has no `message` of at most {MAX_MESSAGE_BYTES} bytes"));
    }
    check_page(entry.get("url").and_then(Value::as_str).unwrap_or_default())
        .map_err(|what| format!("has no `url` to open: {what}"))?;
    match entry.get("elicitationId") {
        None => {
            entry.insert("elicitationId".to_owned(), random_id()?.into());
        }
        Some(Value::String(id)) if (1..=MAX_ID_BYTES).contains(&id.len()) => {}
        Some(_) => {
            return Err(format!("has an `elicitationId` that is not text of 1 to {MAX_ID_BYTES} bytes"));
        }
    }
    Ok(())
}

/// A version 4 UUID. It must not be guessable (E-8).
fn random_id() -> Result<String, String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| format!("gets no `elicitationId`: {error}"))?;
    Ok(uuid::Builder::from_random_bytes(bytes).into_uuid().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(code: i32, data: Option<&str>) -> RpcError {
        rpc_error("tool `t`", GuestError { code, message: "m".into(), data: data.map(str::to_owned) })
    }

    #[test]
    fn e_7_what_is_missing_of_a_url_elicitation_is_added() {
        let error = given(
            -32042,
            Some(
                r#"{"elicitations":[{"message":"m","url":"https://a.example/x"},
                {"mode":"url","message":"","url":"http://b.example","elicitationId":"own"}],"more":1}"#,
            ),
        );
        assert_eq!((error.code, error.message.as_str()), (-32042, "m"));
        let data: Value = error.data.expect("data").decode().expect("JSON");
        let first = &data["elicitations"][0];
        assert_eq!((&first["mode"], &first["url"]), (&"url".into(), &"https://a.example/x".into()));
        let id = first["elicitationId"].as_str().expect("added");
        assert_eq!((id.len(), &id[14..15]), (36, "4"), "{id}");
        assert_eq!(data["elicitations"][1]["elicitationId"], "own");
        assert_eq!(data["more"], 1);
    }

    #[test]
    fn e_7_malformed_data_is_an_internal_error_that_names_the_fault() {
        let seventeen = format!(
            r#"{{"elicitations":[{}]}}"#,
            vec![r#"{"message":"m","url":"https://a.example"}"#; 17].join(",")
        );
        for (data, says) in [
            (None, "there is none"),
            (Some("{"), "not valid JSON"),
            (Some("[]"), "not a JSON object"),
            (Some("{}"), "`elicitations` is not an array"),
            (Some(r#"{"elicitations":[]}"#), "0 elicitations"),
            (Some(seventeen.as_str()), "17 elicitations"),
            (Some(r#"{"elicitations":[5]}"#), "`elicitations[0]` is not an object"),
            (Some(r#"{"elicitations":[{"url":"https://a.example"}]}"#), "no `message`"),
            (Some(r#"{"elicitations":[{"message":"m"}]}"#), "no `url`"),
            (Some(r#"{"elicitations":[{"message":"m","url":"javascript:alert(1)"}]}"#), "no `url`"),
            (Some(r#"{"elicitations":[{"message":"m","url":"https://a b"}]}"#), "no `url`"),
            (
                Some(r#"{"elicitations":[{"message":"m","url":"https://u:p@a"}]}"#),
                "a user name or a password",
            ),
            (Some(r#"{"elicitations":[{"mode":"form","message":"m","url":"https://a"}]}"#), "`mode`"),
            (
                Some(r#"{"elicitations":[{"message":"m","url":"https://a","elicitationId":7}]}"#),
                "`elicitationId`",
            ),
        ] {
            let error = given(-32042, data);
            assert_eq!((error.code, error.data), (-32603, None), "{says}");
            assert!(error.message.contains("tool `t`") && error.message.contains(says), "{}", error.message);
        }
    }

    #[test]
    fn other_errors_pass_and_a_missing_capability_is_named() {
        assert_eq!(given(-5, Some("{\"a\":1}")).data.expect("data").as_str(), "{\"a\":1}");
        assert_eq!(given(-5, Some("null")).data, None);
        // 26R-4: a client that knows the error code gets it.
        for (told, code) in [(false, -32603), (true, -32021)] {
            let sampling = || CallError::MissingCapability("{\"sampling\":{}}".into());
            let error = call_error("prompt `p`", sampling(), told);
            assert_eq!(error.code, code);
            assert_eq!(error.data.expect("data").as_str(), "{\"requiredCapabilities\":{\"sampling\":{}}}");
            assert!(error.message.contains("prompt `p`") && error.message.contains("sampling"));
            for nothing in ["nothing", "[\"sampling\"]"] {
                let error = call_error("prompt `p`", CallError::MissingCapability(nothing.into()), told);
                assert_eq!((error.code, error.data), (-32603, None));
            }
        }
    }
}
