//! Backtraces of guests, for debugging: the active functions, innermost first, if the component
//! carries their names.
//!
//! They go to the log, like the guest's standard error, and never to a client.

use crate::wasi::stdio::printable;
use rustc_demangle::demangle;
use toolyard_task::wire::visible::clip;
use wasmtime::WasmBacktrace;

/// The maximum number of functions that are shown.
const MAX_FRAMES: usize = 24;
/// The maximum length of a name that is shown, in characters.
const MAX_NAME_CHARS: usize = 200;

/// The lines to show; empty if the guest was not entered.
pub(crate) fn of(error: &wasmtime::Error) -> Vec<String> {
    let Some(trace) = error.downcast_ref::<WasmBacktrace>() else {
        return Vec::new();
    };
    lines(trace.frames().iter().map(|frame| frame.func_name()))
}

fn lines<'a>(names: impl ExactSizeIterator<Item = Option<&'a str>>) -> Vec<String> {
    let count = names.len();
    let mut lines = Vec::new();
    let mut is_named = false;
    for name in names.take(MAX_FRAMES) {
        is_named |= name.is_some();
        let name = name.map_or_else(
            || "(no name)".to_owned(),
            |name| clip(&printable(format!("{:#}", demangle(name)).as_bytes()), MAX_NAME_CHARS),
        );
        lines.push(format!("at {name}"));
    }
    if count > 0 && !is_named {
        return vec![
            "the component has no names of functions; build it without stripping them to see where"
                .to_owned(),
        ];
    }
    if count > MAX_FRAMES {
        lines.push(format!("and {} more", count - MAX_FRAMES));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_as_their_language_has_them() {
        let shown =
            lines([Some("_ZN4core9panicking5panic17h0123456789abcdefE"), None, Some("call")].into_iter());
        assert_eq!(shown, ["at core::panicking::panic", "at (no name)", "at call"]);
    }

    #[test]
    fn names_are_the_guests_and_may_be_anything() {
        let long = "x".repeat(1_000);
        let shown = lines([Some("a\nb\u{1b}[31m"), Some(&long)].into_iter());
        assert!(!shown[0].contains('\n') && !shown[0].contains('\u{1b}'), "{shown:?}");
        assert!(shown[1].chars().count() < 210);
        let many = lines(vec![Some("f"); 100].into_iter());
        assert_eq!((many.len(), many[24].as_str()), (25, "and 76 more"));
    }

    #[test]
    fn a_component_without_names_is_said_to_have_none() {
        assert_eq!(lines([None, None].into_iter()).len(), 1);
        assert!(lines(std::iter::empty()).is_empty());
    }
}
