use super::*;

fn fits(template: &str, uri: &str) -> bool {
    UriTemplate::parse(template).expect("a template with a scheme").fits(&mut MatchedUri::new(uri))
}

#[test]
fn r_3_a_uri_fits_a_template_by_the_characters_of_its_expressions() {
    for (template, uri) in [
        ("book:/{n}", "book:/1"),
        ("book:/{n}", "BOOK:/1"),
        ("Book:/{n}", "book:/a%20b"),
        ("book:/{n}", "book:/"),
        ("book:/plain", "book:/plain"),
        ("db://{table}/row/{id}", "db://users/row/17"),
        ("file:///{+path}", "file:///a/b/c.txt"),
        ("file://{/segments*}", "file:///a/b"),
        ("a:x{?q,r}", "a:x?q=1&r=2"),
        ("a:x{?q}", "a:x"),
        ("a:x?y=1{&q}", "a:x?y=1&q=2"),
        ("a:x{#part}", "a:x#a/b"),
        ("a:x{.kind}", "a:x.tar.gz"),
        ("a:x{;p}", "a:x;p=1"),
        ("a:{x,y}", "a:1,2"),
    ] {
        assert!(fits(template, uri), "{template} {uri}");
    }
    for (template, uri) in [
        ("book:/{n}", "book:/a/b"),
        ("book:/{n}", "book:1"),
        ("book:/{n}", "books:/1"),
        ("book:/{n}", "book:/1?x"),
        ("book:/plain", "book:/plain2"),
        ("a:x{?q}", "a:xq=1"),
        ("a:x{/p}", "a:xp"),
    ] {
        assert!(!fits(template, uri), "{template} {uri}");
    }
}

#[test]
fn a_template_without_a_scheme_of_its_own_fits_nothing() {
    for template in ["{+uri}", "{scheme}:/{x}", "", "a{b}:/x", "/{x}", "no scheme{x}"] {
        assert_eq!(UriTemplate::parse(template), None, "{template}");
    }
}

#[test]
fn runs_cross_words_of_bits() {
    for length in [1, 61, 62, 63, 64, 65, 127, 128, 129, 500] {
        let uri = format!("a:{}/{}", "x".repeat(length), "y".repeat(length));
        assert!(fits("a:{x}/{y}", &uri), "{length}");
        assert!(fits("a:{+x}", &uri), "{length}");
        assert!(!fits("a:{x}", &uri), "{length}");
        assert!(fits("a:{x}/{y}y", &uri), "{length}");
        assert!(!fits("a:{x}/{y}x", &uri), "{length}");
    }
}

/// The definition itself, for short texts.
fn fits_plainly(pieces: &[Piece], uri: &[u8]) -> bool {
    match pieces.split_first() {
        None => uri.is_empty(),
        Some((Piece::Literal(literal), rest)) => {
            uri.strip_prefix(literal.as_slice()).is_some_and(|uri| fits_plainly(rest, uri))
        }
        Some((Piece::Expression(operator), rest)) => (0..=uri.len()).any(|end| {
            let (taken, after) = uri.split_at(end);
            let begins = taken.is_empty()
                || first_byte(*operator).is_none_or(|first| {
                    taken[0] == first && taken[1..].iter().all(|byte| may_contain(*operator, *byte))
                });
            let allowed =
                first_byte(*operator).is_some() || taken.iter().all(|byte| may_contain(*operator, *byte));
            begins && allowed && fits_plainly(rest, after)
        }),
    }
}

#[test]
fn bits_agree_with_the_definition() {
    // Its own generator, so that every run sees the same values.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).expect("small")
    };
    let mut fitting = 0;
    for _ in 0..20_000 {
        let mut template = "a:".to_owned();
        for _ in 0..next(6) {
            template.push_str(["x", "/", "{v}", "{+v}", "{/v}", "{?v}", "{.v}", ".", "?"][next(9)]);
        }
        let uri: String =
            std::iter::once("a:").chain((0..next(8)).map(|_| ["x", "/", ".", "?"][next(4)])).collect();
        let parsed = UriTemplate::parse(&template).expect("it has a scheme");
        let expected = fits_plainly(&parsed.pieces, uri.as_bytes());
        fitting += usize::from(expected);
        assert_eq!(parsed.fits(&mut MatchedUri::new(&uri)), expected, "{template} {uri}");
    }
    assert!(fitting > 1_000, "{fitting} fitted");
}

#[test]
fn the_longest_uri_and_a_hostile_template_take_milliseconds() {
    let uri = format!("a:{}", "a".repeat(8_000));
    let template = format!("a:{}b", "{+x}a".repeat(1_500));
    let begun = std::time::Instant::now();
    assert!(!fits(&template, &uri));
    assert!(begun.elapsed() < std::time::Duration::from_secs(2), "{:?}", begun.elapsed());
}

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
    let template = |text: &str| UriTemplate::parse(text).expect("a template");
    assert!(books.holds_all(&template("book:/{n}")) && books.holds_all(&template("book:/x/{n}")));
    assert!(!books.holds_all(&template("book:{n}")) && !one.holds_all(&template("book:/1{n}")));
    for wrong in ["", "*", "book", "book*", "b k:/*", "book:/../x*", "book:/*x *"] {
        assert_eq!(UriRange::parse(wrong), None, "{wrong}");
    }
}
