//! Damaged journals: an error, never a panic, and never other answers.

use crate::script::{DAMAGED, Run, World, recorded, steps};
use proptest::prelude::*;
use toolyard_journal::{Chunk, Detail, Fault, History, RecordError, Recorder};

/// The chunk with a byte that differs in these bits.
fn flipped(chunk: &Chunk, place: usize, bits: u8) -> Chunk {
    let mut body = chunk.body.to_vec();
    body[place] ^= bits;
    Chunk { entries: chunk.entries, body: body.into() }
}

/// The chunk with the checksum of its bytes, as a person would write it who changes a store.
fn with_checksum(chunk: &Chunk) -> Chunk {
    let mut body = chunk.body.to_vec();
    if let Some((checksum, rest)) = body.split_first_chunk_mut::<4>() {
        *checksum = crc32fast::hash(rest).to_le_bytes();
    }
    Chunk { entries: chunk.entries, body: body.into() }
}

proptest! {
    // One case is a journal for each byte.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_flipped_byte_is_corrupt(script in steps(), at in any::<prop::sample::Index>(), bits in 1..=u8::MAX) {
        let (chunks, _) = recorded(&script);
        let number = at.index(chunks.len());
        for place in 0..chunks[number].body.len().min(2_000) {
            let mut damaged = chunks.clone();
            damaged[number] = flipped(&chunks[number], place, bits);
            let error = Recorder::load(damaged, 1 << 24).map(drop).expect_err("damage");
            prop_assert_eq!((error.chunk as usize, error.fault), (number, Fault::Checksum));
        }
    }
}

proptest! {
    #[test]
    fn a_byte_that_a_person_changed_is_corrupt_or_diverges_or_repeats(
        script in steps(),
        at in any::<prop::sample::Index>(),
        place in any::<prop::sample::Index>(),
        bits in 1..=u8::MAX,
    ) {
        let (mut chunks, _) = recorded(&script);
        let number = at.index(chunks.len());
        let place = place.index(chunks[number].body.len());
        chunks[number] = with_checksum(&flipped(&chunks[number], place, bits));
        let mut history = History::new(Detail::Full);
        for line in chunks.iter().flat_map(|chunk| history.read(chunk).0) {
            let _ = (line.to_string(), line.to_json());
        }
        let Ok(recorder) = Recorder::load(chunks.clone(), 1 << 24) else { return Ok(()) };
        let mut run = Run::new(recorder, World::new(5), &chunks);
        if let Err(error) = run.follow(&script) {
            prop_assert!(matches!(error, RecordError::Diverged(_)) || error == DAMAGED, "{error:?}");
        }
    }
}
