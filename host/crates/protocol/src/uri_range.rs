//! Ranges of URIs, by which a manifest claims the resources of its plugin.

use crate::resources::is_uri;

/// The spelling of a URI or template for comparisons: the scheme in lower case, because its case means
/// nothing (RFC 3986, 3.1).
#[must_use]
pub fn normal_uri(text: &str) -> String {
    let end = text.find(|letter: char| !letter.is_ascii_alphanumeric() && !"+-.".contains(letter));
    match end {
        Some(end) if text[end..].starts_with(':') => {
            format!("{}{}", text[..end].to_ascii_lowercase(), &text[end..])
        }
        _ => text.to_owned(),
    }
}

/// A range of URIs: one, or all that begin with a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UriRange {
    prefix: String,
    /// Whether more may follow.
    open: bool,
}

impl UriRange {
    /// Reads `scheme:rest`, a URI, or `scheme:rest*`, all URIs that begin like that. `None` if it is
    /// neither.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (prefix, open) = match text.strip_suffix('*') {
            Some(prefix) => (prefix, true),
            None => (text, false),
        };
        let fits = is_uri(prefix) && !leaves_its_folder(prefix);
        fits.then(|| Self { prefix: normal_uri(prefix), open })
    }

    /// Whether a URI, given in its normal spelling, lies in it. One with `..` in its path lies in no
    /// open range, since it may lead out of the range.
    #[must_use]
    pub fn holds(&self, uri: &str) -> bool {
        if self.open { uri.starts_with(&self.prefix) && !leaves_its_folder(uri) } else { uri == self.prefix }
    }

    /// Whether all URIs of a template (RFC 6570), given in its normal spelling, begin as those of this range.
    #[must_use]
    pub fn holds_template(&self, template: &str) -> bool {
        self.open && self.holds(template.split('{').next().unwrap_or_default())
    }
}

/// Whether a segment of the path is `..`, percent-encoded or not.
fn leaves_its_folder(uri: &str) -> bool {
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    let path = path.split_once(':').map_or(path, |(_, rest)| rest);
    path.split('/').any(|segment| {
        let mut rest = segment;
        let mut dots = 0;
        while let Some(after) =
            rest.strip_prefix('.').or_else(|| rest.strip_prefix("%2e")).or_else(|| rest.strip_prefix("%2E"))
        {
            (rest, dots) = (after, dots + 1);
        }
        dots == 2 && rest.is_empty()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_holds_what_begins_with_it_and_stays_in_it() {
        let range = |text: &str| UriRange::parse(text).unwrap_or_else(|| panic!("{text}"));
        let books = range("book:/*");
        for uri in ["book:/", "book:/1", "book:/a/b?c=..", "BOOK:/1"] {
            assert!(books.holds(&normal_uri(uri)), "{uri}");
        }
        for uri in ["book:", "books:/1", "book:x", "book:/../x", "book:/a/%2e%2E", "book:/a/.%2e/b"] {
            assert!(!books.holds(&normal_uri(uri)), "{uri}");
        }
        let one = range("book:/1");
        assert!(one.holds("book:/1") && !one.holds("book:/12"));
        for template in ["book:/{n}", "Book:/x/{n}", "book:/plain"] {
            assert!(books.holds_template(&normal_uri(template)), "{template}");
        }
        for template in ["book:{n}", "{+any}", "", "b{x}:/1", "book:/../{n}"] {
            assert!(!books.holds_template(&normal_uri(template)), "{template}");
        }
        assert!(!one.holds_template("book:/1{n}"));
        for wrong in ["", "*", "book", "book*", "b k:/*", "book:/../x*", "book:/*x *"] {
            assert_eq!(UriRange::parse(wrong), None, "{wrong}");
        }
    }
}
