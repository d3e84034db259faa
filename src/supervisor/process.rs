//! Processes that the server itself starts, and how a process ended.

use std::fmt;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStderr, ChildStdout, Command};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use tokio::sync::{oneshot, watch};

/// How a process ended; neither where nobody could tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Exit {
    /// The exit code.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exit code {code}"),
            (None, Some(signal)) => match rustix::process::Signal::from_named_raw(signal) {
                Some(named) => write!(f, "signal {signal} ({})", name(named)),
                None => write!(f, "signal {signal}"),
            },
            (None, None) => f.write_str("unknown exit status"),
        }
    }
}

fn name(signal: Signal) -> &'static str {
    match signal {
        Signal::SEGV => "SIGSEGV",
        Signal::ABORT => "SIGABRT",
        Signal::KILL => "SIGKILL",
        Signal::TERM => "SIGTERM",
        Signal::BUS => "SIGBUS",
        Signal::FPE => "SIGFPE",
        Signal::ILL => "SIGILL",
        Signal::INT => "SIGINT",
        Signal::HUP => "SIGHUP",
        _ => "see signal(7)",
    }
}

/// A process with a group of its own, so that a Ctrl-C in the server's terminal is not for it. It is killed when this is
/// dropped.
pub struct Process {
    child: Arc<Mutex<Option<Child>>>,
    exit: watch::Receiver<Option<Exit>>,
}

/// Output of a process, for whoever reads it.
pub struct Output {
    /// Its standard output.
    pub stdout: ChildStdout,
    /// Its standard error.
    pub stderr: ChildStderr,
}

impl Process {
    /// Starts `command`, whose standard output and error are piped.
    ///
    /// A thread of its own starts it and stays until it has ended: `PR_SET_PDEATHSIG` means the death of the thread that
    /// forked, so that neither a thread of the runtime nor one of its blocking pool will do.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn start(mut command: Command) -> io::Result<(Self, Output)> {
        let (started, start) = oneshot::channel();
        let (exited, exit) = watch::channel(None);
        thread::Builder::new().name("hitl-parent".to_owned()).spawn(move || {
            command.process_group(0);
            let mut child = match command.spawn() {
                Ok(child) => child,
                Err(error) => {
                    let _ = started.send(Err(error));
                    return;
                }
            };
            let pid = child.id();
            let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
                let _ = started.send(Err(io::Error::other("output is not piped")));
                return;
            };
            let child = Arc::new(Mutex::new(Some(child)));
            // A receiver that is gone has dropped the process, which kills it; it is reaped below all the same.
            let _ = started.send(Ok((Kill(Arc::clone(&child)), Output { stdout, stderr })));
            drop(command);
            wait_unreaped(pid);
            // What it has started in its group: once it is reaped, the group's id may be another's.
            kill(&child);
            let child = lock(&child).take();
            let status = child.and_then(|mut child| child.wait().ok());
            exited.send_replace(Some(
                status.map_or_else(Exit::default, |status| Exit { code: status.code(), signal: status.signal() }),
            ));
        })?;
        let (kill, output) = start.await.map_err(|_| io::Error::other("the parent thread ended"))??;
        Ok((Self { child: kill.keep(), exit }, output))
    }

    /// Kills it and its group; nothing when it has ended.
    pub fn kill(&self) {
        kill(&self.child);
    }

    /// How it ended, once it has.
    pub fn exit(&self) -> watch::Receiver<Option<Exit>> {
        self.exit.clone()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Kills a process that nobody took over.
struct Kill(Arc<Mutex<Option<Child>>>);

impl Kill {
    fn keep(mut self) -> Arc<Mutex<Option<Child>>> {
        std::mem::take(&mut self.0)
    }
}

impl Drop for Kill {
    fn drop(&mut self) {
        kill(&self.0);
    }
}

fn kill(child: &Mutex<Option<Child>>) {
    // Under the lock the process is not reaped, so that its id cannot be another's.
    if let Some(child) = lock(child).as_mut() {
        if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        let _ = child.kill();
    }
}

/// Waits until a child has ended, and leaves it unreaped.
fn wait_unreaped(pid: u32) {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return;
    };
    while let Err(rustix::io::Errno::INTR) =
        rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
    {}
}

fn lock(child: &Mutex<Option<Child>>) -> std::sync::MutexGuard<'_, Option<Child>> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for an exit that is told through `exit`; the default when nobody will tell any more.
pub async fn ended(mut exit: watch::Receiver<Option<Exit>>) -> Exit {
    match exit.wait_for(Option::is_some).await {
        Ok(exit) => exit.unwrap_or_default(),
        Err(_) => Exit::default(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::process::Stdio;
    use std::time::Duration;

    use tokio::io::AsyncReadExt;
    use tokio::net::unix::pipe;

    use super::*;

    #[tokio::test]
    async fn what_a_process_leaves_in_its_group_ends_with_it() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 120 & echo started"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (process, output) = Process::start(command).await.unwrap();
        assert_eq!(ended(process.exit()).await.code, Some(0));
        // Who is left has it open.
        let mut stdout = pipe::Receiver::from_owned_fd(output.stdout.into()).unwrap();
        let mut said = String::new();
        let read = stdout.read_to_string(&mut said);
        tokio::time::timeout(Duration::from_secs(60), read).await.expect("nobody is left").unwrap();
        assert_eq!(said, "started\n");
    }
}
