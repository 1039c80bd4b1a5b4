//! Whether a URI fits a URI template (RFC 6570), and whether it lies in a range of URIs
//! that a manifest names.
//!
//! Templates come from components and URIs from clients, so the time is always bounded by the product
//! of their lengths divided by 64: positions in the URI are bits, and each template is walked once,
//! without backtracking.

use crate::resources::is_uri;

/// The spelling of a URI, or of the literal text at the beginning of a template, for comparisons: the scheme
/// in lower case, because it means the same in upper case (RFC 3986, 3.1).
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

/// A piece of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Literal(Vec<u8>),
    /// The operator; a space for none.
    Expression(u8),
}

/// A template that URIs are compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UriTemplate {
    pieces: Vec<Piece>,
}

impl UriTemplate {
    /// Reads a template. `None` unless its scheme is written out: a template that begins with an
    /// expression would fit the URIs of every scheme.
    #[must_use]
    pub fn parse(template: &str) -> Option<Self> {
        let mut pieces = Vec::new();
        let mut rest = template;
        while !rest.is_empty() {
            let end = rest.find('{').unwrap_or(rest.len());
            if end > 0 {
                let literal = &rest[..end];
                let literal = if pieces.is_empty() { normal_uri(literal) } else { literal.to_owned() };
                pieces.push(Piece::Literal(literal.into_bytes()));
                rest = &rest[end..];
                continue;
            }
            let (expression, after) = rest[1..].split_once('}')?;
            let operator = expression.bytes().next().filter(|first| b"+#./;?&".contains(first));
            // Two in a row fit no more than one of the same kind.
            let piece = Piece::Expression(operator.unwrap_or(b' '));
            if pieces.last() != Some(&piece) {
                pieces.push(piece);
            }
            rest = after;
        }
        let names_scheme = match pieces.first() {
            Some(Piece::Literal(literal)) => std::str::from_utf8(literal).is_ok_and(has_scheme),
            _ => false,
        };
        names_scheme.then_some(Self { pieces })
    }

    /// The literal text that it begins with.
    #[must_use]
    pub fn prefix(&self) -> &str {
        match self.pieces.first() {
            Some(Piece::Literal(literal)) => std::str::from_utf8(literal).unwrap_or_default(),
            _ => "",
        }
    }

    /// How exact it is: of two templates that fit a URI, the one with the longer literal beginning,
    /// then the one with more literal text, is the more exact.
    #[must_use]
    pub fn exactness(&self) -> (usize, usize) {
        let literal = |piece: &Piece| match piece {
            Piece::Literal(literal) => literal.len(),
            Piece::Expression(_) => 0,
        };
        (self.prefix().len(), self.pieces.iter().map(literal).sum())
    }

    /// How many pieces it has, for bounds.
    #[must_use]
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Whether some expansion of the template is this URI.
    #[must_use]
    pub fn fits(&self, uri: &mut MatchedUri) -> bool {
        let Some((first, rest)) = self.pieces.split_first() else { return false };
        let Piece::Literal(prefix) = first else { return false };
        if !uri.text.as_bytes().starts_with(prefix) {
            return false;
        }
        let end = uri.text.len();
        let mut reached = Positions::none(end);
        reached.add(prefix.len());
        for piece in rest {
            match piece {
                Piece::Literal(literal) => {
                    for byte in literal {
                        reached.keep(uri.of_byte(*byte));
                        reached.advance();
                    }
                }
                Piece::Expression(operator) => {
                    let mut begun = reached.clone();
                    if let Some(first) = first_byte(*operator) {
                        begun.keep(uri.of_byte(first));
                        begun.advance();
                    }
                    begun.run_through(uri.of_expression(*operator));
                    // An expression whose variables are undefined expands to nothing.
                    reached.join(&begun);
                }
            }
            if reached.is_empty() {
                return false;
            }
        }
        reached.has(end)
    }
}

/// A URI in its normal spelling, prepared to be compared with many templates.
pub struct MatchedUri {
    text: String,
    /// The positions of each byte, computed when first needed.
    bytes: Vec<Option<Positions>>,
    /// The positions of bytes that an expression of each operator may expand to.
    expressions: Vec<(u8, Positions)>,
}

impl MatchedUri {
    /// Prepares a URI.
    #[must_use]
    pub fn new(uri: &str) -> Self {
        Self { text: normal_uri(uri), bytes: vec![None; 256], expressions: Vec::new() }
    }

    /// The URI in its normal spelling.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    fn of_byte(&mut self, byte: u8) -> &Positions {
        let text = self.text.as_bytes();
        self.bytes[usize::from(byte)].get_or_insert_with(|| Positions::of(text, |at| at == byte))
    }

    fn of_expression(&mut self, operator: u8) -> &Positions {
        let known = self.expressions.iter().position(|(known, _)| *known == operator);
        let at = known.unwrap_or_else(|| {
            let positions = Positions::of(self.text.as_bytes(), |byte| may_contain(operator, byte));
            self.expressions.push((operator, positions));
            self.expressions.len() - 1
        });
        &self.expressions[at].1
    }
}

/// The byte that a non-empty expansion begins with.
const fn first_byte(operator: u8) -> Option<u8> {
    match operator {
        b'#' | b'.' | b'/' | b';' | b'?' | b'&' => Some(operator),
        _ => None,
    }
}

/// Whether an expansion may contain a byte. It may consist of unreserved characters,
/// percent-encodings, separators of values, and with `+` and `#` reserved characters as well.
fn may_contain(operator: u8, byte: u8) -> bool {
    if byte.is_ascii_alphanumeric() || b"-._~%,=".contains(&byte) || !byte.is_ascii() {
        return true;
    }
    match operator {
        b'+' | b'#' => b":/?#[]@!$&'()*+;".contains(&byte),
        b'/' => byte == b'/',
        b';' => byte == b';',
        b'?' | b'&' => byte == b'&',
        _ => false,
    }
}

/// Positions in a text, one bit each; the last is its end.
#[derive(Debug, Clone)]
struct Positions(Vec<u64>);

impl Positions {
    fn none(length: usize) -> Self {
        Self(vec![0; length / 64 + 1])
    }

    /// The positions of the bytes that `meant` selects.
    fn of(text: &[u8], meant: impl Fn(u8) -> bool) -> Self {
        let mut positions = Self::none(text.len());
        for (at, byte) in text.iter().enumerate() {
            if meant(*byte) {
                positions.add(at);
            }
        }
        positions
    }

    fn add(&mut self, at: usize) {
        self.0[at / 64] |= 1 << (at % 64);
    }

    fn has(&self, at: usize) -> bool {
        self.0[at / 64] & (1 << (at % 64)) != 0
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    fn keep(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word &= other;
        }
    }

    fn join(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word |= other;
        }
    }

    /// Each position becomes the one after it.
    fn advance(&mut self) {
        let mut carried = 0;
        for word in &mut self.0 {
            let next = *word >> 63;
            *word = (*word << 1) | carried;
            carried = next;
        }
    }

    /// Adds all positions that can be reached from these through allowed ones only. An addition carries
    /// through a run of allowed positions to the one behind it.
    fn run_through(&mut self, allowed: &Self) {
        let mut carry = false;
        for (word, allowed) in self.0.iter_mut().zip(&allowed.0) {
            let (sum, over) = allowed.overflowing_add(*word & allowed);
            let (sum, over_again) = sum.overflowing_add(u64::from(carry));
            carry = over || over_again;
            *word |= sum ^ allowed;
        }
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

    /// Whether all URIs that fit a template lie in it.
    #[must_use]
    pub fn holds_all(&self, template: &UriTemplate) -> bool {
        self.open && template.prefix().starts_with(&self.prefix)
    }
}

/// Whether a text begins with a scheme and a colon.
fn has_scheme(text: &str) -> bool {
    text.split_once(':').is_some_and(|(scheme, _)| is_uri(&format!("{scheme}:")))
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
mod tests;
