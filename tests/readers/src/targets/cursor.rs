//! The cursors of lists: a sealed cursor opens again, and nothing else opens.

use crate::{SCOPE, cursor_keys};
use toolyard_dispatch::{open_cursor, seal_cursor};
use toolyard_task::keys::Key;

pub(super) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let keys = cursor_keys();
    // A seed may be a cursor of this host in its canonical form; no other text opens.
    if let Some(position) = open_cursor(&keys, SCOPE, text) {
        assert!(keys.iter().any(|key| seal_cursor(key, SCOPE, &position) == text), "{text:?}");
    }
    // A scope, a position, and the changes of a forger.
    let mut lines = text.splitn(3, '\n');
    let (Some(scope), Some(position)) = (lines.next(), lines.next()) else { return };
    for key in &keys {
        let cursor = seal_cursor(key, scope, position);
        assert_eq!(open_cursor(&keys, scope, &cursor).as_deref(), Some(position), "sealed opens");
        assert_eq!(open_cursor(&keys, &format!("{scope}x"), &cursor), None, "of another list");
        assert_eq!(open_cursor(&[], scope, &cursor), None, "of a key that was forgotten");
        forged(&keys, &cursor, scope, lines.next().unwrap_or_default().as_bytes());
    }
}

/// Every three bytes of `changes` describe one change of the cursor's text.
fn forged(keys: &[Key], cursor: &str, scope: &str, changes: &[u8]) {
    let mut forged = cursor.as_bytes().to_vec();
    for change in changes.chunks_exact(3) {
        let place = usize::from(change[0]) % forged.len().max(1);
        match change[1] % 3 {
            0 => forged.insert(place, change[2]),
            1 if !forged.is_empty() => drop(forged.remove(place)),
            _ => forged.iter_mut().skip(place).take(1).for_each(|byte| *byte = change[2]),
        }
    }
    let Ok(forged) = std::str::from_utf8(&forged) else { return };
    if forged != cursor {
        assert_eq!(open_cursor(keys, scope, forged), None, "{forged:?} for {cursor:?}");
    }
}
