//! What happens to every request: it is admitted or not, counted, logged, and kept from bringing the server down.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, HttpBody as _};
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;

use super::access::{Need, need};
use super::app::{App, Asking};
use super::auth::Peer;
use super::error::ServerError;
use super::limits::network;
use super::pass::Admitted;
use super::telemetry::LongPoll;
use crate::domain::Error;

/// The middleware around every route, unknown ones too.
pub async fn admit(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map(MatchedPath::as_str);
    let mut response = match check(&app, route, &mut request) {
        Ok(()) => match AssertUnwindSafe(next.run(request)).catch_unwind().await {
            Ok(response) => response,
            Err(panic) => {
                ServerError::from(Error::Internal(format!("a handler panicked: {}", said(&*panic)))).into_response()
            }
        },
        Err(refused) => refused.into_response(),
    };
    secure(response.headers_mut());
    let took = started.elapsed();
    let status = response.status();
    let polled = response.extensions_mut().remove::<LongPoll>().is_some();
    app.telemetry.record(route, &method, status, (!polled).then_some(took));
    tracing::debug!(
        target: "hitl::http", %method, route = route.unwrap_or("-"), status = status.as_u16(),
        ms = took.as_secs_f64() * 1000.0, "request"
    );
    response
}

/// First whether the request is meant for us, then who sent it, and last whether that one may.
fn check(app: &Arc<App>, route: Option<&str>, request: &mut Request) -> Result<(), ServerError> {
    app.hosts.check(request.version(), request.uri(), request.headers())?;
    let length = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    if length > app.settings.max_uri {
        return Err(ServerError::UriTooLong(app.settings.max_uri));
    }
    let need = need(request.method(), route);
    if need == Need::Nothing {
        return Ok(());
    }
    let address = request.extensions().get::<Peer>().map(|Peer(address)| *address);
    let (actor, pass) = app.gate.actor(&app.engine, request.method(), request.headers(), address)?;
    if let Some(rates) = &app.rates {
        let asking = actor.name.clone().map_or(Asking::Address(network(address)), Asking::Key);
        rates.take(asking, Instant::now()).map_err(ServerError::RateLimited)?;
    }
    if let Need::Scope(scope) = need
        && !actor.may(scope)
    {
        return Err(Error::MissingScope(scope).into());
    }
    request.extensions_mut().insert(actor);
    request.extensions_mut().insert(pass);
    if !request.body().is_end_stream() {
        let body = std::mem::take(request.body_mut());
        *request.body_mut() = Body::new(Admitted { body, app: Arc::clone(app), pass });
    }
    Ok(())
}

/// Headers for browsers. A handler that has set one knows better.
fn secure(headers: &mut HeaderMap) {
    let defaults = [
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'")),
    ];
    for (name, value) in defaults {
        headers.entry(name).or_insert(value);
    }
}

fn said(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}
