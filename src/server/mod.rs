//! HTTP: docs/http.md on the wire.
//!
//! A request passes [`front`] (is it meant for us, who sent it), is read by its handler (one module per resource), and
//! becomes one call of the engine. Every refusal is a [`error::ServerError`], which alone knows about statuses.

mod access;
mod app;
mod audit;
mod auth;
mod body;
mod budget;
pub mod catalogue;
mod connections;
mod docs;
pub mod door;
pub mod error;
mod events;
mod exposition;
mod front;
mod grants;
mod health;
pub mod hosts;
mod interrupts;
mod journal;
mod keys;
mod limits;
mod long_poll;
mod messages;
mod metrics;
pub mod models;
mod openapi;
mod outflow;
mod params;
mod pass;
mod permits;
mod places;
mod problems;
mod reading;
mod resume;
mod routes;
mod schema;
mod sessions;
pub mod settings;
mod sign_in;
mod standing_by;
mod telemetry;
#[cfg(test)]
mod tests;
mod triage;
mod ui;
mod unread;
mod webhooks;

use std::future::Future;
use std::io;
use std::sync::Arc;

use tokio::net::TcpListener;

pub use routes::document;
pub use settings::{ApiKey, HttpSettings};
pub use standing_by::stand_by;

use crate::engine::Engine;

/// Why the server cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The listener does not know its own address.
    #[error("cannot tell the address the server listens on: {0}")]
    Listener(#[from] io::Error),
}

/// Serves `engine` on `listener` until `shutdown` resolves. Then nothing more is accepted, polls are answered with the
/// session as it is, event streams end, and requests at work have [`HttpSettings::shutdown_timeout`] to finish.
///
/// # Errors
/// [`ServeError`]. What goes wrong with single connections is theirs.
pub async fn run(
    listener: TcpListener,
    engine: Arc<Engine>,
    settings: HttpSettings,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let bound = listener.local_addr()?;
    let app = routes::app(engine, settings, bound);
    let router = routes::router(&app);
    connections::serve(listener, &app, router, shutdown).await;
    Ok(())
}
