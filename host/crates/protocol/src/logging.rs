//! Logging to clients: levels and `logging/setLevel` (G-1, G-2).

use crate::error::RpcError;
use crate::raw::RawJson;
use serde::Deserialize;
use std::fmt;

/// The severity of a message, with the names of RFC 5424, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// Details for debugging.
    Debug,
    /// Normal operation.
    Info,
    /// Normal but noteworthy.
    Notice,
    /// Something may be wrong.
    Warning,
    /// Something failed.
    Error,
    /// A component failed.
    Critical,
    /// An operator must act now.
    Alert,
    /// The system is unusable.
    Emergency,
}

impl LogLevel {
    /// All, the least serious first.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// The level of a client that has set none.
    pub const DEFAULT: Self = Self::Info;

    /// The level of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == name)
    }

    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }

    /// The `level` of the params of `logging/setLevel`.
    ///
    /// # Errors
    /// `-32602` if it is missing or none of the eight names.
    pub fn decode(params: Option<&RawJson>) -> Result<Self, RpcError> {
        #[derive(Deserialize)]
        struct Wire {
            level: String,
        }
        params
            .and_then(|params| params.decode::<Wire>().ok())
            .and_then(|wire| Self::parse(&wire.level))
            .ok_or_else(|| {
                let names = Self::ALL.map(Self::as_str).join(", ");
                RpcError::invalid_params(format!("logging/setLevel: `level` must be one of {names}"))
            })
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g_1_the_eight_levels_of_rfc_5424_are_known_and_ordered() {
        assert!(LogLevel::ALL.is_sorted());
        for level in LogLevel::ALL {
            let params = RawJson::of(&serde_json::json!({"level": level.as_str()}));
            assert_eq!(LogLevel::decode(Some(&params)), Ok(level));
        }
        for wrong in ["{}", r#"{"level":"verbose"}"#, r#"{"level":3}"#, r#"{"level":"INFO"}"#] {
            let error = LogLevel::decode(Some(&RawJson::trusted(wrong))).expect_err(wrong);
            assert_eq!(error.code, -32602);
        }
        assert!(LogLevel::decode(None).is_err());
    }
}
