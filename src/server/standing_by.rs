//! What a server answers before it has its store: that it is alive, and not ready.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::error::ServerError;
use super::models::Alive;

/// How many connections it answers at once; others wait to be accepted.
const MOST: usize = 64;
/// How long a connection has for its one request and its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long nothing is accepted after that has failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers on `listener` for as long as this is polled.
pub async fn stand_by(listener: TcpListener) -> Infallible {
    let places = Arc::new(Semaphore::new(MOST));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return std::future::pending().await };
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(async move {
                let mut protocol = http1::Builder::new();
                protocol.timer(TokioTimer::new()).header_read_timeout(PATIENCE).keep_alive(false);
                let connection = protocol.serve_connection(TokioIo::new(stream), service_fn(answer));
                match timeout(PATIENCE, connection).await {
                    Ok(Ok(())) | Err(_) => {}
                    Ok(Err(error)) => tracing::debug!("connection ended: {error}"),
                }
                drop(place);
            })),
            Err(error) => {
                tracing::debug!("cannot accept connections: {error}");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    Ok(match request.uri().path() {
        "/healthz" => Json(Alive::OK).into_response(),
        _ => ServerError::StandingBy.into_response(),
    })
}
