//! The program `toolyard-failpoints`: `toolyard` with points at which a test stops it.

fn main() -> std::process::ExitCode {
    toolyard::run()
}
