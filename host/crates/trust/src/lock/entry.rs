//! An entry of a lock file, read from its table and written into it.

use super::LockError;
use crate::definition::{Definition, Kind, pretty, strict};
use crate::digest::Digest;
use crate::escape::is_hidden;
use toml_edit::{Array, ArrayOfTables, InlineTable, Item, Table, Value};

/// The order of the keys that this version knows. Others follow.
const KEYS: [&str; 8] = ["file", "source", "manifest", "digest", "signer", "accepted", "grants", "settings"];
/// The longest name of a file, as most file systems have it (bytes).
const MAX_FILE_NAME: usize = 255;
/// A longer list has a line for each text.
const MAX_LINE: usize = 100;

/// A plugin as a person accepted it.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The name of the component in the plugin folder.
    pub file: String,
    /// The source as text, such as `oci://ghcr.io/acme/fetch:1.2.0`.
    pub source: String,
    /// The OCI manifest; `None` for files and addresses.
    pub manifest: Option<Digest>,
    /// The component's bytes.
    pub digest: Digest,
    /// The signer that later versions must have too.
    pub signer: Signer,
    /// The grants of the plugin's manifest, sorted.
    pub grants: Vec<String>,
    /// The limits of its manifest, and what that says of its tools and their approvals, sorted. `None` in an entry that
    /// version 0.2 wrote.
    pub settings: Option<Vec<String>>,
    /// The tools and prompts, sorted by kind and name.
    pub definitions: Vec<Definition>,
}

/// The signer of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signer {
    /// A key pair.
    Key {
        /// As [`crate::key::PublicKey::fingerprint`] writes it.
        fingerprint: String,
        /// The file of the public key that the operator named, for people.
        file: Option<String>,
    },
    /// A signature without a key of its own, by an identity. Verifying it is not supported yet.
    Identity {
        /// Such as the address of a workflow.
        identity: String,
        /// The issuer that vouches for the identity.
        issuer: String,
    },
    /// The component was unsigned.
    None {
        /// The day on which a person accepted that, as YYYY-MM-DD.
        accepted: String,
    },
}

impl Entry {
    /// The name of the plugin in commands.
    pub(super) fn name(&self) -> &str {
        self.file.strip_suffix(".wasm").unwrap_or(&self.file)
    }

    pub(super) fn normalize(&mut self) {
        self.grants.sort();
        self.grants.dedup();
        self.definitions.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
    }

    pub(super) fn read(table: &Table) -> Result<Self, LockError> {
        let file = Reader { table, file: "" }.text("file")?;
        if !is_file_name(file) {
            return Err(LockError::FileName { file: file.to_owned() });
        }
        let reader = Reader { table, file };
        let mut entry = Self {
            file: file.to_owned(),
            source: reader.text("source")?.to_owned(),
            manifest: reader
                .optional_text("manifest")?
                .map(|text| reader.digest("manifest", text))
                .transpose()?,
            digest: reader.digest("digest", reader.text("digest")?)?,
            signer: reader.signer()?,
            grants: reader.lines("grants")?.ok_or_else(|| reader.error("grants", "is missing"))?,
            settings: reader.lines("settings")?,
            definitions: reader.definitions(Kind::Tool)?,
        };
        entry.definitions.append(&mut reader.definitions(Kind::Prompt)?);
        entry.normalize();
        let same = |[a, b]: &&[Definition; 2]| a.kind == b.kind && a.name == b.name;
        if let Some([Definition { kind, name, .. }, _]) = entry.definitions.array_windows().find(same) {
            return Err(LockError::DefinitionTwice { file: entry.file, kind: *kind, name: name.clone() });
        }
        Ok(entry)
    }

    /// Writes this entry into a table and keeps the keys in it that this version does not know.
    pub(super) fn write(&self, table: &mut Table) {
        put(table, "file", self.file.as_str().into());
        put(table, "source", self.source.as_str().into());
        put_or_remove(table, "manifest", self.manifest.map(|manifest| manifest.to_string().into()));
        put(table, "digest", self.digest.to_string().into());
        put(table, "signer", self.signer.to_value());
        let accepted = match &self.signer {
            Signer::None { accepted } => Some(accepted.as_str().into()),
            _ => None,
        };
        put_or_remove(table, "accepted", accepted);
        put(table, "grants", lines_value(&self.grants));
        put_or_remove(table, "settings", self.settings.as_deref().map(lines_value));
        let rank = |key: &str| KEYS.iter().position(|known| *known == key).unwrap_or(KEYS.len());
        table.sort_values_by(|a, _, b, _| rank(a.get()).cmp(&rank(b.get())));
        for kind in [Kind::Tool, Kind::Prompt] {
            let definitions = self.definitions.iter().filter(|definition| definition.kind == kind);
            write_definitions(table, kind, definitions);
        }
    }
}

impl Signer {
    fn to_value(&self) -> Value {
        let members = match self {
            Self::None { .. } => return "none".into(),
            Self::Key { fingerprint, file } => vec![("key", Some(fingerprint)), ("file", file.as_ref())],
            Self::Identity { identity, issuer } => {
                vec![("identity", Some(identity)), ("issuer", Some(issuer))]
            }
        };
        let members = members.into_iter().filter_map(|(key, value)| Some((key, value?.as_str())));
        InlineTable::from_iter(members).into()
    }
}

/// Whether a name is that of a component in the folder itself, on any system.
fn is_file_name(name: &str) -> bool {
    let stem = name.strip_suffix(".wasm").unwrap_or_default();
    !stem.is_empty()
        && name.len() <= MAX_FILE_NAME
        && !name.starts_with('.')
        && !name.contains(|char| matches!(char, '/' | '\\' | ':') || is_hidden(char))
}

fn is_date(text: &str) -> bool {
    let shape = text.chars().map(|char| if char.is_ascii_digit() { '0' } else { char });
    let number =
        |from: usize| text.get(from..from + 2).and_then(|digits| digits.parse::<u8>().ok()).unwrap_or(0);
    shape.eq("0000-00-00".chars()) && (1..=12).contains(&number(5)) && (1..=31).contains(&number(8))
}

/// Reads the table of the entry for this file.
struct Reader<'a> {
    table: &'a Table,
    file: &'a str,
}

impl<'a> Reader<'a> {
    fn error(&self, key: &'static str, why: &'static str) -> LockError {
        LockError::Field { file: self.file.to_owned(), key, why }
    }

    fn optional_text(&self, key: &'static str) -> Result<Option<&'a str>, LockError> {
        match self.table.get(key) {
            None => Ok(None),
            Some(item) => item.as_str().map(Some).ok_or_else(|| self.error(key, "is not text")),
        }
    }

    fn text(&self, key: &'static str) -> Result<&'a str, LockError> {
        self.optional_text(key)?.ok_or_else(|| self.error(key, "is missing"))
    }

    fn digest(&self, key: &'static str, text: &str) -> Result<Digest, LockError> {
        text.parse().map_err(|_| self.error(key, "is not sha256: and 64 lower-case hexadecimal digits"))
    }

    fn signer(&self) -> Result<Signer, LockError> {
        const WHY: &str = "is neither { key = … }, { identity = …, issuer = … } nor \"none\"";
        let item = self.table.get("signer").ok_or_else(|| self.error("signer", "is missing"))?;
        if item.as_str() == Some("none") {
            let accepted = self.text("accepted")?;
            return match is_date(accepted) {
                true => Ok(Signer::None { accepted: accepted.to_owned() }),
                false => Err(self.error("accepted", "is not a date like 2026-11-24")),
            };
        }
        let table = item.as_table_like().ok_or_else(|| self.error("signer", WHY))?;
        let text = |key| match table.get(key) {
            None => Ok(None),
            Some(item) => {
                item.as_str().map(|text| Some(text.to_owned())).ok_or_else(|| self.error("signer", WHY))
            }
        };
        match (text("key")?, text("identity")?, text("issuer")?) {
            (Some(fingerprint), None, None) => Ok(Signer::Key { fingerprint, file: text("file")? }),
            (None, Some(identity), Some(issuer)) => Ok(Signer::Identity { identity, issuer }),
            _ => Err(self.error("signer", WHY)),
        }
    }

    fn lines(&self, key: &'static str) -> Result<Option<Vec<String>>, LockError> {
        let error = || self.error(key, "is not a list of texts");
        let Some(item) = self.table.get(key) else { return Ok(None) };
        let lines = item.as_array().ok_or_else(error)?.iter();
        lines
            .map(|line| line.as_str().map(str::to_owned).ok_or_else(error))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    fn definitions(&self, kind: Kind) -> Result<Vec<Definition>, LockError> {
        match self.table.get(kind.as_str()) {
            None => Ok(Vec::new()),
            Some(Item::ArrayOfTables(tables)) => {
                tables.iter().map(|table| Self { table, file: self.file }.definition(kind)).collect()
            }
            Some(_) => Err(LockError::Tables(match kind {
                Kind::Tool => "plugin.tool",
                Kind::Prompt => "plugin.prompt",
            })),
        }
    }

    fn definition(&self, kind: Kind) -> Result<Definition, LockError> {
        let name = self.text("name")?.to_owned();
        let value = strict(self.text("definition")?)
            .map_err(|_| self.error("definition", "is not JSON in which each key occurs once"))?;
        let sha256 = Digest::from_hex(self.text("sha256")?)
            .ok_or_else(|| self.error("sha256", "is not 64 lower-case hexadecimal digits"))?;
        let definition = Definition { kind, name, value };
        match definition.digest() == sha256 {
            true => Ok(definition),
            false => Err(LockError::Edited { file: self.file.to_owned(), kind, name: definition.name }),
        }
    }
}

/// Sets a value. An equal one stays as a person wrote it, and comments after a value stay in any case.
fn put(table: &mut Table, key: &str, mut value: Value) {
    if let Some(Item::Value(old)) = table.get_mut(key) {
        if !is_same(old, &value) {
            *value.decor_mut() = old.decor().clone();
            *old = value;
        }
    } else {
        table.insert(key, Item::Value(value));
    }
}

fn put_or_remove(table: &mut Table, key: &str, value: Option<Value>) {
    match value {
        Some(value) => put(table, key, value),
        None => drop(table.remove(key)),
    }
}

fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::String(a), Value::String(b)) => a.value() == b.value(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::InlineTable(a), Value::InlineTable(b)) => {
            a.len() == b.len() && b.iter().all(|(key, b)| a.get(key).is_some_and(|a| is_same(a, b)))
        }
        _ => false,
    }
}

fn lines_value(lines: &[String]) -> Value {
    let mut array = Array::from_iter(lines.iter().map(String::as_str));
    if array.to_string().len() > MAX_LINE {
        for line in array.iter_mut() {
            line.decor_mut().set_prefix("\n    ");
        }
        array.set_trailing("\n");
        array.set_trailing_comma(true);
    }
    array.into()
}

fn write_definitions<'a>(table: &mut Table, kind: Kind, definitions: impl Iterator<Item = &'a Definition>) {
    let mut former: Vec<Table> = match table.remove(kind.as_str()) {
        Some(Item::ArrayOfTables(tables)) => tables.into_iter().collect(),
        _ => Vec::new(),
    };
    let mut tables = ArrayOfTables::new();
    for definition in definitions {
        let name = Some(definition.name.as_str());
        let place = former.iter().position(|table| table.get("name").and_then(Item::as_str) == name);
        let mut table = place.map(|place| former.swap_remove(place)).unwrap_or_default();
        let sha256 = definition.digest().hex();
        let is_current = table.get("sha256").and_then(Item::as_str) == Some(&sha256);
        put(&mut table, "name", definition.name.as_str().into());
        put(&mut table, "sha256", sha256.into());
        if !is_current {
            put(&mut table, "definition", literal(&pretty(&definition.value)));
        }
        tables.push(table);
    }
    if !tables.is_empty() {
        table.insert(kind.as_str(), Item::ArrayOfTables(tables));
    }
}

/// Text over several lines between `'''`, which people can read as it is.
fn literal(text: &str) -> Value {
    format!("'''\n{text}'''").parse().unwrap_or_else(|_| text.into())
}
