//! What servers tell each other of their options: digests, by which each sees whether it is told the same.

use std::fmt;

/// The digests of the options of a server that should be the same at all of them.
///
/// They are one text in its row, `SESSIONS` or `SESSIONS/REQUESTS`. A digest has no `/` in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OptionsDigests {
    /// Of those that decide what becomes of a session, whichever server has it.
    pub of_sessions: String,
    /// Of those that decide what becomes of a request; `None` of a server that takes none.
    pub of_requests: Option<String>,
}

impl OptionsDigests {
    /// What the row of a server says.
    pub fn parse(text: &str) -> Self {
        match text.split_once('/') {
            Some((sessions, requests)) => {
                Self { of_sessions: sessions.to_owned(), of_requests: Some(requests.to_owned()) }
            }
            None => Self { of_sessions: text.to_owned(), of_requests: None },
        }
    }
}

impl fmt::Display for OptionsDigests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.of_sessions)?;
        self.of_requests.iter().try_for_each(|requests| write!(f, "/{requests}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_read_as_they_were_written_and_so_is_one_alone() {
        let of_sessions = "sha256:1".to_owned();
        for (digests, text) in [
            (OptionsDigests { of_sessions: of_sessions.clone(), of_requests: None }, "sha256:1"),
            (OptionsDigests { of_sessions, of_requests: Some("sha256:2".to_owned()) }, "sha256:1/sha256:2"),
        ] {
            assert_eq!(digests.to_string(), text);
            assert_eq!(OptionsDigests::parse(text), digests);
        }
    }
}
