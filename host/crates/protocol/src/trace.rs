//! The trace that a request belongs to, as W3C Trace Context writes it: `traceparent` and
//! `tracestate`, in the `_meta` of a request or in the headers of HTTP. A malformed trace counts as
//! absent: a trace is never a reason to refuse a request.

use serde_json::value::RawValue;

/// The longest `tracestate` that is passed on, in bytes.
const MAX_STATE_BYTES: usize = 512;
/// The most entries of a `tracestate`.
const MAX_STATE_MEMBERS: usize = 32;
/// `00-`, 32 digits, `-`, 16 digits, `-`, 2 digits.
const PARENT_BYTES: usize = 55;

/// A place in a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace; never 0.
    pub trace: u128,
    /// The span that is the parent of the next one; never 0.
    pub span: u64,
    /// Whether the trace is recorded.
    pub sampled: bool,
    /// The state of other systems in the trace, passed on unchanged.
    pub state: Option<String>,
}

impl TraceContext {
    /// The place that these two texts name; `None` if `parent` is malformed. A `state` that is
    /// malformed or too long is left out.
    #[must_use]
    pub fn parse(parent: &str, state: Option<&str>) -> Option<Self> {
        let parent = parent.trim_matches([' ', '\t']);
        let version = hexadecimal(parent.get(..2)?)?;
        // A later version may have more fields, after a dash.
        let more = parent.get(PARENT_BYTES..)?;
        let fits = if version == 0 { more.is_empty() } else { more.is_empty() || more.starts_with('-') };
        if version == 0xff || !fits {
            return None;
        }
        let mut parts = parent[..PARENT_BYTES].split('-').skip(1);
        let (trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?);
        if (trace.len(), span.len(), flags.len()) != (32, 16, 2) {
            return None;
        }
        let (trace, span, flags) = (hexadecimal(trace)?, hexadecimal(span)?, hexadecimal(flags)?);
        let state = state.map(|state| state.trim_matches([' ', '\t'])).filter(|state| is_state(state));
        (trace != 0 && span != 0).then_some(Self {
            trace,
            span: span as u64,
            sampled: flags & 1 == 1,
            state: state.map(str::to_owned),
        })
    }

    /// The `traceparent` of the context.
    #[must_use]
    pub fn parent(&self) -> String {
        format!("00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.sampled))
    }
}

/// Lower case only, as the recommendation requires.
fn hexadecimal(text: &str) -> Option<u128> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    if digits { u128::from_str_radix(text, 16).ok() } else { None }
}

fn is_state(text: &str) -> bool {
    let members = || text.split(',').map(|member| member.trim_matches([' ', '\t']));
    (1..=MAX_STATE_BYTES).contains(&text.len())
        && members().count() <= MAX_STATE_MEMBERS
        && members().all(|member| member.is_empty() || is_member(member))
}

fn is_member(text: &str) -> bool {
    let Some((key, value)) = text.split_once('=') else { return false };
    let of_key = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-*/@".contains(&byte);
    let of_value = |byte: u8| (0x20..=0x7e).contains(&byte) && byte != b',' && byte != b'=';
    key.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit())
        && key.len() <= 256
        && key.bytes().all(of_key)
        && (1..=256).contains(&value.len())
        && value.bytes().all(of_value)
}

/// The trace that the two members of a `_meta` name.
pub(crate) fn of_meta(parent: Option<&RawValue>, state: Option<&RawValue>) -> Option<TraceContext> {
    let parent = text(parent?)?;
    TraceContext::parse(&parent, state.and_then(text).as_deref())
}

/// A JSON string that is not far too long.
fn text(raw: &RawValue) -> Option<String> {
    let raw = raw.get();
    if raw.len() > 2 * MAX_STATE_BYTES {
        return None;
    }
    serde_json::from_str(raw).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_parent_is_read_and_written_alike() {
        let context = TraceContext::parse(PARENT, Some("a=1,b@c= 2 x")).expect("valid");
        assert_eq!(context.trace, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        assert_eq!((context.span, context.sampled), (0xb7ad_6b71_6920_3331, true));
        assert_eq!(context.state.as_deref(), Some("a=1,b@c= 2 x"));
        assert_eq!(context.parent(), PARENT);
        let unsampled = TraceContext::parse(&PARENT.replace("-01", "-02"), None).expect("valid");
        assert!(!unsampled.sampled && unsampled.parent().ends_with("-00"), "flags of others are not ours");
        let later = format!("01{}-more", &PARENT[2..]);
        assert!(TraceContext::parse(&later, None).is_some(), "a later version says more");
    }

    #[test]
    fn what_is_malformed_is_no_parent() {
        let zero_span = "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01";
        let zero_trace = "00-00000000000000000000000000000000-b7ad6b7169203331-01";
        let upper = PARENT.replace("af", "AF");
        let more = format!("{PARENT}-00");
        let ff = format!("ff{}", &PARENT[2..]);
        let dashes = PARENT.replace("-b7", "b-7");
        let joined = format!("01{}x", &PARENT[2..]);
        for text in ["", "00", zero_span, zero_trace, &upper, &more, &ff, &dashes, &joined, &PARENT[..54]] {
            assert_eq!(TraceContext::parse(text, None), None, "{text}");
        }
    }

    #[test]
    fn a_state_that_is_malformed_or_long_is_left_out_and_the_parent_stays() {
        let long = format!("a={}", "x".repeat(600));
        let many = ["a=1"; 33].join(",");
        for state in ["", "a", "A=1", "=1", "a=", "a=1;é", "a=b=c", "a=1\nb=2", &long, &many] {
            let context = TraceContext::parse(PARENT, Some(state)).expect("the parent is valid");
            assert_eq!(context.state, None, "{state}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(parent in ".{0,80}", state in ".{0,80}") {
            if let Some(context) = TraceContext::parse(&parent, Some(&state)) {
                prop_assert_eq!(TraceContext::parse(&context.parent(), context.state.as_deref()), Some(context));
            }
        }
    }
}
