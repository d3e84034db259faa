//! What a handler leaves of a request's body.
//!
//! A request that is refused by its path or key is answered before its body is read, and the body may still be on its
//! way. hyper then closes the connection without saying so, and a client that sends its next request over it is told
//! nothing at all. So the rest is read, within bounds, before the answer goes out; beyond them the answer says that the
//! connection is closed.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::http::header::CONNECTION;
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};

use super::app::App;

/// How long the rest of a body may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// Reads what the handler left of the body.
pub async fn read_to_end(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let body = Lent(Arc::new(Mutex::new(body)));
    let mut response = next.run(Request::from_parts(parts, Body::new(body.clone()))).await;
    let rest = std::mem::take(&mut *body.lock());
    let is_read = tokio::time::timeout(PATIENCE, drain(rest, app.limits().size)).await.unwrap_or(false);
    if !is_read {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Whether the body came to its end within `limit` bytes.
async fn drain(mut body: Body, limit: usize) -> bool {
    let mut size = 0_usize;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        size = size.saturating_add(frame.data_ref().map_or(0, Bytes::len));
        if size > limit {
            return false;
        }
    }
    true
}

/// A body that the handler reads, and that is there when it has dropped it.
#[derive(Clone)]
struct Lent(Arc<Mutex<Body>>);

impl Lent {
    fn lock(&self) -> MutexGuard<'_, Body> {
        // A panic in a poll leaves a body that is broken at worst; its next poll says so.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HttpBody for Lent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut *self.lock()).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.lock().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.lock().size_hint()
    }
}
