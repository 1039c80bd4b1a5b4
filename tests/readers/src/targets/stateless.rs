//! Requests of 2026-07-28, their headers, the schemas of tools and the results of guests: none causes a
//! panic, the classification agrees with the decoder, and members that are added to a result occur once and
//! change nothing else.
//!
//! An input is JSON; in an array, the second member is a header value and the third a schema.

use super::well_formed;
use bytes::Bytes;
use serde_json::{Map, Value};
use toolyard_protocol::question::Kind;
use toolyard_protocol::stateless::claim::{ClaimedParams, VersionClaim, claim};
use toolyard_protocol::stateless::envelope::Envelope;
use toolyard_protocol::stateless::error::{HEADER_MISMATCH, shown};
use toolyard_protocol::stateless::input::{Retry, call_params, input_requests, update_params};
use toolyard_protocol::stateless::listen::{self, Filter};
use toolyard_protocol::stateless::param_headers::param_headers;
use toolyard_protocol::stateless::result::{Cache, complete, complete_cached, inner_complete};
use toolyard_protocol::stateless::{META_SERVER_INFO, META_VERSION, headers};
use toolyard_protocol::tools::CallParams;
use toolyard_protocol::{Id, Method, RawJson, RpcError};

const SERVER: &str = r#"{"name":"s","version":"1"}"#;

pub(super) fn check(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        header(text);
    }
    let Ok(json) = RawJson::parse(Bytes::copy_from_slice(data)) else { return };
    if json.is_object() {
        params(&json);
        result(&json);
        questions(&json);
    }
    if let Ok((first, value, schema)) = json.decode::<(RawJson, String, RawJson)>() {
        if first.is_object() {
            params(&first);
        }
        header(&value);
        if let Ok(found) = param_headers(&schema) {
            for found in found {
                for header in [None, Some(value.as_str())] {
                    if let Err(error) = found.check(&first, header) {
                        assert_eq!(error.code, HEADER_MISMATCH);
                    }
                }
            }
        }
    }
}

fn header(text: &str) {
    match headers::value(text) {
        Ok(value) if !text.contains("=?base64?") => assert_eq!(value, text.trim_matches([' ', '\t'])),
        Ok(_) => {}
        Err(error) => assert_eq!(error.code, HEADER_MISMATCH),
    }
}

fn params(params: &RawJson) {
    let claimed = claim(Some(params));
    // If one parser sees the whole, the other sees the same.
    if let Ok(value) = params.decode::<Value>() {
        match value["_meta"].get(META_VERSION) {
            Some(_) => assert_ne!(claimed, VersionClaim::None, "a claim is overlooked"),
            // Of two members `_meta`, that parser uses the last.
            None if params.as_str().matches("meta").count() <= 1 && !params.as_str().contains('\\') => {
                assert_eq!(claimed, VersionClaim::None);
            }
            None => {}
        }
    }
    let at_once = ClaimedParams::by(&Method::ToolsCall, Some(params));
    assert_eq!(at_once.claim, claimed, "however it is read");
    let (opened, call) = match at_once.open(Some(params)) {
        Ok((envelope, call)) => (Ok(envelope), call),
        Err(error) => (Err(error), None),
    };
    assert!(call.is_none() || call == call_params(Some(params)).ok(), "read with the envelope: {call:?}");
    assert_eq!(
        opened.as_ref().err(),
        Envelope::decode(Some(params)).err().as_ref(),
        "what is known of the claim decides nothing"
    );
    match opened {
        Ok(envelope) => {
            assert!(matches!(claimed, VersionClaim::Version(_)), "an envelope without a claim: {claimed:?}");
            well_formed(&envelope.capabilities);
            assert!(envelope.capabilities.is_object());
        }
        Err(error) => assert_eq!(error.code, -32602),
    }
    for method in [Method::ToolsCall, Method::ResourcesRead, Method::TasksGet, Method::ToolsList] {
        let _ = headers::name_of(&method, Some(params));
    }
    let retry = Retry::decode(&Method::ToolsCall, Some(params));
    match (call_params(Some(params)), CallParams::decode(Some(params)), &retry) {
        (Ok(both), Ok(call), Ok(retry)) => assert_eq!(both, (call, retry.clone())),
        (Err(_), Err(_), _) | (Err(_), _, Err(_)) => {}
        (both, call, retry) => panic!("read at once {both:?}, one by one {call:?} and {retry:?}"),
    }
    if let Ok(retry) = retry {
        retry.responses.values().for_each(well_formed);
    }
    if let Ok((_, responses)) = update_params(Some(params)) {
        responses.values().for_each(well_formed);
    }
    if let Ok(filter) = Filter::decode(Some(params)) {
        let id = Id::Text("\"\\".into());
        let wanted: Value = filter.render().decode().expect("JSON");
        let told: Value = serde_json::from_slice(&listen::acknowledged(&id, &filter)).expect("JSON");
        assert_eq!(told["params"]["notifications"], wanted);
        let again = RawJson::of(&serde_json::json!({"notifications": wanted}));
        assert_eq!(Filter::decode(Some(&again)).expect("what was said"), filter);
    }
    if let Ok(error) = params.decode::<RpcError>() {
        let error = shown(error);
        error.data.iter().for_each(well_formed);
        assert_eq!(shown(error.clone()), error, "shown once more it is the same");
    }
}

fn result(result: &RawJson) {
    let server = RawJson::trusted(SERVER);
    let made = complete(result, &server);
    let cached = complete_cached(result, &server, &Cache { ttl_ms: 7, public: false });
    let inner = inner_complete(result);
    // A strict reader refuses a name that occurs twice, however it is escaped.
    for made in [&made, &cached, &inner] {
        assert!(RawJson::parse(made.bytes()).is_ok(), "{made:?}");
    }
    let members = |json: &RawJson| json.decode::<Map<String, Value>>();
    // Another reader takes one level of nesting less.
    let Ok(mut expected) = members(result) else { return };
    let [mut made, cached, inner] = [made, cached, inner].map(|made| members(&made).expect("as readable"));
    assert_eq!((&cached["ttlMs"], &cached["cacheScope"]), (&7.into(), &"private".into()));
    assert!([&cached, &inner].iter().all(|made| made["resultType"] == "complete"));
    assert_eq!(made.remove("resultType"), Some("complete".into()));
    expected.remove("resultType");
    let mut meta = made.remove("_meta").expect("`_meta` is there");
    let given = expected.remove("_meta");
    assert_eq!(made, expected, "the rest is kept");
    let server = meta.as_object_mut().expect("an object").remove(META_SERVER_INFO);
    assert_eq!(server, Some(serde_json::from_str(SERVER).expect("JSON")));
    if let Some(Value::Object(mut given)) = given {
        given.remove(META_SERVER_INFO);
        assert_eq!(meta, Value::Object(given), "the rest of `_meta` is kept");
    }
}

fn questions(params: &RawJson) {
    let all = [Kind::Form, Kind::Url, Kind::Sampling, Kind::Roots];
    let made = input_requests(all.iter().map(|kind| ("k\"", *kind, params)));
    well_formed(&made);
}
