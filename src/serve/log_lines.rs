//! The log as it is written: for people or as JSON lines, and safe to look at on a terminal.
//!
//! What clients, models and tools say is in it. What formats the lines writes out some of what a terminal would obey, and
//! only in some of the fields; here it is done for whole lines.

use std::io::{self, Write};
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;

use crate::domain::text::{WrittenOut, for_terminal};

/// What writes the log of a process to what `open` gives, from `level` on.
pub fn subscriber<W: Write + 'static>(
    level: LevelFilter,
    format: WrittenOut,
    open: impl Fn() -> W + Send + Sync + 'static,
) -> Box<dyn Subscriber + Send + Sync> {
    // Other crates' details help nobody who runs a server, and may hold what must not be logged.
    let targets = Targets::new().with_target("hitl", level).with_default(LevelFilter::WARN.min(level));
    let registry = tracing_subscriber::registry().with(targets);
    let lines = fmt::layer().with_writer(move || Lines { format, into: open() });
    match format {
        WrittenOut::ForPeople => Box::new(registry.with(lines.compact())),
        WrittenOut::ForJson => Box::new(registry.with(lines.json())),
    }
}

/// The line that tells that `lost` lines are not in the log, in its format and whatever its level.
pub fn of_lost(format: WrittenOut, lost: u64) -> Vec<u8> {
    let line = Collected::default();
    let into = line.clone();
    tracing::subscriber::with_default(subscriber(LevelFilter::WARN, format, move || into.clone()), || {
        let lines = if lost == 1 { "line of the log was" } else { "lines of the log were" };
        tracing::warn!("{lost} {lines} lost, since nobody read them");
    });
    mem::take(&mut line.0.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Keeps what is written to it.
#[derive(Clone, Default)]
struct Collected(Arc<Mutex<Vec<u8>>>);

impl Write for Collected {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What begins a style of the lines' own, and what ends it: its marks, times, levels and names of fields.
const STYLE: &str = "\u{1b}[";
const STYLES: [&str; 9] = ["0m", "1m", "2m", "3m", "31m", "32m", "33m", "34m", "35m"];

/// Each event comes in one piece, with its styles and its new line.
struct Lines<W> {
    format: WrittenOut,
    into: W,
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let mut shown = String::with_capacity(text.len());
        for (number, part) in text.split(STYLE).enumerate() {
            let style = STYLES.iter().find_map(|style| part.strip_prefix(style).map(|after| (*style, after)));
            match style {
                _ if number == 0 => shown.push_str(&for_terminal(part, self.format)),
                Some((style, after)) => {
                    shown.extend([STYLE, style]);
                    shown.push_str(&for_terminal(after, self.format));
                }
                // Somebody else's.
                None => shown.push_str(&for_terminal(&format!("{STYLE}{part}"), self.format)),
            }
        }
        // In one go: what others write to the same place stays beside it.
        self.into.write_all(shown.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.into.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is on the terminal after something was logged that `said` is in, as a message and as a field.
    fn logged(format: WrittenOut, said: &str) -> String {
        let written = Collected::default();
        let into = written.clone();
        let subscriber = subscriber(LevelFilter::INFO, format, move || into.clone());
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(target: "hitl::agent", tool = %said, "it said {said}");
        });
        let bytes = written.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_line_shows_what_somebody_sent_and_does_nothing_that_it_says() {
        let line = logged(WrittenOut::ForPeople, "old\rnew \u{202e}txt.exe \u{1b}[8mhidden \u{1b}]0;title\u{7}");
        for hidden in ['\r', '\u{202e}', '\u{7}'] {
            assert!(!line.contains(hidden), "{line:?}");
        }
        assert!(!line.contains("\u{1b}[8m") && !line.contains("\u{1b}]"), "{line:?}");
        assert!(line.contains("it said old\\rnew \\u{202e}txt.exe"), "{line:?}");
        assert!(
            line.contains("\u{1b}[0mold\\rnew \\u{202e}txt.exe \\u{1b}[8mhidden \\u{1b}]0;title\\u{7}"),
            "{line:?}"
        );
        assert!(line.ends_with('\n') && line.contains("\u{1b}[32m"), "its own colours stay: {line:?}");
    }

    #[test]
    fn a_json_line_says_the_same_in_characters_that_can_be_seen() {
        let line = logged(WrittenOut::ForJson, "\r\u{202e}é\u{7f}");
        assert!(!line.contains(['\r', '\u{202e}', '\u{7f}']), "{line:?}");
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["fields"]["tool"], "\r\u{202e}é\u{7f}");
    }

    #[test]
    fn lines_that_were_lost_are_told_in_the_format_of_the_log() {
        let line = String::from_utf8(of_lost(WrittenOut::ForJson, 12)).unwrap();
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["level"], "WARN");
        assert_eq!(read["fields"]["message"], "12 lines of the log were lost, since nobody read them");

        let line = String::from_utf8(of_lost(WrittenOut::ForPeople, 1)).unwrap();
        assert!(
            line.contains("WARN") && line.ends_with("1 line of the log was lost, since nobody read them\n"),
            "{line:?}"
        );
    }
}
