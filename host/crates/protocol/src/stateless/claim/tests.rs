use super::*;
use crate::logging::LogLevel;

const PV: &str = r#""io.modelcontextprotocol/protocolVersion""#;
const CC: &str = r#""io.modelcontextprotocol/clientCapabilities""#;
const CI: &str = r#""io.modelcontextprotocol/clientInfo""#;
const LL: &str = r#""io.modelcontextprotocol/logLevel""#;

fn claim_of(params: &str) -> VersionClaim {
    claim(Some(&RawJson::trusted(params.to_owned())))
}

/// Both ways, which give the same result.
fn decode(params: &str) -> Result<Envelope, RpcError> {
    let params = RawJson::trusted(params.to_owned());
    let decoded = Envelope::decode(Some(&params));
    let claimed = ClaimedParams::by(&Method::ToolsList, Some(&params));
    assert_eq!(claimed.claim, claim(Some(&params)), "{params:?}");
    let opened = claimed.open(Some(&params)).map(|(envelope, _)| envelope);
    assert_eq!(format!("{opened:?}"), format!("{decoded:?}"), "{params:?}");
    opened
}

/// With these members of `_meta` besides the two that are required.
fn with(more: &str) -> String {
    format!(r#"{{"_meta":{{{PV}:"2026-07-28",{CC}:{{}}{more}}}}}"#)
}

fn version(name: &str) -> VersionClaim {
    VersionClaim::Version(name.to_owned())
}

/// 26B, the first row of the table: `_meta` with the key makes it stateless,
/// whatever version it names.
#[test]
fn a_version_in_meta_is_a_claim_however_it_is_written() {
    assert_eq!(claim_of(&with("")), version("2026-07-28"));
    assert_eq!(claim_of(&format!(r#"{{"_meta":{{{PV}:"2025-11-25"}}}}"#)), version("2025-11-25"));
    assert_eq!(claim_of(&format!(r#"{{"_meta":{{{PV}:""}}}}"#)), version(""));
    for escaped in [
        r#"{"_meta":{"io.modelcontextprotocol\/protocolVersion":"x"}}"#,
        r#"{"_meta":{"\u0069o.modelcontextprotocol/protocolVersion":"x"}}"#,
        r#"{"_meta":{"io.modelcontextprotocol/protocol\u0056ersion":"x"}}"#,
        r#"{"\u005fmeta":{"io.modelcontextprotocol/protocolVersion":"x"}}"#,
        r#"{"\u005Fmeta":{"io\u002emodelcontextprotocol\/protocolVersion":"\u0078"}}"#,
        "{ \"_meta\"\n: {\t\"io.modelcontextprotocol/protocolVersion\" : \"x\" } }",
    ] {
        assert_eq!(claim_of(escaped), version("x"), "{escaped}");
    }
    // Depth and strange names around it do not hide it.
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    assert_eq!(claim_of(&format!(r#"{{"arguments":{deep},"_meta":{{"x":{deep},{PV}:"v"}}}}"#)), version("v"));
    assert_eq!(claim_of(&format!(r#"{{"\ud800":1,"_meta":{{"\udc00":2,{PV}:"v"}}}}"#)), version("v"));
}

/// 26B: a request of the other generation may mention the key anywhere else.
#[test]
fn the_key_anywhere_else_is_no_claim() {
    assert_eq!(claim(None), VersionClaim::None);
    let others = r#"{} {"name":"echo","arguments":{"text":"V_Version\\u\/"},"_meta":{"progressToken":1}}
                     {KEY:"x"} {"arguments":{"_meta":{KEY:"x"}}} {"_meta":{"nested":{KEY:"x"}}} {"_meta":KEY}
                     {"_meta":[{KEY:"x"}]} {"_meta":null,"text":KEY} {"_meta":{"text":KEY}} {"_META":{KEY:"x"}}
                     {"_meta":{"io.modelcontextprotocol/protocolversion":"x"}}
                     {"_meta":{"io.modelcontextprotocol/protocolVersion2":"x"}}
                     {"_meta":{"IO.modelcontextprotocol/protocolVersion":"x"}}
                     {"_meta":{"io.modelcontextprotocol\\/protocolVersion":"x"}}"#;
    for params in others.split_whitespace() {
        assert_eq!(claim_of(&params.replace("KEY", PV)), VersionClaim::None, "{params}");
    }
}

/// 26B, 26R-2: a value that is not a string, or a duplicate key, claims an unknown
/// version. The request is refused, not taken for the other generation.
#[test]
fn a_claim_without_a_readable_version_is_malformed() {
    for value in ["null", "5", "true", "{}", r#"["2026-07-28"]"#, r#""\ud800""#] {
        let params = format!(r#"{{"_meta":{{{PV}:{value},{CC}:{{}}}}}}"#);
        assert_eq!(claim_of(&params), VersionClaim::Malformed, "{value}");
        assert_eq!(decode(&params).expect_err(value).code, -32602, "{value}");
    }
    for params in [
        format!(r#"{{"_meta":{{{PV}:"a",{PV}:"b"}}}}"#),
        format!(r#"{{"_meta":{{{PV}:"a","io.modelcontextprotocol\/protocolVersion":"a"}}}}"#),
        format!(r#"{{"_meta":{{{PV}:"a"}},"_meta":{{{PV}:"a"}}}}"#),
    ] {
        assert_eq!(claim_of(&params), VersionClaim::Malformed, "{params}");
        assert_eq!(decode(&params).expect_err(&params).code, -32602, "{params}");
    }
    // Two keys, of which one is a claim: still a claim, and refused by the envelope.
    for other in ["{}", "5"] {
        let params = format!(r#"{{"_meta":{other},"_meta":{{{PV}:"a",{CC}:{{}}}}}}"#);
        assert_eq!(claim_of(&params), version("a"));
        assert_eq!(decode(&params).expect_err(&params).code, -32602);
    }
}

/// 26R-2: the error names the missing member.
#[test]
fn an_envelope_without_what_it_needs_names_it() {
    let none = Envelope::decode(None).expect_err("no params");
    assert_eq!((none.code, none.message.contains("params")), (-32602, true), "{none}");
    for (params, names) in [
        ("{}".to_owned(), "`_meta` is required"),
        (r#"{"_meta":null}"#.to_owned(), "`_meta` must be an object"),
        (r#"{"_meta":[]}"#.to_owned(), "`_meta` must be an object"),
        (format!(r#"{{"_meta":{{{CC}:{{}}}}}}"#), "protocolVersion` is required in `_meta`"),
        (format!(r#"{{"_meta":{{{PV}:5,{CC}:{{}}}}}}"#), "protocolVersion` must be a string"),
        (format!(r#"{{"_meta":{{{PV}:"2026-07-28"}}}}"#), "clientCapabilities` is required in `_meta`"),
        (format!(r#"{{"_meta":{{{PV}:"x",{CC}:null}}}}"#), "clientCapabilities` must be an object"),
        (format!(r#"{{"_meta":{{{PV}:"x",{CC}:[]}}}}"#), "clientCapabilities` must be an object"),
        (format!(r#"{{"_meta":{{{PV}:"x",{CC}:{{}},{CC}:{{}}}}}}"#), "clientCapabilities"),
    ] {
        let error = decode(&params).expect_err(&params);
        assert_eq!(error.code, -32602, "{params}");
        assert!(error.message.contains(names), "{params}: {error}");
    }
}

/// 26R-1, 26R-5: the name of the client is optional, and may be malformed.
#[test]
fn the_name_of_the_client_is_optional() {
    let client = |more: &str| decode(&with(more)).expect(more).client();
    assert_eq!(client(""), None);
    let named = client(&format!(r#",{CI}:{{"name":"c","version":"1","websiteUrl":"x"}}"#)).expect("named");
    assert_eq!((named.name.as_str(), named.version.as_str()), ("c", "1"));
    let malformed = r#"null 5 {} {"name":5,"version":"1"} {"name":"c"} ["c",null,"1"] {"name":"\ud800"}"#;
    for malformed in malformed.split(' ') {
        assert_eq!(client(&format!(",{CI}:{malformed}")), None, "{malformed}");
    }
}

/// 26C-4: an unknown level is refused; an absent one means no log messages at all.
#[test]
fn the_log_level_is_one_of_the_eight_or_absent() {
    assert_eq!(decode(&with("")).expect("no level").log_level, None);
    let level = decode(&with(&format!(r#",{LL}:"warning""#))).expect("a level").log_level;
    assert_eq!(level, Some(LogLevel::Warning));
    for wrong in ["null", "3", "\"verbose\"", "\"INFO\"", "\"\"", "{}"] {
        let error = decode(&with(&format!(",{LL}:{wrong}"))).expect_err(wrong);
        assert_eq!(error.code, -32602, "{wrong}");
    }
    let long = decode(&with(&format!(",{LL}:\"{}\"", "é".repeat(10_000)))).expect_err("long");
    assert!(long.message.len() < 200, "what came is not said again in full");
}

/// 26T-1, 26T-2, 26T-6: the extension counts, but only if it is an object; tasks declared as in
/// 2025-11-25 are different.
#[test]
fn the_tasks_extension_is_declared_by_an_object() {
    let declared = |capabilities: &str| {
        let params = format!(r#"{{"_meta":{{{PV}:"2026-07-28",{CC}:{capabilities}}}}}"#);
        let envelope = decode(&params).expect(capabilities);
        assert_eq!(envelope.capabilities.as_str(), capabilities, "kept as it is");
        (envelope.tasks, envelope.session_tasks)
    };
    assert_eq!(declared("{}"), (false, false));
    assert_eq!(declared(r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#), (true, false));
    assert_eq!(declared(r#"{"extensions":{"io.modelcontextprotocol\/tasks":{ "x":1}}}"#), (true, false));
    assert_eq!(declared(r#"{"extensions":{"io.modelcontextprotocol/tasks":{}},"tasks":{}}"#), (true, true));
    assert_eq!(declared(r#"{"tasks":{"cancel":{}}}"#), (false, true));
    let others = r#"{"extensions":{}} {"extensions":[]} {"extensions":null,"tasks":null}
                   {"extensions":"io.modelcontextprotocol/tasks","tasks":true}
                   {"extensions":{"io.modelcontextprotocol/tasks":null}}
                   {"extensions":{"io.modelcontextprotocol/tasks":true}} {"extensions":{"tasks":{}}}
                   {"experimental":{"io.modelcontextprotocol/tasks":{}}} {"io.modelcontextprotocol/tasks":{}}"#;
    for none in others.split_whitespace() {
        assert_eq!(declared(none), (false, false), "{none}");
    }
    let deep = format!(r#"{{"x":{}{}}}"#, "[".repeat(5_000), "]".repeat(5_000));
    assert_eq!(declared(&deep), (false, false), "depth is carried, not read");
}

/// A plainly written call is read at once, with the same values that the readers of its parts find.
/// Only those readers read a call that is written differently.
#[test]
fn a_plain_call_is_read_with_its_envelope() {
    let meta = format!(r#""_meta":{{{PV}:"2026-07-28",{CC}:{{}},"progressToken":"p"}}"#);
    let read = |params: &str| {
        let params = RawJson::trusted(params.to_owned());
        let (_, call) =
            ClaimedParams::by(&Method::ToolsCall, Some(&params)).open(Some(&params)).expect("an envelope");
        let alone = crate::stateless::input::call_params(Some(&params));
        (call, alone)
    };
    for plain in [
        format!(r#"{{"name":"x","arguments":{{"a":1}},{meta}}}"#),
        format!(r#"{{{meta},"task":{{"ttl":null}},"name":"x"}}"#),
        format!(r#"{{{meta},"\u006eame":"x","requestState":"\u0061","inputResponses":{{"k":[]}}}}"#),
        format!(r#"{{{meta},"name":"x","arguments":null,"other":[{{}}]}}"#),
    ] {
        let (call, alone) = read(&plain);
        assert_eq!(call.expect(&plain), alone.expect(&plain), "{plain}");
    }
    let others = r#""name":"\u0078" "other":1 "name":5 "name":"x","name":"y" "name":"x","arguments":[]
                        "name":"x","requestState":5 "name":"x","inputResponses":[]"#;
    for otherwise in others.split_whitespace() {
        let (call, alone) = read(&format!("{{{meta},{otherwise}}}"));
        let is_right = otherwise == r#""name":"\u0078""#;
        assert_eq!((call, alone.is_ok()), (None, is_right), "{otherwise}");
    }
    // serde also reads a struct from an array; the readers of the parts do not.
    let array = RawJson::trusted(r#"{"_meta":["2026-07-28",{}],"name":"x"}"#);
    assert_eq!(ClaimedParams::by(&Method::ToolsCall, Some(&array)).claim, VersionClaim::None);
    assert!(Plain::read(&Method::ToolsCall, &array).is_none());
}
