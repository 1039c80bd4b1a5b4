//! The state of a console that all requests share.

use crate::host::HostState;
use crate::link::LinkFolder;
use crate::reply::{self, Reply};
use crate::session::{self, Session, Sessions};
use crate::user::ConsoleUser;
use http::StatusCode;
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use parking_lot::RwLock;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use toolyard_dispatch::{Dispatch, Shares, UNCOUNTED};

/// The pages that are rendered at once. The console must not hold up calls.
const RENDERED_AT_ONCE: usize = 2;

/// The most logins at once; over it, the login that was used longest ago ends. Few people watch one host.
const MAX_SESSIONS: usize = 32;
/// The most connections at once: a browser opens up to six, and a page that follows changes keeps one open.
pub const MAX_CONNECTIONS: usize = 64;

/// The settings of the console.
#[derive(Debug, Clone)]
pub struct ConsoleSettings {
    /// The version of the host.
    pub version: &'static str,
    /// The address of the MCP endpoint.
    pub endpoint: String,
    /// The data folder.
    pub data: PathBuf,
    /// The plugin folder.
    pub plugins: PathBuf,
    /// How long a login lasts.
    pub session: Duration,
    /// Whether it may be reached from other machines. Then only `users` log in, not the holders of a link.
    pub on_network: bool,
    /// Host names under which it may be addressed, besides its own and those of loopback. Texts for models name the
    /// first, by https.
    pub names: Vec<String>,
    /// The people who log in by a token, at the start.
    pub users: Vec<ConsoleUser>,
    /// Whether the caller of a call may not approve it, by a user of the same name.
    pub not_own: bool,
}

/// The console of one host.
pub struct Console {
    pub(crate) dispatch: Arc<Dispatch>,
    pub(crate) host: Arc<dyn HostState>,
    pub(crate) settings: ConsoleSettings,
    /// The address that it listens on.
    pub(crate) address: SocketAddr,
    /// The host name of the console alone, so that no other server of this machine gets its cookies.
    pub(crate) name: String,
    pub(crate) links: LinkFolder,
    pub(crate) sessions: Sessions,
    /// The people who log in by a token.
    pub(crate) users: RwLock<Vec<ConsoleUser>>,
    /// The large pages that are not read yet.
    pub(crate) pages: Arc<Shares<String>>,
    pub(crate) rendering: Semaphore,
    /// Permits of event streams: at most half of the connections, so that pages are served in any case.
    pub(crate) streams: Arc<Semaphore>,
}

impl Console {
    /// A console that listens on this address.
    ///
    /// # Errors
    /// If the machine has no random numbers, or the folder of login links cannot be made.
    pub fn new(
        dispatch: Arc<Dispatch>,
        host: Arc<dyn HostState>,
        settings: ConsoleSettings,
        address: SocketAddr,
    ) -> std::io::Result<Arc<Self>> {
        let name = format!("{}.localhost", session::random_hex::<4>()?);
        let links = LinkFolder::open(&settings.data)?;
        links.write_address(&format!("http://{name}:{}", address.port()))?;
        let sessions = Sessions::new(settings.session, MAX_SESSIONS)?;
        let streams = Arc::new(Semaphore::new(MAX_CONNECTIONS / 2));
        Ok(Arc::new(Self {
            dispatch,
            host,
            users: RwLock::new(settings.users.clone()),
            settings,
            address,
            name,
            links,
            sessions,
            pages: Shares::pages(),
            rendering: Semaphore::new(RENDERED_AT_ONCE),
            streams,
        }))
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://{}:{}", self.name, self.address.port())
    }

    /// The address of a task's page. A request to a name that the settings give stays there. All others go to the
    /// console's own name, where the login is.
    pub(crate) fn task_address(&self, id: &str, host: &str) -> String {
        let is_id = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let path = if is_id { format!("/tasks/{id}") } else { "/".to_owned() };
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        if self.settings.names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            return path;
        }
        format!("{}{path}", self.origin())
    }

    /// Replaces the people who log in by a token. Logins of those who are gone, or whose token or rights changed, end.
    pub fn set_users(&self, users: Vec<ConsoleUser>) {
        let before = std::mem::replace(&mut *self.users.write(), users);
        let users = self.users.read();
        let is_changed = |name: &str| before.iter().any(|user| user.name == name && !users.contains(user));
        self.sessions.end_all(|session| session.user.as_deref().is_some_and(is_changed));
    }

    /// Counts a large reply for its login until it is read.
    pub(crate) fn counted(&self, session: &Session, reply: Reply) -> Reply {
        let size = reply.body().size_hint().exact().and_then(|size| usize::try_from(size).ok());
        let Some(size) = size.filter(|size| *size > UNCOUNTED) else { return reply };
        let mut held = self.pages.none(session.user.clone().unwrap_or_else(|| session.id.clone()));
        if held.grow_to(size).is_err() {
            let text = "large pages are still being read; try again when they are there\n";
            return reply::text(StatusCode::SERVICE_UNAVAILABLE, text);
        }
        let held = Arc::new(held);
        reply.map(|body| {
            body.map_frame(move |frame| frame.map_data(|data| held.clone().keep(data))).boxed_unsync()
        })
    }

    /// A new login link.
    ///
    /// # Errors
    /// As [`LinkFolder::issue`].
    pub fn link(&self) -> std::io::Result<String> {
        self.links.issue(self.dispatch.now())
    }

    /// Removes the login links of this address, at which nothing listens any more.
    pub fn end_links(&self) {
        self.links.remove_address(&self.origin());
    }
}

impl std::fmt::Debug for Console {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Console").field("address", &self.address).finish_non_exhaustive()
    }
}
