//! Whether an audit is whole.

use std::fmt;

use super::{AuditRow, Head, line};

/// What is wrong with an audit, at the first row where something is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flaw {
    /// The line is no row, or is not spelled as rows are.
    Misspelled {
        /// The number of the row that comes here.
        seq: u64,
        /// What is wrong with it.
        why: String,
    },
    /// The row is not what it was when its hash was made.
    Changed {
        /// Its number.
        seq: u64,
    },
    /// The row does not follow the one before it: something was left out, put in or moved.
    Torn {
        /// Its number.
        seq: u64,
        /// The number that comes here.
        expected: u64,
    },
    /// It ends before a head that was written down, or goes on without it.
    Cut {
        /// Where it ends.
        end: Head,
        /// What was written down.
        head: Head,
    },
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Misspelled { seq, why } => write!(f, "row {seq} {why}"),
            Self::Changed { seq } => write!(f, "row {seq} was changed: it does not fit its hash"),
            Self::Torn { seq, expected } if seq == expected => {
                write!(f, "row {seq} does not follow the row before it: its prev is not that row's hash")
            }
            Self::Torn { seq, expected } => write!(f, "row {expected} is missing: row {seq} comes in its place"),
            Self::Cut { end, head } if end.seq < head.seq => {
                write!(
                    f,
                    "rows are missing at the end: row {} was the last one once, now it is row {}",
                    head.seq, end.seq
                )
            }
            Self::Cut { head, .. } => {
                write!(f, "row {} is another than the one that was written down", head.seq)
            }
        }
    }
}

/// Looks at the rows in order.
#[derive(Debug, Clone)]
pub struct Verifier {
    end: Head,
    wanted: Option<Head>,
    has_wanted: bool,
}

impl Verifier {
    /// From the first row on; the audit has to hold the row at `head`, if that was written down.
    pub fn new(head: Option<Head>) -> Self {
        let has_wanted = head.as_ref().is_some_and(|head| *head == Head::nothing());
        Self { end: Head::nothing(), wanted: head, has_wanted }
    }

    /// The next row, as the line of a file.
    ///
    /// # Errors
    /// The flaw that shows in it.
    pub fn take_line(&mut self, line: &[u8]) -> Result<(), Flaw> {
        let row = line::read(line).map_err(|why| self.misspelled(why))?;
        self.take(&row)
    }

    /// The next row, as a server or a store gave it: its line.
    ///
    /// # Errors
    /// The flaw that shows in it.
    pub fn take_text(&mut self, text: &[u8]) -> Result<Vec<u8>, Flaw> {
        let row = line::read_loosely(text).map_err(|why| self.misspelled(why))?;
        self.take(&row)?;
        Ok(line::write(&row))
    }

    fn misspelled(&self, why: String) -> Flaw {
        Flaw::Misspelled { seq: self.end.seq.saturating_add(1), why }
    }

    /// The next row.
    ///
    /// # Errors
    /// The flaw that shows in it.
    pub fn take(&mut self, row: &AuditRow) -> Result<(), Flaw> {
        let expected = self.end.seq.saturating_add(1);
        if row.seq != expected || row.prev != self.end.hash {
            return Err(Flaw::Torn { seq: row.seq, expected });
        }
        if row.hash != row.expected_hash() {
            return Err(Flaw::Changed { seq: row.seq });
        }
        self.end = row.head();
        self.has_wanted |= self.wanted.as_ref() == Some(&self.end);
        Ok(())
    }

    /// After the last row: the end, to be written down.
    ///
    /// # Errors
    /// [`Flaw::Cut`].
    pub fn finish(self) -> Result<Head, Flaw> {
        match self.wanted {
            Some(head) if !self.has_wanted => Err(Flaw::Cut { end: self.end, head }),
            _ => Ok(self.end),
        }
    }
}
