//! Unauthenticated messages of clients: no bytes make the decoder panic, and it can encode again what it
//! accepts.

use super::well_formed;
use bytes::Bytes;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use toolyard_protocol::initialize::InitializeParams;
use toolyard_protocol::message::{Incoming, Message, decode};
use toolyard_protocol::task_filter::TaskFilter;
use toolyard_protocol::tools::CallParams;
use toolyard_protocol::{RawJson, notification, page, response, tasks};

/// An id whose encoding needs care.
const TASK: &str = "t\"\\\u{1}";

pub(super) fn check(data: &[u8]) {
    let text = Bytes::copy_from_slice(data);
    match decode(&text) {
        Ok(Incoming::One(message)) => accepted(&message),
        Ok(Incoming::Batch(members)) => members.iter().flatten().for_each(accepted),
        Err(error) => drop(response::error(error.id.as_ref(), &error.error)),
    }
    if let Ok(json) = RawJson::parse(text) {
        carried(&json);
    }
}

fn accepted(message: &Message) {
    let again = decode(&encode(message)).expect("what was accepted is accepted again");
    let Incoming::One(again) = again else { panic!("one message") };
    assert_eq!(&again, message);
    if let Message::Request { params, .. } | Message::Notification { params, .. } = message {
        understood(params.as_ref());
    }
}

fn encode(message: &Message) -> Bytes {
    match message {
        Message::Notification { method, params } => response::notification(method.as_str(), params.as_ref()),
        Message::Response { id, outcome } => response::outcome(id, outcome),
        Message::Request { id, method, params } => {
            let mut out = format!("{{\"jsonrpc\":\"2.0\",\"id\":{}", RawJson::of(id).as_str());
            out += &format!(",\"method\":{}", RawJson::of(method.as_str()).as_str());
            if let Some(params) = params {
                out += &format!(",\"params\":{}", params.as_str());
            }
            (out + "}").into()
        }
    }
}

/// Any method may have any params.
fn understood(params: Option<&RawJson>) {
    if let Ok(call) = CallParams::decode(params) {
        assert!(call.arguments.is_object(), "{:?}", call.arguments);
        well_formed(&call.arguments);
        if let Some(token) = &call.progress_token {
            well_formed(token);
        }
    }
    if let Ok(initialize) = InitializeParams::decode(params) {
        assert!(initialize.capabilities.is_object(), "{:?}", initialize.capabilities);
        well_formed(&initialize.capabilities);
    }
    drop(tasks::task_id(params));
    drop(page::cursor(params));
    drop(TaskFilter::decode(params));
    drop(notification::cancellation(params));
}

/// JSON that is passed on as text stays unchanged; a result can be tied to its task.
fn carried(json: &RawJson) {
    let again = RawJson::parse(json.bytes()).expect("what was accepted is accepted again");
    assert_eq!(&again, json);
    if !json.is_object() {
        return;
    }
    let tied = response::with_related_task(json, TASK);
    well_formed(&tied);
    let (mut before, mut after) = (members(json.as_str()), members(tied.as_str()));
    let meta_before = before.remove("_meta").filter(|meta| meta.get().starts_with('{'));
    let meta_after = after.remove("_meta").expect("`_meta` is there");
    assert!(same(&before, &after), "the rest is kept: {json:?} became {tied:?}");
    let (mut before, mut after) =
        (members(meta_before.map_or("{}", RawValue::get)), members(meta_after.get()));
    let entry = after.remove(response::RELATED_TASK).expect("the entry is there");
    let entry: BTreeMap<String, String> = serde_json::from_str(entry.get()).expect("an object of texts");
    assert_eq!(entry, BTreeMap::from([("taskId".to_owned(), TASK.to_owned())]));
    before.remove(response::RELATED_TASK);
    assert!(same(&before, &after), "the rest of `_meta` is kept: {json:?} became {tied:?}");
}

/// The members of an object. The reader of JSON takes no name twice, and no half of a surrogate pair.
fn members(object: &str) -> BTreeMap<String, &RawValue> {
    serde_json::from_str(object).expect("an object")
}

fn same(one: &BTreeMap<String, &RawValue>, other: &BTreeMap<String, &RawValue>) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| one.0 == other.0 && one.1.get() == other.1.get())
}
