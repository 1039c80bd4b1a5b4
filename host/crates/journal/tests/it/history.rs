//! The history of a run, for people and as JSON.

use crate::script::{BASE, begin, text_body};
use bytes::Bytes;
use serde_json::{Value, json};
use std::borrow::Cow;
use toolyard_journal::{
    Chunk, ChunkWriter, DecidedBy, Detail, DoubtDecision, Entry, Fault, History, HistoryLine, QuestionName,
    Response, ResponseOutcome,
};

/// A chunk that was stored so many milliseconds after the base time.
fn chunk(after_ms: u64, entries: &[Entry<'_>]) -> Chunk {
    let mut writer = ChunkWriter::new();
    entries.iter().for_each(|entry| writer.push(entry));
    writer.finish(BASE + after_ms, 0)
}

/// A run that asked, was answered two days later, and made requests on another host.
fn chunks() -> Vec<Chunk> {
    let later = 183_600_000;
    let question = QuestionName { key: "size", method: "elicitation/create" };
    let answers = Bytes::from_static(br#"{"size":{"action":"accept","content":{"size":"L"}}}"#);
    let (decision, by) = (DoubtDecision::Resend, DecidedBy::Person("ann\u{202e}"));
    let failed = Response { request_body: 0, outcome: ResponseOutcome::Error("dns".to_owned()) };
    let request = |number, uri| Entry::Request { number, head: 0, method: "POST", uri };
    let response = |number, response| Entry::Response { number, response: Cow::Owned(response) };
    let poll = |ready: &'static [u32], times| Entry::Poll { len: 1, ready: Cow::Borrowed(ready), times };
    vec![
        chunk(
            5,
            &[
                Entry::Begin(serde_json::to_vec(&begin()).expect("JSON").into()),
                Entry::Clock { steps: 1, readings: 12 },
                Entry::Ask { arguments: 1, questions: vec![question] },
            ],
        ),
        chunk(later + 5, &[Entry::Answer(answers)]),
        chunk(later + 9, &[request(1, "https://api.example.com/orders"), poll(&[], 3)]),
        chunk(
            later + 3_109,
            &[
                response(1, text_body("hello")),
                poll(&[0], 1),
                request(2, "https://a/\u{1b}[2J\n"),
                Entry::Key { number: 2, key: "019a:2" },
                Entry::Doubt { number: 2, decision, by },
                response(2, failed),
                Entry::Ready { is_ready: true, times: 1 },
                Entry::Call { function: "call-info", arguments: 2, result: "{\"attempt\":1}".into() },
                Entry::Sleep { duration_ms: 90_000, until_ms: BASE + 90_000 },
                Entry::Ended([0xab; 32]),
            ],
        ),
    ]
}

fn lines(history: &mut History, chunks: &[Chunk]) -> Vec<HistoryLine> {
    let mut lines = Vec::new();
    for chunk in chunks {
        let (more, fault) = history.read(chunk);
        assert_eq!(fault, None);
        lines.extend(more);
    }
    lines
}

#[test]
fn a_history_is_a_line_for_each_entry() {
    let mut history = History::new(Detail::Summary);
    let shown: Vec<String> = lines(&mut history, &chunks()).iter().map(ToString::to_string).collect();
    let expected = [
        "   0  begin     2025-11-24T16:00:00.000Z  order 3fa1c23fa1c2…, toolyard 0.2.0, 2 variables",
        "   1  clock     +1 ms (12 readings)",
        "   2  ask       size elicitation/create",
        r#"   3  answer    size -> accept {"size":"L"}   after 2 d 3 h"#,
        "   4  request   1  POST https://api.example.com/orders",
        "   5  poll      0 of 1 ready (3 times)",
        "      response  1  201, 5 B   3.1 s",
        "   6  poll      1 of 1 ready",
        "   7  request   2  POST https://a/\\u{1b}[2J\\n",
        "      key       2  019a:2",
        "      doubt     2  resend, decided by ann\\u{202e}",
        "      response  2  failed: dns",
        "   8  ready     yes",
        r#"   9  call      call-info -> {"attempt":1}"#,
        "  10  sleep     1 min 30 s until 2025-11-24T16:01:30.000Z",
        "  11  ended     sha256 abababab…",
    ];
    assert_eq!(shown, expected);
    let summary = history.summary();
    assert_eq!((summary.entries, summary.requests, summary.questions), (12, 2, 1));
    assert!(summary.to_string().starts_with("12 entries, "), "{summary}");
    assert!(summary.to_string().ends_with(" B, 2 requests, 1 question; ended"), "{summary}");
}

#[test]
fn the_json_form_is_one_object_an_entry() {
    let of = |detail| -> Vec<Value> {
        let lines = lines(&mut History::new(detail), &chunks());
        let texts: Vec<String> = lines.iter().map(HistoryLine::to_json).collect();
        assert!(texts.iter().all(|text| text.is_ascii() || !text.contains(['\u{202e}', '\u{1b}', '\n'])));
        texts.iter().map(|text| serde_json::from_str(text).expect("an object")).collect()
    };
    let summary = of(Detail::Summary);
    let at = "2025-11-26T19:00:03.109Z";
    assert_eq!(
        summary[8],
        json!({"entry": 7, "kind": "request", "at": at, "request": 2, "method": "POST", "uri": "https://a/\u{1b}[2J\n"})
    );
    assert_eq!(summary[6], json!({"kind": "response", "at": at, "request": 1, "status": 201, "bytes": 5}));
    assert_eq!(summary[0]["variables"], json!(["LANG", "A"]));
    let text = summary[0].to_string();
    assert!(!text.contains(&"07".repeat(32)), "the seed is the guest's alone");
    let full = of(Detail::Full);
    assert_eq!(full[6]["body"], "hello");
    assert_eq!(full[6]["headers"], json!([["content-type", "text/plain"]]));
    assert_eq!(full[13]["result"], json!({"attempt": 1}));
    assert_eq!(full[3]["answers"]["size"]["action"], "accept");
}

#[test]
fn bodies_that_are_not_text_are_base64() {
    let outcome = ResponseOutcome::Complete { status: 200, headers: vec![], body: vec![0xff].into() };
    let response = Response { request_body: 0, outcome };
    let chunk = chunk(0, &[Entry::Response { number: 1, response: Cow::Owned(response) }]);
    let (lines, _) = History::after(Detail::Full, 3, 20).read(&chunk);
    assert_eq!(lines[0].fields["bodyBase64"], "/w==");
}

#[test]
fn a_part_of_a_journal_has_a_history() {
    let all = chunks();
    let mut history = History::after(Detail::Summary, 2, 4);
    let numbers: Vec<_> = lines(&mut history, &all[2..3]).iter().map(|line| line.number).collect();
    assert_eq!(numbers, [Some(4), Some(5)]);
    assert!(history.summary().to_string().ends_with("1 request, 0 questions; not ended"));
}

#[test]
fn a_damaged_journal_has_a_history_up_to_the_damage() {
    let all = chunks();
    let mut history = History::new(Detail::Summary);
    assert_eq!(lines(&mut history, &all[..1]).len(), 3);
    let body = [&all[1].body[..], b"x"].concat();
    let (lines, fault) = history.read(&Chunk { entries: 1, body: body.into() });
    assert_eq!(lines, []);
    let fault = fault.expect("damage");
    assert_eq!((fault.chunk, fault.fault), (1, Fault::Checksum));
}

#[test]
fn long_foreign_text_is_cut() {
    let uri = "é".repeat(5_000);
    let chunk = chunk(0, &[Entry::Request { number: 1, head: 0, method: "GET", uri: &uri }]);
    let (lines, _) = History::new(Detail::Summary).read(&chunk);
    assert!(lines[0].words.chars().count() < 400);
    assert_eq!(lines[0].fields["uri"], uri.as_str(), "but not in JSON");
}
