//! Questions of plain calls whose client is stateless (26M). The answer to the request holds the
//! questions, and the run ends. The client's next request runs the guest again from the start, with
//! the answers so far.
//!
//! The client carries these answers in a signed state (26M-6). The state is bound to the caller,
//! the method, the name and the arguments, to a time, and to the questions that it answers. The
//! host keeps nothing of a round, so any host with the same keys can continue it.

use crate::access::caller::Caller;
use crate::client::signed_token::{open, seal};
use crate::error::Fault;
use crate::run::deps::RunDeps;
use crate::run::questions::pending::{KEYS, bare};
use crate::slots::stop::Stop;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use toolyard_protocol::question::{self, CheckedQuestion, ClientAnswer};
use toolyard_protocol::stateless::input::Retry;
use toolyard_protocol::{RawJson, RpcError};
use toolyard_task::keys::{KeyStore, KeyUse};
use toolyard_task::tool::AnswerCheck;
use toolyard_task::wire::{QuestionKind, Timestamp};
use toolyard_task::{AskError, Owner, TaskId};
use uuid::Uuid;

/// How long a client may take to repeat a request with its answers (milliseconds). People may be away for a while;
/// the host keeps the id of each used state for as long, so that no state has effects twice.
const MAX_STATE_AGE_MS: u64 = 3_600_000;

/// The questions that a stateless client has to answer before its request can be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputRequired {
    /// The questions, by key.
    pub questions: Vec<(String, CheckedQuestion)>,
    /// The signed state, which the client returns with the answers, unchanged.
    pub state: String,
}

/// The request that a state is bound to. No other request accepts the state.
pub(crate) struct RequestBinding {
    owner: Option<Owner>,
    method: &'static str,
    /// The tool, the prompt, the resource.
    name: String,
    arguments: RawJson,
}

impl RequestBinding {
    /// A request of this caller's.
    pub fn of(caller: &Caller, method: &'static str, name: String, arguments: RawJson) -> Self {
        Self { owner: caller.owner.clone(), method, name, arguments }
    }

    /// The scope of a state's signature: the caller, the method, the name and the arguments. Only
    /// few requests need it.
    fn scope(&self) -> String {
        let owner = self.owner.as_ref().map(Owner::key).unwrap_or_default();
        let mut hash = Sha256::new();
        for part in [&owner, self.method, &self.name, self.arguments.as_str()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        format!("request-state:{}", URL_SAFE_NO_PAD.encode(hash.finalize()))
    }
}

impl RequestBinding {
    /// Asks the client of this request what the task asks that the request has become.
    pub async fn ask_for_task(
        &self,
        deps: &RunDeps,
        task: TaskId,
        questions: Vec<(String, CheckedQuestion)>,
    ) -> Result<InputRequired, Fault> {
        let state = SignedState {
            id: deps.ids.uuid(),
            until: deps.clock.now().plus(MAX_STATE_AGE_MS),
            answers: BTreeMap::new(),
            open: BTreeMap::new(),
            task: Some(task),
        };
        Ok(InputRequired { questions, state: self.seal(deps, &state).await? })
    }

    async fn seal(&self, deps: &RunDeps, state: &SignedState) -> Result<String, Fault> {
        let keys = deps.clients.keys.keys(KeyUse::RequestState).await?;
        let key = keys.first().expect("a key store has a key for every use");
        Ok(seal(key, &self.scope(), RawJson::of(state).as_str()))
    }
}

/// The round trips of one request so far.
pub(crate) struct RoundTrip {
    binding: Arc<RequestBinding>,
    /// The answers in this request.
    responses: HashMap<String, RawJson>,
    /// The state of earlier rounds; `None` in the first one.
    state: Option<SignedState>,
    /// When the last of its rounds has to begin.
    until: Timestamp,
    given: Mutex<RoundTripAnswers>,
    /// Set when the run has to end, because its client is asked.
    asked: Stop,
}

#[derive(Default)]
struct RoundTripAnswers {
    /// Answers, checked: those of the state, and those that this run has taken.
    answers: BTreeMap<String, KnownAnswer>,
    /// The questions for the client's next request.
    open: Vec<(String, CheckedQuestion)>,
    /// A fault of the request that appeared in mid-run.
    refused: Option<RpcError>,
}

/// The state that a client carries for the host.
#[derive(Debug, Serialize, Deserialize)]
struct SignedState {
    /// The name of the whole call, the same in all its rounds. An action that must happen once happens
    /// once for each name, whichever of its states is brought again.
    id: Uuid,
    /// When it ends, the same in all rounds.
    until: Timestamp,
    /// The answers so far.
    answers: BTreeMap<String, KnownAnswer>,
    /// The fingerprints of the last questions.
    open: BTreeMap<String, String>,
    /// The task that the call has become; its answers are stored with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task: Option<TaskId>,
}

/// An answer, and the fingerprint of its question.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct KnownAnswer {
    to: String,
    answer: RawJson,
}

impl SignedState {
    /// Verifies a state: its signature, its request and its time.
    async fn brought(
        keys: &dyn KeyStore,
        binding: &RequestBinding,
        text: &str,
        now: Timestamp,
    ) -> Result<Self, Fault> {
        let keys = keys.keys(KeyUse::RequestState).await?;
        let state: Option<Self> =
            open(&keys, &binding.scope(), text).and_then(|text| serde_json::from_str(&text).ok());
        let state =
            state.ok_or(Fault::RequestState("it is not one that this server gave for this request"))?;
        if state.until <= now {
            return Err(Fault::RequestState("it has expired; make the request again without it"));
        }
        Ok(state)
    }
}

impl RoundTrip {
    /// Accepts a request of a stateless client.
    ///
    /// # Errors
    /// [`Fault::RequestState`] if the state that it brings was not issued for this request, or is too
    /// old.
    pub async fn begin(deps: &RunDeps, binding: RequestBinding, retry: Retry) -> Result<Box<Self>, Fault> {
        let now = deps.clock.now();
        let state = match &retry.state {
            // A separate function, because most requests bring none.
            Some(text) => {
                Some(Box::pin(SignedState::brought(&*deps.clients.keys, &binding, text, now)).await?)
            }
            None => None,
        };
        let answers = state.as_ref().map(|state| state.answers.clone()).unwrap_or_default();
        Ok(Box::new(Self {
            binding: Arc::new(binding),
            responses: retry.responses,
            until: state.as_ref().map_or_else(|| now.plus(MAX_STATE_AGE_MS), |state| state.until),
            state,
            given: Mutex::new(RoundTripAnswers { answers, ..RoundTripAnswers::default() }),
            asked: Stop::default(),
        }))
    }

    /// The answer to this question, if it was given, in this request or before.
    pub fn answer(
        &self,
        key: &str,
        question: &CheckedQuestion,
        check: Option<&dyn AnswerCheck>,
    ) -> Option<RawJson> {
        let to = fingerprint(question);
        let mut given = self.given.lock();
        if let Some(kept) = given.answers.get(key)
            && kept.to == to
        {
            return Some(kept.answer.clone());
        }
        let response = self.responses.get(key)?;
        let was_asked = match &self.state {
            Some(state) => state.open.get(key) == Some(&to),
            // Without a state, nothing shows that the question was asked. This matters if the host asks
            // a person, and not if the guest asks its client.
            None => !key.starts_with(KEYS),
        };
        // 26M-5: an answer that does not fit is asked for again.
        let Ok(ClientAnswer::Answer(answer)) = question::given(question.kind, false, response) else {
            return None;
        };
        if !was_asked || check.is_some_and(|check| check.check(&answer).is_err()) {
            return None;
        }
        given.answers.insert(key.to_owned(), KnownAnswer { to, answer: answer.clone() });
        Some(answer)
    }

    /// Ends the run, so that its client is asked these questions.
    pub fn suspend(&self, open: Vec<(String, CheckedQuestion)>) {
        self.given.lock().open = open;
        self.asked.set();
    }

    /// Whether the run has to end, because its client is asked.
    pub fn is_suspended(&self) -> bool {
        self.asked.is_set()
    }

    /// Waits until the run has to end.
    pub async fn wait_until_suspended(&self) {
        self.asked.wait().await;
    }

    /// The answer to the client of a suspended run.
    pub async fn outcome(&self, deps: &RunDeps) -> Result<InputRequired, Fault> {
        let (questions, answers) = {
            let mut given = self.given.lock();
            if let Some(refused) = given.refused.take() {
                return Err(Fault::Answered(refused));
            }
            (std::mem::take(&mut given.open), std::mem::take(&mut given.answers))
        };
        let open = questions.iter().map(|(key, question)| (key.clone(), fingerprint(question))).collect();
        let id = self.state.as_ref().map_or_else(|| deps.ids.uuid(), |state| state.id);
        let state = SignedState { id, until: self.until, answers, open, task: None };
        Ok(InputRequired { questions, state: self.binding.seal(deps, &state).await? })
    }

    /// The request.
    pub fn binding(&self) -> Arc<RequestBinding> {
        self.binding.clone()
    }

    /// The task that the call has become in an earlier round, and the answers of this one to its questions.
    pub fn answers_of_task(&self) -> Option<(TaskId, HashMap<String, RawJson>)> {
        Some((self.state.as_ref()?.task?, self.responses.clone()))
    }

    /// The run is about to have effects, so nothing may be run again with the state
    /// that led here, or with one that led to it (26M-6).
    pub async fn use_up(&self, keys: &dyn KeyStore) -> Result<(), AskError> {
        let Some(state) = &self.state else { return Ok(()) };
        let used = keys.use_up(state.id, state.until).await;
        if used.map_err(|error| AskError::Refused(Fault::Store(error).rpc()))? {
            return Ok(());
        }
        // Another run has had its effects.
        let why = Fault::RequestState("it was used, and what it was used for is not done twice");
        self.given.lock().refused = Some(why.rpc());
        self.asked.set();
        std::future::pending().await
    }
}

/// Distinguishes questions. The ids of elicitations come from the host and do not matter.
fn fingerprint(question: &CheckedQuestion) -> String {
    let mut hash = Sha256::new();
    hash.update(question.kind.method());
    hash.update([0, u8::from(question.kind == QuestionKind::Url)]);
    hash.update(bare(question).to_string());
    URL_SAFE_NO_PAD.encode(&hash.finalize()[..16])
}
