//! "Did you mean …?"

/// Words with a lower similarity (Jaro-Winkler, 0 to 1) are different words, not misspellings.
const ALIKE: f64 = 0.7;

/// The known word that is most similar to this one; `None` if none is similar.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let alike = known.into_iter().map(|known| (strsim::jaro_winkler(known, word), known));
    alike.filter(|(likeness, _)| *likeness > ALIKE).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, known)| known)
}
