//! Counts effects outside of the host: the guest `effects` reports here that it has begun, and which answer
//! it received; the guest `chances` reports each of its steps. A test can hold an effect back, so that its
//! run is certainly in the middle of it.

use crate::site::listen;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;

/// The longest head of a request of the guest `effects`.
const LONGEST_HEAD: usize = 4 << 10;
/// A step is answered this long after its arrival. Some hosts die meanwhile.
const STEP_TAKES: Duration = Duration::from_millis(15);

/// The effects of the runs of one call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effects {
    /// The attempt of each run that began, in the order of arrival.
    pub begun: Vec<u32>,
    /// The answers with which runs continued, by attempt.
    pub words: Vec<(u32, String)>,
}

impl Effects {
    /// Whether two runs with the same attempt number began.
    pub fn repeats(&self) -> bool {
        self.begun.iter().collect::<BTreeSet<_>>().len() != self.begun.len()
    }

    /// The distinct answers.
    pub fn distinct_words(&self) -> BTreeSet<&str> {
        self.words.iter().map(|(_, word)| word.as_str()).collect()
    }
}

/// A request of the guest `chances`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Step {
    /// The number of the step in its call, from 0.
    pub number: u32,
    /// The random order and the clock reading that the guest sent.
    pub chances: String,
    /// The idempotency key of the request.
    pub idempotency_key: Option<String>,
}

#[derive(Default)]
struct Book {
    effects: BTreeMap<String, Effects>,
    steps: BTreeMap<String, Vec<Step>>,
    /// Unreadable requests; there must be none.
    odd: Vec<String>,
}

/// A running sink on a port of this machine.
pub struct Sink {
    port: u16,
    book: Arc<Mutex<Book>>,
    held: watch::Sender<bool>,
}

impl Sink {
    /// Starts a sink.
    ///
    /// # Panics
    /// If it cannot listen.
    pub async fn start() -> Self {
        let (book, held) = (Arc::<Mutex<Book>>::default(), watch::channel(false).0);
        let (noted, switch) = (book.clone(), held.clone());
        let (port, _) = listen(move |stream| serve(stream, noted.clone(), switch.subscribe())).await;
        Self { port, book, held }
    }

    /// Its host and port, as guests name it.
    pub fn authority(&self) -> String {
        format!("localhost:{}", self.port)
    }

    /// Its port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// A manifest for the guest `effects` that may connect to the sink, and whose tool `again` may be run
    /// again.
    pub fn manifest(&self) -> String {
        format!(
            "[http]\nallow = [\"{}\"]\n[tools.once]\ndurability = \"none\"\n[tools.again]\ndurability = \"rerun\"\n",
            self.authority()
        )
    }

    /// From now on effects are counted, but not answered until [`Sink::release`].
    pub fn hold(&self) {
        self.held.send_replace(true);
    }

    /// Answers all waiting requests.
    pub fn release(&self) {
        self.held.send_replace(false);
    }

    /// The effects of a call.
    pub fn of(&self, key: &str) -> Effects {
        self.book().effects.get(key).cloned().unwrap_or_default()
    }

    /// All effects so far, by the key of the call.
    ///
    /// # Panics
    /// If the sink has received a request that the guest does not send.
    pub fn all(&self) -> BTreeMap<String, Effects> {
        let book = self.book();
        assert!(book.odd.is_empty(), "{:?}", book.odd);
        book.effects.clone()
    }

    /// The steps so far of all calls of `chances`, in the order of arrival, by the key of the call.
    pub fn steps(&self) -> BTreeMap<String, Vec<Step>> {
        self.book().steps.clone()
    }

    /// Waits until this many runs of a call have begun.
    pub async fn begun(&self, key: &str, runs: usize) -> Effects {
        crate::eventually(&format!("{runs} runs of {key}"), || async {
            let effects = self.of(key);
            (effects.begun.len() >= runs).then_some(effects)
        })
        .await
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn serve(mut stream: TcpStream, book: Arc<Mutex<Book>>, mut held: watch::Receiver<bool>) {
    let (mut head, mut piece) = (Vec::new(), [0; 1 << 10]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut piece).await {
            // A client that leaves before its request head is complete has had no effect.
            Ok(0) | Err(_) => return,
            Ok(read) => head.extend_from_slice(&piece[..read]),
        }
        if head.len() > LONGEST_HEAD {
            return;
        }
    }
    // Counted before it is answered: a guest that receives the answer has had its effect.
    let head = String::from_utf8_lossy(&head);
    note(&mut book.lock().unwrap_or_else(PoisonError::into_inner), &head);
    if head.lines().next().is_some_and(|line| line.contains('?')) {
        tokio::time::sleep(STEP_TAKES).await;
    }
    if held.wait_for(|held| !held).await.is_ok() {
        drop(stream.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").await);
        drop(stream.shutdown().await);
    }
}

/// Records a request line such as `POST /begun/key/1 HTTP/1.1`. With a query it is a step.
fn note(book: &mut Book, head: &str) {
    let target = head.split(' ').nth(1).unwrap_or_default();
    let (path, chances) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let parts: Vec<_> = path.trim_start_matches('/').split('/').collect();
    let [what, key, attempt] = parts[..] else { return book.odd.push(head.to_owned()) };
    let Ok(attempt) = attempt.parse() else { return book.odd.push(head.to_owned()) };
    if let Some(chances) = chances {
        let idempotency_key = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("idempotency-key").then(|| value.to_owned())
        });
        let step = Step { number: attempt, chances: chances.to_owned(), idempotency_key };
        book.steps.entry(key.to_owned()).or_default().push(step);
    }
    let effects = book.effects.entry(key.to_owned()).or_default();
    match what.strip_prefix("answered-") {
        Some(word) => effects.words.push((attempt, word.to_owned())),
        None if what == "begun" => effects.begun.push(attempt),
        None => book.odd.push(head.to_owned()),
    }
}
