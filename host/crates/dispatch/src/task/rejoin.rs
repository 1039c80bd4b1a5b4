//! Calls that join a task. A client may stop waiting before it knows the task of its call; the equal call
//! that its owner makes then gets the outcome of the first, so that nothing runs twice.

use crate::access::caller::Caller;
use crate::access::shares::{Held, NoRoom, Shares};
use crate::error::Fault;
use crate::slots::stop::{OnStop, Stop, StopCause};
use crate::task::Tasks;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use toolyard_protocol::RawJson;
use toolyard_task::search::{Page, Search};
use toolyard_task::task::{Summary, Task};
use toolyard_task::tool::ToolSpec;
use toolyard_task::{Digest, Owner, SessionId, StoreError, TaskId};

/// The most tasks that wait for an equal call. The oldest are forgotten first.
const MAX_KEPT: usize = 10_000;

/// The most bytes that are kept of calls for an anonymous session. Each counts as an eighth of it at least, so that there
/// are eight at most.
const MAX_SESSION_BYTES: usize = 4 << 20;
const LEAST_COUNTED: usize = MAX_SESSION_BYTES / 8;

/// Arguments up to this size (bytes) are compared by their value.
const MAX_COMPARED: usize = 64 << 10;

/// Equal calls have the same key: a SHA-256 of owner, tool, component and arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct JoinKey([u8; 32]);

/// A hash of a JSON value, without what does not matter: the order of members, space, and how a text is escaped. A
/// number counts as it is written, so that no two numbers are taken for one. Each byte is read once, however deep the
/// value is: a client chooses it.
fn hash_of(json: &str) -> [u8; 32] {
    /// An object that is open: what is around it, and its members so far.
    struct Open {
        around: Sha256,
        members: Vec<(String, [u8; 32])>,
        name: String,
    }
    let bytes = json.as_bytes();
    // For each open container; `None` for an array, whose items go into the hash around it.
    let mut open: Vec<Option<Open>> = Vec::new();
    let mut hash = Sha256::new();
    let (mut at, mut name_comes) = (0, false);
    while let Some(&byte) = bytes.get(at) {
        let begin = at;
        at += 1;
        match byte {
            b'"' => {
                at += text_length(&bytes[at..]);
                let text = json.get(begin..at).unwrap_or_default();
                let text = serde_json::from_str(text).unwrap_or_else(|_| text.to_owned());
                match open.last_mut() {
                    Some(Some(object)) if name_comes => object.name = text,
                    _ => {
                        hash.update(b"\"");
                        hash.update((text.len() as u64).to_be_bytes());
                        hash.update(text.as_bytes());
                    }
                }
                name_comes = false;
            }
            b'{' => {
                let around = std::mem::take(&mut hash);
                open.push(Some(Open { around, members: Vec::new(), name: String::new() }));
                name_comes = true;
            }
            b'[' => {
                hash.update(b"[");
                open.push(None);
                name_comes = false;
            }
            b',' => {
                if let Some(Some(object)) = open.last_mut() {
                    object.members.push((std::mem::take(&mut object.name), hash.finalize_reset().into()));
                    name_comes = true;
                }
            }
            b'}' | b']' => match open.pop() {
                Some(Some(Open { around, mut members, name })) => {
                    members.push((name, hash.finalize_reset().into()));
                    members.sort_unstable();
                    hash = around;
                    hash.update(b"{");
                    for (name, value) in members {
                        hash.update((name.len() as u64).to_be_bytes());
                        hash.update(name.as_bytes());
                        hash.update(value);
                    }
                    hash.update(b"}");
                    name_comes = false;
                }
                _ => hash.update(b"]"),
            },
            b':' | b' ' | b'\t' | b'\n' | b'\r' => {}
            _ => {
                let is_word = |byte: &u8| !matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r');
                at += bytes[at..].iter().take_while(|byte| is_word(byte)).count();
                hash.update(b" ");
                hash.update(&bytes[begin..at]);
            }
        }
    }
    hash.finalize().into()
}

/// The length of a JSON text after its first quote, with the last one.
fn text_length(bytes: &[u8]) -> usize {
    let mut at = 0;
    while bytes.get(at).is_some_and(|byte| *byte != b'"') {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

impl JoinKey {
    /// The key of a call. Arguments are equal if they are the same JSON value, however it is written; large ones only if
    /// they are written in the same way.
    pub fn of(owner: &Owner, tool: &ToolSpec, arguments: &RawJson) -> Self {
        Self::of_parts(owner, tool.name(), &tool.digest, arguments)
    }

    fn of_parts(owner: &Owner, tool: &str, digest: &Digest, arguments: &RawJson) -> Self {
        let mut hash = Sha256::new();
        for part in [owner.key().as_bytes(), tool.as_bytes(), digest.0.as_bytes()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        match arguments.as_bytes() {
            // This is computed on serving threads, when a client cancels.
            large if large.len() > MAX_COMPARED => hash.update(large),
            _ => hash.update(hash_of(arguments.as_str())),
        }
        Self(hash.finalize().into())
    }

    /// The key of the call that became this task.
    pub fn of_task(task: &Task) -> Self {
        Self::of_parts(&task.owner, &task.tool, &task.digest, &task.arguments)
    }
}

/// The tasks that an equal call joins.
pub(crate) struct RejoinIndex {
    state: Mutex<RejoinState>,
    /// The bytes that are kept for each anonymous session.
    sessions: Arc<Shares<SessionId>>,
    /// The number of tasks here, so that most calls take no lock.
    count: AtomicUsize,
    /// Set once the tasks of earlier processes are among them.
    loaded: AtomicBool,
}

impl Default for RejoinIndex {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            sessions: Shares::kept_calls(MAX_SESSION_BYTES),
            count: AtomicUsize::new(0),
            loaded: AtomicBool::new(false),
        }
    }
}

#[derive(Default)]
struct RejoinState {
    by_key: HashMap<JoinKey, Vec<TaskId>>,
    keys: BTreeMap<TaskId, (JoinKey, Option<Held<SessionId>>)>,
    /// In the order of their arrival.
    order: VecDeque<TaskId>,
    /// Tasks that are being created, each with the signal that it exists.
    expected: HashMap<JoinKey, Arc<Stop>>,
}

/// A task that is about to be made.
pub(crate) struct ExpectedTask {
    index: Arc<RejoinIndex>,
    key: JoinKey,
    made: Arc<Stop>,
}

impl Drop for ExpectedTask {
    fn drop(&mut self) {
        let mut state = self.index.state.lock();
        if state.expected.get(&self.key).is_some_and(|made| Arc::ptr_eq(made, &self.made)) {
            state.expected.remove(&self.key);
        }
        self.index.count.store(state.len(), Ordering::Release);
        drop(state);
        self.made.set();
    }
}

/// Expects a task from the moment in which a request is stopped until this is dropped.
pub(crate) struct ExpectedOnStop<'a> {
    _on_stop: OnStop<'a>,
    _expected: Arc<Mutex<Option<ExpectedTask>>>,
}

impl<'a> ExpectedOnStop<'a> {
    /// `expect` decides by the cause of the stop, and judges it.
    pub fn new(
        stop: &'a Stop,
        expect: impl FnOnce(StopCause) -> (StopCause, Option<ExpectedTask>) + Send + 'static,
    ) -> Self {
        let expected: Arc<Mutex<Option<ExpectedTask>>> = Arc::default();
        let slot = expected.clone();
        let on_stop = stop.on_set(move |cause| {
            let (cause, expected) = expect(cause);
            *slot.lock() = expected;
            cause
        });
        Self { _on_stop: on_stop, _expected: expected }
    }
}

impl RejoinIndex {
    /// Whether no call joins a task. Unknown until the host has looked at the tasks of earlier
    /// processes.
    pub fn is_empty(&self) -> bool {
        self.loaded.load(Ordering::Acquire) && self.count.load(Ordering::Acquire) == 0
    }

    /// The task that a call of this key joins. Waits for one that is being created.
    pub async fn find(&self, key: &JoinKey) -> Option<TaskId> {
        loop {
            let made = {
                let state = self.state.lock();
                match state.expected.get(key) {
                    Some(made) => made.clone(),
                    None => return state.by_key.get(key)?.first().copied(),
                }
            };
            made.wait().await;
        }
    }

    /// A task of this key is about to be created for a call whose client has just left. Equal calls
    /// wait until the guard is dropped.
    pub fn expect(self: &Arc<Self>, key: JoinKey) -> ExpectedTask {
        let made = Arc::new(Stop::default());
        let mut state = self.state.lock();
        state.expected.insert(key, made.clone());
        self.count.store(state.len(), Ordering::Release);
        drop(state);
        ExpectedTask { index: self.clone(), key, made }
    }

    /// Whether an equal call joins this task.
    pub fn has(&self, task: TaskId) -> bool {
        self.state.lock().keys.contains_key(&task)
    }

    /// The share of an anonymous session that this task takes; `None` for any other owner.
    fn held_for(&self, task: &Task) -> Result<Option<Held<SessionId>>, NoRoom> {
        let Owner::Session(session) = &task.owner else { return Ok(None) };
        let mut held = self.sessions.none(session.clone());
        held.grow_to(task.arguments.as_bytes().len().max(LEAST_COUNTED))?;
        Ok(Some(held))
    }

    /// An equal call joins this task from now on. Returns false if one did before.
    pub fn add(&self, task: TaskId, key: JoinKey, held: Option<Held<SessionId>>) -> bool {
        let mut state = self.state.lock();
        if state.keys.contains_key(&task) {
            return false;
        }
        if state.keys.len() >= MAX_KEPT
            && let Some(oldest) = state.order.pop_front()
        {
            state.remove(oldest);
        }
        state.by_key.entry(key).or_default().push(task);
        state.keys.insert(task, (key, held));
        state.order.push_back(task);
        self.count.store(state.len(), Ordering::Release);
        true
    }

    /// Removes a task whose caller knows of it, or that is gone. Returns whether an equal call joined it until now.
    pub fn forget(&self, id: TaskId) -> bool {
        let mut state = self.state.lock();
        let was_kept = state.remove(id);
        self.count.store(state.len(), Ordering::Release);
        was_kept
    }
}

impl RejoinState {
    fn len(&self) -> usize {
        self.keys.len() + self.expected.len()
    }

    fn remove(&mut self, id: TaskId) -> bool {
        let Some((key, _)) = self.keys.remove(&id) else { return false };
        self.order.retain(|kept| *kept != id);
        if let Some(ids) = self.by_key.get_mut(&key) {
            ids.retain(|kept| *kept != id);
            if ids.is_empty() {
                self.by_key.remove(&key);
            }
        }
        true
    }
}

/// The way to the other hosts on the same store.
pub(crate) trait RejoinBroadcast: Send + Sync {
    /// A call of this key joins this task from now on.
    fn send_kept(&self, task: TaskId, key: JoinKey);

    /// No call joins this task any more.
    fn send_delivered(&self, task: TaskId);
}

/// The size of a page when the host looks at the tasks of earlier processes.
const PAGE: u32 = 1_000;

impl Tasks {
    /// Looks for the tasks that an equal call joins among those of earlier processes, once.
    pub(crate) async fn load_rejoins(&self) -> Result<(), StoreError> {
        if self.rejoin.loaded.load(Ordering::Acquire) {
            return Ok(());
        }
        let rejoin = self.rejoin_ms();
        let mut search = Search::all(None, PAGE);
        loop {
            let Page { tasks, next } = match self.store.search(&search).await {
                // The other tasks are served all the same.
                Err(error @ StoreError::Corrupt(_)) => {
                    tracing::error!(
                        event = "task.unreadable",
                        error = &error as &dyn std::error::Error,
                        "a record cannot be read; equal calls join no task that was created after it"
                    );
                    break;
                }
                page => page?,
            };
            let now = self.clock.now();
            let is_kept = |task: &&Summary| {
                let is_recent = !task.status.is_terminal() || now.since(task.updated_at) <= rejoin;
                // Those that run here have callers that wait for them.
                let is_earlier = !self.slots.runs.has(task.id);
                task.bridged.is_some_and(|bridged| bridged.undelivered) && is_recent && is_earlier
            };
            for summary in tasks.iter().filter(is_kept) {
                if let Some(found) = self.store.read(summary.id, None).await? {
                    self.rejoin.add(found.task.id, JoinKey::of_task(&found.task), None);
                }
            }
            if next.is_none() {
                break;
            }
            search.after = next;
        }
        self.rejoin.loaded.store(true, Ordering::Release);
        Ok(())
    }

    fn rejoin_ms(&self) -> u64 {
        let bridge = self.settings.bridge.as_ref();
        bridge.map_or(0, |bridge| u64::try_from(bridge.rejoin.as_millis()).unwrap_or(u64::MAX))
    }

    /// An equal call joins this task from now on, if its caller was not told of it. Returns whether one joins it: there
    /// may be no room for a further one of its session.
    pub(crate) fn keep_for_rejoin(&self, task: &Task) -> bool {
        if !task.is_undelivered() {
            return task.owner != Owner::Anyone;
        }
        if self.rejoin.has(task.id) {
            return true;
        }
        match self.rejoin.held_for(task) {
            Ok(held) => {
                self.add_rejoin(task.id, JoinKey::of_task(task), held);
                true
            }
            Err(_) => false,
        }
    }

    /// An equal call joins this task from now on, on every host.
    pub(crate) fn add_rejoin(&self, task: TaskId, key: JoinKey, held: Option<Held<SessionId>>) {
        if self.rejoin.add(task, key, held) {
            self.rejoin_broadcast.send_kept(task, key);
        }
    }

    /// Stops a kept task after `bridge.grace` unless an equal call has joined it: that its client had a timeout was a guess.
    pub(crate) fn stop_unless_joined(self: &Arc<Self>, caller: &Caller, task: TaskId) {
        let grace = self.settings.bridge.as_ref().map_or(Duration::ZERO, |bridge| bridge.grace);
        let (tasks, caller) = (self.clone(), caller.clone());
        let stop = async move {
            tokio::select! {
                () = tokio::time::sleep(grace) => {}
                // The shutdown decides about its task.
                () = tasks.slots.leaving.wait() => return,
                () = tasks.slots.closing.wait() => return,
            }
            if tasks.waiters.has(task) || !tasks.rejoin.has(task) {
                return;
            }
            let by = caller.by().because("not_asked_for");
            match tasks.cancel_by(&caller, &task.to_string(), by).await {
                Ok(_) => tasks.forget_rejoin(task),
                Err(Fault::AlreadyOver(_) | Fault::UnknownTask) => {}
                Err(fault) => tracing::error!(
                    event = "task.not_cancelled", %task, error = &fault as &dyn std::error::Error,
                    "cannot cancel a task that nobody asks for"
                ),
            }
        };
        self.slots.tracker.spawn_on(stop, &self.slots.guests);
    }

    /// No call joins this task any more, on any host.
    pub(crate) fn forget_rejoin(&self, task: TaskId) {
        if self.rejoin.forget(task) {
            self.rejoin_broadcast.send_delivered(task);
        }
    }

    /// The task that a call of this key joins: live, or ended not long ago, and unknown to its caller.
    pub(crate) async fn joined(&self, key: &JoinKey, owner: &Owner) -> Result<Option<Task>, StoreError> {
        let rejoin = self.rejoin_ms();
        while let Some(id) = self.rejoin.find(key).await {
            let found = self.store.read(id, Some(owner)).await?;
            let joins = found.as_ref().is_some_and(|found| {
                let is_recent = found.task.is_live() || found.now.since(found.task.updated_at) <= rejoin;
                found.task.is_undelivered() && is_recent && !found.task.is_gone(found.now)
            });
            if joins {
                return Ok(found.map(|found| found.task));
            }
            self.rejoin.forget(id);
        }
        Ok(None)
    }
}

/// The most sessions whose tasks are listed, and the most listed tasks of one session.
const MAX_SESSIONS: usize = 2_000;
const MAX_TOLD: usize = 50;

/// The tasks that anonymous sessions were told of, which belong to anyone who knows their ids.
#[derive(Default)]
pub(crate) struct ToldTasks(Mutex<ToldState>);

#[derive(Default)]
struct ToldState {
    by_session: HashMap<SessionId, VecDeque<TaskId>>,
    /// In the order of their arrival.
    sessions: VecDeque<SessionId>,
}

impl ToldTasks {
    /// The client of this session has been told of this task.
    pub fn add(&self, session: &SessionId, task: TaskId) {
        let mut state = self.0.lock();
        if !state.by_session.contains_key(session) {
            if state.sessions.len() >= MAX_SESSIONS
                && let Some(oldest) = state.sessions.pop_front()
            {
                // Its client still has the ids.
                state.by_session.remove(&oldest);
            }
            state.sessions.push_back(session.clone());
        }
        let told = state.by_session.entry(session.clone()).or_default();
        told.push_front(task);
        told.truncate(MAX_TOLD);
    }

    /// The tasks of a session, the newest first.
    pub fn of(&self, session: &SessionId) -> Vec<TaskId> {
        let state = self.0.lock();
        state.by_session.get(session).map(|told| told.iter().copied().collect()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(owner: &Owner, tool: &str, arguments: &'static str) -> JoinKey {
        JoinKey::of_parts(owner, tool, &Digest("d".into()), &RawJson::trusted(arguments))
    }

    #[test]
    fn calls_are_equal_by_owner_tool_and_value_of_the_arguments() {
        let local = key(&Owner::Local, "render", r#"{"a":1,"b":[2,{"c":3,"d":4}]}"#);
        assert_eq!(local, key(&Owner::Local, "render", r#"{ "b": [2, {"d":4,"c":3}], "a": 1 }"#));
        assert_ne!(local, key(&Owner::Local, "render", r#"{"a":1,"b":[{"c":3,"d":4},2]}"#));
        let number = |text| key(&Owner::Local, "render", text);
        assert_ne!(number(r#"{"a":18446744073709551617}"#), number(r#"{"a":18446744073709551618}"#));
        assert_ne!(number(r#"{"a":1,"a":2}"#), number(r#"{"a":2}"#));
        assert_eq!(number(r#"{"a":"\u0041"}"#), number(r#"{"a":"A"}"#));
        assert_ne!(number(r#"{"a":"1"}"#), number(r#"{"a":1}"#));
        let distinct = r#"{} [] [{}] {"":null} {"":[]} [1,2] [[1],2] [[1,2]] [12] ["1",2]"#;
        let distinct: Vec<&str> = distinct.split(' ').collect();
        for (place, one) in distinct.iter().enumerate() {
            assert!(distinct[..place].iter().all(|other| hash_of(one) != hash_of(other)), "{one}");
        }
        let large = |space: &str| {
            let text = format!("[{space}\"{}\"]", "x".repeat(MAX_COMPARED));
            JoinKey::of_parts(&Owner::Local, "render", &Digest("d".into()), &RawJson::trusted(text))
        };
        assert!(large("") == large("") && large("") != large(" "));
        assert_ne!(local, key(&Owner::Local, "rende", r#"{"a":1,"b":[2,{"c":3,"d":4}]}"#));
        assert_ne!(local, key(&Owner::Anyone, "render", r#"{"a":1,"b":[2,{"c":3,"d":4}]}"#));
    }

    fn id(number: usize) -> TaskId {
        TaskId(uuid::Uuid::from_u128(number as u128))
    }

    #[test]
    fn the_tasks_that_equal_calls_join_are_bounded_and_the_oldest_go() {
        let index = RejoinIndex::default();
        let key = key(&Owner::Local, "render", "{}");
        assert!((0..MAX_KEPT + 5).all(|number| index.add(id(number), key, None)));
        assert_eq!(index.state.lock().keys.len(), MAX_KEPT);
        assert!(!index.forget(id(4)) && index.forget(id(5)));
    }

    #[test]
    fn the_tasks_that_sessions_were_told_of_are_bounded_and_the_oldest_go() {
        let told = ToldTasks::default();
        let session = |number: usize| SessionId(number.to_string().into());
        (0..MAX_TOLD + 3).for_each(|number| told.add(&session(0), id(number)));
        let first = told.of(&session(0));
        assert_eq!((first.len(), first[0]), (MAX_TOLD, id(MAX_TOLD + 2)));
        (1..=MAX_SESSIONS).for_each(|number| told.add(&session(number), id(number)));
        assert!(told.of(&session(0)).is_empty());
        assert_eq!(told.0.lock().by_session.len(), MAX_SESSIONS);
    }
}
