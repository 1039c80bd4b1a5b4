//! Journals of tasks that resume, parked tasks, and the components of journals.

use crate::{
    Fixture, START, TTL, applied, change, claimed, created, finish, in_lanes, owner, question, read, remove,
    result, task,
};
use std::sync::Arc;
use toolyard_journal::{ChunkWriter, Entry};
use toolyard_store::Store;
use toolyard_task::apply::{Refusal, apply};
use toolyard_task::audit::{self, By};
use toolyard_task::erasure::DataOwner;
use toolyard_task::journal::{
    Appended, COMPONENT_KEPT_MS, Chunk, ChunkWrite, Flush, JournalHead, LastChunks,
};
use toolyard_task::store::{
    CommitStatus, CreateError, Quota, QuotaScope, Records, Removable, TaskQuestion, Total,
};
use toolyard_task::task::{Resume, Summary};
use toolyard_task::wire::{RawJson, Timestamp};
use toolyard_task::{Digest, Event, Fence, Incarnation, Owner, StoreError, Task, TaskId};

/// A chunk with one entry, whose bytes follow from the number.
pub fn chunk(number: u32, bytes: usize) -> Chunk {
    let mut writer = ChunkWriter::new();
    let body: Vec<u8> = number.to_le_bytes().into_iter().cycle().take(bytes).collect();
    writer.push(&Entry::Begin(body.into()));
    writer.finish(START.unsigned_abs(), u64::from(number))
}

/// A task of this owner that resumes, not yet stored.
pub fn recorded(owner: &Owner, fence: Fence) -> Task {
    let started_at = Some(Timestamp(START));
    Task { fence, started_at, resume: Some(Resume::default()), ..task(owner) }
}

/// The fence of a first run.
pub const FENCE: Fence = Fence { incarnation: Incarnation(1), attempt: 1 };

async fn head(store: &dyn Store, id: TaskId) -> JournalHead {
    store.journal(id).await.expect("reads").expect("has a journal")
}

async fn total(store: &dyn Store, of: Total<'_>) -> u64 {
    store.total(of).await.expect("counts")
}

/// Appends chunks, and waits until they are durable.
pub async fn append(store: &dyn Store, id: TaskId, fence: Fence, at: u32, chunks: &[Chunk]) -> Appended {
    store.write_chunks(id, fence, at, chunks.to_vec(), ChunkWrite::Append(Flush::Now)).await.expect("answers")
}

/// All chunks from this number on.
pub async fn all(store: &dyn Store, id: TaskId, from: u32) -> Vec<Chunk> {
    store.chunks(id, from, u64::MAX).await.expect("reads")
}

fn parked(fence: Fence, wake: Option<i64>) -> Event {
    Event::Parked { fence, wake: wake.map(Timestamp), reached: 1 }
}

/// Chunks follow each other without gaps, whichever host appends, and a repetition changes nothing.
pub async fn chunks_have_dense_numbers(fixture: Fixture) {
    let (here, there) = (fixture.store(), fixture.store());
    let made = created(&*here, recorded(&owner("a"), FENCE)).await;
    let empty = head(&*there, made.id).await;
    assert_eq!((empty.fence, &empty.component), (Some(FENCE), &made.digest));
    assert_eq!((empty.first, empty.next, empty.entries, empty.bytes), (0, 0, 0, 0));
    assert_eq!(all(&*here, made.id, 0).await, []);
    let chunks: Vec<Chunk> = (0..6).map(|number| chunk(number, 40 + number as usize)).collect();
    let [zero, one, more @ ..] = &chunks[..] else { panic!("six") };
    assert_eq!(append(&*here, made.id, FENCE, 1, &chunks[..1]).await, Appended::Gap { next: 0 });
    assert_eq!(append(&*here, made.id, FENCE, 0, std::slice::from_ref(zero)).await, Appended::Done);
    assert_eq!(append(&*here, made.id, FENCE, 2, &chunks[..1]).await, Appended::Gap { next: 1 });
    assert_eq!(append(&*there, made.id, FENCE, 1, std::slice::from_ref(one)).await, Appended::Done);
    let later = here.write_chunks(made.id, FENCE, 2, more.to_vec(), ChunkWrite::Append(Flush::Later)).await;
    assert_eq!(later.expect("answers"), Appended::Done);
    assert_eq!(append(&*here, made.id, FENCE, 2 + more.len() as u32, &[]).await, Appended::Done, "flushes");
    // Repetitions, of all or of a part; and what only looks like one.
    for (at, until) in [(2, 6), (0, 6), (0, 1), (5, 6), (3, 3), (6, 6)] {
        let again = &chunks[at as usize..until];
        assert_eq!(append(&*there, made.id, FENCE, at, again).await, Appended::Done, "{at} to {until}");
    }
    assert_eq!(append(&*here, made.id, FENCE, 0, std::slice::from_ref(one)).await, Appended::Gap { next: 6 });
    let longer = [chunks[5].clone(), chunk(9, 9)];
    assert_eq!(append(&*here, made.id, FENCE, 5, &longer).await, Appended::Gap { next: 6 });
    let bytes = chunks.iter().map(|chunk| chunk.body.len() as u64).sum();
    assert_eq!(head(&*here, made.id).await, JournalHead { next: 6, entries: 6, bytes, ..empty });
    assert_eq!(all(&*there, made.id, 0).await, chunks);
    assert_eq!(all(&*there, made.id, 4).await, chunks[4..]);
    assert_eq!(all(&*there, made.id, 6).await, []);
    assert_eq!(total(&*here, Total::JournalBytes(None)).await, bytes);
}

/// The last chunks of a run are appended in the commit that ends its task, and only if they follow the stored ones.
pub async fn the_last_chunks_come_with_the_end(fixture: Fixture) {
    let store = fixture.store();
    let chunks: Vec<Chunk> = (0..3).map(|number| chunk(number, 40)).collect();
    for (at, stored) in [(1, 3), (2, 1), (0, 1)] {
        let made = created(&*store, recorded(&owner("a"), FENCE)).await;
        assert_eq!(append(&*store, made.id, FENCE, 0, &chunks[..1]).await, Appended::Done);
        let ended = Event::Finished { fence: FENCE, outcome: result(), message: None };
        let ended = apply(&made, ended, made.created_at).expect("applies").task;
        let last = LastChunks { at, chunks: chunks[1..].to_vec() };
        let records = Records { journal: Some(last), ..Records::default() };
        let early = Task { version: ended.version + 1, ..ended.clone() };
        assert_eq!(store.commit(&early, records.clone()).await.expect("answers"), CommitStatus::Stale);
        assert_eq!(all(&*store, made.id, 0).await, chunks[..1], "nothing of a stale commit");
        assert_eq!(store.commit(&ended, records).await.expect("answers"), CommitStatus::Done);
        assert_eq!(all(&*store, made.id, 0).await, chunks[..stored], "from {at} on");
        let kept = head(&*store, made.id).await;
        let count = stored as u32;
        assert_eq!((kept.fence, kept.next, kept.entries), (None, count, u64::from(count)));
    }
}

/// The fence of the journal moves with that of the task, in one step: a run that lost the task cannot append.
pub async fn only_the_run_of_a_task_appends(fixture: Fixture) {
    let store = fixture.store();
    let one = |number| [chunk(number, 30)];
    let made = created(&*store, recorded(&owner("a"), FENCE)).await;
    let nobody = Incarnation::NOBODY;
    for (incarnation, attempt) in [(Incarnation(2), 1), (Incarnation(1), 2), (nobody, 1), (nobody, 0)] {
        let other = Fence { incarnation, attempt };
        assert_eq!(append(&*store, made.id, other, 0, &one(0)).await, Appended::Fenced);
        let restart = store.write_chunks(made.id, other, 0, one(0).to_vec(), ChunkWrite::Replace).await;
        assert_eq!(restart.expect("answers"), Appended::Fenced);
    }
    assert_eq!(append(&*store, made.id, FENCE, 0, &one(0)).await, Appended::Done);
    // Changes that leave the fence where it is.
    applied(&*store, made.id, Event::Said { fence: FENCE, message: "half way".into() }).await;
    assert_eq!(append(&*store, made.id, FENCE, 1, &one(1)).await, Appended::Done);
    let claimed = applied(&*store, made.id, claimed(FENCE.incarnation, Incarnation(2), 2)).await;
    assert_eq!(claimed.digest, made.digest, "the component stays");
    // Neither what is new nor a repetition.
    for at in [1, 2] {
        assert_eq!(append(&*store, made.id, FENCE, at, &one(at)).await, Appended::Fenced);
    }
    let taken = applied(&*store, made.id, Event::Taken { from: Incarnation(2), by: Incarnation(3) }).await;
    assert_eq!(append(&*store, made.id, claimed.fence, 2, &one(2)).await, Appended::Fenced);
    assert_eq!(append(&*store, made.id, taken.fence, 2, &one(2)).await, Appended::Done);
    // A parked task has no run, and "no run" is none that appends.
    let waits = applied(&*store, made.id, parked(taken.fence, None)).await;
    assert_eq!(head(&*store, made.id).await.fence, None);
    for fence in [taken.fence, waits.fence] {
        assert_eq!(append(&*store, made.id, fence, 3, &one(3)).await, Appended::Fenced);
    }
    let woken = applied(&*store, made.id, Event::Woken { by: Incarnation(3) }).await;
    assert_eq!(woken.fence, Fence { incarnation: Incarnation(3), attempt: taken.fence.attempt + 1 });
    assert_eq!(append(&*store, made.id, taken.fence, 3, &one(3)).await, Appended::Fenced);
    assert_eq!(append(&*store, made.id, woken.fence, 3, &one(3)).await, Appended::Done);
    finish(&*store, &woken, result()).await;
    assert_eq!(append(&*store, made.id, woken.fence, 4, &one(4)).await, Appended::Fenced);
    let kept = head(&*store, made.id).await;
    assert_eq!((kept.fence, kept.next, all(&*store, made.id, 0).await.len()), (None, 4, 4));
    // A task that does not resume, one that ended while it was parked, and one that was never there.
    let plain = created(&*store, Task { fence: FENCE, ..task(&owner("a")) }).await;
    assert_eq!(store.journal(plain.id).await.expect("reads"), None);
    assert_eq!(append(&*store, plain.id, FENCE, 0, &one(0)).await, Appended::Fenced);
    assert_eq!(all(&*store, plain.id, 0).await, []);
    assert_eq!(append(&*store, task(&owner("a")).id, FENCE, 0, &one(0)).await, Appended::Fenced);
    let waits = created(&*store, recorded(&owner("a"), FENCE)).await;
    applied(&*store, waits.id, parked(FENCE, Some(START))).await;
    applied(&*store, waits.id, Event::Cancelled { message: "stop".into() }).await;
    assert_eq!(append(&*store, waits.id, FENCE, 0, &one(0)).await, Appended::Fenced);
    assert_eq!(store.select(TaskQuestion::Wakeable, 9).await.expect("answers"), []);
}

/// A restarted journal has only what came with the restart, and its numbers go on.
pub async fn a_journal_restarts_and_its_numbers_go_on(fixture: Fixture) {
    let store = fixture.store();
    let made = created(&*store, recorded(&owner("a"), FENCE)).await;
    let chunks: Vec<Chunk> = (0..7).map(|number| chunk(number, 50)).collect();
    assert_eq!(append(&*store, made.id, FENCE, 0, &chunks[..3]).await, Appended::Done);
    let restart = async |at: u32, chunks: &[Chunk]| {
        store.write_chunks(made.id, FENCE, at, chunks.to_vec(), ChunkWrite::Replace).await.expect("answers")
    };
    for wrong in [0, 2, 4] {
        assert_eq!(restart(wrong, &chunks[3..5]).await, Appended::Gap { next: 3 });
    }
    assert_eq!(restart(3, &chunks[3..5]).await, Appended::Done);
    let bytes = chunks[3..5].iter().map(|chunk| chunk.body.len() as u64).sum();
    let restarted = head(&*store, made.id).await;
    assert_eq!((restarted.first, restarted.next, restarted.entries, restarted.bytes), (3, 5, 5, bytes));
    assert_eq!(restart(3, &chunks[3..5]).await, Appended::Done, "a repetition");
    assert_eq!(restart(3, &chunks[4..6]).await, Appended::Gap { next: 5 });
    assert_eq!(head(&*store, made.id).await, restarted);
    assert_eq!(all(&*store, made.id, 3).await, chunks[3..5]);
    assert_eq!(all(&*store, made.id, 0).await, [], "they are gone");
    // Late appends of what was replaced, as new ones and as repetitions.
    assert_eq!(append(&*store, made.id, FENCE, 3, &chunks[..1]).await, Appended::Gap { next: 5 });
    assert_eq!(append(&*store, made.id, FENCE, 0, &chunks[..3]).await, Appended::Gap { next: 5 });
    assert_eq!(append(&*store, made.id, FENCE, 5, &chunks[5..]).await, Appended::Done);
    assert_eq!(all(&*store, made.id, 3).await, chunks[3..]);
    assert_eq!(restart(7, &[]).await, Appended::Done);
    let empty = head(&*store, made.id).await;
    assert_eq!((empty.first, empty.next, empty.entries, empty.bytes), (7, 7, 7, 0));
    assert_eq!(append(&*store, made.id, FENCE, 7, &chunks[..1]).await, Appended::Done);
    assert_eq!(all(&*store, made.id, 7).await, chunks[..1]);
}

/// A journal goes when its task does, however that happens, and not before.
pub async fn a_journal_goes_with_its_task(fixture: Fixture) {
    let store = fixture.store();
    let a = Owner::Local;
    let mut made = Vec::new();
    for number in 0..4 {
        let task = created(&*store, recorded(&a, FENCE)).await;
        let chunks = [chunk(number, 100), chunk(number, 200)];
        assert_eq!(append(&*store, task.id, FENCE, 0, &chunks).await, Appended::Done);
        if number > 0 {
            finish(&*store, &task, result()).await;
        }
        fixture.clock.advance(1);
        made.push(task.id);
    }
    let [live, gone, discarded, erased] = made[..] else { panic!("four") };
    let one = chunk(0, 100).body.len() as u64 + chunk(0, 200).body.len() as u64;
    assert_eq!(total(&*store, Total::JournalBytes(None)).await, 4 * one);
    assert_eq!(total(&*store, Total::JournalBytes(Some(&a))).await, one, "of live tasks");
    assert_eq!(total(&*store, Total::JournalBytes(Some(&owner("nobody")))).await, 0);
    let ended = async |limit| store.select(TaskQuestion::EndedJournals, limit).await.expect("answers");
    assert_eq!(ended(9).await, [gone, discarded, erased], "the first to end first");
    assert_eq!(ended(1).await, [gone]);

    let summary = Summary::of(&read(&*store, discarded).await);
    let entry = audit::Entry::discarded(&summary, "a test");
    assert_eq!(store.remove(vec![(discarded, vec![entry])], Removable::Ended).await.expect("discards"), 1);
    assert_eq!(store.journal(discarded).await.expect("reads"), None);
    assert_eq!(remove(&*store, &[gone]).await, 0, "its time is not up");
    fixture.clock.advance(TTL);
    assert_eq!(remove(&*store, &[gone, live]).await, 1);
    assert_eq!(store.journal(gone).await.expect("reads"), None);
    let by = By::principal("operator", None);
    while store.erase(&DataOwner::Local, &by).await.expect("erases").total() > 0 {}
    for id in [gone, discarded, erased] {
        assert_eq!(store.journal(id).await.expect("reads"), None);
        assert_eq!(all(&*store, id, 0).await, []);
    }
    assert_eq!(all(&*store, live, 0).await.len(), 2);
    assert_eq!(total(&*store, Total::JournalBytes(None)).await, one);
}

/// A journal that a task may still need is not dropped.
pub async fn a_journal_is_dropped_when_nothing_needs_it(fixture: Fixture) {
    let store = fixture.store();
    let drop = async |id| store.drop_journal(id).await.expect("answers");
    let running = created(&*store, recorded(&owner("a"), FENCE)).await;
    let chunk_0 = chunk(0, 20);
    append(&*store, running.id, FENCE, 0, std::slice::from_ref(&chunk_0)).await;
    assert_eq!(drop(running.id).await, None);
    let waits = created(&*store, recorded(&owner("a"), FENCE)).await;
    applied(&*store, waits.id, parked(FENCE, Some(START + 1))).await;
    assert_eq!(drop(waits.id).await, None);
    applied(&*store, waits.id, Event::Cancelled { message: "stop".into() }).await;
    assert_eq!(drop(waits.id).await, Some(0));
    assert_eq!(drop(waits.id).await, None, "it is gone");
    let lasting = Event::Unresumable { fence: FENCE, why: "its journal is full".into() };
    let plain = applied(&*store, running.id, lasting).await;
    assert_eq!(read(&*store, plain.id).await, plain);
    assert_eq!(drop(running.id).await, Some(chunk_0.body.len() as u64));
    assert_eq!(store.journal(running.id).await.expect("reads"), None);
    assert_eq!(append(&*store, running.id, FENCE, 1, &[chunk(1, 20)]).await, Appended::Fenced);
    assert_eq!(drop(task(&owner("a")).id).await, None);
    finish(&*store, &plain, result()).await;
    assert_eq!(store.select(TaskQuestion::EndedJournals, 9).await.expect("answers"), []);
}

/// Of two hosts, one wakes a parked task, and only that one appends.
pub async fn one_host_wakes_a_parked_task_and_appends(fixture: Fixture) {
    let wins = in_lanes(&fixture, fixture.races.saturating_mul(2).min(2_000), race).await;
    assert!(wins[0] > 0 && wins[1] > 0, "it was no race: {wins:?}");
}

/// Returns which host won.
async fn race(hosts: [Arc<dyn Store>; 2], salt: u32) -> usize {
    let made = created(&*hosts[0], recorded(&owner(&format!("o{}", salt % 7)), FENCE)).await;
    applied(&*hosts[(salt % 2) as usize], made.id, parked(FENCE, Some(START))).await;
    let takes = async |which: usize| {
        let by = Incarnation(2 + which as u64);
        let woken = change(&*hosts[which], made.id, &Event::Woken { by }).await.expect("is there");
        // The one that lost appends as well, under the fence that it would have.
        let fence = Fence { incarnation: by, attempt: FENCE.attempt + 1 };
        let mine = chunk(2 + u32::try_from(which).expect("small"), 24);
        let appended = append(&*hosts[which], made.id, fence, 0, &[mine]).await;
        (woken, appended)
    };
    let of_before = [chunk(1, 24)];
    let late = append(&*hosts[1], made.id, FENCE, 0, &of_before);
    // Neither host always comes first.
    let (one, other) = if salt.is_multiple_of(2) { (0, 1) } else { (1, 0) };
    let ((first, mine), (second, theirs), late) = tokio::join!(takes(one), takes(other), late);
    assert_eq!(late, Appended::Fenced, "its run had given it up");
    let (winner, answers) = match (&first, &second) {
        (Ok(_), Err(Refusal::NotParked)) => (one, [mine, theirs]),
        (Err(Refusal::NotParked), Ok(_)) => (other, [theirs, mine]),
        neither => panic!("not exactly one won: {neither:?}"),
    };
    assert_eq!(answers, [Appended::Done, Appended::Fenced]);
    let chunks = all(&*hosts[0], made.id, 0).await;
    assert_eq!(chunks, [chunk(if winner == 1 { 3 } else { 2 }, 24)]);
    winner
}

/// However many chunks there are, a reader gets them in pieces of bounded length.
pub async fn a_long_journal_is_read_in_pieces(fixture: Fixture) {
    const BYTES: usize = 4 << 10;
    let store = fixture.store();
    let made = created(&*store, recorded(&owner("a"), FENCE)).await;
    let mut chunks: Vec<Chunk> = (0..1_000).map(|number| chunk(number, BYTES)).collect();
    // Any length of an entry, and chunks that are longer than a piece.
    chunks.push(chunk(1_000, 1 << 20));
    chunks.push(chunk(1_001, 0));
    let mut writers = 0;
    for part in chunks.chunks(64) {
        assert_eq!(append(&*store, made.id, FENCE, writers, part).await, Appended::Done);
        writers += u32::try_from(part.len()).expect("few");
    }
    let mut read = Vec::new();
    let most = 100_000;
    loop {
        let from = u32::try_from(read.len()).expect("few");
        let piece = store.chunks(made.id, from, most).await.expect("reads");
        let bytes: usize = piece.iter().map(|chunk| chunk.body.len()).sum();
        let last = piece.last().map_or(0, |chunk| chunk.body.len());
        assert!((bytes - last) < usize::try_from(most).expect("fits"), "{bytes} bytes in a piece");
        if piece.is_empty() {
            break;
        }
        read.extend(piece);
    }
    assert!(read == chunks, "not what was appended");
    assert_eq!(store.chunks(made.id, 7, 0).await.expect("reads"), chunks[7..8], "at least one");
}

/// Parked tasks count against a quota of their own, and not against that of tasks that run or wait for a slot.
pub async fn parked_tasks_have_a_quota_of_their_own(fixture: Fixture) {
    let (here, there) = (fixture.store(), fixture.store());
    let quota = Quota { per_owner: 1, parked_per_owner: 2, in_all: 9 };
    let create = async |store: &Arc<dyn Store>| {
        let made = store.create(recorded(&owner("a"), FENCE), quota, Records::default()).await;
        made.map_err(|error| match error {
            CreateError::Full { scope, limit } => (scope, limit),
            CreateError::Store(error) => panic!("{error}"),
        })
    };
    let first = create(&here).await.expect("there is room");
    assert_eq!(create(&there).await.map(drop), Err((QuotaScope::Owner, 1)));
    applied(&*here, first.id, parked(FENCE, None)).await;
    let second = create(&there).await.expect("a parked task leaves room");
    applied(&*there, second.id, parked(FENCE, None)).await;
    for store in [&here, &there] {
        assert_eq!(create(store).await.map(drop), Err((QuotaScope::Parked, 2)));
    }
    applied(&*here, first.id, Event::Woken { by: Incarnation(3) }).await;
    assert_eq!(create(&here).await.map(drop), Err((QuotaScope::Owner, 1)), "it runs again");
    applied(&*there, second.id, Event::Cancelled { message: "stop".into() }).await;
    finish(&*here, &read(&*here, first.id).await, result()).await;
    create(&here).await.expect("there is room again");
}

/// Parked tasks are named when they are due, the longest due first, one owner after the other.
pub async fn due_parked_tasks_are_named_in_turns(fixture: Fixture) {
    let store = fixture.store();
    let wakeable = async |limit| {
        // A task is named to one host for some seconds.
        fixture.clock.advance(60_000);
        store.select(TaskQuestion::Wakeable, limit).await.expect("answers")
    };
    assert_eq!(wakeable(9).await, []);
    let ttl_ms = 100 * 60_000;
    let park = async |name: &str, wake: Option<i64>| {
        let made = created(&*store, Task { ttl_ms, ..recorded(&owner(name), FENCE) }).await;
        applied(&*store, made.id, parked(FENCE, wake)).await.id
    };
    let a3 = park("a", Some(START + 30)).await;
    let a1 = park("a", Some(START + 10)).await;
    let a2 = park("a", Some(START + 20)).await;
    let b1 = park("b", Some(START + 25)).await;
    let now = START + 60_000;
    let later = park("c", Some(now + 10 * 60_000)).await;
    assert_eq!(total(&*store, Total::Parked).await, 5);
    assert_eq!(wakeable(9).await, [a1, b1, a2, a3]);
    assert_eq!(wakeable(2).await, [a1, b1]);
    assert_eq!(wakeable(0).await, []);
    // A run that waits for an answer is due at the answer, or at the deadline of the question.
    let asking = created(&*store, Task { ttl_ms, ..recorded(&owner("d"), FENCE) }).await;
    let asks = async |name: &str| store.select(TaskQuestion::Asking(owner(name)), 9).await.expect("answers");
    assert_eq!(asks("d").await, []);
    let question = question("q", Timestamp(START + 50 * 60_000));
    applied(&*store, asking.id, Event::Asked { fence: FENCE, questions: vec![question] }).await;
    assert_eq!(asks("d").await, [asking.id]);
    applied(&*store, asking.id, parked(FENCE, None)).await;
    assert_eq!((asks("d").await, asks("a").await), (vec![asking.id], vec![]));
    // Woken and ended tasks are not named.
    applied(&*store, a1, Event::Woken { by: Incarnation(4) }).await;
    applied(&*store, b1, Event::Cancelled { message: "stop".into() }).await;
    assert_eq!(wakeable(9).await, [a2, a3]);
    assert_eq!(total(&*store, Total::Parked).await, 4, "a2, a3, later and asking");
    let answered = Event::Answered { key: "q".into(), answer: Ok(RawJson::empty_object()) };
    applied(&*store, asking.id, answered).await;
    assert_eq!(asks("d").await, []);
    assert_eq!(wakeable(9).await, [a2, asking.id, a3]);
    let woken = applied(&*store, a2, Event::Woken { by: Incarnation(4) }).await;
    fixture.clock.advance(10 * 60_000);
    assert_eq!(wakeable(9).await, [a3, asking.id, later]);
    // A task that parks again is due again at once, although a host was just told of it.
    let again = applied(&*store, asking.id, Event::Woken { by: Incarnation(4) }).await;
    applied(&*store, asking.id, parked(again.fence, Some(START + 2))).await;
    assert_eq!(store.select(TaskQuestion::Wakeable, 1).await.expect("answers"), [asking.id]);
    applied(&*store, a2, parked(woken.fence, Some(START + 1))).await;
    assert_eq!(wakeable(3).await, [a2, asking.id, later]);
    // The operator has a task continued that has ended.
    let woken = applied(&*store, a2, Event::Woken { by: Incarnation(4) }).await;
    applied(&*store, a2, Event::Stuck { fence: woken.fence, outcome: result(), message: None }).await;
    assert!(!wakeable(9).await.contains(&a2));
    assert_eq!(store.drop_journal(later).await.expect("answers"), None);
    let retried = applied(&*store, a2, Event::Retried).await;
    assert!(wakeable(9).await.contains(&a2));
    assert_eq!(store.drop_journal(a2).await.expect("answers"), None);
    assert_eq!((retried.outcome, total(&*store, Total::Parked).await), (None, 4));
    let woken = applied(&*store, a2, Event::Woken { by: Incarnation(4) }).await;
    assert_eq!(append(&*store, a2, woken.fence, 0, &[chunk(0, 9)]).await, Appended::Done);
}

/// A parked task belongs to no host: no recovery finds it, and no host holds it.
pub async fn nobody_is_no_host(fixture: Fixture) {
    let store = fixture.store();
    let me = store.register().await.expect("registers").incarnation;
    assert_ne!(me, Incarnation::NOBODY);
    let fence = Fence { incarnation: me, attempt: 1 };
    let mut made = Vec::new();
    for _ in 0..3 {
        let task = created(&*store, recorded(&owner("a"), fence)).await;
        made.push(applied(&*store, task.id, parked(fence, Some(START))).await);
    }
    assert_eq!(store.dead().await.expect("answers"), []);
    let held = async |by| store.select(TaskQuestion::HeldBy(by), 1_000).await.expect("answers");
    assert_eq!((held(me).await, held(Incarnation::NOBODY).await), (vec![], vec![]));
    store.forget(Incarnation::NOBODY).await.expect("does nothing");
    // Beside a task that a host has left.
    let gone = Fence { incarnation: Incarnation(4_711), attempt: 1 };
    let left = created(&*store, Task { fence: gone, ..task(&owner("a")) }).await;
    assert_eq!(store.dead().await.expect("answers"), [gone.incarnation]);
    assert_eq!(held(gone.incarnation).await, [left.id]);
    for task in made {
        assert_eq!(read(&*store, task.id).await, task);
    }
}

/// Components are kept under their digests while a journal or a host needs them, and for a while after.
pub async fn components_stay_while_they_are_needed(fixture: Fixture) {
    let (here, there) = (fixture.store(), fixture.store());
    let bodies = [b"\0asm one".to_vec(), vec![7; (2 << 20) + 5], Vec::new()];
    let digests = bodies.clone().map(|body| digest_of(&body));
    let read = async |digest: &Digest| there.component(digest).await.expect("reads");
    for (digest, body) in digests.iter().zip(&bodies) {
        assert_eq!(read(digest).await, None);
        for _ in 0..2 {
            here.put_component(digest, body.clone().into()).await.expect("is kept");
        }
        assert_eq!(read(digest).await.as_deref(), Some(&body[..]));
    }
    for unknown in ["", "../toolyard.sqlite", "ab", &"AB".repeat(32), &"0".repeat(64)] {
        let digest = Digest(unknown.to_owned());
        assert_eq!(read(&digest).await, None, "{unknown}");
        let refused = here.put_component(&digest, bodies[0].clone().into()).await;
        assert!(matches!(refused, Err(StoreError::Corrupt(_))), "{unknown}: {refused:?}");
    }
    let [named, kept, other] = digests;
    let of_task = Task { digest: named.clone(), ..recorded(&owner("a"), FENCE) };
    let made = created(&*here, of_task).await;
    let sweep = async |keep: &[Digest]| there.sweep_components(keep).await.expect("sweeps");
    let keep = std::slice::from_ref(&kept);
    assert_eq!(sweep(keep).await, 0, "they were just put");
    fixture.clock.advance(COMPONENT_KEPT_MS);
    here.put_component(&other, bodies[2].clone().into()).await.expect("is kept for longer");
    assert_eq!(sweep(keep).await, 0);
    fixture.clock.advance(COMPONENT_KEPT_MS);
    assert_eq!(sweep(keep).await, 1);
    assert_eq!((read(&other).await, read(&kept).await.is_some()), (None, true));
    fixture.clock.advance(COMPONENT_KEPT_MS - 1);
    assert_eq!(sweep(&[]).await, 0, "naming it has kept it for longer");
    fixture.clock.advance(1);
    assert_eq!(sweep(&[]).await, 1);
    assert_eq!((read(&kept).await, read(&named).await.as_deref()), (None, Some(&bodies[0][..])));
    finish(&*here, &made, result()).await;
    assert_eq!(sweep(&[]).await, 0, "its journal is still there");
    assert_eq!(here.drop_journal(made.id).await.expect("drops"), Some(0));
    assert_eq!(sweep(&[]).await, 1);
    assert_eq!(read(&named).await, None);
}

fn digest_of(body: &[u8]) -> Digest {
    use sha2::{Digest as _, Sha256};
    Digest(Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect())
}
