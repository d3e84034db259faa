//! What agents print goes to the server's log, line by line, and is never read as anything else.

use tokio::io::{AsyncRead, AsyncReadExt};

use super::frames::Stream;
use crate::domain::SessionId;

/// Bytes of a line that are shown; the rest of it is dropped.
const MAX_LINE: usize = 8 * 1024;

/// Logs each line of `text`.
pub fn text(session: Option<SessionId>, stream: Stream, text: &str) {
    for line in text.lines() {
        let (shown, cut) = match line.char_indices().take_while(|(start, _)| *start < MAX_LINE).last() {
            Some((start, last)) if start + last.len_utf8() < line.len() => (&line[..start], true),
            _ => (line, false),
        };
        emit(session, stream, shown, cut);
    }
}

fn emit(session: Option<SessionId>, stream: Stream, line: &str, cut: bool) {
    let session = session.map(tracing::field::display);
    let stream = stream.as_str();
    let mark = if cut { " [line cut]" } else { "" };
    tracing::info!(target: "hitl::agent", session, stream, "{line}{mark}");
}

/// Logs what comes out of `output` until its end. `session` is asked at every line, because a child is older than the
/// turn it gets.
pub async fn pump(mut output: impl AsyncRead + Unpin, stream: Stream, session: impl Fn() -> Option<SessionId>) {
    let mut buffer = vec![0; 16 * 1024];
    let mut line = Line::default();
    while let Ok(read) = output.read(&mut buffer).await {
        if read == 0 {
            break;
        }
        for part in buffer[..read].split_inclusive(|byte| *byte == b'\n') {
            line.push(part);
            if part.ends_with(b"\n") {
                line.flush(session(), stream);
            }
        }
    }
    if !line.bytes.is_empty() {
        line.flush(session(), stream);
    }
}

#[derive(Default)]
struct Line {
    bytes: Vec<u8>,
    cut: bool,
}

impl Line {
    fn push(&mut self, part: &[u8]) {
        let room = MAX_LINE - self.bytes.len();
        let part = part.strip_suffix(b"\n").unwrap_or(part);
        self.cut |= part.len() > room;
        self.bytes.extend_from_slice(&part[..part.len().min(room)]);
    }

    fn flush(&mut self, session: Option<SessionId>, stream: Stream) {
        let text = self.bytes.strip_suffix(b"\r").unwrap_or(&self.bytes);
        emit(session, stream, &String::from_utf8_lossy(text), self.cut);
        self.bytes.clear();
        self.cut = false;
    }
}
