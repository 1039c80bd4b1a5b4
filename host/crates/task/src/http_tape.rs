//! Recorded HTTP exchanges of a run: the port by which a client within this process answers the HTTP
//! requests of a guest, or records how the network answered them: as a journal does, by whole responses.

pub use toolyard_journal::ResponseOutcome;

/// The recorded exchanges of one run. An engine consults it about each HTTP request that the grants and
/// limits of the run allow. Secrets are redacted in everything that it gets.
pub trait HttpTape: Send + Sync + 'static {
    /// How the engine answers this request.
    fn answer(&self, request: &TapeRequest<'_>) -> TapeAnswer;

    /// Accepts the outcome of the exchange for which [`TapeAnswer::Record`] gave this number.
    fn record(&self, number: usize, outcome: ResponseOutcome);

    /// Whether the run may use raw sockets, which are not recorded.
    fn allows_sockets(&self) -> bool;
}

/// A request of a guest.
#[derive(Debug, Clone, Copy)]
pub struct TapeRequest<'a> {
    /// The method of the request.
    pub method: &'a str,
    /// The whole URL of the request.
    pub url: &'a str,
    /// The whole body of the request.
    pub body: &'a [u8],
}

/// The decision about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TapeAnswer {
    /// The run gets this outcome; nothing is sent. An error is the name of an `error-code` of `wasi:http`.
    Recorded(ResponseOutcome),
    /// The host sends the request.
    Send,
    /// The host sends the request, and the tape gets the outcome under this number.
    Record(usize),
    /// The request fails, for this reason.
    Refuse(String),
}
