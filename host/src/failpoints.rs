//! The program `toolyard-failpoints`: `toolyard` with places at which a test stops it.

fn main() -> std::process::ExitCode {
    toolyard::run()
}
