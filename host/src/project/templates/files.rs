//! The files of the templates. Made by `UPDATE_TEMPLATES=1 cargo test --release --workspace`.

/// The language, the path in a project, and the text.
#[rustfmt::skip]
pub const FILES: &[(&str, &str, &str)] = &[
];
