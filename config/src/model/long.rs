//! Long frames: what becomes of frames that the kernel has not cut yet.

use std::fmt;

use serde::Serialize;

/// Treatment of frames that the kernel has not cut yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LongFrames {
    /// They pass whole, once these NFs have said that they take them.
    Whole {
        /// Names of NFs.
        asked: Vec<String>,
    },
    /// They are cut as they come.
    Cut {
        /// Reason.
        because: String,
    },
}

impl fmt::Display for LongFrames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole { asked } if asked.is_empty() => f.write_str("long frames pass whole"),
            Self::Whole { asked } => {
                let names = asked.join("`, `");
                let (plural, takes) = if asked.len() == 1 { ("", "takes") } else { ("s", "take") };
                write!(f, "long frames pass whole if NF{plural} `{names}` {takes} them")
            }
            Self::Cut { because } => write!(f, "long frames are cut: {because}"),
        }
    }
}
