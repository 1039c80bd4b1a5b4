//! Access to the endpoint: authentication, and the names of the host. A reload of the configuration replaces both.

use super::host_origin::AllowedNames;
use crate::auth::Auth;
use arc_swap::ArcSwap;
use std::sync::Arc;
use tokio::sync::watch;
use toolyard_dispatch::Principal;

/// The settings of the moment.
pub struct HttpAccess {
    current: ArcSwap<Admission>,
    /// Tells open streams that the settings changed.
    changes: watch::Sender<()>,
}

/// Authentication, the host names that are served, and the origins whose pages may call.
pub struct Admission {
    /// Authentication.
    pub auth: Auth,
    /// The host names and origins.
    pub allowed_names: AllowedNames,
}

impl HttpAccess {
    /// Access with these settings.
    #[must_use]
    pub fn new(auth: Auth, allowed_names: AllowedNames) -> Self {
        let current = ArcSwap::from_pointee(Admission { auth, allowed_names });
        Self { current, changes: watch::Sender::new(()) }
    }

    /// The settings in force.
    #[must_use]
    pub fn current(&self) -> arc_swap::Guard<Arc<Admission>> {
        self.current.load()
    }

    /// Replaces the settings, and ends the streams of principals that the new settings refuse.
    pub fn replace(&self, auth: Auth, allowed_names: AllowedNames) {
        self.current.store(Arc::new(Admission { auth, allowed_names }));
        self.changes.send_replace(());
    }

    /// Completes when this principal, which the current settings let in, is no longer let in.
    pub(crate) fn revoked(&self, principal: Arc<Principal>) -> Revoked {
        Revoked { admitted_by: self.current.load_full(), changes: self.changes.subscribe(), principal }
    }
}

/// The end of a principal's admission.
pub(crate) struct Revoked {
    admitted_by: Arc<Admission>,
    changes: watch::Receiver<()>,
    principal: Arc<Principal>,
}

impl Revoked {
    /// Waits for it. `access` is that of the server.
    pub async fn wait(mut self, access: &HttpAccess) {
        loop {
            let current = access.current.load_full();
            // At first too: the settings may have changed since the request was let in.
            if !current.auth.still_admits(&self.principal, &self.admitted_by.auth) {
                return;
            }
            self.admitted_by = current;
            // The sender lives as long as the server.
            if self.changes.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}
