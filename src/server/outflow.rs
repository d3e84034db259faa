//! A stream that is given up when the other side takes nothing of what it is sent.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// See the module. Whoever reads slowly goes on; only who reads nothing at all is let go of.
pub struct Outflow {
    stream: TcpStream,
    patience: Duration,
    /// Since when nothing could be written: it ends when that has been too long.
    stuck: Option<Pin<Box<Sleep>>>,
}

impl Outflow {
    /// Over `stream`, with so much patience.
    pub fn new(stream: TcpStream, patience: Duration) -> Self {
        Self { stream, patience, stuck: None }
    }

    fn watch(&mut self, context: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.stuck = None;
            return written;
        }
        let patience = self.patience;
        ready!(self.stuck.get_or_insert_with(|| Box::pin(sleep(patience))).as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing of what it is sent")))
    }
}

impl Drop for Outflow {
    /// A client that took nothing to the last, whether it was waited for for too long, has hung up, or the server
    /// stops: what is on its way is given up as well, which the kernel would keep for as long as the client is there.
    fn drop(&mut self) {
        if self.stuck.is_some()
            && let Err(error) = sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO))
        {
            tracing::debug!("what a client does not take is left to the system: {error}");
        }
    }
}

impl AsyncRead for Outflow {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Outflow {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    // A socket has nothing to flush, and ends what it sends at once.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.stuck.is_some() {
            // There is no orderly end for who takes nothing: it would wait behind all the rest.
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
