//! Addresses of plugins.

use crate::error::Error;
use http::Uri;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use toolyard_trust::Digest;

/// Longer repositories are refused by registries.
const MAX_REPOSITORY: usize = 255;
/// Longer tags are refused by registries.
const MAX_TAG: usize = 128;
/// The tag of a reference that has neither a tag nor a digest.
const LATEST: &str = "latest";

/// The origin of a plugin. Its text is the one that the lock file keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// An artifact in a registry: `oci://HOST/REPO:TAG`.
    Oci(Reference),
    /// A component in a file: a path, or `file:PATH`.
    File(PathBuf),
    /// An OCI image layout in a tar: a path that ends in `.tar`, or `file:PATH.tar`.
    Layout(PathBuf),
    /// A component on a web server: `https://…`, or `http://…` on this machine.
    Https(Uri),
}

impl FromStr for Source {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |why: &str| Error::Address { text: text.to_owned(), why: why.to_owned() };
        if text.starts_with("oci://") {
            return text.parse().map(Self::Oci);
        }
        let path = text.strip_prefix("file:");
        if path.unwrap_or(text).is_empty() {
            return Err(wrong("it is empty"));
        }
        if let Some(path) = path {
            // RFC 8089: `file:///PATH` has an empty host.
            if path.starts_with("//") && !path.starts_with("///") {
                return Err(wrong("a file has no host; use file:PATH or file:///PATH"));
            }
            return Ok(Self::of_path(path));
        }
        let Some((scheme, _)) = text.split_once("://") else { return Ok(Self::of_path(text)) };
        let address: Uri =
            text.parse().map_err(|_| wrong("it has characters that an address cannot have"))?;
        let authority = address.authority().ok_or_else(|| wrong("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("it contains a credential, which the lock file would keep"));
        }
        let host = canonical(authority.as_str());
        let path = address.path_and_query().map_or("/", |path| path.as_str());
        let address = format!("{scheme}://{host}{path}").parse().map_err(|_| wrong("it is not valid"))?;
        match scheme {
            "https" => Ok(Self::Https(address)),
            "http" if is_loopback(&host) => Ok(Self::Https(address)),
            "http" => Err(wrong("http is not encrypted; use https")),
            _ => Err(wrong("use oci://, https://, or a path")),
        }
    }
}

impl Source {
    /// Several slashes at the start mean one, so that the text with `file:` has one meaning.
    fn of_path(path: &str) -> Self {
        let inside = path.trim_start_matches('/');
        let path = if inside.len() < path.len() { format!("/{inside}") } else { path.to_owned() };
        let path = path.as_str();
        let is_tar =
            Path::new(path).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("tar"));
        if is_tar { Self::Layout(path.into()) } else { Self::File(path.into()) }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Oci(reference) => reference.fmt(f),
            Self::File(path) | Self::Layout(path) => write!(f, "file:{}", path.display()),
            Self::Https(address) => address.fmt(f),
        }
    }
}

/// An artifact in a registry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    /// The registry, with its port if the text names one.
    pub host: String,
    /// The repository, such as `acme/fetch`.
    pub repository: String,
    /// The tag. Without tag and digest, `latest` is used.
    pub tag: Option<String>,
    /// The digest of the manifest. It takes precedence over the tag.
    pub digest: Option<Digest>,
}

impl Reference {
    /// The last part of the repository.
    #[must_use]
    pub fn name(&self) -> &str {
        self.repository.rsplit('/').next().unwrap_or_default()
    }

    /// The tag or digest by which the registry is asked.
    pub(crate) fn target(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, Some(tag)) => tag.clone(),
            (None, None) => LATEST.to_owned(),
        }
    }
}

impl FromStr for Reference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |why: &str| {
            let form = "expected oci://HOST[:PORT]/REPO[:TAG][@sha256:…]";
            Error::Address { text: text.to_owned(), why: format!("{why}; {form}") }
        };
        let (explicit, rest) = text.strip_prefix("oci://").map_or((false, text), |rest| (true, rest));
        let (rest, digest) = match rest.split_once('@') {
            None => (rest, None),
            Some((rest, digest)) => {
                let digest = digest.parse().map_err(|_| wrong("its digest is not valid"))?;
                (rest, Some(digest))
            }
        };
        let (host, rest) = rest.split_once('/').ok_or_else(|| wrong("it has no repository"))?;
        if !is_host(host) {
            return Err(wrong("its host is not valid"));
        }
        // `acme/fetch` means Docker Hub to docker; here it would be the host `acme`.
        if !explicit && !host.contains(['.', ':']) && host != "localhost" {
            return Err(wrong("it has no host"));
        }
        let (repository, tag) = match rest.split_once(':') {
            None => (rest, None),
            Some((repository, tag)) => (repository, Some(tag.to_owned())),
        };
        if !is_repository(repository) {
            return Err(wrong(
                "its repository is not valid (lower-case letters, digits, and . _ - between them)",
            ));
        }
        if tag.as_deref().is_some_and(|tag| !is_tag(tag)) {
            return Err(wrong("its tag is not valid"));
        }
        Ok(Self { host: canonical(host), repository: repository.to_owned(), tag, digest })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "oci://{}/{}", self.host, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        self.digest.map_or(Ok(()), |digest| write!(f, "@{digest}"))
    }
}

/// The one spelling of a host, by which settings, signers and credentials know it: otherwise `GHCR.io` or
/// `ghcr.io:443` would escape the rules for `ghcr.io`.
pub(crate) fn canonical(host: &str) -> String {
    let host = host.to_ascii_lowercase();
    // This machine is reached without TLS, whose port this is.
    host.strip_suffix(":443").filter(|_| !is_loopback(&host)).map(str::to_owned).unwrap_or(host)
}

/// Separates the port of an authority, and removes the brackets of an IPv6 address.
fn host_and_port(authority: &str) -> (&str, Option<&str>) {
    if let Some((address, rest)) = authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (address, rest.strip_prefix(':'));
    }
    authority.rsplit_once(':').map_or((authority, None), |(host, port)| (host, Some(port)))
}

/// Whether a text is a host, or a host and a port.
fn is_host(text: &str) -> bool {
    let (host, port) = host_and_port(text);
    let is_port = |port: &str| {
        port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
    };
    let is_label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !label.is_empty() && label.len() <= 63 && label.bytes().all(plain) && !label.starts_with('-')
    };
    let is_name = match text.starts_with('[') {
        true => host.parse::<std::net::Ipv6Addr>().is_ok() && text.contains(']'),
        false => host.len() <= 253 && host.split('.').all(is_label),
    };
    let rest = text.rsplit_once(']').map(|(_, rest)| rest);
    is_name && port.is_none_or(is_port) && rest.is_none_or(|rest| rest.is_empty() || rest.starts_with(':'))
}

/// Whether an authority (a host, with or without port) is this machine.
pub(crate) fn is_loopback(authority: &str) -> bool {
    let (host, _) = host_and_port(authority);
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

fn is_repository(text: &str) -> bool {
    let is_part = |part: &str| {
        let edge =
            |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let bytes = part.as_bytes();
        let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(byte);
        let separators = ["..", "___", "._", "_.", ".-", "-.", "_-", "-_"];
        edge(bytes.first())
            && edge(bytes.last())
            && bytes.iter().all(plain)
            && !separators.iter().any(|separator| part.contains(separator))
    };
    text.len() <= MAX_REPOSITORY && text.split('/').all(is_part)
}

fn is_tag(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=MAX_TAG).contains(&text.len()) && text.bytes().all(plain) && !text.starts_with(['.', '-'])
}

#[cfg(test)]
mod tests;
