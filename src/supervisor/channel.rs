//! The server's end of a worker's socket: frames in, frames out, neither ever blocking the runtime.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf, Bytes, BytesMut};
use rustix::net::Shutdown;
use tokio::net::UnixStream;
use tokio::sync::Notify;

use super::frames::{MAX_FRAME, PREFIX, Violation};

/// Bytes that may wait for a worker to read them. A worker that lets more pile up does not read any more.
const MAX_UNSENT: usize = 2 * MAX_FRAME;

/// What is read at once, at most; frames are far smaller as a rule.
const READ_STEP: usize = 16 * 1024;

/// The worker is gone, or does not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelClosed;

/// See the module. Writes are shared by all turns of the worker; [`FrameReader`] reads.
pub struct Channel {
    stream: UnixStream,
    unsent: Mutex<Unsent>,
    /// There is something to write.
    wake: Notify,
    /// Something was written.
    room: Notify,
    /// How often something was read.
    reads: AtomicU64,
}

#[derive(Default)]
struct Unsent {
    frames: VecDeque<Bytes>,
    bytes: usize,
    /// Nothing comes after what is queued.
    finishing: bool,
    lost: bool,
}

impl Channel {
    /// A channel over a connected stream; [`Self::write`] must run for it to send everything.
    pub fn new(stream: UnixStream) -> Arc<Self> {
        Arc::new(Self {
            stream,
            unsent: Mutex::default(),
            wake: Notify::new(),
            room: Notify::new(),
            reads: AtomicU64::new(0),
        })
    }

    /// A number that grows with whatever the worker sends, be it part of a frame.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Whether something the worker has sent was not read yet.
    pub fn has_unread(&self) -> bool {
        rustix::io::ioctl_fionread(&self.stream).is_ok_and(|bytes| bytes > 0)
    }

    /// Sends a frame as soon as the worker reads; at once where it can.
    ///
    /// # Errors
    /// [`ChannelClosed`] when the worker is gone or too much waits for it already.
    pub fn send(&self, mut frame: Bytes) -> Result<(), ChannelClosed> {
        let mut unsent = self.unsent();
        if unsent.lost || unsent.finishing {
            return Err(ChannelClosed);
        }
        if unsent.bytes + frame.len() > MAX_UNSENT {
            unsent.lost = true;
            return Err(ChannelClosed);
        }
        if unsent.frames.is_empty() {
            match self.stream.try_write(&frame) {
                Ok(written) => frame.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => {
                    unsent.lost = true;
                    return Err(ChannelClosed);
                }
            }
        }
        if !frame.is_empty() {
            unsent.bytes += frame.len();
            unsent.frames.push_back(frame);
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Waits until the worker has read what was sent before, or is lost, so that [`Self::send`] has room for `size` bytes:
    /// for frames as large as a session's state, of which several must not make a worker look lost.
    pub async fn room_for(&self, size: usize) {
        loop {
            let mut room = std::pin::pin!(self.room.notified());
            room.as_mut().enable();
            {
                let unsent = self.unsent();
                if unsent.lost || unsent.bytes + size <= MAX_UNSENT / 2 || unsent.frames.is_empty() {
                    return;
                }
            }
            room.await;
        }
    }

    /// Ends the stream after what was sent: a worker exits at its end.
    pub fn finish(&self) {
        self.unsent().finishing = true;
        self.wake.notify_one();
    }

    /// Reads no more than what has arrived. For when the process is known to be dead: somebody else may have inherited
    /// its end of the socket, and then its end never comes.
    pub fn end_reading(&self) {
        // Fails only when the other side has gone, which is the same.
        let _ = rustix::net::shutdown(&self.stream, Shutdown::Read);
    }

    /// Writes what [`Self::send`] could not, until the channel is finished or lost.
    pub async fn write(&self) {
        while let Some(mut frame) = self.next_unsent().await {
            match self.write_all(&mut frame).await {
                Ok(()) => {
                    let mut unsent = self.unsent();
                    if let Some(written) = unsent.frames.pop_front() {
                        unsent.bytes -= written.len();
                    }
                }
                Err(_) => self.unsent().lost = true,
            }
            self.room.notify_waiters();
        }
    }

    /// The frame at the head of the queue; `None` when nothing is to be written any more.
    async fn next_unsent(&self) -> Option<Bytes> {
        loop {
            {
                let unsent = self.unsent();
                if unsent.lost {
                    return None;
                }
                if let Some(frame) = unsent.frames.front() {
                    return Some(frame.clone());
                }
                if unsent.finishing {
                    let _ = rustix::net::shutdown(&self.stream, Shutdown::Write);
                    return None;
                }
            }
            self.wake.notified().await;
        }
    }

    async fn write_all(&self, frame: &mut Bytes) -> io::Result<()> {
        while !frame.is_empty() {
            self.stream.writable().await?;
            match self.stream.try_write(frame) {
                Ok(written) => frame.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Nothing can be sent any more; the writer ends.
    pub fn close(&self) {
        self.unsent().lost = true;
        self.wake.notify_one();
        self.room.notify_waiters();
        let _ = rustix::net::shutdown(&self.stream, Shutdown::Both);
    }

    fn unsent(&self) -> std::sync::MutexGuard<'_, Unsent> {
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Cuts what a worker sends into frames.
pub struct FrameReader {
    channel: Arc<Channel>,
    buffer: BytesMut,
}

impl FrameReader {
    /// The one reader of a channel.
    pub fn new(channel: Arc<Channel>) -> Self {
        Self { channel, buffer: BytesMut::new() }
    }

    /// The JSON of the next frame; `None` at the end of the stream, also in the middle of a frame.
    ///
    /// # Errors
    /// [`Violation`] when a frame is announced that is larger than [`MAX_FRAME`]; no memory is set aside for it.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Violation> {
        loop {
            if let Some(frame) = self.arrived()? {
                return Ok(Some(frame));
            }
            if !self.fill().await {
                return Ok(None);
            }
        }
    }

    /// The JSON of the next frame, if all of it was read already.
    ///
    /// # Errors
    /// Those of [`Self::next`].
    pub fn arrived(&mut self) -> Result<Option<Bytes>, Violation> {
        Ok(self.announced()?.filter(|length| self.buffer.len() >= PREFIX + length).map(|length| {
            self.buffer.advance(PREFIX);
            self.buffer.split_to(length).freeze()
        }))
    }

    fn announced(&self) -> Result<Option<usize>, Violation> {
        let Some(prefix) = self.buffer.first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*prefix) as usize;
        if length > MAX_FRAME {
            return Err(Violation(format!("a frame of {length} bytes is above the limit of {MAX_FRAME}")));
        }
        Ok(Some(length))
    }

    /// Whether something was read. The buffer grows with what has arrived, not with what was announced.
    async fn fill(&mut self) -> bool {
        self.buffer.reserve(READ_STEP);
        loop {
            if self.channel.stream.readable().await.is_err() {
                return false;
            }
            match self.channel.stream.try_read_buf(&mut self.buffer) {
                Ok(0) => return false,
                Ok(_) => {
                    self.channel.reads.fetch_add(1, Ordering::Relaxed);
                    return true;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::timeout;

    use super::*;

    fn pair() -> (Arc<Channel>, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Channel::new(ours), theirs)
    }

    #[tokio::test]
    async fn a_worker_that_does_not_read_is_lost_at_a_bound_of_bytes() {
        let (channel, _theirs) = pair();
        let frame = Bytes::from(vec![0; MAX_FRAME]);
        // The socket itself takes some of the first one.
        assert_eq!(channel.send(frame.clone()), Ok(()));
        assert_eq!(channel.send(frame.clone()), Ok(()));
        assert_eq!(channel.send(frame), Err(ChannelClosed));
        assert_eq!(channel.send(Bytes::from_static(b"anything")), Err(ChannelClosed));
    }

    #[tokio::test]
    async fn a_large_frame_waits_for_room_and_arrives() {
        let (channel, mut theirs) = pair();
        let writing = tokio::spawn({
            let channel = Arc::clone(&channel);
            async move { channel.write().await }
        });
        for _ in 0..2 {
            channel.send(Bytes::from(vec![1; MAX_FRAME / 2 + 1])).unwrap();
        }
        let mut room = std::pin::pin!(channel.room_for(MAX_FRAME));
        assert!(timeout(Duration::from_millis(20), &mut room).await.is_err());
        let reading = tokio::spawn(async move {
            let mut read = Vec::new();
            theirs.read_to_end(&mut read).await.unwrap();
            read.len()
        });
        room.await;
        channel.send(Bytes::from(vec![2; MAX_FRAME])).unwrap();
        channel.finish();
        writing.await.unwrap();
        assert_eq!(reading.await.unwrap(), 2 * (MAX_FRAME / 2 + 1) + MAX_FRAME);
    }

    #[tokio::test]
    async fn frames_are_cut_wherever_the_stream_is() {
        let (channel, mut theirs) = pair();
        let mut reader = FrameReader::new(channel);
        let writing = tokio::spawn(async move {
            for byte in b"\0\0\0\x02{}\0\0\0\0\0\0\0\x03abc\0\0" {
                theirs.write_all(&[*byte]).await.unwrap();
                tokio::task::yield_now().await;
            }
        });
        for expected in [&b"{}"[..], b"", b"abc"] {
            assert_eq!(reader.next().await.unwrap().unwrap(), expected);
        }
        assert_eq!(reader.next().await, Ok(None));
        writing.await.unwrap();
    }

    #[tokio::test]
    async fn an_announced_giant_is_refused_before_it_is_read() {
        let (channel, mut theirs) = pair();
        let mut reader = FrameReader::new(channel);
        theirs.write_all(&[0xff; 4]).await.unwrap();
        assert!(reader.next().await.is_err());
        assert!(reader.buffer.capacity() <= 2 * READ_STEP);
    }
}
