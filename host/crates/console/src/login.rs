//! The login: a code from a link of the terminal becomes a cookie.

use crate::console::Console;
use crate::form::{Pairs, value};
use crate::html;
use crate::reply::{self, Reply};
use crate::session::Session;
use crate::user::of_token;
use http::StatusCode;
use maud::html;
use toolyard_dispatch::{Action, Caller};

/// The page that takes a code. With JavaScript it takes the code of the link by itself.
pub(crate) fn page(console: &Console, is_dark: Option<bool>, error: Option<&str>) -> Reply {
    let body = html! {
        main class="login" {
            h1 { "Log in to Toolyard" }
            @if let Some(error) = error { p.bad role="alert" { (error) } }
            form method="post" action="/login" id="login" {
                label for="code" { @if console.settings.on_network { "Your token" } @else { "Code from the terminal, or your token" } }
                input id="code" name="code" type="password" autocomplete="off" spellcheck="false" required autofocus;
                button { "Log in" }
            }
            p.muted {
                @if console.settings.on_network {
                    "The operator gives people tokens: " code { "toolyard token NAME --console" } "."
                } @else {
                    "The code is the part behind " code { "#" } " of the link that " code { "toolyard serve" }
                    " has printed. It works once, for five minutes. "
                    code { "toolyard console" } " prints a new one."
                }
            }
        }
    };
    let status = if error.is_some() { StatusCode::FORBIDDEN } else { StatusCode::OK };
    reply::page(status, html::document("Log in", is_dark, None, body, console.settings.version))
}

/// Takes the code of a link, or the token of a user.
pub(crate) fn redeem(console: &Console, form: &Pairs, is_encrypted: bool) -> Reply {
    let code = value(form, "code").unwrap_or_default().trim();
    // Until the login has begun, or it could outlive its user.
    let users = console.users.read();
    let user = of_token(&users, code);
    // The operator can write the data folder. On a network, people have names.
    let is_operator = !console.settings.on_network && console.links.redeem(code, console.dispatch.now());
    if user.is_none() && !is_operator {
        // Codes have 256 bits and cannot be guessed; a lock would only keep people out.
        console.note_refused("a wrong or expired code");
        let error = "This code is wrong, used or expired. Run `toolyard console` for a new link.";
        return page(console, None, Some(error));
    }
    match console.sessions.begin(user) {
        Ok((secret, session)) => {
            console.note_login(&session);
            let seconds = console.settings.session.as_secs();
            let secure = if is_encrypted { "; Secure" } else { "" };
            reply::with_cookie(reply::see("/"), &format!("{}{secure}", console.cookie(&secret, seconds)))
        }
        Err(_) => reply::text(StatusCode::INTERNAL_SERVER_ERROR, "this machine has no random numbers\n"),
    }
}

impl Console {
    /// The cookie of a login. Cookies are shared by all ports of a host name, so its name has the port.
    pub(crate) fn cookie(&self, secret: &str, seconds: u64) -> String {
        let name = self.cookie_name();
        format!("{name}={secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}")
    }

    pub(crate) fn cookie_name(&self) -> String {
        format!("toolyard_{}", self.address.port())
    }

    /// The caller of an action of this login: the operator, whom the audit log names with the login.
    pub(crate) fn caller(&self, session: &Session) -> Caller {
        Caller::at_console(&session.id)
    }

    fn note_login(&self, session: &Session) {
        tracing::info!(event = "console.login", console = session.id, "logged in to the console");
        self.dispatch.access().note_console(&self.caller(session), Action::ConsoleLogin, None);
    }

    pub(crate) fn note_logout(&self, session: &Session) {
        tracing::info!(event = "console.logout", console = session.id, "logged out of the console");
        self.dispatch.access().note_console(&self.caller(session), Action::ConsoleLogout, None);
    }

    /// Notes a refusal, of the first ones in a minute: anybody can cause them, and must not rotate the audit log away.
    pub(crate) fn note_refused(&self, reason: &'static str) {
        if !self.sessions.may_note_refusal() {
            return;
        }
        tracing::warn!(event = "console.refused", reason, "the console refused a request");
        self.dispatch.access().note_console(&Caller::operator(), Action::ConsoleRefused, Some(reason));
    }
}
