//! The claims of a token, checked against the clock of this machine.

use super::rejection::TokenRejection;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use toolyard_dispatch::{Subject, Timestamp};

/// The longest subject. A subject is a key in the stores; OpenID Connect allows at most 255 characters.
const MAX_SUBJECT_BYTES: usize = 255;

/// The required values of the claims.
pub(super) struct ExpectedClaims<'e> {
    pub issuer: &'e str,
    pub audience: &'e [String],
    pub leeway_ms: u64,
    pub now: Timestamp,
}

/// The subject of the claims, if they are meant for this server and valid now.
pub(super) fn subject(
    claims: &Map<String, Value>,
    expected: &ExpectedClaims<'_>,
) -> Result<Subject, TokenRejection> {
    if claims.get("iss").and_then(Value::as_str) != Some(expected.issuer) {
        return Err(TokenRejection::Issuer);
    }
    if !is_for(claims.get("aud"), expected.audience) {
        return Err(TokenRejection::Audience);
    }
    let expires = moment(claims, "exp")?.ok_or(TokenRejection::Claims)?.plus(expected.leeway_ms);
    if expires <= expected.now {
        return Err(TokenRejection::Expired);
    }
    let latest = expected.now.plus(expected.leeway_ms);
    for name in ["nbf", "iat"] {
        if moment(claims, name)?.is_some_and(|begins| begins > latest) {
            return Err(TokenRejection::NotYet);
        }
    }
    let subject = text(claims, "sub")?.ok_or(TokenRejection::Claims)?;
    let client = match text(claims, "client_id")? {
        Some(client) => Some(client),
        None => text(claims, "azp")?,
    };
    let mut scopes = BTreeSet::new();
    for name in ["scope", "scp"] {
        add_scopes(claims.get(name), &mut scopes)?;
    }
    Ok(Subject {
        issuer: expected.issuer.to_owned(),
        subject,
        client,
        scopes,
        claims: Value::Object(claims.clone()),
        expires_at: Some(expires),
    })
}

fn is_for(audience: Option<&Value>, accepted: &[String]) -> bool {
    let is_us = |value: &Value| value.as_str().is_some_and(|name| accepted.iter().any(|us| us == name));
    match audience {
        Some(Value::Array(all)) => all.iter().any(is_us),
        Some(one) => is_us(one),
        None => false,
    }
}

/// A `NumericDate`: seconds, possibly with a fraction.
fn moment(claims: &Map<String, Value>, name: &str) -> Result<Option<Timestamp>, TokenRejection> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let seconds = value.as_f64().filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
    // The cast saturates.
    seconds.map(|seconds| Some(Timestamp((seconds * 1000.0) as i64))).ok_or(TokenRejection::Claims)
}

fn text(claims: &Map<String, Value>, name: &str) -> Result<Option<String>, TokenRejection> {
    match claims.get(name) {
        None => Ok(None),
        // It appears in logs and tables.
        Some(Value::String(text))
            if !text.is_empty() && text.len() <= MAX_SUBJECT_BYTES && !text.chars().any(char::is_control) =>
        {
            Ok(Some(text.clone()))
        }
        Some(_) => Err(TokenRejection::Claims),
    }
}

/// Scopes are a list in one string (RFC 8693) or, from some issuers, an array.
fn add_scopes(value: Option<&Value>, scopes: &mut BTreeSet<String>) -> Result<(), TokenRejection> {
    match value {
        None => {}
        Some(Value::String(list)) => {
            scopes.extend(list.split(' ').filter(|scope| !scope.is_empty()).map(str::to_owned));
        }
        Some(Value::Array(all)) => {
            for scope in all {
                scopes.insert(scope.as_str().ok_or(TokenRejection::Claims)?.to_owned());
            }
        }
        Some(_) => return Err(TokenRejection::Claims),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOW: i64 = 1_000_000;

    fn read(changed: &Value) -> Result<Subject, TokenRejection> {
        let mut claims = json!({"iss": "https://i.example", "aud": "us", "sub": "alice", "exp": NOW + 10});
        for (name, value) in changed.as_object().expect("an object") {
            match value {
                Value::Null => drop(claims.as_object_mut().expect("an object").remove(name)),
                value => claims[name] = value.clone(),
            }
        }
        let (audience, now) = (&["us".to_owned(), "we".to_owned()], Timestamp(NOW * 1000));
        let expected = ExpectedClaims { issuer: "https://i.example", audience, leeway_ms: 60_000, now };
        subject(claims.as_object().expect("an object"), &expected)
    }

    #[test]
    fn a_4_a_token_for_somebody_else_or_another_time_is_refused() {
        let too_long = "x".repeat(256);
        for (name, values, why) in [
            ("iss", json!([null, "https://i.example/", ["https://i.example"]]), TokenRejection::Issuer),
            ("aud", json!([null, "US", "us2", [], {"us": 1}]), TokenRejection::Audience),
            ("exp", json!([null, "1000010", -1]), TokenRejection::Claims),
            ("exp", json!([NOW - 60]), TokenRejection::Expired),
            ("nbf", json!([NOW + 61]), TokenRejection::NotYet),
            ("nbf", json!(["soon"]), TokenRejection::Claims),
            ("iat", json!([NOW + 61]), TokenRejection::NotYet),
            ("sub", json!([null, "", 7, "a\nb", too_long]), TokenRejection::Claims),
            ("client_id", json!([7]), TokenRejection::Claims),
            ("scope", json!([7]), TokenRejection::Claims),
            ("scp", json!([[7]]), TokenRejection::Claims),
        ] {
            for value in values.as_array().expect("a list") {
                assert_eq!(read(&json!({name: value})).map(|_| ()), Err(why), "{name}: {value}");
            }
        }
    }

    #[test]
    fn a_6_a_subject_has_its_client_its_scopes_and_an_end() {
        let plain = read(&json!({})).expect("valid");
        assert_eq!((plain.issuer.as_str(), plain.subject.as_str()), ("https://i.example", "alice"));
        assert_eq!(plain.expires_at, Some(Timestamp((NOW + 70) * 1000)), "with the leeway");
        assert!(plain.client.is_none() && plain.scopes.is_empty());
        let all = json!({
            "aud": ["other", "we"], "client_id": "c", "azp": "d", "scope": "a  b", "scp": ["c"],
            "nbf": NOW + 60, "iat": NOW as f64 + 59.5, "exp": NOW - 59,
        });
        let all = read(&all).expect("valid");
        assert_eq!(all.client.as_deref(), Some("c"));
        assert_eq!(all.scopes.iter().map(String::as_str).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(read(&json!({"azp": "d"})).expect("valid").client.as_deref(), Some("d"));
        assert!(read(&json!({"exp": 1e300})).is_ok(), "the end of time is late enough");
    }
}
