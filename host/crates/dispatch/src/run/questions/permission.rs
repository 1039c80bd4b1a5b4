//! Asks a person whether a plugin may have what its manifest leaves to them (`grant = "ask"`), and
//! keeps the answer for as long as they chose.
//!
//! The question goes the way of a guest's own questions: from a plain call on the call's route, from a
//! task written to the task first. Its keys begin with [`KEYS`], which no guest can use, and only the
//! client that was asked can answer. No tool leads here, so a model cannot widen the sandbox; anything
//! but a plain yes is a no.

mod form;

use crate::run::as_task::RunTask;
use crate::run::questions::pending::{KEYS, PendingQuestion};
use crate::run::questions::verdicts::RunVerdict;
use crate::run::run::Run;
use form::{PermissionAnswer, PermissionChoices};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use toolyard_protocol::{ClientCapabilities, RawJson};
use toolyard_task::audit::Entry;
use toolyard_task::grant::{Grant, GrantId, Verdict};
use toolyard_task::permission::WhyNot;
use toolyard_task::tool::GivenAnswer;
use toolyard_task::wire::Timestamp;
use toolyard_task::wire::visible::clip;
use toolyard_task::{AccessRequest, AskError, NotPermitted, Owner, StoreError, TaskId};

/// The most permanent permissions and refusals that the store keeps of one principal. Above it, the
/// store forgets the oldest, and the host asks for it again. No person answers a thousand questions by
/// hand: the bound keeps a client that answers automatically from filling the store.
const MAX_PERMISSIONS: u32 = 1_000;
/// How much of a client's error is repeated.
const MAX_ERROR_CHARS: usize = 200;

/// A question for a permission, on its way.
struct PermissionQuestion {
    wanted: AccessRequest,
    /// The choices of the user.
    offered: PermissionChoices,
}

impl Run {
    /// Whether the plugin may have all of these. Asks the person if necessary, and waits for the
    /// answer.
    pub(crate) async fn permitted(&self, wanted: Vec<AccessRequest>) -> Result<(), NotPermitted> {
        let _turn = self.questions.permissions.turn.acquire().await.expect("it is never closed");
        let mut open: Vec<AccessRequest> = Vec::new();
        for wanted in wanted {
            match self.known(&wanted).await {
                Ok(true) => {}
                Ok(false) if open.iter().any(|other| other.key() == wanted.key()) => {}
                Ok(false) => open.push(wanted),
                Err(why) => return Err(NotPermitted { wanted, why }),
            }
        }
        if open.is_empty() { Ok(()) } else { self.ask_permission(open).await }
    }

    /// Whether an earlier answer lets the plugin have this; an error if an earlier answer refused it.
    async fn known(&self, wanted: &AccessRequest) -> Result<bool, WhyNot> {
        let key = wanted.key();
        let for_this_run = self.questions.permissions.answers.lock().by_key.get(&key).cloned();
        if let Some(RunVerdict::No(why)) = for_this_run {
            return Err(why);
        }
        let unavailable = |error: StoreError| {
            tracing::warn!(
                event = "permission.lookup_failed",
                error = &error as &dyn std::error::Error,
                "cannot look up permission"
            );
            WhyNot::Unavailable
        };
        match self.standing(wanted).await.map_err(unavailable)? {
            Some(Verdict::Allow) => return Ok(true),
            Some(Verdict::Deny) => return Err(WhyNot::Never),
            None => {}
        }
        if for_this_run.is_some() {
            return Ok(true);
        }
        let Some(RunTask { id, .. }) = self.task() else { return Ok(false) };
        let said = self.said_for_task(id, wanted).await.map_err(unavailable)?;
        if said {
            self.questions.permissions.answers.lock().by_key.insert(key, RunVerdict::Yes);
        }
        Ok(said)
    }

    /// The caller's permanent verdict.
    async fn standing(&self, wanted: &AccessRequest) -> Result<Option<Verdict>, StoreError> {
        let Some(owner) = &self.client.owner else { return Ok(None) };
        let (plugin, digest) = self.work.component();
        let grant = self.deps.access.grants.standing(owner, plugin, digest, wanted).await?;
        Ok(grant.map(|grant| grant.verdict))
    }

    /// Whether the user allowed it for the whole task, possibly in an earlier run: the task keeps
    /// the answer as long as it lives.
    async fn said_for_task(&self, id: TaskId, wanted: &AccessRequest) -> Result<bool, StoreError> {
        let Some(read) = self.deps.tasks.store.read(id, None).await? else { return Ok(false) };
        let name = self.question_name(wanted);
        let mut questions = read.task.questions.iter().filter(|question| question.key.starts_with(&name));
        let for_task = |answer: &RawJson| {
            PermissionAnswer::read(answer, &PermissionChoices::ALL) == Some(PermissionAnswer::Task)
        };
        Ok(questions.any(|question| matches!(&question.answer, Some(Ok(answer)) if for_task(answer))))
    }

    /// The prefix of the keys of all questions that ask for this, for this component.
    fn question_name(&self, wanted: &AccessRequest) -> String {
        let (plugin, digest) = self.work.component();
        let mut hash = Sha256::new();
        for part in [plugin, &digest.0, &wanted.key()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let mut name = format!("{KEYS}permission:");
        for byte in hash.finalize().iter().take(16) {
            write!(name, "{byte:02x}").expect("a string takes everything");
        }
        name.push(':');
        name
    }

    /// Asks for all of these at once.
    async fn ask_permission(&self, open: Vec<AccessRequest>) -> Result<(), NotPermitted> {
        let fail = |wanted: &AccessRequest, why| Err(NotPermitted { wanted: wanted.clone(), why });
        let first = &open[0];
        if !self.questions.permissions.asks {
            return fail(first, WhyNot::NotHere);
        }
        let client = ClientCapabilities::of(&self.client.capabilities);
        let most = self.work.bounds().permissions;
        let attempt = self.task().map_or(1, |task| task.fence.attempt);
        let mut questions = Vec::with_capacity(open.len());
        let mut asking = Vec::with_capacity(open.len());
        for wanted in &open {
            let offered = PermissionChoices {
                for_task: self.task().is_some() || matches!(wanted, AccessRequest::Host { .. }),
                for_ever: self.client.owner.is_some(),
            };
            let question = form::question(self, wanted, &offered);
            if let Err(lacks) = question.check_client(&client) {
                return fail(wanted, WhyNot::CannotAsk(lacks));
            }
            let number = {
                let mut said = self.questions.permissions.answers.lock();
                if said.asked >= most {
                    return fail(wanted, WhyNot::TooMany(most));
                }
                said.asked += 1;
                said.asked
            };
            // A yes for one time must be asked for again, so each question has its own key.
            let key = format!("{}{attempt}.{number}", self.question_name(wanted));
            questions.push(PendingQuestion { key, question, check: None });
            asking.push(PermissionQuestion { wanted: wanted.clone(), offered });
        }
        let answers = match self.ask_all(questions).await {
            Ok(answers) => answers,
            Err(error) => return fail(first, why(error)),
        };
        // Each answer is recorded before the first no ends the request.
        let mut refused = None;
        for (asked, GivenAnswer { outcome, .. }) in asking.into_iter().zip(answers) {
            if let Err(why) = self.settle(&asked, outcome).await {
                refused.get_or_insert(NotPermitted { wanted: asked.wanted, why });
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// Accepts an answer.
    async fn settle(
        &self,
        asked: &PermissionQuestion,
        answer: Result<RawJson, AskError>,
    ) -> Result<(), WhyNot> {
        let PermissionQuestion { wanted, offered } = asked;
        let decision = match answer {
            Ok(answer) => PermissionAnswer::read(&answer, offered).ok_or(WhyNot::Refused),
            Err(error) => Err(why(error)),
        };
        let said = match decision {
            Ok(PermissionAnswer::Once) => {
                self.note(wanted, Verdict::Allow, "once");
                return Ok(());
            }
            Ok(PermissionAnswer::Task) => {
                self.note(wanted, Verdict::Allow, if self.task().is_some() { "task" } else { "call" });
                RunVerdict::Yes
            }
            Ok(PermissionAnswer::Always) => {
                if self.keep(wanted, Verdict::Allow, "always").await {
                    return Ok(());
                }
                RunVerdict::Yes
            }
            Ok(PermissionAnswer::Never) => {
                self.keep(wanted, Verdict::Deny, "never").await;
                RunVerdict::No(WhyNot::Never)
            }
            Err(WhyNot::Stopped) => return Err(WhyNot::Stopped),
            Ok(PermissionAnswer::No) => {
                self.note(wanted, Verdict::Deny, "no");
                RunVerdict::No(WhyNot::Refused)
            }
            Err(why) => {
                let reason = match &why {
                    WhyNot::TimedOut => "timed_out",
                    WhyNot::Refused => "declined",
                    _ => "not_answered",
                };
                self.note(wanted, Verdict::Deny, reason);
                RunVerdict::No(why)
            }
        };
        let came = match &said {
            RunVerdict::Yes => Ok(()),
            RunVerdict::No(why) => Err(why.clone()),
        };
        self.questions.permissions.answers.lock().by_key.insert(wanted.key(), said);
        came
    }

    /// Stores a permanent answer. If that fails, the answer still counts for this run, and the person
    /// is asked again another time.
    async fn keep(&self, wanted: &AccessRequest, verdict: Verdict, how_long: &str) -> bool {
        let Some(owner) = self.client.owner.clone() else { return false };
        let (plugin, digest) = self.work.component();
        let session_only = matches!(owner, Owner::Session(_));
        let grant = Grant {
            id: GrantId(self.deps.ids.uuid()),
            by: self.client.name(&owner),
            owner,
            plugin: plugin.to_owned(),
            digest: digest.clone(),
            wanted: wanted.clone(),
            verdict,
            given_at: Timestamp(0),
        };
        let entry = self.entry(wanted, verdict, if session_only { "session" } else { how_long });
        match self.deps.access.grants.give(grant, MAX_PERMISSIONS, vec![entry]).await {
            Ok(Some(grant)) => {
                tracing::info!(
                    event = "grant.given", grant = %grant.id, plugin, verdict = verdict.as_str(),
                    wanted = %wanted,
                    "grant given"
                );
                true
            }
            // The session has ended, and its answers with it.
            Ok(None) => false,
            Err(error) => {
                tracing::warn!(
                    event = "grant.not_stored",
                    plugin,
                    error = &error as &dyn std::error::Error,
                    "cannot store grant"
                );
                false
            }
        }
    }

    /// Records a temporary answer.
    fn note(&self, wanted: &AccessRequest, verdict: Verdict, how_long: &str) {
        self.deps.access.note_entry(self.entry(wanted, verdict, how_long));
    }

    fn entry(&self, wanted: &AccessRequest, verdict: Verdict, how_long: &str) -> Entry {
        let of = self.work.component();
        let entry = Entry::verdict_given(verdict, of, wanted, how_long, &self.client.by());
        let entry = match self.work.tool_name() {
            Some(name) => entry.of_tool(name),
            None => entry,
        };
        Entry { task: self.task().map(|task| task.id), ..entry }
    }
}

/// Why there was no answer.
fn why(error: AskError) -> WhyNot {
    match error {
        AskError::TimedOut => WhyNot::TimedOut,
        AskError::Cancelled => WhyNot::Stopped,
        AskError::Unsupported(lacks) => WhyNot::CannotAsk(lacks),
        AskError::Refused(error) => WhyNot::NoAnswer(clip(&error.message, MAX_ERROR_CHARS)),
        AskError::Invalid(_) | AskError::TooLate => WhyNot::Unavailable,
    }
}
