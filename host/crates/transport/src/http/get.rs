//! GET: a stream for messages that belong to no request, or the rest of a broken stream (H-19, H-28).

use super::endpoint::{Endpoint, check_accept};
use super::reply::{self, RefusalReply, Reply};
use super::session_registry::{LiveSession, StreamPurpose};
use super::sse::{self, EventFormat, EventId};
use crate::request::Sender;
use crate::server::Server;
use http::HeaderMap;

impl Endpoint {
    pub(super) async fn get(&self, headers: &HeaderMap, by: &Sender) -> Result<Reply, RefusalReply> {
        check_accept(headers, &[("text", "event-stream")])?;
        let session = self.session(headers, by).await?;
        let format = event_format(&self.server, &session);
        let id = headers.get("last-event-id").and_then(|last| EventId::parse(last.to_str().ok()?));
        let kept = id.and_then(|id| {
            let stream = session.find(id).filter(|stream| stream.continues_after(id.number))?;
            Some((stream, id.number))
        });
        let Some((stream, number)) = kept else {
            // Also for an event that is kept no more, above all by a host that has ended: the SDKs give up a
            // stream that is refused (H-29).
            let stream = self.registry.stream();
            session.keep(&stream, StreamPurpose::Standalone);
            let events = sse::events(&stream, 0, format);
            self.server.dispatch.offer_open(&session.session);
            return Ok(reply::events(events));
        };
        Ok(reply::events(sse::events(&stream, number, EventFormat { priming: false, ..format })))
    }
}

/// How the host writes streams to a client of this session.
pub(super) fn event_format(server: &Server, session: &LiveSession) -> EventFormat {
    EventFormat {
        priming: session.client.revision.has_priming_event(),
        keep_alive: server.settings.keep_alive,
    }
}
