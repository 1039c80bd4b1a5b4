//! The ends of HTTP exchanges, by their numbers.

use super::{Phase, Recorder};
use crate::entry::{DecidedBy, DoubtDecision, Entry};
use crate::error::{Divergence, RecordError};
use crate::load::PastExchange;
use crate::response::Response;
use crate::words;
use std::borrow::Cow;

impl Recorder {
    /// The recorded end of an exchange, or `None` if the journal has none. It shares the memory of the journal.
    ///
    /// # Errors
    /// If the journal is damaged.
    pub fn response(&self, number: u32) -> Result<Option<Response>, RecordError> {
        let response = self.past_exchange(number).and_then(|exchange| exchange.response.as_ref());
        match response.map(|frame| frame.entry()).transpose()? {
            Some(Entry::Response { response, .. }) => Ok(Some(response.into_owned())),
            _ => Ok(None),
        }
    }

    /// Compares the body of a request with the recorded one. `body` is its crc32.
    ///
    /// # Errors
    /// If they differ: the run diverges.
    pub fn check_body(&mut self, number: u32, body: u32) -> Result<(), RecordError> {
        if let Phase::Failed(error) = &self.phase {
            return Err(error.clone());
        }
        let Some(response) = self.response(number)? else { return Ok(()) };
        let Some(exchange) = self.past_exchange(number) else { return Ok(()) };
        if response.request_body == body {
            return Ok(());
        }
        let recorded = words::entry(&exchange.request.entry()?);
        let now = format!("{recorded} with another body");
        let divergence = Divergence { entry: exchange.entry, recorded, now };
        Err(self.fail(RecordError::Diverged(divergence)))
    }

    /// Records the end of an exchange.
    ///
    /// # Errors
    /// If the journal is full, or the exchange has an end, or does not exist.
    pub fn record_response(&mut self, number: u32, response: &Response) -> Result<(), RecordError> {
        let is_open = match self.past_exchange(number) {
            Some(exchange) => exchange.is_open(),
            None => self.unanswered.contains(&number),
        };
        if !is_open {
            return Err(RecordError::Misuse("recorded a response to a request that waits for none"));
        }
        self.record_aside(&Entry::Response { number, response: Cow::Borrowed(response) })?;
        self.unanswered.remove(&number);
        if let Some(exchange) = self.past_exchange_mut(number) {
            exchange.is_answered_now = true;
        }
        Ok(())
    }

    /// Records a decision about a request in doubt. The host acts upon it as soon as it is durable, and records
    /// the response that follows from it.
    ///
    /// # Errors
    /// If the journal is full, or the request is not in doubt.
    pub fn record_doubt(
        &mut self,
        number: u32,
        decision: DoubtDecision,
        by: DecidedBy<'_>,
    ) -> Result<(), RecordError> {
        if !self.past_exchange(number).is_some_and(PastExchange::is_open) {
            return Err(RecordError::Misuse("recorded a decision about a request that is not in doubt"));
        }
        self.record_aside(&Entry::Doubt { number, decision, by })?;
        if let Some(exchange) = self.past_exchange_mut(number) {
            exchange.doubts += 1;
        }
        Ok(())
    }

    /// The number of decisions about a request of the past.
    #[must_use]
    pub fn doubts(&self, number: u32) -> u32 {
        self.past_exchange(number).map_or(0, |exchange| exchange.doubts)
    }

    /// The idempotency key that the host added to a request of the past; `None` if it left without one.
    #[must_use]
    pub fn key(&self, number: u32) -> Option<&str> {
        self.past_exchange(number)?.key.as_deref()
    }

    /// Records the idempotency key that the host adds to a live request.
    ///
    /// # Errors
    /// If the journal is full, or the request is not live.
    pub fn record_key(&mut self, number: u32, key: &str) -> Result<(), RecordError> {
        if !self.unanswered.contains(&number) {
            return Err(RecordError::Misuse("recorded a key of a request that is not live"));
        }
        self.record_aside(&Entry::Key { number, key })
    }

    /// The number of an exchange in its task. No other journal of the task has it.
    #[must_use]
    pub fn number_in_task(&self, number: u32) -> u64 {
        self.begin.requests_before.saturating_add(u64::from(number))
    }

    /// The requests of the task so far.
    #[must_use]
    pub fn requests_in_task(&self) -> u64 {
        self.number_in_task(self.requests)
    }

    fn past_exchange(&self, number: u32) -> Option<&PastExchange> {
        self.exchanges.get((number as usize).checked_sub(1)?)
    }

    fn past_exchange_mut(&mut self, number: u32) -> Option<&mut PastExchange> {
        self.exchanges.get_mut((number as usize).checked_sub(1)?)
    }
}

impl PastExchange {
    /// Whether its end is not recorded.
    const fn is_open(&self) -> bool {
        self.response.is_none() && !self.is_answered_now
    }
}
