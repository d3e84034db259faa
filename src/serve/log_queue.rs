//! Lines of the log on their way to standard error: whoever logs hands one over and goes on, and a thread of its own
//! writes it.
//!
//! Whoever reads standard error may stall: a pager, a terminal after Ctrl-S, what collects the output of a container. Then
//! each thread that wrote there would wait for the reader, and with those of the runtime the whole server: it would take no
//! answer and renew no lease. So lines wait here, as many as there is room for; those beyond are lost, and counted.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, Write};
use std::mem;
use std::os::fd::AsFd;
use std::panic;
use std::process;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// Bytes of lines that wait, some ten thousands of them; as many again may have been taken to be written.
const MOST_WAITING: usize = 8 * 1024 * 1024;

/// What a line costs besides its text.
const LINE_COST: usize = 64;

/// How long the end of a process waits for a reader that takes nothing.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long it waits for one that takes little.
const MOST_PATIENCE: Duration = Duration::from_secs(5);

/// See the module. Without a thread, before [`LogQueue::start`] and in a process that was forked after it, lines are
/// written at once.
#[derive(Default)]
pub struct LogQueue {
    /// The process that its thread is in, or 0.
    process: AtomicU32,
    waiting: Mutex<WaitingLines>,
    arrived: Condvar,
    /// How many lines were written, or could not be.
    written: AtomicU64,
    /// Told when everything that was taken is written.
    all_written: Condvar,
}

#[derive(Default)]
struct WaitingLines {
    lines: Vec<Vec<u8>>,
    bytes: usize,
    /// Lines for which there was no room, all of them after those that wait.
    lost: u64,
    /// How many lines there are to write since the beginning, with those that tell of lost ones.
    handed_over: u64,
    /// How many lines had been written when somebody last gave up waiting for more.
    given_up: Option<u64>,
}

impl LogQueue {
    /// One without a thread.
    pub const fn new() -> Self {
        Self {
            process: AtomicU32::new(0),
            waiting: Mutex::new(WaitingLines { lines: Vec::new(), bytes: 0, lost: 0, handed_over: 0, given_up: None }),
            arrived: Condvar::new(),
            written: AtomicU64::new(0),
            all_written: Condvar::new(),
        }
    }

    /// From now on a thread writes the lines to `into`, for as long as this process lives; `of_lost` makes the line that
    /// tells how many were lost.
    ///
    /// # Errors
    /// When the system gives no more threads.
    pub fn start(
        &'static self,
        into: impl Write + Send + 'static,
        of_lost: impl Fn(u64) -> Vec<u8> + Send + 'static,
    ) -> io::Result<()> {
        thread::Builder::new().name("hitl-log".to_owned()).spawn(move || self.write_to(into, of_lost))?;
        self.process.store(process::id(), Ordering::Release);
        Ok(())
    }

    /// Waits until what was handed over before is written. Given up where nobody reads: after two seconds in which not a
    /// line was taken, and at once when it was given up before and none was taken since; else after five seconds.
    pub fn wait_until_written(&self) {
        if !self.has_thread() {
            return;
        }
        let begun = Instant::now();
        let mut waiting = self.waiting();
        let wanted = waiting.handed_over;
        loop {
            let written = self.written.load(Ordering::Acquire);
            let left = MOST_PATIENCE.saturating_sub(begun.elapsed());
            if written >= wanted || waiting.given_up == Some(written) || left.is_zero() {
                return;
            }
            let waited = self.all_written.wait_timeout(waiting, PATIENCE.min(left));
            let (again, timed_out) = waited.unwrap_or_else(PoisonError::into_inner);
            waiting = again;
            if timed_out.timed_out() && self.written.load(Ordering::Acquire) == written {
                waiting.given_up = Some(written);
            }
        }
    }

    /// From now on what a panic says goes this way: the standard library would wait for the reader.
    pub fn log_panics(&'static self) {
        panic::set_hook(Box::new(|panic| {
            let thread = thread::current();
            let mut text = format!("\nthread '{}' {panic}\n", thread.name().unwrap_or("<unnamed>"));
            let backtrace = Backtrace::capture();
            if backtrace.status() == BacktraceStatus::Captured {
                text.push_str(&format!("stack backtrace:\n{backtrace}"));
            }
            // There is nowhere else to say it.
            let _unwritten = self.push(text.as_bytes());
            // The process may abort next.
            self.wait_until_written();
        }));
    }

    fn push(&self, line: &[u8]) -> io::Result<()> {
        if !self.has_thread() {
            return StandardError.write_all(line);
        }
        let mut waiting = self.waiting();
        let bytes = waiting.bytes + line.len() + LINE_COST;
        // Those after a lost one are lost too, until the thread takes what waits: so it is one gap, and told once.
        if waiting.lost > 0 || bytes > MOST_WAITING {
            waiting.handed_over += u64::from(waiting.lost == 0);
            waiting.lost += 1;
        } else {
            waiting.handed_over += 1;
            waiting.bytes = bytes;
            waiting.lines.push(line.to_vec());
        }
        drop(waiting);
        self.arrived.notify_one();
        Ok(())
    }

    fn write_to(&self, mut into: impl Write, of_lost: impl Fn(u64) -> Vec<u8>) {
        loop {
            let (lines, lost) = self.take();
            // Made before those in front of it are written, which may take long: what comes after it is younger.
            let gap = (lost > 0).then(|| of_lost(lost));
            // Each in one go: what others write to the same place stays beside it.
            for line in lines.into_iter().chain(gap) {
                // Where the reader is gone, or the disk full, there is nobody else to tell.
                let _unwritten = into.write_all(&line);
                self.written.fetch_add(1, Ordering::Release);
            }
            // With the lock: whoever has seen that something is missing waits by now.
            let _waiting = self.waiting();
            self.all_written.notify_all();
        }
    }

    fn take(&self) -> (Vec<Vec<u8>>, u64) {
        let nothing = |waiting: &mut WaitingLines| waiting.lines.is_empty() && waiting.lost == 0;
        let waiting = self.arrived.wait_while(self.waiting(), nothing);
        let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        waiting.bytes = 0;
        (mem::take(&mut waiting.lines), mem::take(&mut waiting.lost))
    }

    /// A fork has no thread of its parent's, and perhaps its lock for ever.
    fn has_thread(&self) -> bool {
        self.process.load(Ordering::Acquire) == process::id()
    }

    fn waiting(&self) -> MutexGuard<'_, WaitingLines> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is written in one call is one line, or some.
impl Write for &LogQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Standard error without the lock that `std` has around it: a fork could inherit that as taken.
#[derive(Debug, Clone, Copy)]
pub struct StandardError;

impl Write for StandardError {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let stderr = io::stderr();
        loop {
            let _ready = match rustix::io::write(stderr.as_fd(), bytes) {
                // Whoever shares the terminal may have it so that it does not block: then nothing would wait for the reader.
                Err(Errno::AGAIN) => poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], None)?,
                written => return Ok(written?),
            };
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// What the thread writes to: each line is taken when somebody reads, and no sooner.
    struct Rendezvous {
        lines: Sender<String>,
        reads: Receiver<()>,
    }

    impl Write for Rendezvous {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            // Whoever reads no more is gone, and nothing waits for them.
            let _gone = self.reads.recv();
            let _gone = self.lines.send(String::from_utf8_lossy(line).into_owned());
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Reader {
        lines: Receiver<String>,
        reads: Sender<()>,
    }

    impl Reader {
        fn line(&self) -> String {
            self.reads.send(()).unwrap();
            self.lines.recv().unwrap()
        }
    }

    fn started() -> (&'static LogQueue, Reader) {
        let (lines, told) = channel();
        let (reads, asked) = channel();
        let queue: &LogQueue = Box::leak(Box::default());
        queue.start(Rendezvous { lines, reads: asked }, |lost| format!("{lost} lost\n").into_bytes()).unwrap();
        (queue, Reader { lines: told, reads })
    }

    fn say(mut queue: &LogQueue, line: &str) {
        queue.write_all(line.as_bytes()).unwrap();
    }

    /// A line of which a thousand and a bit fit.
    fn long(number: usize) -> String {
        format!("{number:08}{}\n", " ".repeat(MOST_WAITING / 1024 - 200))
    }

    #[test]
    fn lines_come_in_the_order_in_which_they_were_handed_over() {
        let (queue, reader) = started();
        for number in 0..1000 {
            say(queue, &format!("{number}\n"));
        }
        for number in 0..1000 {
            assert_eq!(reader.line(), format!("{number}\n"));
        }
    }

    #[test]
    fn what_does_not_fit_is_lost_and_counted_where_it_would_have_been() {
        let (queue, reader) = started();
        say(queue, "first\n");
        // From then on the thread has it, and waits for its reader.
        while !queue.waiting().lines.is_empty() {
            thread::yield_now();
        }
        let many = 2000;
        for number in 0..many {
            say(queue, &long(number));
        }
        assert_eq!(reader.line(), "first\n");
        assert_eq!(reader.line(), long(0));
        say(queue, "as soon as there is room\n");
        let mut read = 1;
        let gap = loop {
            let line = reader.line();
            if line.contains("lost") {
                break line;
            }
            assert_eq!(line, long(read));
            read += 1;
        };
        assert!(read >= 1024, "{read}");
        assert_eq!(gap, format!("{} lost\n", many - read));
        assert_eq!(reader.line(), "as soon as there is room\n");
    }

    #[test]
    fn the_end_waits_for_a_reader_and_not_for_none() {
        let (queue, reader) = started();
        say(queue, "read\n");
        let reading = thread::spawn(move || (reader.line(), reader));
        queue.wait_until_written();
        let (line, reader) = reading.join().unwrap();
        assert_eq!(line, "read\n");

        say(queue, "unread\n");
        queue.wait_until_written();
        assert_eq!(queue.waiting().given_up, Some(1), "a second one does not wait again");
        queue.wait_until_written();
        assert_eq!(reader.line(), "unread\n");
        drop(reader);
        queue.wait_until_written();
    }

    #[test]
    fn the_end_waits_for_no_reader_that_is_gone() {
        let (queue, reader) = started();
        drop(reader);
        for number in 0..100 {
            say(queue, &format!("{number}\n"));
        }
        queue.wait_until_written();
        assert_eq!(queue.written.load(Ordering::Acquire), 100);
    }

    #[test]
    fn a_panic_is_told_in_its_turn() {
        let (queue, reader) = started();
        let before = panic::take_hook();
        queue.log_panics();
        say(queue, "before\n");
        let panics = thread::Builder::new().name("unlucky".to_owned()).spawn(|| panic!("on purpose")).unwrap();
        assert_eq!(reader.line(), "before\n");
        let told = reader.line();
        assert!(told.starts_with("\nthread 'unlucky' panicked at src/serve/log_queue.rs:"), "{told:?}");
        assert!(told.contains(":\non purpose\n"), "{told:?}");
        assert!(panics.join().is_err());
        panic::set_hook(before);
    }

    #[test]
    fn a_queue_without_a_thread_keeps_nothing() {
        let queue = LogQueue::new();
        say(&queue, "written at once\n");
        queue.wait_until_written();
        assert!(queue.waiting().lines.is_empty());
    }
}
