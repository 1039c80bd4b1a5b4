//! The bytes of the format. Journals of earlier releases are read by later ones, so a change here needs another
//! `FORMAT`.

use crate::script::{BASE, begin, frames, load, text_body};
use bytes::Bytes;
use std::borrow::Cow;
use std::fmt::Write as _;
use toolyard_journal::{
    Begin, Chunk, ChunkWriter, DecidedBy, DoubtDecision, Entry, EntryKind, Fault, JournalLane, QuestionName,
    Recorder, Response, ResponseOutcome,
};

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string");
        text
    })
}

const QUESTION: QuestionName<'static> = QuestionName { key: "size", method: "roots/list" };

/// A checksum whose bytes are 01020304.
const SUM: u32 = 0x0403_0201;

/// One entry of each kind, with the bytes of its frame.
fn golden() -> [(Entry<'static>, &'static str); 18] {
    let response = |outcome| Entry::Response {
        number: 1,
        response: Cow::Owned(Response { request_body: SUM, outcome }),
    };
    let headers = vec![(Bytes::from_static(b"a"), Bytes::from_static(b"bc"))];
    let complete = ResponseOutcome::Complete { status: 201, headers, body: Bytes::from_static(b"{}") };
    let doubt = |decision, by| Entry::Doubt { number: 300, decision, by };
    [
        (Entry::Begin(Bytes::from_static(b"{}")), "01027b7d"),
        (Entry::Clock { steps: 300, readings: 5 }, "0203ac0205"),
        (Entry::Clock { steps: u64::MAX, readings: 1 }, "020bffffffffffffffffff0101"),
        (Entry::Poll { len: 3, ready: Cow::Borrowed(&[2, 0]), times: 1 }, "03050301020200"),
        (Entry::Ready { is_ready: true, times: 2 }, "04020102"),
        (
            Entry::Call { function: "call-info", arguments: SUM, result: Bytes::from_static(b"null") },
            "05120963616c6c2d696e666f010203046e756c6c",
        ),
        (
            Entry::Ask { arguments: SUM, questions: vec![QUESTION] },
            "061501020304010473697a650a726f6f74732f6c697374",
        ),
        (Entry::Answer(Bytes::from_static(b"[]")), "07025b5d"),
        (Entry::Sleep { duration_ms: 1, until_ms: 1_764_000_000_000 }, "08070180d0dfb4ab33"),
        (
            Entry::Request { number: 1, head: SUM, method: "GET", uri: "https://a/" },
            "09130101020304034745546874747073 3a2f2f612f",
        ),
        (Entry::Ended([0xab; 32]), "0f20abababababababababababababababababababababababababababababababab"),
        (response(complete), "41100101020304 00c9010101610262637b7d"),
        (response(ResponseOutcome::Error("dns".to_owned())), "41090101020304 01646e73"),
        (doubt(DoubtDecision::Resend, DecidedBy::Method), "4204ac020101"),
        (doubt(DoubtDecision::Error, DecidedBy::Key), "4204ac020202"),
        (doubt(DoubtDecision::Fail, DecidedBy::Manifest), "4204ac020303"),
        (doubt(DoubtDecision::Fail, DecidedBy::Person("ann")), "4207ac020304616e6e"),
        (Entry::Key { number: 300, key: "t:1" }, "4405ac02743a31"),
    ]
}

#[test]
fn each_kind_has_its_bytes_and_its_lane() {
    for (entry, bytes) in golden() {
        let mut writer = ChunkWriter::new();
        writer.push(&entry);
        let length = writer.len();
        let chunk = writer.finish(0, 0);
        assert_eq!(hex(&chunk.body[chunk.body.len() - length..]), bytes.replace(' ', ""), "{entry:?}");
        assert_eq!(frames(&[chunk])[0].entry().expect("an entry"), entry);
        let lane = match entry {
            Entry::Response { .. } | Entry::Doubt { .. } | Entry::Key { .. } => JournalLane::Side,
            _ => JournalLane::Guest,
        };
        assert_eq!(entry.kind().lane(), lane, "{entry:?}");
    }
    let kinds = golden().map(|(entry, _)| entry.kind());
    assert!(EntryKind::ALL.iter().all(|kind| kinds.contains(kind)), "each kind has golden bytes");
}

#[test]
fn a_chunk_has_its_bytes() {
    let mut writer = ChunkWriter::new();
    writer.push(&Entry::Clock { steps: 300, readings: 5 });
    writer.push(&Entry::Key { number: 1, key: "" });
    let chunk = writer.finish(1_764_000_000_000, 1_000);
    assert_eq!(chunk.entries, 1, "only entries of the guest count");
    assert_eq!(hex(&chunk.body[4..]), "0280d0dfb4ab33e8070203ac0205440101");
    assert_eq!(hex(&chunk.body[..4]), hex(&crc32fast::hash(&chunk.body[4..]).to_le_bytes()));
    assert!(writer.is_empty());
    let (head, frames) = chunk.frames(0).expect("a chunk");
    assert_eq!((head.frames, head.time_ms, head.cpu_us), (2, 1_764_000_000_000, 1_000));
    assert_eq!(frames.count(), 2);
}

#[test]
fn begin_is_json_that_may_grow() {
    let json = serde_json::to_value(begin()).expect("JSON");
    let expected = serde_json::json!({
        "format": 1,
        "version": "0.2.0",
        "tool": "order",
        "digest": begin().digest,
        "seed": "07".repeat(32),
        "baseTime": BASE,
        "environment": [["LANG", "C"], ["A", "1"]],
        "limits": {"limits.memory": 67_108_864},
        "clockStep": 1,
        "arguments": 0x1234_5678,
    });
    assert_eq!(json, expected);
    let read = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut json = expected.clone();
        change(&mut json);
        let mut writer = ChunkWriter::new();
        writer.push(&Entry::Begin(json.to_string().into()));
        Recorder::load([writer.finish(0, 0)], 1 << 20).map(|recorder| recorder.begin().clone())
    };
    assert_eq!(read(&|json| json["later"] = true.into()), Ok(begin()), "a later version adds members");
    let fault = |change: &dyn Fn(&mut serde_json::Value)| read(change).expect_err("a fault").fault;
    assert_eq!(fault(&|json| json["format"] = 2.into()), Fault::UnknownFormat(2));
    assert!(matches!(fault(&|json| json["clockStep"] = 0.into()), Fault::Begin(_)));
    assert!(matches!(fault(&|json| json["seed"] = "".into()), Fault::Begin(_)));
    assert!(matches!(fault(&|json| *json = 5.into()), Fault::Begin(_)));
    let future = Begin { format: 7, ..begin() };
    assert!(serde_json::to_string(&future).expect("JSON").starts_with("{\"format\":7"));
}

/// A chunk of these frames, given as bytes.
fn sealed(frames: u32, entries: u32, bytes: &[u8]) -> Chunk {
    // The head: the number of frames, and both times.
    let rest = [&[u8::try_from(frames).expect("few"), 0, 0], bytes].concat();
    let body = [&crc32fast::hash(&rest).to_le_bytes()[..], &rest].concat();
    Chunk { entries, body: body.into() }
}

/// The fault of a frame.
fn fault(bytes: &[u8]) -> Fault {
    let chunk = sealed(1, 1, bytes);
    let (_, mut frames) = chunk.frames(4).expect("a head");
    let frame = frames.next().expect("a frame").and_then(|frame| frame.entry().map(drop));
    let error = frame.expect_err("a fault");
    assert_eq!((error.chunk, error.offset), (4, 7), "the place of the frame");
    error.fault
}

#[test]
fn a_fault_says_what_is_wrong() {
    assert_eq!(fault(&[77, 0]), Fault::UnknownKind(77));
    assert_eq!(fault(&[10, 0]), Fault::UnknownKind(10), "a number that is reserved");
    assert_eq!(fault(&[2]), Fault::Truncated);
    assert_eq!(fault(&[2, 5, 1]), Fault::Truncated);
    assert_eq!(fault(&[2, 2, 1, 0]), Fault::Range("something happened zero times"));
    assert_eq!(fault(&[2, 3, 1, 1, 1]), Fault::Trailing);
    assert_eq!(fault(&[2, 3, 0x81, 0, 1]), Fault::Varint, "longer than it needs");
    let long = [&[2, 11][..], &[0xff; 9], &[2, 1]].concat();
    assert_eq!(fault(&long), Fault::Varint, "more than 64 bits");
    assert_eq!(fault(&[3, 4, 2, 1, 1, 2]), Fault::Range("an index is beyond its list"));
    assert_eq!(fault(&[3, 3, 2, 1, 0x7f]), Fault::Truncated, "more indices than bytes");
    assert_eq!(fault(&[4, 2, 2, 1]), Fault::Range("a bit is neither 0 nor 1"));
    assert_eq!(fault(&[9, 7, 1, 0, 0, 0, 0, 1, 0xff]), Fault::Text);
    assert_eq!(fault(&[15, 1, 0]), Fault::Truncated);
    assert_eq!(fault(&[66, 3, 1, 9, 1]), Fault::Range("a decision about a request in doubt is unknown"));
    assert_eq!(
        Fault::UnknownKind(77).to_string(),
        "format 1 has no entries of kind 77; resume this task with the version of Toolyard that wrote it"
    );
}

#[test]
fn bytes_after_the_last_frame_are_corrupt() {
    let (_, mut frames) = sealed(1, 1, &[4, 2, 1, 1, 9]).frames(0).expect("a head");
    assert!(frames.next().is_some_and(|frame| frame.is_ok()));
    let error = frames.next().expect("a fault").expect_err("one byte too many");
    assert_eq!((error.offset, error.fault), (11, Fault::Trailing));
    assert!(frames.next().is_none(), "after a fault there is nothing");
}

#[test]
fn entries_at_the_wrong_place_are_corrupt() {
    let first = || Entry::Begin(serde_json::to_vec(&begin()).expect("JSON").into());
    let load = |entries: &[Entry<'_>]| {
        let mut writer = ChunkWriter::new();
        entries.iter().for_each(|entry| writer.push(entry));
        Recorder::load([writer.finish(0, 0)], 1 << 20).map(drop).map_err(|error| error.fault)
    };
    let request = |number| Entry::Request { number, head: 0, method: "GET", uri: "" };
    let response = Entry::Response { number: 1, response: Cow::Owned(text_body("")) };
    let order = |entries: &[Entry<'_>]| assert!(matches!(load(entries), Err(Fault::Order(_))), "{entries:?}");
    order(&[]);
    order(&[request(1)]);
    order(&[first(), first()]);
    order(&[first(), request(2)]);
    order(&[first(), request(1), request(1)]);
    order(&[first(), response.clone(), request(1)]);
    order(&[first(), request(1), response.clone(), response.clone()]);
    order(&[first(), Entry::Doubt { number: 1, decision: DoubtDecision::Fail, by: DecidedBy::Key }]);
    let key = Entry::Key { number: 1, key: "t:1" };
    order(&[first(), key.clone(), request(1)]);
    order(&[first(), request(1), key.clone(), key]);
    order(&[first(), Entry::Ended([0; 32]), request(1)]);
    assert_eq!(load(&[first(), request(1), response, Entry::Ended([0; 32])]), Ok(()));
    let empty = Recorder::load([], 1).map(drop).expect_err("empty").fault;
    assert_eq!(empty, Fault::Order("the journal has no entry `begin`"));
}

#[test]
fn counts_are_compared_with_the_frames() {
    let mut run = Recorder::new(begin(), 1 << 20).expect("a recorder");
    let chunk = run.take_chunk(0, 0).expect("a chunk");
    load(std::slice::from_ref(&chunk));
    let named = Chunk { entries: 2, ..chunk };
    let error = Recorder::load([named], 1 << 20).map(drop).expect_err("another count");
    assert_eq!(error.to_string(), "the journal is corrupt at chunk 0, byte 0: it names 2 entries and has 1");
}
