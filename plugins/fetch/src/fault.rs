//! The errors, with messages that say what to do.

use std::fmt;

use toolyard_plugin::http::RequestError;

/// The reason why there is no page.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// The text is not a URL that can be fetched.
    Url(String),
    /// The redirect to this URL was one too many.
    Redirects(String),
    /// A redirect to this location, which is not a valid URL.
    Nowhere(String),
    /// The time limit passed.
    Time,
    /// The call is being cancelled.
    Cancelled,
    /// The server answered with an error status and this text.
    Status(u16, String),
    /// The response is neither text nor an image.
    Unreadable(String),
    /// There is no response, or only a part of it.
    Request(RequestError),
}

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(what) => {
                write!(f, "This cannot be fetched: {what}. Give a whole URL with http or https.")
            }
            Self::Redirects(url) => write!(f, "There were too many redirects; the last led to {url}."),
            Self::Nowhere(location) => write!(f, "The server redirects to {location:?}, which is nowhere."),
            Self::Time => f.write_str("The page did not come in time; try again with a larger `timeoutMs`."),
            Self::Cancelled => f.write_str("The call is being stopped."),
            Self::Status(status, text) if text.is_empty() => {
                write!(f, "The server answered with status {status}.")
            }
            Self::Status(status, text) => write!(f, "The server answered with status {status}:\n\n{text}"),
            Self::Unreadable(what) => write!(f, "There is no text in it: {what}"),
            Self::Request(error) => error.fmt(f),
        }
    }
}
