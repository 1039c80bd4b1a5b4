//! The console: web pages for the operator, which show tasks and answer the questions of tools.
//!
//! Pages are rendered here and work without JavaScript. A GET changes nothing. A POST is one row of
//! [`route::ACTIONS`], and each passes the same checks ([`request_check`]).
//!
//! Everything that guests and clients say is hostile: it is escaped by the templates, and characters that are
//! invisible or reorder text are shown as escapes ([`text`]).

mod action;
mod asset;
mod audit;
mod connection;
mod fields;
mod html;
mod link;
mod live;
mod login;
mod page;
mod reply;
mod request_check;
mod route;
mod session;
mod text;
mod user;

pub use audit::{AuditHits, AuditSearch};
pub use connection::serve;
pub use link::{Link, LinkFolder};
pub use user::{ConsoleUser, Role};

use futures_util::future::BoxFuture;
use http::StatusCode;
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use parking_lot::RwLock;
use reply::Reply;
use session::{Session, Sessions};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use toolyard_dispatch::{Dispatch, Shares, UNCOUNTED};

/// The pages that are rendered at once. The console must not hold up calls.
const RENDERED_AT_ONCE: usize = 2;

/// The state of the host that only its assembly knows.
pub trait HostState: Send + Sync + 'static {
    /// The names of the health checks that fail now.
    fn unready(&self) -> BoxFuture<'_, Vec<&'static str>>;

    /// The components of the plugin folder.
    fn plugins(&self) -> Vec<PluginState>;

    /// The component of the plugin folder with this file name.
    fn plugin(&self, file: &str) -> Option<PluginDetail>;

    /// Searches the audit log, the newest entries first.
    fn search_audit(&self, search: AuditSearch) -> BoxFuture<'_, AuditHits>;
}

/// A component of the plugin folder.
#[derive(Debug, Clone)]
pub struct PluginState {
    /// Its file name.
    pub file: String,
    /// The digest of the component that is served.
    pub digest: Option<String>,
    /// The number of its tools; `None` if it is not served.
    pub tools: Option<usize>,
    /// Why it is not served, or why the version before is served.
    pub problem: Option<String>,
    /// The folders and hosts that its manifest leaves to the person who calls (`grant = "ask"`).
    pub asks: Vec<String>,
}

/// The source and the signer of a plugin, as the lock file names them.
#[derive(Debug, Clone)]
pub struct LockedPlugin {
    /// The source.
    pub source: String,
    /// The signer; `None` if it is not signed.
    pub signer: Option<String>,
    /// Whether a new version waits for a person.
    pub is_held: bool,
}

/// A component of the plugin folder with its grants and limits.
#[derive(Debug, Clone)]
pub struct PluginDetail {
    /// Its state.
    pub state: PluginState,
    /// The entry of the lock file, if it lists it.
    pub locked: Option<LockedPlugin>,
    /// The names of its tools that it does not serve, and why.
    pub left_out: Vec<String>,
    /// Its grants, one line each.
    pub granted: Vec<String>,
    /// The uses that its imports allow and its manifest does not grant.
    pub missing: Vec<String>,
    /// The grants that it never uses.
    pub unused: Vec<String>,
    /// The limits of its tools: the name of a tool, and the keys and values of its limits.
    pub limits: Vec<(String, Vec<(&'static str, String)>)>,
    /// The maximum number of concurrent runs, and of waiting tasks, if its manifest sets them.
    pub bounds: (Option<u32>, Option<u32>),
}

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
    /// The maximum number of logins at once.
    pub sessions: usize,
    /// The maximum number of connections.
    pub connections: usize,
}

/// The console of one host.
pub struct Console {
    dispatch: Arc<Dispatch>,
    host: Arc<dyn HostState>,
    settings: ConsoleSettings,
    /// The address that it listens on.
    address: SocketAddr,
    /// Its own host name, so that no other server of this machine gets its cookies.
    name: String,
    links: LinkFolder,
    sessions: Sessions,
    /// The people who log in by a token.
    users: RwLock<Vec<ConsoleUser>>,
    /// The large pages that are not read yet.
    pages: Arc<Shares<String>>,
    rendering: Semaphore,
    /// Permits of event streams: at most half of the connections, so that pages are served in any case.
    streams: Arc<Semaphore>,
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
        let sessions = Sessions::new(settings.session, settings.sessions)?;
        let streams = Arc::new(Semaphore::new((settings.connections / 2).max(1)));
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

    /// The address of a task's page. A request to a name that the settings give stays there. All others go to the
    /// console's own name, where the login is.
    fn task_address(&self, id: &str, host: &str) -> String {
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
    fn counted(&self, session: &Session, reply: Reply) -> Reply {
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
    pub fn link(&self) -> std::io::Result<Link> {
        self.links.issue(self.dispatch.now())
    }
}

impl std::fmt::Debug for Console {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Console").field("address", &self.address).finish_non_exhaustive()
    }
}
