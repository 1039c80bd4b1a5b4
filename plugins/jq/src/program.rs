//! Compiles a program, and shows where an error is.

use std::ops::Range;

use jaq_core::data::JustLut;
use jaq_core::load::{self, Arena, File, Loader};
use jaq_core::{Compiler, compile};
use jaq_json::Val;

/// The most errors in a message: further ones are usually caused by the first.
const MOST_ERRORS: usize = 3;

/// A compiled program.
pub struct Program {
    pub filter: jaq_core::Filter<JustLut<Val>>,
}

impl Program {
    /// Compiles `code` with these variables defined. The error is a message that shows the place.
    pub fn compile<'v>(code: &str, variables: impl Iterator<Item = &'v str>) -> Result<Self, String> {
        let names: Vec<String> = variables.map(|name| format!("${name}")).collect();
        let definitions = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
        let functions = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());

        let arena = Arena::default();
        let modules = Loader::new(definitions)
            .load(&arena, File { code, path: () })
            .map_err(|errors| describe(code, load_faults(errors)))?;
        load::import(&modules, |_| Err("data files are not supported here".to_owned()))
            .map_err(|errors| describe(code, load_faults(errors)))?;
        let filter = Compiler::default()
            .with_funs(functions)
            .with_global_vars(names.iter().map(String::as_str))
            .compile(modules)
            .map_err(|errors| describe(code, compile_faults(errors)))?;
        Ok(Self { filter })
    }
}

/// One error, and the part of the code where it occurs.
struct Fault<'c> {
    code: &'c str,
    part: &'c str,
    message: String,
}

fn load_faults(errors: load::Errors<&str, ()>) -> Vec<Fault<'_>> {
    let mut faults = Vec::new();
    for (File { code, .. }, error) in errors {
        match error {
            load::Error::Io(errors) => {
                faults.extend(errors.into_iter().map(|(part, message)| Fault { code, part, message }));
            }
            load::Error::Lex(errors) => faults.extend(errors.into_iter().map(|(expected, rest)| {
                // The error covers the whole rest; its first character is enough.
                let part = &rest[..rest.chars().next().map_or(0, char::len_utf8)];
                let found = if part.is_empty() { "the program ends" } else { "found another character" };
                Fault { code, part, message: format!("{} expected, but {found}", expected.as_str()) }
            })),
            load::Error::Parse(errors) => faults.extend(errors.into_iter().map(|(expected, part)| {
                let expected = match expected {
                    load::parse::Expect::Nothing => "end of program",
                    ref other => other.as_str(),
                };
                let found =
                    if part.is_empty() { "the program ends".to_owned() } else { format!("found `{part}`") };
                Fault { code, part, message: format!("{expected} expected, but {found}") }
            })),
        }
    }
    faults
}

fn compile_faults(errors: compile::Errors<&str, ()>) -> Vec<Fault<'_>> {
    let flat = errors.into_iter().flat_map(|(File { code, .. }, errors)| {
        errors.into_iter().map(move |(part, undefined)| {
            let message = match undefined {
                compile::Undefined::Filter(arity) => format!("there is no filter {part}/{arity}"),
                other => format!("there is no {} {part}", other.as_str()),
            };
            Fault { code, part, message }
        })
    });
    flat.collect()
}

fn describe(code: &str, faults: Vec<Fault<'_>>) -> String {
    let mut text = String::from("The program does not compile.");
    for Fault { code: whole, part, message } in faults.into_iter().take(MOST_ERRORS) {
        // An error outside the given code can only be in jaq's own definitions, and has no place to show.
        let place = if whole == code { show(whole, load::span(whole, part)) } else { String::new() };
        text.push_str(&format!("\n{message}{place}"));
    }
    text
}

/// Line and column, and the line itself with the place underlined.
fn show(code: &str, span: Range<usize>) -> String {
    let Some(before) = code.get(..span.start) else { return String::new() };
    let line = before.matches('\n').count() + 1;
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let column = code[line_start..span.start].chars().count();
    let line_text = code[line_start..].lines().next().unwrap_or_default().replace('\t', " ");
    let room = line_text.chars().count().saturating_sub(column);
    let width = code.get(span).map_or(0, |part| part.chars().count()).min(room).max(1);
    format!(
        ", at line {line}, column {}:\n  {line_text}\n  {}{}",
        column + 1,
        " ".repeat(column),
        "^".repeat(width)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: &str) -> String {
        match Program::compile(code, ["known"].into_iter()) {
            Ok(_) => panic!("{code} should not compile"),
            Err(message) => message,
        }
    }

    #[test]
    fn errors_show_their_place_in_lines_and_characters() {
        assert_eq!(
            error(".a | foo(1)"),
            "The program does not compile.\n\
             there is no filter foo/1, at line 1, column 6:\n  .a | foo(1)\n       ^^^"
        );
        for (program, says) in [
            ("$unknown", "there is no variable $unknown, at line 1, column 1"),
            ("break $out", "label"),
            (".a | ]", "at line 1, column 6:"),
            ("", "the program ends"),
            ("if . then 1", "the program ends"),
            ("[1, 2", "column"),
            ("1 2", "end of program expected, but found `2`, at line 1, column 3"),
            ("# first\n\"ä\" | nix\n| .", "line 2, column 7:\n  \"ä\" | nix\n        ^^^"),
            ("💣", "line 1"),
            ("\u{0}", "line 1"),
            // Nothing can be imported.
            ("import \"a\" as a; .", "not supported"),
            ("include \"a\"; .", "not supported"),
            ("import \"a\" as $a; $a", "not supported"),
        ] {
            assert!(error(program).contains(says), "{program}: {}", error(program));
        }
    }

    #[test]
    fn few_errors_are_shown() {
        let message = error("a, b, c, d, e");
        assert_eq!(message.matches("there is no filter").count(), MOST_ERRORS);
    }
}
