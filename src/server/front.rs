//! What happens to every request: it is admitted or not, counted, logged, and kept from bringing the server down.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, HttpBody as _};
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, TRANSFER_ENCODING, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;

use super::access::{Need, need};
use super::app::{App, Asking, BodyBytes};
use super::auth::Peer;
use super::budget::{Exhausted, RequestBytes};
use super::error::ServerError;
use super::limits::network;
use super::pass::Admitted;
use super::permits::{Permit, PermittedBody};
use super::telemetry::LongPoll;
use crate::domain::Error;

/// The middleware around every route, unknown ones too.
pub async fn admit(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map(MatchedPath::as_str);
    let mut response = match check(&app, route, &mut request) {
        Ok(share) => {
            let response = match AssertUnwindSafe(next.run(request)).catch_unwind().await {
                Ok(response) => response,
                Err(panic) => {
                    ServerError::from(Error::Internal(format!("a handler panicked: {}", said(&*panic)))).into_response()
                }
            };
            match share {
                Some(share) => share.until_taken(response, &method),
                None => response,
            }
        }
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

/// What a sender has of what there is for all, for a request that is at work.
struct ClientShare {
    /// Among the requests that are.
    place: Permit<Asking>,
    /// What was read of its body is there for as long as the handler is.
    _body: BodyBytes,
    answer: RequestBytes<Asking>,
}

impl ClientShare {
    /// A client that does not take its answer is still at it, and the answer is in memory.
    fn until_taken(self, response: Response, method: &Method) -> Response {
        let Self { place, answer, .. } = self;
        let bytes = response.body().size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
        let response = match answer.add_all(bytes.unwrap_or_default()) {
            // What has changed something is told, as it would not be done again.
            Err(Exhausted(most)) if method.is_safe() => ServerError::TooMuchAtOnce(most).into_response(),
            Ok(()) | Err(_) => response,
        };
        response.map(|body| Body::new(PermittedBody::new(body, (place, answer))))
    }
}

/// First whether the request is meant for us, then who sent it, and last whether that one may. With its sender's place
/// among those whose requests are at work, and what it has of the bytes of all; a request that asks for nothing needs none.
fn check(app: &Arc<App>, route: Option<&str>, request: &mut Request) -> Result<Option<ClientShare>, ServerError> {
    check_encoding(request.headers())?;
    app.hosts.check(request.uri(), request.headers())?;
    let length = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    if length > app.settings.max_uri {
        return Err(ServerError::UriTooLong(app.settings.max_uri));
    }
    let need = need(request.method(), route);
    if need == Need::Nothing {
        return Ok(None);
    }
    let address = request.extensions().get::<Peer>().map(|Peer(address)| *address);
    let (actor, pass) = app.gate.actor(&app.engine, request.method(), request.headers(), address)?;
    let asking = actor.name.clone().map_or(Asking::Address(network(address)), Asking::Key);
    if let Some(rates) = &app.rates {
        rates.take(asking.clone(), Instant::now()).map_err(ServerError::RateLimited)?;
    }
    if let Need::Scope(scope) = need
        && !actor.may(scope)
    {
        return Err(Error::MissingScope(scope).into());
    }
    let place = app.at_work.take(asking.clone()).ok_or(ServerError::TooManyAtOnce(app.at_work.most()))?;
    request.extensions_mut().insert(asking.clone());
    request.extensions_mut().insert(actor);
    request.extensions_mut().insert(pass);
    let counted = BodyBytes(app.bodies.count_for(asking.clone()));
    if !request.body().is_end_stream() {
        let body = std::mem::take(request.body_mut());
        *request.body_mut() = Body::new(Admitted::new(body, Arc::clone(app), pass, counted.clone()));
    }
    request.extensions_mut().insert(counted.clone());
    Ok(Some(ClientShare { place, _body: counted, answer: app.answers.count_for(asking) }))
}

/// What the parser takes for chunks may have been compressed besides; who reads it otherwise sees another body.
fn check_encoding(headers: &HeaderMap) -> Result<(), ServerError> {
    let mut encodings = headers.get_all(TRANSFER_ENCODING).iter();
    match (encodings.next(), encodings.next()) {
        (None, _) => Ok(()),
        (Some(one), None) if one.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") => Ok(()),
        _ => Err(ServerError::InvalidTransferEncoding),
    }
}

/// Headers for browsers. A handler that has set one knows better.
pub fn secure(headers: &mut HeaderMap) {
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
