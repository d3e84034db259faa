//! Waiting for a session that runs: what asks for it, and what is told then.

use std::time::Duration;

use axum::Json;
use axum::response::{IntoResponse, Response};

use super::app::App;
use super::auth::Pass;
use super::error::ServerError;
use super::models::SessionResponse;
use super::params::Query;
use super::telemetry::LongPoll;
use crate::domain::{Error, SessionId};
use crate::engine::telling::bells::{Listener, SessionSnapshot};
use crate::engine::telling::view::SessionView;

/// `wait` and `timeout` of a query.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Until when; until something happens where absent.
    timeout: Option<Duration>,
}

impl Patience {
    /// None where nobody is to wait: without `wait`, or for no time at all.
    pub fn read(query: &mut Query) -> Option<Self> {
        let wait = query.boolean("wait").unwrap_or(false);
        let timeout = query.timeout("timeout");
        (wait && !timeout.is_some_and(|timeout| timeout.is_zero())).then_some(Self { timeout })
    }

    /// The session once it does not run any more, or as it is when the patience ends or the server stops. What happens
    /// after a key was revoked is told to nobody who has shown it.
    ///
    /// Whoever asks has a place to wait in: [`App::waiting_permit`].
    ///
    /// # Errors
    /// Those of [`crate::engine::Engine::wait`], and [`ServerError::Unauthorized`].
    pub async fn wait(self, app: &App, pass: Pass, id: SessionId) -> Result<Response, ServerError> {
        self.wait_for(app, pass, id, app.engine.wait(id, self.timeout)).await
    }

    /// The same, after a message that made `sent` of the session, which `listener` has heard since before it.
    ///
    /// # Errors
    /// Those of [`Patience::wait`].
    pub async fn wait_after(
        self,
        app: &App,
        pass: Pass,
        (listener, sent): (Listener<'_>, Option<SessionSnapshot>),
        id: SessionId,
    ) -> Result<Response, ServerError> {
        self.wait_for(app, pass, id, app.engine.wait_after(listener, id, sent, self.timeout)).await
    }

    async fn wait_for(
        self,
        app: &App,
        pass: Pass,
        id: SessionId,
        view: impl Future<Output = Result<SessionView, Error>>,
    ) -> Result<Response, ServerError> {
        let view = tokio::select! {
            biased;
            () = app.gate.until_over(&app.engine, pass) => return Err(ServerError::Unauthorized),
            view = view => view?,
            () = app.stopping.cancelled() => app.engine.session(id).await?,
        };
        let mut response = Json(SessionResponse::from(view)).into_response();
        response.extensions_mut().insert(LongPoll);
        Ok(response)
    }
}
