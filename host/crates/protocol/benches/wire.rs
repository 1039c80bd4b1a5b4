//! The cost of the wire: decoding a `tools/call`, telling the generations apart, tying a result to
//! its task, completing it, rendering the listing.

use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use toolyard_protocol::message::decode;
use toolyard_protocol::page::page;
use toolyard_protocol::response::{result, with_related_task};
use toolyard_protocol::stateless::envelope::{ClaimedParams, VersionClaim, claim};
use toolyard_protocol::stateless::result::complete;
use toolyard_protocol::tools::{CallParams, Execution, TaskSupport, ToolDescription};
use toolyard_protocol::{Id, Incoming, Message, Method, RawJson, Revision};

const TOOLS: usize = 100;

/// As a client sends it.
fn call(text: &str) -> Bytes {
    let text = RawJson::of(text);
    let text = text.as_str();
    format!(
        r#"{{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{{"name":"echo","arguments":{{"text":{text}}},"_meta":{{"progressToken":17}}}}}}"#
    )
    .into()
}

fn decode_call(body: &Bytes) -> CallParams {
    let Ok(Incoming::One(Message::Request { params, .. })) = decode(body) else {
        panic!("a request");
    };
    CallParams::decode(params.as_ref()).expect("params of a call")
}

fn tool(number: usize) -> ToolDescription {
    ToolDescription {
        name: format!("tool_{number}"),
        title: Some("A tool".to_owned()),
        description: Some("Says what it does in a sentence or two, as tools do for their models.".to_owned()),
        icons: None,
        input_schema: RawJson::parse(
            r#"{"type":"object","properties":{"text":{"type":"string","description":"The text."}},"required":["text"],"additionalProperties":false}"#,
        )
        .expect("JSON"),
        output_schema: None,
        annotations: Some(RawJson::trusted(r#"{"readOnlyHint":true}"#)),
        execution: Some(Execution { task_support: TaskSupport::Optional }),
        meta: None,
    }
}

/// Params as a client of the other generation sends them, of about so many bytes.
fn params(length: usize, of: &str) -> RawJson {
    let text = RawJson::of(&of.repeat(length.saturating_sub(60) / of.len()));
    let text = text.as_str();
    RawJson::trusted(format!(
        r#"{{"name":"echo","arguments":{{"text":{text}}},"_meta":{{"progressToken":17}}}}"#
    ))
}

fn stateless(criterion: &mut Criterion) {
    let line = "a line of a text, with a V or two in Very few words\n";
    for (name, params) in [
        ("100 B", params(100, "x")),
        ("10 KiB", params(10 << 10, "x")),
        ("10 KiB of lines", params(10 << 10, line)),
    ] {
        assert_eq!(claim(Some(&params)), VersionClaim::None);
        criterion.bench_function(&format!("protocol/claim of a sessions call/{name}"), |bencher| {
            bencher.iter(|| claim(black_box(Some(&params))));
        });
    }
    let call = RawJson::trusted(
        r#"{"name":"echo","arguments":{"text":"42"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}}}"#,
    );
    criterion.bench_function("protocol/claim, envelope and params of a stateless call", |bencher| {
        bencher.iter(|| {
            let claimed = ClaimedParams::by(&Method::ToolsCall, black_box(Some(&call)));
            claimed.open(Some(&call)).expect("an envelope")
        });
    });
    let server = RawJson::trusted(r#"{"name":"toolyard","version":"0.1.0"}"#);
    for (name, length) in [("small", 5), ("64 KiB", 64 << 10)] {
        let text = "x".repeat(length);
        let plain =
            RawJson::of(&serde_json::json!({"content": [{"type": "text", "text": text}], "isError": false}));
        let with_meta =
            RawJson::of(&serde_json::json!({"_meta": {"a": 1}, "content": [{"type": "text", "text": text}]}));
        for (kind, given) in [("plain", plain), ("with _meta", with_meta)] {
            criterion.bench_function(&format!("protocol/complete/{kind}, {name}"), |bencher| {
                bencher.iter(|| complete(black_box(&given), &server));
            });
        }
    }
}

fn wire(criterion: &mut Criterion) {
    for (name, length) in [("small", 5), ("64 KiB", 64 << 10)] {
        let body = call(&"x".repeat(length));
        criterion.bench_function(&format!("protocol/decode tools call/{name}"), |bencher| {
            bencher.iter(|| decode_call(black_box(&body)));
        });
    }
    let small = RawJson::trusted(r#"{"content":[{"type":"text","text":"42"}],"isError":false}"#);
    criterion.bench_function("protocol/result", |bencher| {
        bencher.iter(|| result(&Id::Number(17), black_box(&small)));
    });
    criterion.bench_function("protocol/with_related_task", |bencher| {
        let id = "786512e2-9e0d-44bd-8f29-789f320fe840";
        bencher.iter(|| with_related_task(black_box(&small), id));
    });
    let tools: Vec<ToolDescription> = (0..TOOLS).map(tool).collect();
    criterion.bench_function("protocol/tools list of 100/render", |bencher| {
        bencher
            .iter(|| tools.iter().map(|tool| tool.render(Revision::LATEST, true)).collect::<Vec<_>>().len());
    });
    let rendered: Vec<RawJson> = tools.iter().map(|tool| tool.render(Revision::LATEST, true)).collect();
    criterion.bench_function("protocol/tools list of 100/put together", |bencher| {
        bencher.iter(|| page("tools", black_box(&rendered).iter(), None));
    });
}

criterion_group!(benches, wire, stateless);
criterion_main!(benches);
