use super::*;
use proptest::prelude::*;
use uuid::Uuid;

const OLD: [u8; 32] = [1; 32];
const NEW: [u8; 32] = [2; 32];

fn sealing(secrets: &[[u8; 32]]) -> Sealing {
    Sealing(Keyring::new(secrets.iter().copied()))
}

fn task(number: u128) -> TaskId {
    TaskId(Uuid::from_u128(number))
}

fn sealed(with: &Sealing, of: TaskId, column: Column, text: &[u8]) -> Vec<u8> {
    with.bytes(of, column, text).expect("seals").into_owned()
}

proptest! {
    #[test]
    fn what_is_sealed_opens_to_the_letter_and_shows_nothing_of_itself(
        text in "\\{\\PC{8,200}", number in any::<u128>(),
    ) {
        let (keys, of) = (sealing(&[NEW, OLD]), task(number));
        let value = sealed(&keys, of, Column::Outcome, text.as_bytes());
        prop_assert!(!value.windows(8).any(|part| text.as_bytes().windows(8).any(|plain| plain == part)));
        prop_assert_eq!(sealed_with(&value), keys.key());
        prop_assert_ne!(&sealed(&keys, of, Column::Outcome, text.as_bytes()), &value, "no text is sealed alike twice");
        prop_assert_eq!(keys.open(of, Column::Outcome, value).expect("opens"), text.as_bytes());
        let record = keys.record(of, text.clone()).expect("seals");
        prop_assert!(!record.contains(&text));
        prop_assert_eq!(record_sealed_with(&record), keys.key());
        prop_assert_eq!(keys.open_record(of, &record).expect("opens"), text);
    }

    #[test]
    fn what_was_not_sealed_here_is_refused_without_panic(text in ".*", bytes in any::<Vec<u8>>()) {
        let keys = sealing(&[NEW]);
        let _ = keys.open_record(task(1), &text);
        let _ = record_sealed_with(&text);
        let mut bytes = bytes;
        let _ = keys.open(task(1), Column::Record, bytes.clone());
        bytes.insert(0, LAYOUT);
        prop_assert!(keys.open(task(1), Column::Record, bytes.clone()).is_err());
        bytes.splice(1..1, keys.key().expect("there is one").0);
        prop_assert!(keys.open(task(1), Column::Record, bytes).is_err());
    }
}

#[test]
fn every_changed_bit_is_noticed() {
    let (keys, of) = (sealing(&[NEW]), task(1));
    let value = sealed(&keys, of, Column::Arguments, b"{}");
    for at in 0..value.len() * 8 {
        let mut changed = value.clone();
        changed[at / 8] ^= 1 << (at % 8);
        let opened = keys.open(of, Column::Arguments, changed.clone());
        // Without its first byte it is a plain value that does not parse.
        let plain = changed[0] != LAYOUT && opened.as_ref().is_ok_and(|plain| *plain == changed);
        assert!(plain || opened.is_err(), "bit {at}");
    }
}

#[test]
fn a_value_opens_in_its_own_place_only() {
    let keys = sealing(&[NEW]);
    let value = sealed(&keys, task(1), Column::Arguments, b"{}");
    for (of, column) in [(task(2), Column::Arguments), (task(1), Column::Outcome), (task(1), Column::Record)]
    {
        let moved = keys.open(of, column, value.clone());
        assert!(matches!(moved, Err(CodecError::Forged(_))), "{moved:?}");
    }
    assert!(keys.open(task(1), Column::Arguments, value).is_ok());
}

#[test]
fn the_newest_key_seals_and_every_other_opens() {
    let (old, both, new) = (sealing(&[OLD]), sealing(&[NEW, OLD]), sealing(&[NEW]));
    let of = task(1);
    let before = sealed(&old, of, Column::Outcome, b"c");
    let after = sealed(&both, of, Column::Outcome, b"c");
    assert_ne!(sealed_with(&before), sealed_with(&after));
    assert_eq!(both.open(of, Column::Outcome, before.clone()).expect("opens"), b"c");
    assert_eq!(new.open(of, Column::Outcome, after.clone()).expect("opens"), b"c");
    for (keys, value) in [(&new, &before), (&old, &after), (&Sealing::default(), &after)] {
        let opened = keys.open(of, Column::Outcome, value.clone());
        assert!(matches!(opened, Err(CodecError::NoKey(_))), "{opened:?}");
    }
}

#[test]
fn without_keys_values_are_as_they_were_and_not_copied() {
    let none = Sealing(Keyring::new([]));
    let of = task(1);
    let text = b"{\"a\":1}";
    assert!(matches!(none.bytes(of, Column::Arguments, &text[..]).expect("passes"), Cow::Borrowed(_)));
    assert!(matches!(none.open_record(of, "{}").expect("passes"), Cow::Borrowed(_)));
    assert_eq!(none.key(), None);
}

#[test]
fn nothing_of_a_key_is_shown() {
    let keys = Keyring::new([NEW]).expect("one");
    assert_eq!(format!("{keys:?}"), format!("[{}]", keys.newest()));
    assert!(!format!("{keys:?}").contains("0202"));
}
