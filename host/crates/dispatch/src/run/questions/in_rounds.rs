//! Questions of a plain call whose client is stateless (26M): the run ends, and the client's next request runs the guest
//! again with the answers. `round_trip.rs` has the state that the client carries.

use crate::run::promotion::PromotionCause;
use crate::run::questions::pending::PendingQuestion;
use crate::run::questions::{in_task, plain};
use crate::run::run::Run;
use toolyard_task::AskError;
use toolyard_task::tool::GivenAnswer;

/// Asks all of these, unless the client has brought the answers: then the guest goes on. Otherwise its run ends here.
pub(super) async fn ask(run: &Run, questions: Vec<PendingQuestion>) -> Result<Vec<GivenAnswer>, AskError> {
    let Some(round_trip) = &run.questions.round_trip else { return plain::ask(run, questions).await };
    let mut answers = Vec::with_capacity(questions.len());
    let mut open = Vec::new();
    for PendingQuestion { key, question, check } in &questions {
        match round_trip.answer(key, question, check.as_deref()) {
            Some(answer) => answers.push(GivenAnswer { key: key.clone(), outcome: Ok(answer) }),
            None => open.push((key.clone(), question.clone())),
        }
    }
    if open.is_empty() {
        return Ok(answers);
    }
    if run.questions.has_effects() {
        // Asking in another round would mean running it again.
        run.questions.history().note(&answers);
        return match run.become_task(PromotionCause::Question).await {
            Ok(()) => in_task::ask(run, questions).await,
            Err(why) => {
                tracing::debug!(run = run.work.name(), %why, "a call with effects can ask no more");
                Err(AskError::TooLate)
            }
        };
    }
    {
        // It must not become a task while it is being ended for another round.
        let _turn = run.turn().await;
        if run.task().is_none() {
            round_trip.suspend(open);
            open = Vec::new();
        }
    }
    if !open.is_empty() {
        run.questions.history().note(&answers);
        return in_task::ask(run, questions).await;
    }
    // The driver of the run drops it now.
    std::future::pending().await
}
