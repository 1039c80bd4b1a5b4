//! The header `WWW-Authenticate` (RFC 9110, section 11).

/// A way in which a server accepts credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Challenge {
    /// A token from another server.
    Bearer {
        /// The address of the token server.
        realm: String,
        /// The name by which the token server knows the registry.
        service: Option<String>,
    },
    /// The password itself.
    Basic,
}

/// The challenges of one header. Unknown schemes and broken parts are skipped.
pub fn parse(header: &str) -> Vec<Challenge> {
    let mut challenges = Vec::new();
    let mut scheme = String::new();
    let (mut realm, mut service) = (None, None);
    let mut rest = header;
    let mut finish = |scheme: &str, realm: &mut Option<String>, service: &mut Option<String>| {
        let (realm, service) = (realm.take(), service.take());
        if scheme.eq_ignore_ascii_case("basic") {
            challenges.push(Challenge::Basic);
        } else if let (true, Some(realm)) = (scheme.eq_ignore_ascii_case("bearer"), realm) {
            challenges.push(Challenge::Bearer { realm, service });
        }
    };
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if rest.is_empty() {
            break;
        }
        let end = rest.find([' ', '\t', ',', '=', '"']).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let value = after.trim_start_matches([' ', '\t']);
        match value.strip_prefix('=') {
            Some(value) => {
                let (value, after) = parameter(value.trim_start_matches([' ', '\t', '=']));
                if word.eq_ignore_ascii_case("realm") {
                    realm = realm.or(Some(value));
                } else if word.eq_ignore_ascii_case("service") {
                    service = service.or(Some(value));
                }
                rest = after;
            }
            None => {
                finish(&scheme, &mut realm, &mut service);
                scheme = word.to_owned();
                // A stray quotation mark would stay here for ever.
                rest = after.strip_prefix('"').unwrap_or(after);
            }
        }
    }
    finish(&scheme, &mut realm, &mut service);
    challenges
}

/// A token or a quoted string, and the text after it.
fn parameter(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let (value, rest) = text.split_at(text.find([' ', '\t', ',']).unwrap_or(text.len()));
        return (value.to_owned(), rest);
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, quoted.get(at + 1..).unwrap_or_default()),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            other => value.push(other),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests;
