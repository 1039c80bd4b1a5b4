//! Patterns for paths.

use regex_lite::Regex;

use crate::place::Fault;

/// A pattern that selects paths.
pub struct Glob {
    pattern: Regex,
    /// Whether it applies to file names in any folder.
    of_names: bool,
}

impl Glob {
    /// Parses a pattern.
    pub fn new(glob: &str) -> Result<Self, Fault> {
        let of_names = !glob.contains('/');
        let pattern = pattern(glob.trim_start_matches('/'));
        let pattern = Regex::new(&pattern).map_err(|_| {
            Fault(format!("The glob {glob:?} is not one; examples are *.txt, docs/**, src/**/*.{{rs,toml}}."))
        })?;
        Ok(Self { pattern, of_names })
    }

    /// Whether the pattern matches a path.
    pub fn wants(&self, path: &str) -> bool {
        let part = if self.of_names { path.rsplit('/').next().unwrap_or(path) } else { path };
        self.pattern.is_match(part)
    }
}

/// Converts the pattern to a regular expression.
fn pattern(glob: &str) -> String {
    let mut pattern = "(?s)^".to_owned();
    let mut rest = glob.chars().peekable();
    let (mut in_class, mut choices) = (false, 0_u32);
    while let Some(char) = rest.next() {
        match char {
            ']' if in_class => {
                in_class = false;
                pattern.push(']');
            }
            '[' | '\\' | '&' | '~' if in_class => pattern.extend(['\\', char]),
            _ if in_class => pattern.push(char),
            '*' if rest.next_if_eq(&'*').is_some() => {
                // `**/` also matches no folder.
                pattern.push_str(if rest.next_if_eq(&'/').is_some() { "(?:.*/)?" } else { ".*" });
            }
            '*' => pattern.push_str("[^/]*"),
            '?' => pattern.push_str("[^/]"),
            '[' => {
                in_class = true;
                pattern.push('[');
                if rest.next_if_eq(&'!').is_some() {
                    pattern.push('^');
                }
            }
            '{' => {
                choices += 1;
                pattern.push_str("(?:");
            }
            '}' if choices > 0 => {
                choices -= 1;
                pattern.push(')');
            }
            ',' if choices > 0 => pattern.push('|'),
            other => pattern.push_str(&regex_lite::escape(&other.to_string())),
        }
    }
    pattern.push('$');
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(glob: &str, wanted: &[&str], unwanted: &[&str]) {
        let read = Glob::new(glob).unwrap_or_else(|fault| panic!("{}", fault.0));
        for path in wanted {
            assert!(read.wants(path), "{glob} wants {path}");
        }
        for path in unwanted {
            assert!(!read.wants(path), "{glob} does not want {path}");
        }
    }

    #[test]
    fn stars_stay_within_a_name_and_pairs_do_not() {
        check("*.txt", &["a.txt", "x/y/a.txt", ".txt"], &["a.txt.old", "txt"]);
        check("docs/*.txt", &["docs/a.txt"], &["docs/x/a.txt", "a.txt"]);
        check("/docs/*", &["docs/a.txt"], &["docs/x/a"]);
        check("docs/**", &["docs/a", "docs/x/a"], &["docs", "other/docs/a"]);
        check("src/**/*.rs", &["src/a.rs", "src/x/y/a.rs"], &["src/a.c"]);
        check("?.c", &["a.c"], &["ab.c", ".c"]);
    }

    #[test]
    fn choices_and_classes() {
        check("*.{rs,toml}", &["a.rs", "a.toml"], &["a.rst"]);
        check("[a-c]*.md", &["b.md"], &["d.md"]);
        check("[!a]", &["b"], &["a"]);
        check("a,b(1)+.x", &["a,b(1)+.x"], &["ab1.x"]);
        for wrong in ["[", "{a", "[z-a]"] {
            let Err(fault) = Glob::new(wrong) else { panic!("{wrong}") };
            assert!(fault.0.contains("examples are"), "{}", fault.0);
        }
    }
}
