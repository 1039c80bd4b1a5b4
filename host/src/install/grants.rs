//! The grants that a person gives to a plugin while it is installed: by flags, or by answers on a terminal.

use super::Undecided;
use crate::prompt;
use anyhow::Context as _;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, Value};
use toolyard_cli::{WrongUsage, tell};
use toolyard_engine::{CheckReport, ImportUse};

/// A grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grant {
    /// A folder: the guest's path, the path on this machine, and `read` or `write`.
    Folder {
        /// The guest's path.
        guest: String,
        /// The path on this machine.
        path: String,
        /// `read` or `write`.
        mode: String,
    },
    /// A host for HTTP requests.
    Http(String),
    /// A peer for TCP.
    Tcp(String),
    /// A peer for UDP.
    Udp(String),
    /// An environment variable.
    Env {
        /// The name.
        name: String,
        /// The value.
        value: String,
    },
    /// Nothing, for every use that no other grant is about.
    Nothing,
}

const EXPECTED: &str = "expected http=HOST, fs:GUEST=PATH:read, fs:GUEST=PATH:write, tcp=HOST:PORT, udp=HOST:PORT, \
                        env:NAME=VALUE or none";

impl std::str::FromStr for Grant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{EXPECTED}, not `{text}`");
        if text == "none" {
            return Ok(Self::Nothing);
        }
        let (key, value) = text.split_once('=').ok_or_else(wrong)?;
        match key.split_once(':').unwrap_or((key, "")) {
            ("http", "") => Ok(Self::Http(value.to_owned())),
            ("tcp", "") => Ok(Self::Tcp(value.to_owned())),
            ("udp", "") => Ok(Self::Udp(value.to_owned())),
            ("env", name) if !name.is_empty() => {
                Ok(Self::Env { name: name.to_owned(), value: value.to_owned() })
            }
            ("fs", guest) if guest.starts_with('/') => folder(guest, value).ok_or_else(wrong),
            _ => Err(wrong()),
        }
    }
}

fn folder(guest: &str, value: &str) -> Option<Grant> {
    let (path, mode) = value.rsplit_once(':')?;
    let fits = !path.is_empty() && matches!(mode, "read" | "write");
    fits.then(|| Grant::Folder { guest: guest.to_owned(), path: path.to_owned(), mode: mode.to_owned() })
}

impl Grant {
    /// The use of an import that it is about.
    const fn about(&self) -> Option<ImportUse> {
        match self {
            Self::Folder { .. } => Some(ImportUse::Files),
            Self::Http(_) => Some(ImportUse::Http),
            Self::Tcp(_) => Some(ImportUse::Tcp),
            Self::Udp(_) => Some(ImportUse::Udp),
            Self::Env { .. } => Some(ImportUse::Environment),
            Self::Nothing => None,
        }
    }
}

/// The key of a grant for a use, examples of its value, and the question about it.
const fn words(used: ImportUse) -> (&'static str, &'static [&'static str], &'static str) {
    match used {
        ImportUse::Files => ("fs:", &["/data=./data:read"], "Which folders may it use"),
        ImportUse::Http => ("http=", &["api.example.com", "*.example.com"], "Which hosts may it reach"),
        ImportUse::Tcp => ("tcp=", &["db.example.com:5432"], "Which peers may it connect to over TCP"),
        ImportUse::Udp => ("udp=", &["192.0.2.1:53"], "Which peers may it send to over UDP"),
        ImportUse::Environment => ("env:", &["LANG=C"], "Which environment variables does it get"),
    }
}

/// The flag for a use, as an example.
fn example(used: ImportUse) -> String {
    let (key, examples, _) = words(used);
    format!("--grant {key}{}", examples.first().copied().unwrap_or_default())
}

/// The answers of a person.
#[derive(Debug, Default)]
pub struct Granted {
    /// The grants.
    pub grants: Vec<Grant>,
    /// Whether the person who calls is asked about folders and hosts.
    pub asks: bool,
}

/// The grants for the uses of `report` that its manifest does not cover: those of the flags, else the answers of the
/// person at the terminal.
///
/// # Errors
/// [`Undecided`] if a use is in no flag and there is no terminal.
pub async fn decide(report: &CheckReport, flags: &[Grant], asks: bool) -> anyhow::Result<Granted> {
    let is_covered =
        |used: &ImportUse| flags.iter().any(|grant| grant.about().is_none() || grant.about() == Some(*used));
    let open: Vec<ImportUse> = report.grants.ungranted().filter(|used| !is_covered(used)).collect();
    let mut granted = Granted { grants: flags.to_vec(), asks };
    if open.is_empty() {
        return Ok(granted);
    }
    if !prompt::is_attended() {
        let does: Vec<&str> = open.iter().map(|used| used.does()).collect();
        let flags: Vec<String> = open.iter().map(|used| example(*used)).collect();
        return Err(Undecided(format!(
            "{} {}, and nothing says what it may reach; add {}, or --grant none",
            report.file,
            does.join(" and "),
            flags.join(" ")
        ))
        .into());
    }
    for used in open {
        granted.grants.extend(ask_for(used).await?);
    }
    let may_ask = |grant: &Grant| matches!(grant, Grant::Http(_) | Grant::Folder { .. });
    if !asks && granted.grants.iter().any(may_ask) {
        granted.asks = agrees("Ask the person who calls before a run uses them?").await?;
    }
    Ok(granted)
}

/// Asks until the answer can be understood.
async fn ask_for(used: ImportUse) -> anyhow::Result<Vec<Grant>> {
    let (key, examples, question) = words(used);
    loop {
        let answer = line(&format!("{question}, such as {}? [none] ", examples.join(" or "))).await?;
        let words = answer.split([' ', ',']).filter(|word| !word.is_empty() && *word != "none");
        match words.map(|word| format!("{key}{word}").parse()).collect::<Result<Vec<Grant>, String>>() {
            Ok(grants) => return Ok(grants),
            Err(_) => tell!("That is not of the form of the example."),
        }
    }
}

/// Asks a question with the answer no unless the person types yes.
///
/// # Errors
/// If the terminal is gone.
pub async fn agrees(question: &str) -> anyhow::Result<bool> {
    let answer = line(&format!("{question} [y/N] ")).await?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

async fn line(prompt: &str) -> anyhow::Result<String> {
    let closed = || Undecided("the terminal was closed before all questions were answered".to_owned());
    Ok(prompt::read_line(prompt).await?.ok_or_else(closed)?)
}

/// The text of a manifest with these grants and this prefix added. Everything else in it stays as it is.
///
/// # Errors
/// [`WrongUsage`] if the manifest has something else where a grant belongs.
pub fn add_to(manifest: Option<&str>, granted: &Granted, prefix: Option<&str>) -> anyhow::Result<String> {
    let mut document: DocumentMut =
        manifest.unwrap_or_default().parse().context("cannot read the manifest")?;
    if let Some(prefix) = prefix {
        document["prefix"] = toml_edit::value(prefix);
    }
    for grant in &granted.grants {
        let added = match grant {
            Grant::Folder { guest, path, mode } => {
                let mut folder = InlineTable::new();
                folder.insert("path", path.as_str().into());
                folder.insert("mode", mode.as_str().into());
                if granted.asks {
                    folder.insert("grant", "ask".into());
                }
                insert(&mut document, "fs", guest, folder.into())
            }
            Grant::Http(host) if granted.asks => {
                let mut rule = InlineTable::new();
                rule.insert("host", host.as_str().into());
                rule.insert("grant", "ask".into());
                push(&mut document, "http", "allow", rule.into())
            }
            Grant::Http(host) => push(&mut document, "http", "allow", host.as_str().into()),
            Grant::Tcp(peer) => push(&mut document, "sockets", "tcp", peer.as_str().into()),
            Grant::Udp(peer) => push(&mut document, "sockets", "udp", peer.as_str().into()),
            Grant::Env { name, value } => insert(&mut document, "env", name, value.as_str().into()),
            Grant::Nothing => Some(()),
        };
        added.ok_or_else(|| {
            WrongUsage(format!("the manifest has something else in the place of {grant:?}"))
        })?;
    }
    Ok(document.to_string())
}

fn table<'a>(document: &'a mut DocumentMut, name: &str) -> Option<&'a mut Table> {
    document.entry(name).or_insert_with(|| Item::Table(Table::new())).as_table_mut()
}

fn insert(document: &mut DocumentMut, name: &str, key: &str, value: Value) -> Option<()> {
    table(document, name)?.insert(key, Item::Value(value));
    Some(())
}

fn push(document: &mut DocumentMut, name: &str, key: &str, value: Value) -> Option<()> {
    let list = table(document, name)?.entry(key).or_insert_with(|| Array::new().into());
    list.as_array_mut()?.push(value);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_written_as_on_the_command_line() {
        let folder = Grant::Folder { guest: "/data".into(), path: "./a:b".into(), mode: "write".into() };
        for (text, grant) in [
            ("none", Grant::Nothing),
            ("http=*.example.com", Grant::Http("*.example.com".into())),
            ("tcp=db:5432", Grant::Tcp("db:5432".into())),
            ("env:A=b=c", Grant::Env { name: "A".into(), value: "b=c".into() }),
            ("fs:/data=./a:b:write", folder),
        ] {
            assert_eq!(text.parse(), Ok(grant), "{text}");
        }
        for wrong in ["", "http", "all=x", "env:=x", "fs:data=./x:read", "fs:/data=./x", "fs:/data=./x:all"] {
            let said = wrong.parse::<Grant>().expect_err(wrong);
            assert!(said.starts_with("expected http=HOST"), "{said}");
        }
    }

    #[test]
    fn grants_are_added_to_a_manifest_that_a_person_wrote() {
        let grants = ["http=a.example", "fs:/data=./data:read", "env:LANG=C", "udp=192.0.2.1:53"];
        let grants = grants.iter().map(|text| text.parse().expect("a grant")).collect();
        let before = "# mine\n[http]\nallow = [\"b.example\"] # kept\n";
        let written = add_to(Some(before), &Granted { grants, asks: false }, Some("x")).expect("writes");
        assert!(written.contains("# mine") && written.contains("# kept"), "{written}");
        let manifest = toolyard_manifest::Manifest::parse("a.toml", &written, &Default::default());
        let expected =
            "env LANG\nfs /data = \"./data\", read\nhttp a.example\nhttp b.example\nudp 192.0.2.1:53";
        assert_eq!(manifest.expect("is valid").grant_lines().join("\n"), expected);
        let asked = Granted { grants: vec![Grant::Http("a.example".into())], asks: true };
        let written = add_to(None, &asked, None).expect("writes");
        assert!(written.contains("{ host = \"a.example\", grant = \"ask\" }"), "{written}");
        assert!(add_to(Some("http = 5"), &asked, None).is_err());
    }
}
