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

/// A body that counts only if its sender would still be let in once all of it is there.
pub struct Admitted {
    /// The body itself.
    pub body: Body,
    /// Who tells.
    pub app: Arc<App>,
    /// With what it was let in.
    pub pass: Pass,
    /// What it has of the bytes that all requests may have in memory.
    pub counted: BodyBytes,
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
                Poll::Ready(Some(self.counted.0.add(bytes).map(|()| frame).map_err(BoxError::from)))
            }
            Poll::Ready(frame) => Poll::Ready(frame.map(|frame| frame.map_err(axum::Error::into_inner))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
