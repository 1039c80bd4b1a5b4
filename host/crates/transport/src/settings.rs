//! The operator's settings of the wire. Defaults, units and sentences are in the host's table of
//! limits; here are only the values.

use std::time::Duration;

/// The settings of the transports.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Bytes of one message, as an HTTP body or a line on stdin.
    pub message_bytes: usize,
    /// Connections at once; further ones wait a moment and are refused.
    pub connections: usize,
    /// How long a client may take to send the head of a request.
    pub head_time: Duration,
    /// How long a client may take to send a body.
    pub body_time: Duration,
    /// How long a client may leave untaken what it was sent.
    pub write_time: Duration,
    /// Resources that one session may be subscribed to; also resources and tasks
    /// together of one `subscriptions/listen`.
    pub subscriptions: usize,
    /// How long clients may keep a list before they ask for it again (26C-5).
    pub cache: Duration,
    /// Requests under way at once in one session.
    pub requests_per_session: usize,
    /// A call that takes longer than this is answered as a stream of events.
    pub stream_after: Duration,
    /// How often a silent stream gets a comment that keeps it open.
    pub keep_alive: Duration,
    /// Bytes that one stream keeps for a client that comes back.
    pub replay_bytes: usize,
    /// Bytes that the ended streams of one session keep together.
    pub replay_bytes_per_session: usize,
    /// Bytes that the ended streams of all sessions keep together.
    pub replay_bytes_in_all: usize,
    /// Bytes that the ended streams of one principal keep together.
    pub replay_bytes_per_principal: usize,
    /// How long requests under way may go on after stdin has ended.
    pub eof_grace: Duration,
}
