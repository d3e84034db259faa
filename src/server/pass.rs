//! The body of a request that has been let in: it may arrive slowly, its key may be revoked meanwhile, and it is counted.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::BoxError;
use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

use super::app::{App, BodyBytes};
use super::auth::Pass;
use super::body::Over;
use super::budget::Exhausted;

/// A body that counts only if its sender would still be let in once all of it is there.
pub struct Admitted {
    body: Body,
    /// Who tells whether it is let in.
    app: Arc<App>,
    /// With what it was.
    pass: Pass,
    /// What it has of the bytes that all requests may have in memory.
    counted: BodyBytes,
    /// How many bytes have come.
    size: usize,
}

impl Admitted {
    /// `body`, let in with `pass`, of whose bytes none have come yet.
    pub fn new(body: Body, app: Arc<App>, pass: Pass, counted: BodyBytes) -> Self {
        Self { body, app, pass, counted, size: 0 }
    }

    /// So many bytes more have come. What is longer than any body may be is read on to be thrown away.
    fn count(&mut self, bytes: usize) -> Result<(), Exhausted> {
        self.size = self.size.saturating_add(bytes);
        if self.size <= self.app.answer_limits().size {
            return self.counted.0.add(bytes);
        }
        self.counted.0.release();
        Ok(())
    }
}

impl HttpBody for Admitted {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(None) if self.app.gate.check(&self.app.engine, self.pass).is_err() => {
                Poll::Ready(Some(Err(Over.into())))
            }
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                Poll::Ready(Some(self.count(bytes).map(|()| frame).map_err(BoxError::from)))
            }
            Poll::Ready(frame) => Poll::Ready(frame.map(|frame| frame.map_err(axum::Error::into_inner))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
