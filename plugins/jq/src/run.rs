//! Runs a program and collects its outputs within limits.

use jaq_core::data::JustLut;
use jaq_core::{Ctx, Vars};
use jaq_json::{Val, read};

use crate::json_text::{self, Unwritable};
use crate::program::Program;

/// The most bytes of JSON in all outputs together.
const MOST_BYTES: usize = 4 << 20;

/// The most characters of an error message. jaq puts whole values into them.
const LONGEST_ERROR: usize = 500;

/// The outcome of a run.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub outputs: Vec<Output>,
    pub end: End,
}

/// One output.
#[derive(Debug, PartialEq, Eq)]
pub struct Output {
    /// The output as JSON.
    pub json: String,
    /// The plain text, if the output is a string.
    pub string: Option<String>,
}

/// The reason why a run ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// All outputs are collected.
    Complete,
    /// There were more outputs than the call allowed.
    OverLimit,
    /// The outputs became longer than the limit.
    OverBytes,
    /// The program failed.
    Failed(String),
    /// The call was cancelled.
    Stopped,
}

impl Program {
    /// Runs the program over one input. Before each output it calls `stop` with the number of outputs so far.
    pub fn run<'v>(
        &self,
        input: &str,
        variables: impl Iterator<Item = &'v str>,
        limit: usize,
        stop: &mut dyn FnMut(usize) -> bool,
    ) -> Outcome {
        let mut outputs = Vec::new();
        let end = match read_values(input, variables) {
            Ok((input, variables)) => self.collect(input, variables, limit, stop, &mut outputs),
            Err(message) => End::Failed(message),
        };
        Outcome { outputs, end }
    }

    fn collect(
        &self,
        input: Val,
        variables: Vec<Val>,
        limit: usize,
        stop: &mut dyn FnMut(usize) -> bool,
        outputs: &mut Vec<Output>,
    ) -> End {
        let context = Ctx::<JustLut<Val>>::new(&self.filter.lut, Vars::new(variables));
        let mut room = MOST_BYTES;
        for output in self.filter.id.run((context, input)) {
            if stop(outputs.len()) {
                return End::Stopped;
            }
            let value = match output {
                Ok(value) => value,
                Err(exception) => match exception.get_err() {
                    Ok(error) => return End::Failed(reason(error)),
                    // `halt` ends a program normally.
                    Err(exception) => match exception.get_halt() {
                        Ok(0) => return End::Complete,
                        Ok(code) => return End::Failed(format!("the program halted with exit code {code}")),
                        Err(_) => return End::Failed("the program broke out of itself".to_owned()),
                    },
                },
            };
            // The run continues to one output beyond the limit, so that the message "there are more" is true.
            if outputs.len() == limit {
                return End::OverLimit;
            }
            match json_text::write(&value, room) {
                Ok(json) => {
                    room -= json.len();
                    let string = match &value {
                        Val::TStr(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
                        _ => None,
                    };
                    outputs.push(Output { json, string });
                }
                Err(Unwritable::TooLong) => return End::OverBytes,
                Err(Unwritable::TooDeep) => {
                    return End::Failed(format!("output {} nests too deeply", outputs.len() + 1));
                }
            }
        }
        End::Complete
    }
}

fn read_values<'v>(input: &str, variables: impl Iterator<Item = &'v str>) -> Result<(Val, Vec<Val>), String> {
    let read_value = |json: &str| read::parse_single(json.as_bytes()).map_err(|error| error.to_string());
    Ok((read_value(input)?, variables.map(read_value).collect::<Result<_, _>>()?))
}

/// The error in words. A message is shown without the quotes that it has as a value.
fn reason(error: jaq_json::Error) -> String {
    match error.into_val() {
        Val::TStr(bytes) => shorten(&String::from_utf8_lossy(&bytes)),
        other => shorten(&other.to_string()),
    }
}

fn shorten(message: &str) -> String {
    match message.char_indices().nth(LONGEST_ERROR) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(code: &str, input: &str, limit: usize) -> Outcome {
        match Program::compile(code, ["a", "b"].into_iter()) {
            Ok(program) => program.run(input, ["1", "[2]"].into_iter(), limit, &mut |_| false),
            Err(message) => panic!("{code}: {message}"),
        }
    }

    fn check(code: &str, input: &str, expected: &[&str]) {
        let outcome = run(code, input, 100);
        let outputs: Vec<_> = outcome.outputs.iter().map(|output| output.json.as_str()).collect();
        assert_eq!((outputs.as_slice(), &outcome.end), (expected, &End::Complete), "{code}");
    }

    #[test]
    fn programs_give_what_jq_gives() {
        check(".", "{\"a\":1}", &["{\"a\":1}"]);
        check(".a", "{\"a\":[1,\"x\"]}", &["[1,\"x\"]"]);
        check("empty", "null", &[]);
        check("map(.x) | add", "[{\"x\":1},{\"x\":2}]", &["3"]);
        check("$a, $b", "null", &["1", "[2]"]);
        check(".[2:4], .[-1]", "[0,1,2,3,4]", &["[2,3]", "4"]);
        check("try error(\"e\") catch .", "null", &["\"e\""]);
        check("1, halt, 2", "null", &["1"]);
        check("[limit(3; repeat(.))]", "1", &["[1,1,1]"]);
        check(r#""\(.a) and \(.b)" | ascii_upcase | test("A.*B")"#, r#"{"a":"a","b":"b"}"#, &["true"]);
        check("(now | todate | type), @base64", "\"a\"", &["\"string\"", "\"YQ==\""]);
        // Big numbers keep their digits.
        check(".", "12345678901234567890123", &["12345678901234567890123"]);
        check(". + 1", "9223372036854775807", &["9223372036854775808"]);
    }

    #[test]
    fn strings_are_kept_for_raw_output() {
        let outcome = run(".[]", "[\"a\\nb\", 1]", 10);
        let strings: Vec<_> = outcome.outputs.into_iter().map(|output| output.string).collect();
        assert_eq!(strings, [Some("a\nb".to_owned()), None]);
    }

    #[test]
    fn the_limit_cuts_only_when_there_is_more_and_long_outputs_are_cut() {
        for (limit, outputs, end) in [(2, 2, End::OverLimit), (3, 3, End::Complete), (4, 3, End::Complete)] {
            let outcome = run("1, 2, 3", "null", limit);
            assert_eq!((outcome.outputs.len(), outcome.end), (outputs, end));
        }
        assert_eq!(run("repeat(0)", "null", 7).outputs.len(), 7);
        let long = run("repeat(\"x\" * 1000000)", "null", 1_000);
        assert_eq!((long.outputs.len(), long.end), (MOST_BYTES / 1_000_002, End::OverBytes));
    }

    #[test]
    fn failures_are_said_in_short_and_keep_the_outputs_before_them() {
        let cases = [
            ("1, 2, (5 | .b), 3", 2, "cannot index 5"),
            ("error(\"mine\")", 0, "mine"),
            ("error({\"code\": 1})", 0, "{\"code\":1}"),
            ("halt(3)", 0, "exit code 3"),
            ("reduce range(200) as $i (0; [.])", 0, "too deeply"),
            ("tonumber", 0, "parse"),
        ];
        for (code, outputs, expected) in cases {
            let outcome = run(code, "\"x\"", 10);
            let End::Failed(message) = outcome.end else { panic!("{code} fails") };
            assert!(message.contains(expected), "{code}: {message}");
            assert_eq!(outcome.outputs.len(), outputs, "{code}");
        }
        assert_eq!(run("error(\"short\")", "null", 1).end, End::Failed("short".to_owned()));
        let End::Failed(message) = run("error(\"ä\" * 10000)", "null", 1).end else { panic!("it fails") };
        assert_eq!(message.chars().count(), LONGEST_ERROR + 1);
    }

    #[test]
    fn a_run_can_be_stopped() {
        let program = Program::compile("repeat(1)", [].into_iter()).expect("it compiles");
        let outcome = program.run("null", [].into_iter(), 1_000, &mut |outputs| outputs == 5);
        assert_eq!((outcome.outputs.len(), outcome.end), (5, End::Stopped));
    }
}
