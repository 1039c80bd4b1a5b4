//! TOML: reading, and editing that keeps everything else as it is written.

use crate::fields::Fields;
use crate::value::Value;
use toml_edit::{DocumentMut, InlineTable, Item, Table, TableLike, Value as Node};

/// The content of a text.
pub fn parse(text: &str) -> Result<Value, String> {
    Ok(table(document(text)?.as_table()))
}

fn document(text: &str) -> Result<DocumentMut, String> {
    text.parse::<DocumentMut>().map_err(|error| {
        // The error's own text repeats the line, which may contain a secret.
        let line = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        let place = error.span().map(|span| format!(" on line {}", line(span.start)));
        format!("{}{}", error.message(), place.unwrap_or_default())
    })
}

fn table(table: &dyn TableLike) -> Value {
    Value::Map(table.iter().map(|(name, item)| (name.to_owned(), of_item(item))).collect())
}

fn of_item(item: &Item) -> Value {
    match item {
        Item::None => Value::Atom(String::new()),
        Item::Value(value) => of_value(value),
        Item::Table(inner) => table(inner),
        Item::ArrayOfTables(tables) => Value::List(tables.iter().map(|inner| table(inner)).collect()),
    }
}

fn of_value(value: &Node) -> Value {
    match value {
        Node::String(text) => Value::Text(text.value().clone()),
        Node::Integer(number) => Value::Atom(number.display_repr().into_owned()),
        Node::Float(number) => Value::Atom(number.display_repr().into_owned()),
        Node::Boolean(truth) => Value::Atom(truth.display_repr().into_owned()),
        Node::Datetime(time) => Value::Atom(time.display_repr().into_owned()),
        Node::Array(list) => Value::List(list.iter().map(of_value).collect()),
        Node::InlineTable(inner) => table(inner),
    }
}

fn node(value: &Value) -> Node {
    match value {
        Value::Text(text) | Value::Atom(text) => Node::from(text.as_str()),
        Value::List(list) => Node::Array(list.iter().map(node).collect()),
        Value::Map(entries) => {
            let pairs = entries.iter().map(|(name, value)| (name.as_str(), node(value)));
            Node::InlineTable(pairs.collect::<InlineTable>())
        }
    }
}

/// The text in which one entry has these fields, or without the entry if there are none.
///
/// The library writes every line with `\n` and ends the last one. So this function edits the text with such
/// lines, and restores the file's own line ends after that.
pub fn edit(text: &str, section: &str, name: &str, fields: Option<&Fields>) -> Result<String, String> {
    let unix = text.replace("\r\n", "\n");
    let has_crlf = unix.len() != text.len();
    if has_crlf && unix.replace('\n', "\r\n") != text {
        return Err("some lines end with CR LF and others with LF".to_owned());
    }
    let mut document = document(&unix)?;
    let is_ended = unix.is_empty() || unix.ends_with('\n');
    let written = document.to_string();
    if written != unix && (is_ended || written.strip_suffix('\n') != Some(&unix)) {
        return Err("an edit would change other lines".to_owned());
    }
    match fields {
        Some(fields) => set(&mut document, section, name, fields)?,
        None => remove(&mut document, section, name)?,
    }
    let mut edited = document.to_string();
    if !is_ended && edited.ends_with('\n') {
        edited.pop();
    }
    Ok(if has_crlf { edited.replace('\n', "\r\n") } else { edited })
}

fn set(document: &mut DocumentMut, section: &str, name: &str, fields: &Fields) -> Result<(), String> {
    let servers = document.entry(section).or_insert_with(|| {
        let mut servers = Table::new();
        servers.set_implicit(true);
        Item::Table(servers)
    });
    let servers = servers.as_table_like_mut().ok_or_else(|| format!("`{section}` is not a table"))?;
    let Some(entry) = servers.get_mut(name) else {
        let mut entry = Table::new();
        for (key, value) in &fields.set {
            entry.insert(key, Item::Value(node(value)));
        }
        servers.insert(name, Item::Table(entry));
        return Ok(());
    };
    let entry = entry.as_table_like_mut().ok_or_else(|| format!("`{section}.{name}` is not a table"))?;
    fields.dropped.iter().for_each(|key| drop(entry.remove(key)));
    for (key, value) in &fields.set {
        match entry.get_mut(key) {
            Some(item) if of_item(item) == *value => {}
            Some(Item::Value(former)) => {
                // A comment at the end of the line stays.
                let decor = former.decor().clone();
                *former = node(value);
                *former.decor_mut() = decor;
            }
            Some(item) => *item = Item::Value(node(value)),
            None => drop(entry.insert(key, Item::Value(node(value)))),
        }
    }
    Ok(())
}

fn remove(document: &mut DocumentMut, section: &str, name: &str) -> Result<(), String> {
    let Some(servers) = document.get_mut(section) else { return Ok(()) };
    let servers = servers.as_table_like_mut().ok_or_else(|| format!("`{section}` is not a table"))?;
    let Some(Item::Table(entry)) = servers.remove(name) else { return Ok(()) };
    // The comments above a table belong to it for the library, but may be about the whole file.
    let comments = entry.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default().to_owned();
    if !comments.contains('#') {
        return Ok(());
    }
    let next = positions(document).into_iter().filter(|position| Some(*position) > entry.position()).min();
    match next.and_then(|position| table_at(document, position)) {
        Some(table) => {
            let own = table.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default();
            let both = format!("{comments}{own}");
            table.decor_mut().set_prefix(both);
        }
        None => {
            let own = document.trailing().as_str().unwrap_or_default();
            let both = format!("{comments}{own}");
            document.set_trailing(both);
        }
    }
    Ok(())
}

/// The places of all tables with a header.
fn positions(table: &Table) -> Vec<isize> {
    let mut found: Vec<isize> = table.position().into_iter().collect();
    for (_, item) in table {
        match item {
            Item::Table(inner) => found.extend(positions(inner)),
            Item::ArrayOfTables(tables) => found.extend(tables.iter().flat_map(positions)),
            Item::None | Item::Value(_) => {}
        }
    }
    found
}

/// The table with a header at this place.
fn table_at(table: &mut Table, position: isize) -> Option<&mut Table> {
    if table.position() == Some(position) && !table.is_implicit() && !table.is_dotted() {
        return Some(table);
    }
    table.iter_mut().find_map(|(_, item)| match item {
        Item::Table(inner) => table_at(inner, position),
        Item::ArrayOfTables(tables) => tables.iter_mut().find_map(|inner| table_at(inner, position)),
        Item::None | Item::Value(_) => None,
    })
}
