//! What agents print goes to the server's log, line by line, and is never read as anything else.

use std::pin::pin;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

use super::frames::Stream;
use crate::domain::SessionId;

/// Bytes of a line that are shown; the rest of it is dropped.
const MAX_LINE: usize = 8 * 1024;

/// Bytes that are still read once nobody is to be listened to any more: more than a pipe holds.
const MOST_LEFT: usize = 1024 * 1024;

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

/// Logs what comes out of `output` until its end, or until `over`, at which what is there already is still logged: a
/// program that outlives its worker may keep `output` for as long as it likes. `session` is asked at every line, because
/// a child is older than the turn it gets.
pub async fn pump(
    mut output: impl AsyncRead + Unpin,
    stream: Stream,
    session: impl Fn() -> Option<SessionId>,
    over: impl Future<Output = ()>,
) {
    let mut buffer = vec![0; 16 * 1024];
    let mut line = Line::default();
    let mut over = pin!(over);
    let mut left = None;
    loop {
        let read = match left {
            None => tokio::select! {
                read = output.read(&mut buffer) => read,
                () = &mut over => {
                    left = Some(MOST_LEFT);
                    continue;
                }
            },
            Some(0) => break,
            Some(_) => timeout(Duration::ZERO, output.read(&mut buffer)).await.unwrap_or(Ok(0)),
        };
        let Ok(read @ 1..) = read else { break };
        for part in buffer[..read].split_inclusive(|byte| *byte == b'\n') {
            line.push(part);
            if part.ends_with(b"\n") {
                line.flush(session(), stream);
            }
        }
        left = left.map(|left: usize| left.saturating_sub(read));
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn output_that_somebody_keeps_is_let_go_when_it_is_over() {
        let (mut theirs, ours) = tokio::io::duplex(64);
        theirs.write_all(b"last words").await.unwrap();
        pump(ours, Stream::Stdout, || None, async {}).await;
        assert!(theirs.write_all(b"more").await.is_err());
    }
}
