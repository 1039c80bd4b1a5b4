//! The files of a folder that the manifest grants: tools to list, read and search
//! them.
//!
//! `place` says which path is meant, `walk` finds what is below a folder, `glob`
//! which of it is wanted; `listing`, `reading` and `searching` are the three tools.
//! Here the host is told and asked; everything below can run without one.

mod glob;
mod listing;
mod place;
mod reading;
mod searching;
mod walk;

use std::path::Path;

use toolyard_plugin::{Error, Tool, ToolResult, cancelled, plugin, progress};

use crate::listing::{List, Listed};
use crate::reading::ReadOf;
use crate::searching::{Found, Search};

/// Where the manifest puts the files.
const ROOT: &str = "/files";

fn list_files(list: List) -> Result<ToolResult<Listed>, Error> {
    Ok(listing::list(Path::new(ROOT), &list)?)
}

fn read_file(of: ReadOf) -> Result<ToolResult, Error> {
    Ok(reading::read(Path::new(ROOT), &of)?)
}

fn search_files(search: Search) -> Result<ToolResult<Found>, Error> {
    let found = searching::search(Path::new(ROOT), &search, &mut |searched, of| {
        progress(searched as f64, of as f64, &format!("Searched {searched} of {of} files"));
        cancelled()
    })?;
    Ok(found)
}

plugin! {
    tools: [
        Tool::new("list_files", list_files)
            .title("List files")
            .description(
                "Shows what is in a folder of the user's files: files with their sizes, folders, and links.",
            )
            .pure(),
        Tool::new("read_file", read_file)
            .title("Read file")
            .description(
                "Gives one of the user's files: text by its lines, images as images, anything else as bytes. If \
                 a text is longer than what is given, that is said, with the line to go on from.",
            )
            .pure(),
        Tool::new("search_files", search_files)
            .title("Search files")
            .description(
                "Finds the lines of the user's files that hold a text or fit a regular expression, each with its \
                 file and line number. Give either query or regex.",
            )
            .optional_task()
            .pure(),
    ]
}
