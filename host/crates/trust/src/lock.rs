//! `toolyard.lock`: the plugins of a folder as a person accepted them. People review it, so its text is
//! stable, and keeps comments and keys that this version does not know.

mod check;
mod decide;
mod entry;
mod error;

pub use check::Refusal;
pub use decide::{Decision, Reason, decide};
pub use entry::{Entry, Signer};
pub use error::LockError;

use std::fmt::{self, Display};
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table};

/// The largest lock file that is read, in bytes.
pub const MAX_LOCK: usize = 4 << 20;
/// The format that this version reads and writes.
const VERSION: i64 = 1;

const EMPTY: &str = "# The plugins of this folder as they were accepted. `toolyard add`, `update`, `accept` and\n\
                     # `remove` write this file; commit it.\n\
                     version = 1\n";

/// A lock file.
#[derive(Debug, Clone)]
pub struct Lock {
    document: DocumentMut,
    /// Sorted by file.
    entries: Vec<Entry>,
}

impl Lock {
    /// A lock file without entries.
    #[must_use]
    pub fn empty() -> Self {
        Self { document: EMPTY.parse().unwrap_or_default(), entries: Vec::new() }
    }

    /// Reads a lock file.
    ///
    /// # Errors
    /// If it is too large, not TOML, of another version, or contradicts itself.
    pub fn parse(text: &str) -> Result<Self, LockError> {
        if text.len() > MAX_LOCK {
            return Err(LockError::TooLarge(text.len()));
        }
        let document: DocumentMut = text.parse().map_err(|error| LockError::syntax(text, &error))?;
        match document.get("version").map(Item::as_integer) {
            Some(Some(VERSION)) => {}
            Some(Some(version)) if version > VERSION => return Err(LockError::Newer(version)),
            _ => return Err(LockError::Version),
        }
        let mut entries = match document.get("plugin") {
            None => Vec::new(),
            Some(Item::ArrayOfTables(tables)) => {
                tables.iter().map(Entry::read).collect::<Result<Vec<_>, _>>()?
            }
            Some(_) => return Err(LockError::Tables("plugin")),
        };
        entries.sort_by(|a, b| a.file.cmp(&b.file));
        if let Some([twice, _]) = entries.array_windows().find(|[a, b]| a.file == b.file) {
            return Err(LockError::Twice { file: twice.file.clone() });
        }
        Ok(Self { document, entries })
    }

    /// The text of the file.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.document.to_string()
    }

    /// The entry of this file.
    #[must_use]
    pub fn entry(&self, file: &str) -> Option<&Entry> {
        self.place(file).ok().and_then(|place| self.entries.get(place))
    }

    /// All entries, sorted by file.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Adds an entry, or replaces that of the same file. Keys of the former one that this version does not
    /// know stay. The file must be a plain name that ends in `.wasm`, and no two definitions of a kind may
    /// have one name.
    pub fn set(&mut self, mut entry: Entry) {
        entry.normalize();
        let former = self.tables().and_then(|tables| {
            let place = tables.iter().position(|table| is_of(table, &entry.file))?;
            Some(tables.remove(place))
        });
        let mut table = former.unwrap_or_default();
        entry.write(&mut table);
        match self.tables() {
            Some(tables) => tables.push(table),
            None => {
                let mut tables = ArrayOfTables::new();
                tables.push(table);
                self.document.insert("plugin", Item::ArrayOfTables(tables));
            }
        }
        match self.place(&entry.file) {
            Ok(place) => drop(self.entries.get_mut(place).map(|old| *old = entry)),
            Err(place) => self.entries.insert(place, entry),
        }
        self.sort();
    }

    /// Removes the entry of this file. Returns whether there was one.
    pub fn remove(&mut self, file: &str) -> bool {
        let Ok(place) = self.place(file) else { return false };
        self.entries.remove(place);
        if let Some(tables) = self.tables() {
            tables.retain(|table| !is_of(table, file));
            if tables.is_empty() {
                self.document.remove("plugin");
            }
        }
        true
    }

    fn place(&self, file: &str) -> Result<usize, usize> {
        self.entries.binary_search_by(|entry| entry.file.as_str().cmp(file))
    }

    fn tables(&mut self) -> Option<&mut ArrayOfTables> {
        self.document.get_mut("plugin").and_then(Item::as_array_of_tables_mut)
    }

    /// Sorts the tables by file. The positions decide where the document writes each table, so all get new
    /// ones.
    fn sort(&mut self) {
        let mut keys: Vec<(isize, String)> =
            self.document.iter().map(|(key, item)| (first_position(item), key.to_owned())).collect();
        keys.sort();
        if let Some(tables) = self.tables() {
            let mut sorted: Vec<Table> = std::mem::take(tables).into_iter().collect();
            sorted.sort_by(|a, b| name_of(a).cmp(&name_of(b)));
            tables.extend(sorted);
        }
        let mut next = 0;
        for (_, key) in keys {
            if let Some(item) = self.document.get_mut(&key) {
                number(item, &mut next);
            }
        }
    }
}

/// The first position of a table in this item; that of a new table is after all others.
fn first_position(item: &Item) -> isize {
    let first = match item {
        Item::Table(table) => {
            let inner = table.iter().map(|(_, item)| first_position(item)).min();
            table.position().or(inner)
        }
        Item::ArrayOfTables(tables) => tables.iter().filter_map(Table::position).min(),
        _ => None,
    };
    first.unwrap_or(isize::MAX)
}

/// Gives the tables of an item the next positions.
fn number(item: &mut Item, next: &mut isize) {
    let tables: Vec<&mut Table> = match item {
        Item::Table(table) => vec![table],
        Item::ArrayOfTables(tables) => tables.iter_mut().collect(),
        _ => return,
    };
    for table in tables {
        table.set_position(Some(*next));
        *next += 1;
        table.iter_mut().for_each(|(_, item)| number(item, next));
    }
}

fn name_of(table: &Table) -> Option<&str> {
    table.get("file").and_then(Item::as_str)
}

fn is_of(table: &Table, file: &str) -> bool {
    name_of(table) == Some(file)
}

impl Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.document.fmt(f)
    }
}
