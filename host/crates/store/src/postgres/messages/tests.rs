use super::*;
use crate::encryption::Keyring;

const SCHEMA: [u8; 32] = [9; 32];
const CHANNEL: &str = "toolyard_toolyard";
const NOW: i64 = 1_800_000_000_000;

fn keys(operators: &[[u8; 32]]) -> ChannelKeys {
    ChannelKeys::new(&SCHEMA, &Sealing(Keyring::new(operators.iter().copied())), CHANNEL)
}

fn sender(operators: &[[u8; 32]]) -> Sender {
    Sender::new(&keys(operators)).expect("random bytes")
}

/// A receiver that has listened since [`NOW`].
fn receiver(operators: &[[u8; 32]]) -> Receiver {
    let mut receiver = Receiver::new(keys(operators), &sender(operators));
    receiver.begins(NOW);
    receiver
}

fn word(text: &str) -> Message {
    Message::Word(text.to_owned())
}

#[test]
fn messages_are_opened_as_they_were_sealed() {
    let (mut from, mut to) = (sender(&[]), receiver(&[]));
    let ids: Vec<_> = (0..MAX_IDS).map(|number| TaskId(Uuid::from_u128(number as u128))).collect();
    for message in [Message::Changed(ids), Message::Changed(vec![]), Message::Anything, word("é")] {
        let sealed = from.seal(&message, NOW).expect("is sealed");
        // The longest payload of a notification is 7999 bytes.
        assert!(sealed.len() < 8_000);
        assert_eq!(to.open(&sealed), Ok(message));
    }
    let longest =
        from.seal(&word(&"x".repeat(toolyard_task::broadcast::MAX_MESSAGE_BYTES)), NOW).expect("is sealed");
    assert!(longest.len() < 8_000, "{}", longest.len());
}

#[test]
fn nothing_of_a_message_can_be_read_on_the_way() {
    let id = TaskId(Uuid::from_u128(0xabcd_ef01_2345_6789));
    let sealed = sender(&[]).seal(&Message::Changed(vec![id]), NOW).expect("is sealed");
    let bytes = STANDARD_NO_PAD.decode(&sealed).expect("base64");
    assert!(!bytes.windows(8).any(|part| part == &id.0.as_bytes()[8..]));
    let sealed = sender(&[]).seal(&word("a secret"), NOW).expect("is sealed");
    let bytes = STANDARD_NO_PAD.decode(&sealed).expect("base64");
    assert!(!bytes.windows(6).any(|part| part == b"secret"));
}

/// Messages of earlier releases, and messages that other roles may send.
#[test]
fn what_is_not_sealed_is_refused() {
    let mut to = receiver(&[]);
    let id = Uuid::from_u128(7).simple().to_string();
    let ids = format!("{id} {id}");
    for plain in ["", "*", "={\"changed\":{\"what\":\"tools\"}}", &id, &ids, "AQ", "é", &"A".repeat(7_999)] {
        assert_eq!(to.open(plain), Err(Refusal::Plain), "{plain}");
    }
    // The correct layout byte, followed by nothing valid.
    let guessed = STANDARD_NO_PAD.encode([&[LAYOUT][..], &[0; 100]].concat());
    assert_eq!(to.open(&guessed), Err(Refusal::Forged));
}

#[test]
fn a_message_with_any_bit_changed_is_refused() {
    let (mut from, mut to) = (sender(&[]), receiver(&[]));
    let sealed = from.seal(&word("x"), NOW).expect("is sealed");
    let bytes = STANDARD_NO_PAD.decode(&sealed).expect("base64");
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(to.open(&STANDARD_NO_PAD.encode(changed)).is_err(), "bit {bit}");
    }
    for length in 0..bytes.len() {
        assert!(to.open(&STANDARD_NO_PAD.encode(&bytes[..length])).is_err(), "{length} bytes");
    }
    assert_eq!(to.open(&sealed), Ok(word("x")), "none of it counts against the honest one");
}

#[test]
fn a_message_counts_once_and_none_before_it_counts_later() {
    let (mut from, mut to) = (sender(&[]), receiver(&[]));
    let [first, second, third] = ["1", "2", "3"].map(|text| from.seal(&word(text), NOW).expect("is sealed"));
    assert_eq!(to.open(&second), Ok(word("2")));
    for again in [&first, &second] {
        assert_eq!(to.open(again), Err(Refusal::Replayed));
    }
    assert_eq!(to.open(&third), Ok(word("3")));
    let of_another = sender(&[]).seal(&word("late"), NOW).expect("is sealed");
    assert_eq!(to.open(&of_another), Ok(word("late")), "senders do not stand in each other's way");
}

/// A host accepts nothing that was sent before it listened: neither from an unknown sender nor,
/// after its connection broke, from a known one.
#[test]
fn what_was_sent_before_a_host_listened_is_refused_later() {
    let (mut from, mut to) = (sender(&[]), receiver(&[]));
    let before = from.seal(&word("before"), NOW - 1_000).expect("is sealed");
    assert_eq!(to.open(&before), Err(Refusal::Replayed));
    let while_it_listens = from.seal(&word("1"), NOW + 5).expect("is sealed");
    assert_eq!(to.open(&while_it_listens), Ok(word("1")));
    let while_it_did_not = from.seal(&word("2"), NOW + 2_000).expect("is sealed");
    to.begins(NOW + 5_000);
    assert_eq!(to.open(&while_it_did_not), Err(Refusal::Replayed));
    // The clock does not matter once a message of the sender has arrived on this connection.
    assert_eq!(to.open(&from.seal(&word("3"), NOW + 5_000).expect("is sealed")), Ok(word("3")));
    assert_eq!(to.open(&from.seal(&word("4"), NOW - 9_000).expect("is sealed")), Ok(word("4")));
}

/// The server's clock may be set back; old hosts then still accept messages from new ones.
#[test]
fn a_clock_that_is_set_back_shuts_nobody_out() {
    let mut to = receiver(&[]);
    let hour = 3_600_000;
    let sealed = sender(&[]).seal(&word("x"), NOW - hour).expect("is sealed");
    assert_eq!(to.open(&sealed), Err(Refusal::Replayed));
    to.set_time(NOW - hour);
    assert_eq!(to.open(&sealed), Ok(word("x")));
}

#[test]
fn a_process_refuses_its_own_messages() {
    let mut from = sender(&[]);
    let mut to = Receiver::new(keys(&[]), &from);
    to.begins(NOW);
    assert_eq!(to.open(&from.seal(&word("x"), NOW).expect("is sealed")), Err(Refusal::Replayed));
}

#[test]
fn with_keys_of_the_operator_both_are_needed() {
    let (old, new, other) = ([1; 32], [2; 32], [3; 32]);
    let heard = |from: &[[u8; 32]], to: &[[u8; 32]]| {
        receiver(to).open(&sender(from).seal(&word("x"), NOW).expect("is sealed"))
    };
    assert_eq!(heard(&[old], &[old]), Ok(word("x")));
    // The keys as they are changed, host by host.
    assert_eq!(heard(&[new, old], &[new, old]), Ok(word("x")));
    assert_eq!(heard(&[old], &[new, old]), Ok(word("x")));
    for (from, to) in [(&[other][..], &[old][..]), (&[], &[old]), (&[old], &[]), (&[new, old], &[old])] {
        assert_eq!(heard(from, to), Err(Refusal::Forged), "{from:?} {to:?}");
    }
    // A copy of the schema under another name uses another channel.
    let elsewhere = ChannelKeys::new(&SCHEMA, &Sealing(None), "toolyard_copy");
    let sealed = Sender::new(&elsewhere).expect("random bytes").seal(&word("x"), NOW).expect("is sealed");
    assert_eq!(receiver(&[]).open(&sealed), Err(Refusal::Forged));
}

/// The memory of senders is bounded, and a forgotten sender cannot be replayed.
#[test]
fn senders_that_were_forgotten_are_not_heard_again() {
    let mut to = receiver(&[]);
    let mut sealed = Vec::new();
    for number in 0..MAX_SENDERS as i64 + 10 {
        let text = sender(&[]).seal(&word("x"), NOW + number).expect("is sealed");
        assert_eq!(to.open(&text), Ok(word("x")));
        sealed.push(text);
    }
    assert_eq!(to.known.len(), MAX_SENDERS);
    for text in sealed {
        assert_eq!(to.open(&text), Err(Refusal::Replayed));
    }
}

/// A kind of message that only a later release knows may concern any task.
#[test]
fn what_a_later_release_says_is_looked_after() {
    assert_eq!(read(b"?whatever"), Some(Message::Anything));
    assert_eq!(read(b"c123"), None);
    assert_eq!(read(b""), None);
}
