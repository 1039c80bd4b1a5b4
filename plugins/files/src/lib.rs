//! The files of a folder that the manifest grants, with tools to list, read and search them.
//!
//! `place` resolves paths, `walk` finds the entries of a folder, and `glob` selects among them. `listing`,
//! `reading` and `searching` are the three tools. Only this file calls the host; the modules below run
//! without one.

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

/// The path of the files in the guest, as the manifest maps it.
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
            .description("Lists a folder of the user's files, with sizes.")
            .pure(),
        Tool::new("read_file", read_file)
            .title("Read file")
            .description(
                "Returns one of the user's files: text by lines, images as images, other files as bytes. If a \
                 text is cut off, the result gives the line to continue from.",
            )
            .pure(),
        Tool::new("search_files", search_files)
            .title("Search files")
            .description(
                "Finds the lines of the user's files that contain a text or match a regular expression, each with its \
                 file and line number. Give either query or regex.",
            )
            .pure(),
    ]
}

#[cfg(test)]
mod testing {
    /// A folder with these files.
    pub fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for (name, bytes) in files {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().expect("has one")).expect("makes");
            std::fs::write(path, bytes).expect("writes");
        }
        root
    }
}
