//! Regular expressions in schemas. They match in linear time, have a bounded size, and check the
//! budget after every few bytes.
//!
//! The code drives a lazy DFA itself, because the library's search functions cannot be interrupted.

use crate::budget::{Budget, Halt};
use parking_lot::Mutex;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};
use std::collections::HashMap;
use std::sync::Arc;

/// The maximum size of one pattern's automaton, in bytes.
const MAX_AUTOMATON_BYTES: usize = 128 << 10;
/// The maximum length of a pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 4 << 10;
/// How many bytes of a text are matched between two checks of the budget. One byte can take time
/// proportional to the number of states.
const PIECE_BYTES: usize = 64;
/// The size of the state cache of a search, in bytes, unless the automaton needs more.
const CACHE_BYTES: usize = 64 << 10;

/// The patterns in the schemas of one component, with bounds for their number and the total size of
/// their automata.
pub(super) struct Patterns {
    known: HashMap<Box<str>, Arc<Pattern>>,
    most: usize,
    left_bytes: usize,
}

impl Patterns {
    /// Allows at most `most` patterns of `bytes` bytes in total.
    pub fn new(most: usize, bytes: usize) -> Self {
        Self { known: HashMap::new(), most, left_bytes: bytes }
    }

    /// Compiles a pattern, or returns it if it was compiled before.
    ///
    /// # Errors
    /// The fault of the pattern, or the bound that it exceeds.
    pub(super) fn compile(&mut self, source: &str) -> Result<Arc<Pattern>, String> {
        if let Some(known) = self.known.get(source) {
            return Ok(known.clone());
        }
        if self.known.len() >= self.most {
            return Err(format!("there are more than {} different patterns", self.most));
        }
        let pattern = Arc::new(Pattern::compile(source, self.left_bytes)?);
        self.left_bytes = self.left_bytes.saturating_sub(pattern.dfa.get_nfa().memory_usage());
        self.known.insert(source.into(), pattern.clone());
        Ok(pattern)
    }
}

/// A compiled pattern.
pub(super) struct Pattern {
    dfa: DFA,
    /// The states found by the last search, for reuse.
    cache: Mutex<Option<Cache>>,
    source: Box<str>,
}

impl Pattern {
    /// Compiles a pattern with the semantics of ECMA-262, except for look-around and
    /// back-references, which cannot be matched in linear time.
    ///
    /// # Errors
    /// The fault of the pattern, or the bound that it exceeds.
    fn compile(source: &str, left_bytes: usize) -> Result<Self, String> {
        if source.len() > MAX_PATTERN_BYTES {
            return Err(format!("the pattern is longer than {MAX_PATTERN_BYTES} bytes"));
        }
        let bound = MAX_AUTOMATON_BYTES.min(left_bytes);
        let dfa = DFA::builder()
            .configure(
                DFA::config()
                    .cache_capacity(CACHE_BYTES)
                    .skip_cache_capacity_check(true)
                    .minimum_cache_clear_count(None),
            )
            .syntax(syntax::Config::new().utf8(false).nest_limit(64))
            .thompson(thompson::Config::new().utf8(false).nfa_size_limit(Some(bound)))
            .build(&translated(source))
            .map_err(|error| {
                let mut why = error.to_string();
                let mut cause = std::error::Error::source(&error);
                while let Some(error) = cause {
                    why = error.to_string();
                    cause = error.source();
                }
                format!("the pattern {source:?} cannot be used: {}", why.lines().last().unwrap_or_default())
            })?;
        Ok(Self { dfa, cache: Mutex::default(), source: source.into() })
    }

    /// The pattern as written in the schema.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether it matches anywhere in the text.
    pub fn is_match(&self, text: &str, budget: &mut Budget<'_>) -> Result<bool, Halt> {
        let kept = self.cache.lock().take();
        let mut cache = kept.unwrap_or_else(|| self.dfa.create_cache());
        let found = self.search(text.as_bytes(), &mut cache, budget);
        *self.cache.lock() = Some(cache);
        found
    }

    fn search(&self, text: &[u8], cache: &mut Cache, budget: &mut Budget<'_>) -> Result<bool, Halt> {
        // Neither error can occur: the pattern has no quit bytes, and the cache never gives up.
        let input = Input::new(text).anchored(Anchored::No);
        let Ok(mut state) = self.dfa.start_state_forward(cache, &input) else { return Err(Halt::Spent) };
        for piece in text.chunks(PIECE_BYTES) {
            budget.spend_on_pattern(piece.len() as u64 / 8 + 1)?;
            for byte in piece {
                let Ok(next) = self.dfa.next_state(cache, state, *byte) else { return Err(Halt::Spent) };
                state = next;
                if state.is_tagged() {
                    if state.is_match() {
                        return Ok(true);
                    }
                    if state.is_dead() {
                        return Ok(false);
                    }
                }
            }
        }
        let Ok(end) = self.dfa.next_eoi_state(cache, state) else { return Err(Halt::Spent) };
        Ok(end.is_match())
    }
}

/// Translates an ECMA-262 pattern into the library's syntax. Syntax that neither of them knows
/// stays unchanged, and the library rejects it.
fn translated(source: &str) -> String {
    let mut out = String::with_capacity(source.len() + 16);
    let mut characters = source.chars().peekable();
    let mut in_class = false;
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('d') => out.push_str("[0-9]"),
                Some('D') => out.push_str("[^0-9]"),
                Some('w') => out.push_str("[0-9A-Za-z_]"),
                Some('W') => out.push_str("[^0-9A-Za-z_]"),
                Some('s') => out.push_str(r"[\t\n\x0B\x0C\r\x{FEFF}\x{2028}\x{2029}\p{Zs}]"),
                Some('S') => out.push_str(r"[^\t\n\x0B\x0C\r\x{FEFF}\x{2028}\x{2029}\p{Zs}]"),
                Some('b') if in_class => out.push_str(r"\x08"),
                Some('b') => out.push_str(r"(?-u:\b)"),
                Some('B') => out.push_str(r"(?-u:\B)"),
                Some('0') if !characters.peek().is_some_and(char::is_ascii_digit) => out.push_str(r"\x00"),
                Some('c') => match characters.next_if(char::is_ascii_alphabetic) {
                    Some(letter) => out.push_str(&format!(r"\x{:02X}", letter as u32 % 32)),
                    None => out.push_str(r"\\c"),
                },
                Some('/') => out.push('/'),
                Some(escaped) => {
                    out.push('\\');
                    out.push(escaped);
                }
                None => out.push('\\'),
            },
            '[' if !in_class => {
                let negated = characters.next_if_eq(&'^').is_some();
                if characters.next_if_eq(&']').is_some() {
                    // `[]` matches nothing, and `[^]` matches everything.
                    out.push_str(if negated { r"(?s:.)" } else { r"[^\x{0}-\x{10FFFF}]" });
                } else {
                    in_class = true;
                    out.push_str(if negated { "[^" } else { "[" });
                }
            }
            // The library would nest, intersect or subtract classes.
            '[' | '&' | '~' if in_class => {
                out.push('\\');
                out.push(character);
            }
            '-' if in_class && characters.peek() == Some(&'-') => out.push_str(r"\-"),
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '.' if !in_class => out.push_str(r"[^\n\r\x{2028}\x{2029}]"),
            // Groups such as `(?<name>` are the same in both. Modes would affect this translation.
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        let pattern = Patterns::new(512, 4 << 20).compile(pattern).unwrap_or_else(|why| panic!("{why}"));
        pattern.is_match(text, &mut Budget::unlimited()).expect("in time")
    }

    #[test]
    fn patterns_mean_what_ecma_262_says() {
        for (pattern, yes, no) in [
            ("^a+$", "aaa", "aab"),
            ("b", "abc", "ac"),
            (r"^\d{3}-\d{4}$", "555-0123", "٣٣٣-0123"),
            (r"^\w+$", "a_1", "é"),
            (r"^[\w.]+\/x$", "a.b/x", "a b/x"),
            (r"^[[&&]+$", "[&", "a"),
            (r"^[^]$", "\n", ""),
            (r"^\cJ$", "\n", "J"),
            (r"\bcat\b", "a cat!", "concat"),
            (r"^.$", "😀", "\r"),
            (r"^[a-z\-]+$", "a-b", "a_b"),
            (r"^\p{L}+$", "né", "n1"),
            (r"^(?<year>\d{4})$", "2026", "26"),
            (r"^\S+$", "x", "\u{a0}"),
            (r"[\b]", "\u{8}", "b"),
            ("^$", "", "a"),
            ("", "a", "\u{0}no text fails this one"),
        ] {
            assert!(matches(pattern, yes), "{pattern} should match {yes:?}");
            if !pattern.is_empty() {
                assert!(!matches(pattern, no), "{pattern} should not match {no:?}");
            }
        }
        assert!(!matches("[]", "a"));
    }

    #[test]
    fn what_takes_more_than_linear_time_or_much_memory_is_refused() {
        let long = "a".repeat(MAX_PATTERN_BYTES + 1);
        for (pattern, why) in [
            ("(?=x)y", "look"),
            (r"(a)\1", "backreferences"),
            ("(((a{1000}){1000}){1000})", "limit"),
            ("[^a]{900}", "limit"),
            ("(", "unclosed"),
            (&long, "longer than"),
        ] {
            let refused = Patterns::new(512, 4 << 20).compile(pattern).err();
            assert!(refused.as_ref().is_some_and(|refused| refused.contains(why)), "{pattern}: {refused:?}");
        }
    }

    #[test]
    fn the_patterns_of_a_component_are_bounded_together() {
        let mut patterns = Patterns::new(512, 4 << 20);
        let few = (0..).map_while(|n| patterns.compile(&format!(r"^\p{{L}}{{3}}{n}$")).ok()).count();
        assert!((10..300).contains(&few), "{few}");
        let mut patterns = Patterns::new(512, 4 << 20);
        let many = (0..).map_while(|n| patterns.compile(&format!("a{n}")).ok()).count();
        assert_eq!(many, 512);
        assert!(patterns.compile("a7").is_ok(), "one that is known costs nothing");
    }

    #[test]
    fn a_search_ends_with_its_budget() {
        // Each byte leads to a new state.
        let pattern = Patterns::new(512, 4 << 20).compile("[ab]*a[ab]{300}c").expect("small");
        let text: String = (0..200_000_u32)
            .map(|n| if n.wrapping_mul(2_654_435_761) >> 31 == 0 { 'a' } else { 'b' })
            .collect();
        assert_eq!(pattern.is_match(&text, &mut Budget::steps(1_000)), Err(Halt::Spent));
        let mut looks = 0;
        let mut look = || {
            looks += 1;
            if looks > 3 { Err(Halt::Stopped) } else { Ok(()) }
        };
        assert_eq!(pattern.is_match(&text, &mut Budget::looked_after(&mut look)), Err(Halt::Stopped));
    }
}
