//! Messages between hosts are sealed. PostgreSQL has no access rights for `NOTIFY` channels: any
//! role of the database can receive and send any message there.
//!
//! All hosts of a schema share a key in its table `key`; if the operator sets keys, both are
//! needed. Each process that sends has an id of 16 random bytes and its own key, derived from that
//! id. So its counter is a nonce that never repeats, even if a database is restored. A connection
//! delivers in the order of commits, and each process sends over one connection at a time. So a
//! counter that is not higher than the last one belongs to a message that was already received, or
//! to a lost message that a later one has made up for.
//!
//! A receiver that does not know a sender cannot judge its counter. It accepts only messages that
//! were sealed after it began to listen, by the clock of the server, which all hosts estimate.

use crate::codec::CodecError;
use crate::encryption::Sealing;
use crate::metrics::REASONS;
use aes_gcm::aead::{AeadInOut as _, KeyInit as _};
use aes_gcm::{Aes256Gcm, Nonce, Tag};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use hmac::{Hmac, Mac as _};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use toolyard_task::TaskId;
use uuid::Uuid;
use zeroize::Zeroizing;

/// The first byte of a message, and the number of this layout.
const LAYOUT: u8 = 1;
const KEY_ID: usize = 8;
const SENDER: usize = 16;
const COUNTER: usize = 8;
/// The bytes before the sealed part: the layout, the key, the sender and its counter.
const HEAD: usize = 1 + KEY_ID + SENDER + COUNTER;
const TAG: usize = 16;
/// The start of the sealed part: the time of sealing, and the kind of the message.
const SEALED_HEAD: usize = 8 + 1;
const CHANGED: u8 = b'c';
const ANYTHING: u8 = b'a';
const WORD: u8 = b'w';

/// Ids of tasks in one message.
pub(super) const MAX_IDS: usize = 200;
/// The maximum number of senders that a receiver remembers: hosts, and commands that changed
/// something.
const MAX_SENDERS: usize = 1024;
/// The accuracy of the estimated server time, in milliseconds.
const TOLERANCE: i64 = 100;

type SenderId = [u8; SENDER];

/// The messages that hosts send to each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    /// The tasks with these ids have changed.
    Changed(Vec<TaskId>),
    /// Any task may have changed.
    Anything,
    /// A message of the port `Broadcast`.
    Word(String),
}

/// Why a message on the channel is not accepted as a host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The message is not sealed at all.
    Plain,
    /// The message was sealed with another key, or with none.
    Forged,
    /// The message was received before, or sent before this host listened.
    Replayed,
}

impl Refusal {
    /// The name of the reason in metrics and in the log.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Plain => REASONS[0],
            Self::Forged => REASONS[1],
            Self::Replayed => REASONS[2],
        }
    }
}

fn mac(key: &[u8], parts: &[&[u8]]) -> Zeroizing<[u8; 32]> {
    let mut mac =
        <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(key).expect("HMAC takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    Zeroizing::new(mac.finalize().into_bytes().into())
}

/// A key of the channel.
struct ChannelKey {
    id: [u8; KEY_ID],
    secret: Zeroizing<[u8; 32]>,
}

impl ChannelKey {
    /// HKDF-SHA256 over the operator's key with the schema's key as salt, or over the schema's key
    /// alone if the operator has set none.
    fn new(schema: &[u8; 32], operators: Option<&[u8; 32]>, channel: &str) -> Self {
        let extracted = match operators {
            Some(secret) => mac(schema, &[secret]),
            None => mac(&[0; 32], &[schema]),
        };
        let secret = mac(&*extracted, &[b"toolyard messages\0", channel.as_bytes(), &[1]]);
        let digest =
            Sha256::new().chain_update(b"toolyard message key\0").chain_update(secret.as_slice()).finalize();
        Self { id: *digest.first_chunk().expect("a digest is longer"), secret }
    }

    fn cipher(&self, sender: &SenderId) -> Aes256Gcm {
        let derived = mac(&*self.secret, &[b"toolyard sender\0", sender, &[1]]);
        Aes256Gcm::new((&*derived).into())
    }
}

/// The keys of a channel: the first one seals; any of them opens.
pub(super) struct ChannelKeys(Vec<ChannelKey>);

impl ChannelKeys {
    /// `schema` is the secret that all hosts of the schema share.
    pub(super) fn new(schema: &[u8; 32], sealing: &Sealing, channel: &str) -> Self {
        let mut keys: Vec<_> =
            sealing.secrets().map(|secret| ChannelKey::new(schema, Some(secret), channel)).collect();
        if keys.is_empty() {
            keys.push(ChannelKey::new(schema, None, channel));
        }
        Self(keys)
    }
}

/// Seals the messages of one process.
pub(super) struct Sender {
    id: SenderId,
    key: [u8; KEY_ID],
    cipher: Aes256Gcm,
    counter: u64,
}

impl Sender {
    pub(super) fn new(keys: &ChannelKeys) -> Result<Self, CodecError> {
        let mut id = SenderId::default();
        getrandom::fill(&mut id).map_err(CodecError::NoChance)?;
        let newest = keys.0.first().ok_or(CodecError::NotSealed)?;
        Ok(Self { id, key: newest.id, cipher: newest.cipher(&id), counter: 0 })
    }

    /// The text to send at this time by the server's clock, in milliseconds.
    pub(super) fn seal(&mut self, message: &Message, now: i64) -> Result<String, CodecError> {
        self.counter += 1;
        let mut bytes = Vec::with_capacity(HEAD + SEALED_HEAD + TAG + 64);
        bytes.push(LAYOUT);
        bytes.extend_from_slice(&self.key);
        bytes.extend_from_slice(&self.id);
        bytes.extend_from_slice(&self.counter.to_be_bytes());
        bytes.extend_from_slice(&now.to_be_bytes());
        match message {
            Message::Changed(ids) => {
                bytes.push(CHANGED);
                ids.iter().for_each(|id| bytes.extend_from_slice(id.0.as_bytes()));
            }
            Message::Anything => bytes.push(ANYTHING),
            Message::Word(word) => {
                bytes.push(WORD);
                bytes.extend_from_slice(word.as_bytes());
            }
        }
        let (head, text) = bytes.split_at_mut(HEAD);
        let tag = self
            .cipher
            .encrypt_inout_detached(&Nonce::from(nonce(self.counter)), head, text.into())
            .map_err(|_| CodecError::TooLong)?;
        bytes.extend_from_slice(&tag);
        Ok(STANDARD_NO_PAD.encode(bytes))
    }
}

/// A sender never uses a counter twice and has its own key.
fn nonce(counter: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&counter.to_be_bytes());
    nonce
}

/// A known sender.
struct KnownSender {
    key: [u8; KEY_ID],
    cipher: Aes256Gcm,
    /// The highest counter of its messages so far.
    highest: u64,
    /// When its last message was sealed.
    sealed_at: i64,
    /// The connection over which its last message came. Messages sent while there was no connection
    /// are lost, and must not be accepted later.
    connection: u64,
}

/// Opens the messages that other processes have sealed.
pub(super) struct Receiver {
    keys: ChannelKeys,
    own: SenderId,
    known: HashMap<SenderId, KnownSender>,
    /// Older messages from an unknown sender are not accepted.
    floor: i64,
    connection: u64,
}

impl Receiver {
    /// Accepts nothing from this sender, which is the process itself.
    pub(super) fn new(keys: ChannelKeys, own: &Sender) -> Self {
        Self { keys, own: own.id, known: HashMap::new(), floor: i64::MAX, connection: 0 }
    }

    /// A new connection has listened since this time by the server's clock.
    pub(super) fn begins(&mut self, now: i64) {
        self.connection += 1;
        self.floor = now - TOLERANCE;
    }

    /// Records the server's time. If its clock was set back, messages of senders that appeared
    /// since would seem old until the clock catches up.
    pub(super) fn set_time(&mut self, now: i64) {
        self.floor = self.floor.min(now);
    }

    /// Opens a message of another process.
    pub(super) fn open(&mut self, text: &str) -> Result<Message, Refusal> {
        let mut bytes = STANDARD_NO_PAD.decode(text).map_err(|_| Refusal::Plain)?;
        if bytes.len() < HEAD + SEALED_HEAD + TAG || bytes[0] != LAYOUT {
            return Err(Refusal::Plain);
        }
        let (head, body) = bytes.split_at_mut(HEAD);
        let (key, rest) = head[1..].split_first_chunk::<KEY_ID>().ok_or(Refusal::Plain)?;
        let (sender, rest) = rest.split_first_chunk::<SENDER>().ok_or(Refusal::Plain)?;
        let counter = u64::from_be_bytes(*rest.first_chunk().ok_or(Refusal::Plain)?);
        let (key, sender) = (*key, *sender);
        if sender == self.own {
            return Err(Refusal::Replayed);
        }
        let known = self.known.get(&sender).filter(|known| known.key == key);
        if known.is_some_and(|known| counter <= known.highest) {
            return Err(Refusal::Replayed);
        }
        let derived;
        let cipher = match known {
            Some(known) => &known.cipher,
            None => {
                let key = self.keys.0.iter().find(|ours| ours.id == key).ok_or(Refusal::Forged)?;
                derived = key.cipher(&sender);
                &derived
            }
        };
        let (text, tag) = body.split_at_mut(body.len() - TAG);
        let tag = Tag::try_from(&*tag).map_err(|_| Refusal::Forged)?;
        cipher
            .decrypt_inout_detached(&Nonce::from(nonce(counter)), head, (&mut *text).into(), &tag)
            .map_err(|_| Refusal::Forged)?;
        // From here on, a host is known to have sent it.
        let (sealed_at, text) = text.split_first_chunk().ok_or(Refusal::Forged)?;
        let sealed_at = i64::from_be_bytes(*sealed_at);
        let is_followed = known.is_some_and(|known| known.connection == self.connection);
        if !is_followed && sealed_at < self.floor {
            return Err(Refusal::Replayed);
        }
        let message = read(text).ok_or(Refusal::Forged)?;
        let cipher = cipher.clone();
        self.known.insert(
            sender,
            KnownSender { key, cipher, highest: counter, sealed_at, connection: self.connection },
        );
        self.forget();
        Ok(message)
    }

    /// Forgets the senders whose last messages are oldest, if there are too many. Their past
    /// messages are not accepted again.
    fn forget(&mut self) {
        if self.known.len() <= MAX_SENDERS {
            return;
        }
        let oldest = self.known.iter().min_by_key(|(_, known)| known.sealed_at);
        if let Some((id, sealed_at)) = oldest.map(|(id, known)| (*id, known.sealed_at)) {
            self.known.remove(&id);
            self.floor = self.floor.max(sealed_at + 1);
        }
    }
}

fn read(text: &[u8]) -> Option<Message> {
    let (kind, body) = text.split_first()?;
    match *kind {
        CHANGED => {
            let (ids, rest) = body.as_chunks::<16>();
            rest.is_empty()
                .then(|| Message::Changed(ids.iter().map(|id| TaskId(Uuid::from_bytes(*id))).collect()))
        }
        ANYTHING => Some(Message::Anything),
        WORD => Some(Message::Word(String::from_utf8(body.to_vec()).ok()?)),
        // From a later release. It may concern a task.
        _ => Some(Message::Anything),
    }
}

/// The server's time, estimated from its last answer. It lags the true time by no more than the
/// drift between the two clocks.
pub(super) struct ServerClock {
    asked: Instant,
    answer: i64,
}

impl ServerClock {
    pub(super) const SQL: &str = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

    pub(super) const fn new(asked: Instant, answer: i64) -> Self {
        Self { asked, answer }
    }

    pub(super) fn now(&self) -> i64 {
        self.answer.saturating_add(i64::try_from(self.asked.elapsed().as_millis()).unwrap_or(i64::MAX))
    }

    pub(super) fn is_older_than(&self, time: Duration) -> bool {
        self.asked.elapsed() > time
    }
}

#[cfg(test)]
mod tests;
