//! A run is repeated from its journal, and goes on from every prefix of it.

use crate::script::{BASE, Observation, Run, World, again, frames, journal, load, recorded, recorder, steps};
use proptest::prelude::*;
use std::num::NonZeroU32;
use toolyard_journal::{Begin, Chunk, Recorder, Source};

fn texts(seen: &[Observation]) -> Vec<String> {
    seen.iter().map(|observed| observed.text.clone()).collect()
}

/// Repeats a run that is recorded to its end, in a world that would answer differently.
fn repeated(chunks: &[Chunk], script: &[crate::script::Step]) -> Vec<Observation> {
    let mut run = Run::new(load(chunks), World::new(9), &[]);
    let seen = run.follow(script).expect("the run repeats");
    assert!(run.recorder.is_ended() && !run.recorder.is_live());
    assert!(run.chunks.is_empty(), "a replay records nothing");
    seen
}

proptest! {
    // One case is a run for each entry.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_run_goes_on_from_every_prefix(script in steps()) {
        let (chunks, seen) = recorded(&script);
        let all = frames(&chunks);
        let by_entries = (1..all.len()).map(|count| journal(&all[..count]));
        let by_chunks = (1..chunks.len()).map(|count| chunks[..count].to_vec());
        for prefix in by_entries.chain(by_chunks) {
            let mut run = Run::new(load(&prefix), World::new(1), &prefix);
            let again = run.follow(&script).expect("the prefix repeats, and the rest is live");
            for (before, now) in seen.iter().zip(&again).filter(|(_, now)| now.is_past) {
                prop_assert_eq!(&before.text, &now.text);
            }
            prop_assert_eq!(texts(&repeated(&run.chunks, &script)), texts(&again));
        }
    }

    #[test]
    fn a_run_survives_many_hosts(script in steps(), lengths in prop::collection::vec(1..12_usize, 1..6)) {
        let (mut chunks, _) = recorded(&script);
        for (number, length) in (1..).zip(lengths) {
            let all = frames(&chunks);
            let prefix = journal(&all[..all.len().min(length * usize::try_from(number).expect("small"))]);
            let mut run = Run::new(load(&prefix), World::new(number), &prefix);
            let seen = run.follow(&script).expect("it goes on");
            prop_assert_eq!(texts(&repeated(&run.chunks, &script)), texts(&seen));
            chunks = run.chunks;
        }
    }
}

#[test]
fn time_never_goes_back_on_a_host_whose_clock_is_behind() {
    let mut first = recorder();
    assert_eq!(first.clock(BASE + 5_000), Ok(BASE + 5_000));
    assert_eq!(first.clock(BASE + 4_000), Ok(BASE + 5_000));
    let mut second = again(&mut first);
    assert_eq!(second.clock(BASE), Ok(BASE + 5_000));
    assert_eq!(second.clock(BASE), Ok(BASE + 5_000));
    assert!(second.is_live());
    assert_eq!(second.clock(BASE), Ok(BASE + 5_000));
    assert_eq!(second.clock(BASE + 5_001), Ok(BASE + 5_001));
    let mut before = recorder();
    assert_eq!(before.clock(BASE - 1), Ok(BASE), "not before the base time");
}

#[test]
fn readings_are_rounded_down_to_the_step() {
    let begin = Begin { clock_step: NonZeroU32::new(10).expect("not zero"), ..crate::script::begin() };
    let mut recorder = Recorder::new(begin, 1 << 20).expect("a recorder");
    assert_eq!(recorder.clock(BASE + 19), Ok(BASE + 10));
    assert_eq!(recorder.clock(BASE + 20), Ok(BASE + 20));
}

#[test]
fn a_new_run_is_live_and_an_ended_one_never() {
    let mut run = recorder();
    assert!(run.is_live());
    assert_eq!((run.entries(), run.position()), (1, 1), "`begin`");
    assert_eq!(run.poll(2), Ok(Source::Live));
    run.record_poll(2, &[1]).expect("recorded");
    run.end(&[3; 32]).expect("recorded");
    assert!(run.is_ended() && !run.is_live());
    assert!(run.poll(2).is_err(), "nothing is live after the end");
    assert!(run.record_poll(2, &[1]).is_err());
    let chunk = run.take_chunk(0, 0);
    assert_eq!(chunk.map(|chunk| chunk.entries), Some(3));
}

#[test]
fn an_empty_past_is_live_at_once_and_the_times_are_those_of_the_last_chunk() {
    let mut run = recorder();
    let first = run.take_chunk(BASE + 7, 40).expect("`begin`");
    assert_eq!(run.take_chunk(BASE + 8, 41), None, "nothing new");
    let again = load(std::slice::from_ref(&first));
    assert!(again.is_live());
    assert_eq!((again.time_ms(), again.cpu_us(), again.bytes()), (BASE + 7, 40, first.body.len() as u64));
    assert_eq!(again.begin(), &crate::script::begin());
    assert_eq!(again.entries(), 1);
}
