//! Changes that guests of the background host announce. The host sends them to the relay in a special
//! notification, and the relay notifies its client.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;
use toolyard_dispatch::{Dispatch, OfferChange};
use toolyard_protocol::RawJson;
use toolyard_protocol::response::notification;

/// The method. It never reaches a client.
pub(super) const METHOD: &str = "toolyard/changed";

#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(tag = "what", rename_all = "lowercase")]
enum Announcement {
    Tools,
    Prompts,
    Resources,
    Resource { uri: String },
    Anything,
}

/// Receives the announcements, in the background host.
pub(in crate::stdio) struct AnnouncementReceiver(broadcast::Receiver<OfferChange>);

impl AnnouncementReceiver {
    pub fn of(dispatch: &Dispatch) -> Self {
        Self(dispatch.announcements())
    }

    /// The message for the next announcement. Safe to drop while it waits.
    pub async fn next(&mut self) -> Bytes {
        let changed = match self.0.recv().await {
            Ok(OfferChange::Tools) => Announcement::Tools,
            Ok(OfferChange::Prompts) => Announcement::Prompts,
            Ok(OfferChange::Resources) => Announcement::Resources,
            Ok(OfferChange::Resource(uri)) => Announcement::Resource { uri },
            Err(broadcast::error::RecvError::Lagged(_)) => Announcement::Anything,
            // The dispatcher outlives its followers.
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        };
        notification(METHOD, Some(&RawJson::of(&changed)))
    }
}

/// Passes an announcement to the followers of this dispatcher.
pub(super) fn announce(dispatch: &Dispatch, params: Option<&RawJson>) {
    let changed = params.and_then(|params| params.decode::<Announcement>().ok());
    dispatch.announce(match changed {
        Some(Announcement::Tools) => OfferChange::Tools,
        Some(Announcement::Prompts) => OfferChange::Prompts,
        Some(Announcement::Resources) => OfferChange::Resources,
        Some(Announcement::Resource { uri }) => OfferChange::Resource(uri),
        Some(Announcement::Anything) => return dispatch.announce_anything(),
        None => {
            return tracing::warn!(
                event = "background.message_invalid",
                "invalid message from the background host"
            );
        }
    });
}
