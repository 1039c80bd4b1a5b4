use super::*;
use crate::manifest::Manifest;
use std::path::Path;

/// `host/docs/reference/manifest.md` contains the table of limits.
#[test]
fn the_page_of_the_manifest_has_the_table() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/manifest.md");
    let page = std::fs::read_to_string(&file).expect("the page");
    let head = "| key | from | to | what it bounds |\n| --- | --- | --- | --- |\n";
    let (before, rest) = page.split_once(head).expect("the table");
    let (_, after) = rest.split_once("\n\n").expect("the end of the table");
    let row = |row: &LimitRow| {
        let LimitRow { key, unit, least, most, sentence, .. } = row;
        let shown = |figure| unit.show(figure).replace(".0 ", " ");
        let most = if *unit == Unit::Time { "a year".to_owned() } else { shown(*most) };
        format!("| `{key}` | {} | {most} | {sentence} |\n", shown(*least))
    };
    let rows: String = Limits::ROWS.iter().map(row).collect();
    let wanted = format!("{before}{head}{rows}\n{after}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, &wanted).expect("the page can be written");
    }
    assert_eq!(std::fs::read_to_string(file).expect("the page"), wanted, "UPDATE_DOCS=1 rewrites it");
}

#[test]
fn every_default_lies_between_its_bounds_and_every_row_sets_its_own_figure() {
    let defaults = Limits::default();
    for row in Limits::ROWS {
        assert!((row.least..=row.most).contains(&row.of(&defaults)), "{}", row.key);
        let figure = row.least.max(7);
        let written = match row.unit {
            Unit::Bytes => format!("\"{figure}B\""),
            Unit::Count => figure.to_string(),
            Unit::Time => format!("\"{figure}ms\""),
        };
        let text = format!("[limits]\n{} = {written}", row.key);
        let changed = Manifest::parse("p.toml", &text, &defaults).expect(row.key).limits;
        assert_eq!(row.of(&changed), figure, "{}", row.key);
        for other in Limits::ROWS.iter().filter(|other| other.key != row.key) {
            assert_eq!(other.of(&changed), other.of(&defaults), "{} sets {}", row.key, other.key);
        }
    }
}
