//! Cursors: opaque, signed, bound to the list and the principal that they were issued for (T-31, T-33).

use crate::client::Clients;
use crate::error::Fault;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use toolyard_task::StoreError;
use toolyard_task::keys::{Key, KeyUse};

const MAC_BYTES: usize = 16;

impl Clients {
    /// The cursor for `position` in the list that `scope` names.
    pub(crate) async fn seal_cursor(&self, scope: &str, position: &str) -> Result<String, StoreError> {
        let keys = self.keys.keys(KeyUse::Cursor).await?;
        let key = keys.first().expect("a key store has a key for every use");
        Ok(seal(key, scope, position))
    }

    /// The position that a cursor stands for.
    pub(crate) async fn open_cursor(&self, scope: &str, cursor: &str) -> Result<String, Fault> {
        let keys = self.keys.keys(KeyUse::Cursor).await?;
        open(&keys, scope, cursor).ok_or(Fault::InvalidCursor)
    }
}

/// The cursor for `position` in the list that `scope` names, signed with `key`.
#[must_use]
pub fn seal(key: &Key, scope: &str, position: &str) -> String {
    let mut token = key.id.to_be_bytes().to_vec();
    token.extend_from_slice(position.as_bytes());
    let mac = signature(key, scope, &token).finalize().into_bytes();
    token.extend_from_slice(&mac[..MAC_BYTES]);
    URL_SAFE_NO_PAD.encode(token)
}

/// The position that a cursor stands for, if it was sealed for `scope` with one of
/// `keys`.
#[must_use]
pub fn open(keys: &[Key], scope: &str, cursor: &str) -> Option<String> {
    let token = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let (signed, mac) = token.split_at_checked(token.len().checked_sub(MAC_BYTES)?)?;
    let (id, position) = signed.split_at_checked(4)?;
    let id = u32::from_be_bytes(id.try_into().ok()?);
    let key = keys.iter().find(|key| key.id == id)?;
    signature(key, scope, signed).verify_truncated_left(mac).ok()?;
    String::from_utf8(position.to_vec()).ok()
}

fn signature(key: &Key, scope: &str, token: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&key.secret).expect("HMAC takes keys of any length");
    // The length keeps scope and token apart.
    mac.update(&(scope.len() as u64).to_be_bytes());
    mac.update(scope.as_bytes());
    mac.update(token);
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: u32, byte: u8) -> Key {
        Key { id, secret: [byte; 32] }
    }

    #[test]
    fn t_31_a_cursor_opens_only_with_its_key_its_scope_and_its_every_bit() {
        let keys = [key(2, 9), key(1, 7)];
        let cursor = seal(&keys[1], "tasks:a", "position");
        assert_eq!(open(&keys, "tasks:a", &cursor).as_deref(), Some("position"));
        assert_eq!(open(&keys, "tasks:b", &cursor), None, "another principal");
        assert_eq!(open(&keys[..1], "tasks:a", &cursor), None, "a key that was forgotten");
        assert_eq!(open(&[key(1, 8)], "tasks:a", &cursor), None, "another secret");
        let bytes = URL_SAFE_NO_PAD.decode(&cursor).expect("ours");
        for bit in 0..bytes.len() * 8 {
            let mut forged = bytes.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(open(&keys, "tasks:a", &URL_SAFE_NO_PAD.encode(forged)), None, "bit {bit}");
        }
        for junk in ["", "x", "AAAA", "!!!!", "\u{1F600}"] {
            assert_eq!(open(&keys, "tasks:a", junk), None, "{junk}");
        }
    }
}
