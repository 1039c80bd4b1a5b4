//! Encryption of values, so that the file or a backup is useless without the key.
//!
//! The stores choose the values; this module encrypts ("seals") and decrypts ("opens") them. A
//! sealed value is one byte that no plain value begins with, the id of its key, a random nonce, and
//! the text under AES-256-GCM with its tag. No value is sealed with an operator's key directly:
//! each task has its own key, derived from it, so that the bound on random nonces under one key
//! counts only the changes of one task. The tag covers the task and the column: a value that was
//! moved to another row or column cannot be opened.

use crate::codec::{self, CodecError};
use crate::key_id::KeyId;
use aes_gcm::aead::{AeadInOut as _, KeyInit as _};
use aes_gcm::{Aes256Gcm, Nonce, Tag};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use toolyard_task::{Task, TaskId};
use zeroize::Zeroizing;

/// The first byte of a sealed value, which is also the number of this layout. Neither JSON text nor
/// an outcome begins with it.
const LAYOUT: u8 = 1;
const NONCE: usize = 12;
const TAG: usize = 16;
/// Bytes before the sealed text.
pub(crate) const HEAD: usize = 1 + KeyId::LENGTH + NONCE;
/// The number of base64 characters, in whole groups, that contain the head of a sealed record.
const RECORD_HEAD: usize = HEAD.div_ceil(3) * 4;

struct Key {
    id: KeyId,
    secret: Zeroizing<[u8; 32]>,
}

impl Key {
    fn cipher(&self, of: TaskId) -> Aes256Gcm {
        let mut mac = <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(&*self.secret)
            .expect("HMAC takes keys of any length");
        mac.update(b"toolyard task\0");
        mac.update(of.0.as_bytes());
        let derived = Zeroizing::new(<[u8; 32]>::from(mac.finalize().into_bytes()));
        Aes256Gcm::new((&*derived).into())
    }
}

/// The operator's keys. The first one seals; any of them opens.
pub struct Keyring {
    newest: Key,
    older: Vec<Key>,
}

impl Keyring {
    /// Takes the keys with the newest first; each is 32 random bytes. Returns `None` if there are
    /// no keys.
    #[must_use]
    pub fn new(secrets: impl IntoIterator<Item = [u8; 32]>) -> Option<Arc<Self>> {
        let key = |secret: [u8; 32]| Key { id: KeyId::of(&secret), secret: Zeroizing::new(secret) };
        let mut keys = secrets.into_iter().map(key);
        let newest = keys.next()?;
        Some(Arc::new(Self { newest, older: keys.collect() }))
    }

    /// The key that seals.
    #[must_use]
    pub const fn newest(&self) -> KeyId {
        self.newest.id
    }

    /// Whether it can open values that this key sealed.
    #[must_use]
    pub fn has(&self, id: KeyId) -> bool {
        self.key(id).is_some()
    }

    fn key(&self, id: KeyId) -> Option<&Key> {
        std::iter::once(&self.newest).chain(&self.older).find(|key| key.id == id)
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = std::iter::once(&self.newest).chain(&self.older).map(|key| key.id);
        f.debug_list().entries(ids).finish()
    }
}

/// The column of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    Record,
    Arguments,
    Outcome,
    /// The body of an event. Events of one task are not told apart.
    Event,
    /// The body of a chunk. Chunks of one task are told apart by their numbers.
    Journal {
        number: u32,
    },
}

/// The data that the tag covers besides the text.
struct AssociatedData {
    data: [u8; 21],
    length: usize,
}

impl AssociatedData {
    fn new(column: Column, of: TaskId) -> Self {
        let (letter, number) = match column {
            Column::Record => (b'r', None),
            Column::Arguments => (b'a', None),
            Column::Outcome => (b'o', None),
            Column::Event => (b'e', None),
            Column::Journal { number } => (b'j', Some(number)),
        };
        let mut data = [0; 21];
        data[0] = letter;
        data[1..17].copy_from_slice(of.0.as_bytes());
        data[17..].copy_from_slice(&number.unwrap_or_default().to_be_bytes());
        Self { data, length: if number.is_some() { 21 } else { 17 } }
    }

    fn bytes(&self) -> &[u8] {
        &self.data[..self.length]
    }
}

/// How a store writes and reads its values: sealed with the available keys, or plain.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sealing(pub(crate) Option<Arc<Keyring>>);

impl Sealing {
    /// The key that seals new values.
    pub(crate) fn key(&self) -> Option<KeyId> {
        self.0.as_ref().map(|keys| keys.newest())
    }

    /// Whether it opens values that were sealed with this key.
    pub(crate) fn opens(&self, key: KeyId) -> bool {
        self.0.as_ref().is_some_and(|keys| keys.has(key))
    }

    /// The operator's keys themselves, the newest first, for keys derived from them.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &[u8; 32]> {
        let keys = self.0.iter();
        keys.flat_map(|keys| std::iter::once(&keys.newest).chain(&keys.older)).map(|key| &*key.secret)
    }

    /// The record of a task, in stored form.
    pub(crate) fn record_of(&self, task: &Task) -> Result<String, CodecError> {
        self.record(task.id, codec::encode(task)?)
    }

    /// The outcome of a task, in stored form.
    pub(crate) fn outcome_of(&self, task: &Task) -> Result<Option<Vec<u8>>, CodecError> {
        let Some(outcome) = &task.outcome else { return Ok(None) };
        let plain = codec::outcome(outcome)?;
        Ok(Some(self.bytes(task.id, Column::Outcome, plain)?.into_owned()))
    }

    /// The task with this id, from its stored parts.
    pub(crate) fn task(
        &self,
        id: TaskId,
        record: &str,
        arguments: Vec<u8>,
        outcome: Option<Vec<u8>>,
    ) -> Result<Task, CodecError> {
        let record = self.open_record(id, record)?;
        let arguments = self.open(id, Column::Arguments, arguments)?;
        let outcome = outcome.map(|outcome| self.open(id, Column::Outcome, outcome)).transpose()?;
        let task = codec::task(&record, arguments, outcome)?;
        if task.id == id { Ok(task) } else { Err(CodecError::OtherTask(task.id)) }
    }

    /// The content of a record's column: text, sealed or not.
    pub(crate) fn record(&self, of: TaskId, text: String) -> Result<String, CodecError> {
        match &self.0 {
            None => Ok(text),
            Some(keys) => Ok(STANDARD_NO_PAD.encode(seal(keys, of, Column::Record, text.as_bytes())?)),
        }
    }

    /// The content of another column.
    pub(crate) fn bytes<'a>(
        &self,
        of: TaskId,
        column: Column,
        bytes: impl Into<Cow<'a, [u8]>>,
    ) -> Result<Cow<'a, [u8]>, CodecError> {
        let bytes = bytes.into();
        match &self.0 {
            None => Ok(bytes),
            Some(keys) => Ok(seal(keys, of, column, &bytes)?.into()),
        }
    }

    pub(crate) fn arguments_of(&self, task: &Task) -> Result<Bytes, CodecError> {
        Ok(match self.bytes(task.id, Column::Arguments, task.arguments.as_bytes())? {
            Cow::Borrowed(_) => task.arguments.bytes(),
            Cow::Owned(sealed) => sealed.into(),
        })
    }

    /// The record that was passed to [`Sealing::record`].
    pub(crate) fn open_record<'a>(&self, of: TaskId, text: &'a str) -> Result<Cow<'a, str>, CodecError> {
        // A record is a JSON object, and base64 has no brace.
        if text.starts_with('{') {
            return Ok(text.into());
        }
        let sealed = STANDARD_NO_PAD.decode(text).map_err(|_| CodecError::NotSealed)?;
        let opened = String::from_utf8(self.open_sealed(of, Column::Record, sealed)?);
        Ok(opened.map_err(|_| CodecError::NotText)?.into())
    }

    /// The value that was passed to [`Sealing::bytes`].
    pub(crate) fn open(&self, of: TaskId, column: Column, bytes: Vec<u8>) -> Result<Vec<u8>, CodecError> {
        if bytes.first() == Some(&LAYOUT) { self.open_sealed(of, column, bytes) } else { Ok(bytes) }
    }

    fn open_sealed(&self, of: TaskId, column: Column, mut bytes: Vec<u8>) -> Result<Vec<u8>, CodecError> {
        let id = sealed_with(&bytes).ok_or(CodecError::NotSealed)?;
        let key = self.0.as_ref().and_then(|keys| keys.key(id)).ok_or(CodecError::NoKey(id))?;
        let (head, body) = bytes.split_at_mut(HEAD);
        let at = body.len().checked_sub(TAG).ok_or(CodecError::NotSealed)?;
        let (text, tag) = body.split_at_mut(at);
        let nonce: &[u8; NONCE] = head.last_chunk().ok_or(CodecError::NotSealed)?;
        let tag = Tag::try_from(&*tag).map_err(|_| CodecError::NotSealed)?;
        key.cipher(of)
            .decrypt_inout_detached(
                &Nonce::from(*nonce),
                AssociatedData::new(column, of).bytes(),
                text.into(),
                &tag,
            )
            .map_err(|_| CodecError::Forged(id))?;
        bytes.truncate(HEAD + at);
        bytes.drain(..HEAD);
        Ok(bytes)
    }
}

/// The key that a value is sealed with; `None` if it is plain.
pub(crate) fn sealed_with(bytes: &[u8]) -> Option<KeyId> {
    let (layout, rest) = bytes.split_first()?;
    (*layout == LAYOUT && bytes.len() >= HEAD).then_some(())?;
    rest.first_chunk().copied().map(KeyId)
}

/// The key that a record is sealed with; `None` if it is plain.
pub(crate) fn record_sealed_with(text: &str) -> Option<KeyId> {
    let head = text.get(..RECORD_HEAD)?;
    STANDARD_NO_PAD.decode(head).ok().and_then(|head| sealed_with(&head))
}

fn seal(keys: &Keyring, of: TaskId, column: Column, plain: &[u8]) -> Result<Vec<u8>, CodecError> {
    let mut nonce = [0; NONCE];
    getrandom::fill(&mut nonce).map_err(CodecError::NoChance)?;
    let mut sealed = Vec::with_capacity(HEAD + plain.len() + TAG);
    sealed.push(LAYOUT);
    sealed.extend_from_slice(&keys.newest.id.0);
    sealed.extend_from_slice(&nonce);
    sealed.extend_from_slice(plain);
    let tag = keys
        .newest
        .cipher(of)
        .encrypt_inout_detached(
            &Nonce::from(nonce),
            AssociatedData::new(column, of).bytes(),
            (&mut sealed[HEAD..]).into(),
        )
        .map_err(|_| CodecError::TooLong)?;
    sealed.extend_from_slice(&tag);
    Ok(sealed)
}

#[cfg(test)]
mod tests;
