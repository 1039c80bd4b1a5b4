//! Journals: none makes its reader panic, one that can be read has one encoding, and a guest that does what is
//! recorded never diverges.

use std::num::NonZeroU32;
use std::sync::LazyLock;
use toolyard_journal::{
    Begin, Chunk, ChunkWriter, Detail, Entry, FORMAT, Frame, History, JournalLane, RecordError, Recorder,
    Seed,
};

const LIMIT: u64 = 1 << 20;

/// The chunk before the input.
static FIRST: LazyLock<Chunk> = LazyLock::new(|| {
    let begin = Begin {
        format: FORMAT,
        version: String::new(),
        tool: String::new(),
        digest: String::new(),
        seed: Seed([0; 32]),
        base_time: 0,
        environment: Vec::new(),
        limits: [].into(),
        clock_step: NonZeroU32::MIN,
        state: None,
        requests_before: 0,
        arguments: 0,
    };
    let mut recorder = Recorder::new(begin, LIMIT).expect("a recorder");
    recorder.take_chunk(0, 0).expect("an entry")
});

/// Does what an entry of the guest's lane records, once.
fn repeat(recorder: &mut Recorder, frame: &Frame) -> Result<(), RecordError> {
    match frame.entry()? {
        Entry::Clock { .. } => recorder.clock(0).map(drop),
        Entry::Poll { len, .. } => recorder.poll(len).map(drop),
        Entry::Ready { .. } => recorder.ready().map(drop),
        Entry::Call { function, arguments, .. } => recorder.call(function, arguments).map(drop),
        Entry::Ask { arguments, questions } => recorder.ask(arguments, &questions).map(drop),
        Entry::Answer(_) => recorder.answer().map(drop),
        Entry::Sleep { duration_ms, .. } => recorder.sleep(duration_ms, 0).map(drop),
        Entry::Request { head, method, uri, .. } => recorder.request(head, method, uri).map(drop),
        Entry::Ended(outcome) => recorder.end(&outcome).map(drop),
        Entry::Response { number, .. } => recorder.response(number).map(drop),
        Entry::Begin(_) | Entry::Doubt { .. } | Entry::Key { .. } => Ok(()),
    }
}

/// Repeats an entry until the recorder goes on to the next one, and returns whether it did: a run of equal
/// operations may be longer than the fuzzer's time.
fn repeat_all(recorder: &mut Recorder, frame: &Frame) -> bool {
    let position = recorder.position();
    let mut turns = 0..100;
    turns.any(|_| {
        repeat(recorder, frame).expect("the same as recorded");
        frame.kind.lane() != JournalLane::Guest || recorder.position() != position
    })
}

/// Repeats the frames in their order.
fn replay(recorder: &mut Recorder, frames: &[Frame]) {
    let entries = recorder.entries();
    let is_whole = frames.iter().all(|frame| repeat_all(recorder, frame));
    assert_eq!(recorder.entries(), entries, "a replay records nothing");
    assert_eq!(recorder.is_live() || recorder.is_ended(), is_whole);
}

/// The input is a chunk without its checksum, after the number of its entries.
pub(super) fn check(data: &[u8]) {
    let Some((entries, rest)) = data.split_first() else { return };
    let body = [&crc32fast::hash(rest).to_le_bytes()[..], rest].concat();
    let chunk = Chunk { entries: u32::from(*entries), body: body.into() };
    let mut history = History::after(Detail::Full, 1, 1);
    for line in history.read(&chunk).0 {
        std::hint::black_box((line.to_string(), line.to_json()));
    }
    let Ok((head, frames)) = chunk.frames(1) else { return };
    let Ok(frames) = frames.collect::<Result<Vec<_>, _>>() else { return };
    let read: Result<Vec<_>, _> = frames.iter().map(Frame::entry).collect();
    let Ok(read) = read else { return };
    let mut writer = ChunkWriter::new();
    read.iter().for_each(|entry| writer.push(entry));
    assert_eq!(writer.finish(head.time_ms, head.cpu_us).body, chunk.body);
    if let Ok(mut recorder) = Recorder::load([FIRST.clone(), chunk], LIMIT) {
        replay(&mut recorder, &frames);
    }
}
