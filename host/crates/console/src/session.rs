//! Logins. Their secrets are kept as digests, in memory only: a restart logs everybody out.

use crate::user::{ConsoleUser, Role};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use parking_lot::{Mutex, MutexGuard};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

/// A login that is not used for this long ends.
const IDLE: Duration = Duration::from_secs(2 * 60 * 60);
/// The refusals that are noted within [`NOTED_WITHIN`].
const MAX_NOTED: usize = 10;
const NOTED_WITHIN: Duration = Duration::from_secs(60);

/// A login.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    /// The name in the audit log: of the user, if there is one, and of the login.
    pub id: String,
    /// The user, unless it is the operator by a link.
    pub user: Option<String>,
    pub role: Role,
    /// Whether it sees arguments, results, questions and log messages.
    pub sees_contents: bool,
    /// The key of the tokens of its forms.
    digest: [u8; 32],
}

struct Record {
    session: Session,
    began: Instant,
    seen: Instant,
}

/// All logins.
pub(crate) struct Sessions {
    lifetime: Duration,
    most: usize,
    /// The key of form tokens, different in each process.
    key: [u8; 32],
    records: Mutex<HashMap<[u8; 32], Record>>,
    noted: Mutex<Vec<Instant>>,
}

impl Sessions {
    pub fn new(lifetime: Duration, most: usize) -> io::Result<Self> {
        let key = random::<32>()?;
        Ok(Self { lifetime, most: most.max(1), key, records: Mutex::default(), noted: Mutex::default() })
    }

    /// Begins a login, of this user or of the operator, and returns its secret, for the cookie. The least recently used one ends if there
    /// are too many.
    pub fn begin(&self, user: Option<&ConsoleUser>) -> io::Result<(String, Session)> {
        let (secret, id) = (random_code()?, random_hex::<4>()?);
        let digest = digest(&secret);
        let session = Session {
            id: user.map_or_else(|| id.clone(), |user| format!("{}-{id}", user.name)),
            user: user.map(|user| user.name.clone()),
            role: user.map_or(Role::Admin, |user| user.role),
            sees_contents: user.is_none_or(|user| user.contents || user.role == Role::Admin),
            digest,
        };
        let mut records = self.live();
        if records.len() >= self.most {
            let oldest = records.iter().min_by_key(|(_, record)| record.seen).map(|(digest, _)| *digest);
            oldest.and_then(|oldest| records.remove(&oldest));
        }
        let now = Instant::now();
        records.insert(digest, Record { session: session.clone(), began: now, seen: now });
        Ok((secret, session))
    }

    /// The login with this secret.
    pub fn find(&self, secret: &str) -> Option<Session> {
        let digest = digest(secret);
        let mut records = self.live();
        let record = records.get_mut(&digest)?;
        record.seen = Instant::now();
        Some(record.session.clone())
    }

    pub fn end(&self, session: &Session) {
        self.live().remove(&session.digest);
    }

    /// Ends these logins.
    pub fn end_all(&self, is_ended: impl Fn(&Session) -> bool) {
        self.live().retain(|_, record| !is_ended(&record.session));
    }

    /// The token of a form: it permits this action on this target, to this login.
    pub fn form_token(&self, session: &Session, action: &str, target: &str) -> String {
        URL_SAFE_NO_PAD.encode(self.mac(session, action, target).finalize().into_bytes())
    }

    pub fn accepts(&self, token: &str, session: &Session, action: &str, target: &str) -> bool {
        let token = URL_SAFE_NO_PAD.decode(token).unwrap_or_default();
        self.mac(session, action, target).verify_slice(&token).is_ok()
    }

    /// Whether a refusal is noted: only the first ones in a minute.
    pub fn may_note_refusal(&self) -> bool {
        let mut noted = self.noted.lock();
        noted.retain(|at| at.elapsed() < NOTED_WITHIN);
        let may = noted.len() < MAX_NOTED;
        if may {
            noted.push(Instant::now());
        }
        may
    }

    /// The logins that have not ended.
    fn live(&self) -> MutexGuard<'_, HashMap<[u8; 32], Record>> {
        let mut records = self.records.lock();
        records.retain(|_, record| record.seen.elapsed() < IDLE && record.began.elapsed() < self.lifetime);
        records
    }

    fn mac(&self, session: &Session, action: &str, target: &str) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("HMAC takes keys of any length");
        mac.update(&session.digest);
        // The length keeps action and target apart.
        mac.update(&(action.len() as u64).to_be_bytes());
        mac.update(action.as_bytes());
        mac.update(target.as_bytes());
        mac
    }
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}

/// A secret of 256 random bits.
pub(crate) fn random_code() -> io::Result<String> {
    Ok(URL_SAFE_NO_PAD.encode(random::<32>()?))
}

/// A random name of 2 N hexadecimal digits.
pub(crate) fn random_hex<const N: usize>() -> io::Result<String> {
    Ok(hex(&random::<N>()?))
}

fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// The SHA-256 digest of a secret, in hexadecimal.
pub(crate) fn digest_hex(secret: &str) -> String {
    hex(&digest(secret))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions(most: usize) -> Sessions {
        Sessions::new(Duration::from_secs(60), most).expect("random numbers")
    }

    #[test]
    fn a_login_is_found_by_its_secret_until_it_ends() {
        let sessions = sessions(2);
        let (secret, session) = sessions.begin(None).expect("begins");
        assert_eq!(sessions.find(&secret).expect("a login").id, session.id);
        assert!(sessions.find("another").is_none());
        sessions.end(&session);
        assert!(sessions.find(&secret).is_none());
        let short = Sessions::new(Duration::ZERO, 1).expect("random numbers");
        let (secret, _) = short.begin(None).expect("begins");
        assert!(short.find(&secret).is_none(), "it has lasted long enough");
    }

    #[test]
    fn the_least_recently_used_login_makes_room() {
        let sessions = sessions(2);
        let secrets: Vec<_> = (0..2).map(|_| sessions.begin(None).expect("begins").0).collect();
        assert!(sessions.find(&secrets[0]).is_some());
        let (third, _) = sessions.begin(None).expect("begins");
        let found = [&secrets[0], &secrets[1], &third].map(|secret| sessions.find(secret).is_some());
        assert_eq!(found, [true, false, true]);
    }

    #[test]
    fn the_token_of_a_form_holds_for_its_login_action_and_target_only() {
        let sessions = sessions(2);
        let ((_, ada), (_, bob)) =
            (sessions.begin(None).expect("begins"), sessions.begin(None).expect("begins"));
        let token = sessions.form_token(&ada, "cancel", "task-1");
        assert!(sessions.accepts(&token, &ada, "cancel", "task-1"));
        assert!(!sessions.accepts(&token, &bob, "cancel", "task-1"), "another login");
        assert!(!sessions.accepts(&token, &ada, "answer", "task-1"), "another action");
        assert!(!sessions.accepts(&token, &ada, "cancel", "task-2"), "another target");
        assert!(!sessions.accepts(&token, &ada, "cance", "ltask-1"), "another division");
        for token in ["", "!"] {
            assert!(!sessions.accepts(token, &ada, "cancel", "task-1"), "{token} is no token");
        }
    }

    #[test]
    fn ten_refusals_a_minute_are_noted() {
        let sessions = sessions(1);
        let noted = (0..MAX_NOTED * 3).filter(|_| sessions.may_note_refusal()).count();
        assert_eq!(noted, MAX_NOTED);
    }
}
