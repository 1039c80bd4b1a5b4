//! The front page shows what the program prints, and its picture is drawn from the same session.

use std::fmt::Write as _;
use std::path::PathBuf;
use tokio::process::Command;
use toolyard_tests::guests::{dist, folder_with_toolyard, root};

/// Before and after the session in the front page.
const BEGIN: &str = "## Try it in a terminal\n\n```console\n";
const END: &str = "```\n";
const PICTURE: &str = "host/docs/pictures/terminal.svg";
/// The columns of the terminal in the picture.
const COLUMNS: usize = 100;

/// Runs these commands, each of which begins with `$ `, and returns what a terminal shows.
async fn run(commands: impl Iterator<Item = &str>) -> String {
    let data = tempfile::tempdir().expect("a folder");
    let machine = tempfile::tempdir().expect("a folder");
    let path = format!("{}:/usr/bin:/bin", folder_with_toolyard(machine.path()).display());
    let shell = async |command: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{command} 2>&1")]).current_dir(root()).env("PATH", &path);
        shell.env("TOOLYARD_DATA", data.path()).env("TOOLYARD_PLUGINS", dist()).env("TOOLYARD_LOG", "error");
        let output = shell.output().await.expect("the shell starts");
        String::from_utf8(output.stdout).expect("text")
    };
    // The first start says that it compiles the tools.
    shell("toolyard tools && toolyard tools --plugins plugins/extra").await;
    let mut shown = String::new();
    for line in commands {
        let command = line.strip_prefix("$ ").expect("a command");
        let _ = writeln!(shown, "{line}");
        if !command.starts_with("export ") {
            shown.push_str(&shell(command).await);
        }
    }
    shown
}

/// The picture of a terminal with this text.
fn draw(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let letters: Vec<char> = line.chars().collect();
        let rows = letters.chunks(COLUMNS).map(|row| row.iter().collect::<String>());
        lines.extend(rows.enumerate().map(|(row, text)| (row == 0 && line.starts_with("$ "), text)));
    }
    let (width, height) = (COLUMNS * 8 + 40, lines.len() * 20 + 36);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\">\n<rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"#16181d\"/>\n\
         <g font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"13.2\" \
         fill=\"#d7dae0\" xml:space=\"preserve\">\n"
    );
    for (number, (is_command, line)) in lines.iter().enumerate() {
        let escaped = line.replace('&', "&amp;").replace('<', "&lt;");
        let shown = match escaped.strip_prefix("$ ") {
            Some(command) if *is_command => {
                format!("<tspan fill=\"#7ec699\">$</tspan> <tspan font-weight=\"bold\">{command}</tspan>")
            }
            _ => escaped,
        };
        let _ = writeln!(svg, "<text x=\"20\" y=\"{}\">{shown}</text>", number * 20 + 31);
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

#[tokio::test]
async fn the_front_page_shows_what_the_commands_print() {
    let path = |name: &str| -> PathBuf { root().join(name) };
    let page = std::fs::read_to_string(path("README.md")).expect("the front page");
    let (before, rest) = page.split_once(BEGIN).expect("the session");
    let (session, after) = rest.split_once(END).expect("the end of the session");
    let shown = run(session.lines().filter(|line| line.starts_with("$ "))).await;
    let picture = draw(&shown);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path("README.md"), format!("{before}{BEGIN}{shown}{END}{after}")).expect("writes");
        std::fs::create_dir_all(path("host/docs/pictures")).expect("a folder");
        std::fs::write(path(PICTURE), picture).expect("writes");
        return;
    }
    assert_eq!(session, shown, "UPDATE_DOCS=1 rewrites the session");
    let drawn = std::fs::read_to_string(path(PICTURE)).unwrap_or_default();
    assert_eq!(drawn, picture, "UPDATE_DOCS=1 redraws {PICTURE}");
}
