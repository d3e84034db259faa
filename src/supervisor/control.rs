//! The control socket of the zygote: requests and descriptors out, news of children in.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::buffer::spare_capacity;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::{Deserialize, Serialize};
use tokio::io::Interest;
use tokio::net::UnixDatagram;
use tokio::sync::{mpsc, watch};

use super::process::Exit;

/// A zygote is only started on Linux; macOS, which has neither flag, is to compile the rest.
#[cfg(target_os = "linux")]
const FLAGS: (SocketFlags, SendFlags) = (SocketFlags::CLOEXEC, SendFlags::NOSIGNAL);
#[cfg(not(target_os = "linux"))]
const FLAGS: (SocketFlags, SendFlags) = (SocketFlags::empty(), SendFlags::empty());

/// The largest message of a zygote.
const MAX_MESSAGE: usize = 64 * 1024;

/// What runs in a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// One turn.
    Turn,
    /// Turns as tasks, until it is told to end.
    Pool,
}

impl Mode {
    /// The wire form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Pool => "pool",
        }
    }
}

/// What a zygote is asked for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
pub enum ToZygote {
    /// To fork a worker.
    Fork {
        /// Its number.
        child: u64,
        /// What runs in it.
        mode: Mode,
    },
    /// To kill one.
    Kill {
        /// Its number.
        child: u64,
    },
}

/// What a zygote says.
#[derive(Debug, Deserialize)]
#[serde(tag = "is", rename_all = "lowercase")]
pub enum FromZygote {
    /// The agent is imported.
    Ready {
        /// Whether forking is safe.
        #[serde(default = "yes")]
        fork: bool,
        /// Why not.
        #[serde(default)]
        reason: Option<String>,
        /// The version of Python.
        python: String,
        /// What the agent calls itself.
        #[serde(default)]
        name: Option<String>,
        /// The version of the agent's code.
        code: String,
        /// Whether the agent can be continued from its journal.
        replay: bool,
        /// Whether no other code may do so.
        pin: bool,
    },
    /// The agent cannot be imported.
    Failed {
        /// What is wrong.
        message: String,
        /// What to do about it.
        #[serde(default)]
        hint: Option<String>,
    },
    /// A child has begun.
    Forked {
        /// Its number.
        child: u64,
        /// Its process id.
        pid: u32,
    },
    /// A child has ended, or could not begin.
    Exited {
        /// Its number.
        child: u64,
        /// Its exit code.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
        /// Why it could not begin.
        #[serde(default)]
        error: Option<String>,
    },
}

fn yes() -> bool {
    true
}

type Requests = mpsc::UnboundedSender<(ToZygote, Vec<OwnedFd>)>;
type Exits = HashMap<u64, watch::Sender<Option<Exit>>>;

/// The supervisor's end of the socket.
pub struct Control {
    /// `None` once the socket is to be closed.
    requests: Mutex<Option<Requests>>,
    /// Children that have not been reaped; `None` once the zygote is gone.
    children: Mutex<Option<Exits>>,
}

impl Control {
    /// A pair: our end with its queue of requests, and the zygote's.
    ///
    /// # Errors
    /// When the system has no sockets to give.
    pub fn pair() -> io::Result<(Ours, OwnedFd)> {
        let (ours, theirs) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, FLAGS.0, None)?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        Ok((Ours { socket: UnixDatagram::from_std(ours.into())? }, theirs))
    }

    /// Asks for a child; what it is told is in the descriptors: channel, standard output, standard error.
    /// The receiver tells how it ended.
    ///
    /// # Errors
    /// When the zygote is gone.
    pub fn fork(&self, child: u64, mode: Mode, descriptors: [OwnedFd; 3]) -> io::Result<watch::Receiver<Option<Exit>>> {
        let (exited, exit) = watch::channel(None);
        match self.children().as_mut() {
            Some(children) => children.insert(child, exited),
            None => return Err(gone()),
        };
        if !self.request(ToZygote::Fork { child, mode }, descriptors.into()) {
            return Err(gone());
        }
        Ok(exit)
    }

    /// Kills a child; nothing when it has ended.
    pub fn kill(&self, child: u64) {
        self.request(ToZygote::Kill { child }, Vec::new());
    }

    /// Closes the socket, at which the zygote kills its children and ends.
    pub fn close(&self) {
        self.requests().take();
    }

    /// Whether the zygote has gone.
    pub fn is_gone(&self) -> bool {
        self.children().is_none()
    }

    fn request(&self, request: ToZygote, descriptors: Vec<OwnedFd>) -> bool {
        self.requests().as_ref().is_some_and(|requests| requests.send((request, descriptors)).is_ok())
    }

    fn requests(&self) -> std::sync::MutexGuard<'_, Option<Requests>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self, child: u64, exit: Exit) {
        let exited = self.children().as_mut().and_then(|children| children.remove(&child));
        if let Some(exited) = exited {
            exited.send_replace(Some(exit));
        }
    }

    fn all_ended(&self) {
        for exited in self.children().take().into_iter().flat_map(HashMap::into_values) {
            exited.send_replace(Some(Exit::default()));
        }
    }

    fn children(&self) -> std::sync::MutexGuard<'_, Option<Exits>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Our end of the socket before anything is forked.
pub struct Ours {
    /// Tokio has no type for sequenced packets; a connected datagram socket is driven in the same way.
    socket: UnixDatagram,
}

impl Ours {
    /// The next thing the zygote says; `None` at its end.
    ///
    /// # Errors
    /// When it makes no sense.
    pub async fn next(&self) -> io::Result<Option<FromZygote>> {
        let message = self
            .socket
            .async_io(Interest::READABLE, || {
                let mut message = Vec::with_capacity(MAX_MESSAGE);
                rustix::net::recv(&self.socket, spare_capacity(&mut message), RecvFlags::DONTWAIT)?;
                Ok(message)
            })
            .await;
        match message {
            Ok(message) if message.is_empty() => Ok(None),
            Ok(message) => serde_json::from_slice(&message).map(Some).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Goes on in the background until the zygote is gone or nobody has the control any more.
    pub fn serve(self, runtime: &tokio::runtime::Handle) -> Arc<Control> {
        let (requests, queue) = mpsc::unbounded_channel();
        let control =
            Arc::new(Control { requests: Mutex::new(Some(requests)), children: Mutex::new(Some(HashMap::new())) });
        runtime.spawn(run(self, queue, Arc::downgrade(&control)));
        control
    }

    async fn send(&self, request: &ToZygote, descriptors: &[OwnedFd]) -> io::Result<()> {
        let message = serde_json::to_vec(request).map_err(io::Error::other)?;
        self.socket
            .async_io(Interest::WRITABLE, || {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
                let mut ancillary = SendAncillaryBuffer::new(&mut space);
                let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
                if !borrowed.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(&borrowed)) {
                    return Err(io::Error::other("too many descriptors for one message"));
                }
                let flags = FLAGS.1 | SendFlags::DONTWAIT;
                Ok(rustix::net::sendmsg(&self.socket, &[IoSlice::new(&message)], &mut ancillary, flags)?)
            })
            .await?;
        Ok(())
    }
}

/// Ends at the zygote's end, or when nobody holds the control any more; both close the socket, and a zygote whose socket
/// is closed ends with all its children.
async fn run(
    ours: Ours,
    mut queue: mpsc::UnboundedReceiver<(ToZygote, Vec<OwnedFd>)>,
    control: std::sync::Weak<Control>,
) {
    let sending = async {
        while let Some((request, descriptors)) = queue.recv().await {
            ours.send(&request, &descriptors).await?;
        }
        Ok(())
    };
    let hearing = async {
        while let Some(message) = ours.next().await? {
            let Some(control) = control.upgrade() else { break };
            match message {
                FromZygote::Forked { child, pid } => tracing::trace!(child, pid, "a worker was forked"),
                FromZygote::Exited { child, code, signal, error } => {
                    if let Some(error) = error {
                        tracing::error!(child, error, "a worker could not be forked");
                    }
                    control.ended(child, Exit { code, signal });
                }
                FromZygote::Ready { .. } | FromZygote::Failed { .. } => {
                    return Err(io::Error::other("the zygote started twice"));
                }
            }
        }
        Ok(())
    };
    let outcome: io::Result<()> = tokio::select! {
        outcome = sending => outcome,
        outcome = hearing => outcome,
    };
    if let Err(error) = outcome {
        tracing::warn!(%error, "lost the zygote's control socket");
    }
    if let Some(control) = control.upgrade() {
        control.all_ended();
    }
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the zygote is gone")
}
