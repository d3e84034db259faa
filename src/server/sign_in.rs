//! `/sign-in`, `/sign-out` and `/me`: a key for a browser, which keeps it where no script can read it.

use std::collections::HashSet;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{ORIGIN, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Shared};
use super::auth::{Peer, cookie_name, cookies};
use super::body::{Limits, read_json};
use super::error::ServerError;
use super::models::{MeResponse, SignInBody};
use super::problems::problems;
use super::reading::{At, Reading};
use crate::domain::Error;
use crate::domain::access::{Actor, digest};
use crate::domain::scope::Scopes;
use crate::engine::access::keyring::SIGN_IN_SECONDS;

/// How many cookies that are no sign-in as far as is known here are looked for in the store, where another server may
/// just have kept one. A browser has one, and one for each path and domain that somebody else's page has set.
const MOST_UNKNOWN: usize = 4;

/// The longest body with a key, in bytes: everybody may send one, and what fits into no header is no key.
const LONGEST_BODY: usize = 64 * 1024;

/// The routes of this module.
pub fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::default().routes(routes!(sign_in)).routes(routes!(sign_out)).routes(routes!(me))
}

problems!(SignInProblems: UNAUTHORIZED, REQUEST_TIMEOUT, BODY_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE,
    INVALID_REQUEST, DUPLICATE_MEMBER, NUMBER_OUT_OF_RANGE, SHUTTING_DOWN, STORE_UNAVAILABLE);
problems!(SignOutProblems: SHUTTING_DOWN, STORE_UNAVAILABLE);

/// Sign in
///
/// With a key, for 12 hours or until the key is revoked. The cookie counts as the key does; whatever it is to change has to
/// come from this server's own pages.
#[utoipa::path(post, path = "/sign-in", tag = "access", operation_id = "sign_in",
    request_body = SignInBody,
    responses(
        (status = 204, description = "Signed in.",
            headers(("Set-Cookie" = String, description = "`hitl_sign_in`, or `hitl_sign_in_8000` where the address has a port, \
                `HttpOnly` and `SameSite=Strict`."))),
        SignInProblems,
    )
)]
async fn sign_in(
    State(app): Shared,
    peer: Option<axum::Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ServerError> {
    let address = peer.map(|axum::Extension(Peer(address))| address);
    let limits = Limits { size: app.settings.max_body.min(LONGEST_BODY), ..app.limits() };
    let body = read_json(&headers, body, limits).await?.unwrap_or(Value::Null);
    let key = digest(read_key(body)?.trim().as_bytes());
    let actor = app.gate.sign_in(&app.engine, key, address)?;
    let token = app.engine.access().sign_in(key, actor).await?;
    set_cookie(&headers, &token, SIGN_IN_SECONDS)
}

/// Sign out
///
/// The cookie is worth nothing afterwards.
#[utoipa::path(post, path = "/sign-out", tag = "access", operation_id = "sign_out",
    responses(
        (status = 204, description = "Signed out.",
            headers(("Set-Cookie" = String, description = "Takes the cookie away."))),
        SignOutProblems,
    )
)]
async fn sign_out(State(app): Shared, headers: HeaderMap) -> Result<Response, ServerError> {
    let access = app.engine.access();
    let tokens: HashSet<_> = cookies(&headers).map(|token| digest(token.as_bytes())).collect();
    let (known, unknown): (Vec<_>, Vec<_>) = tokens.into_iter().partition(|token| access.signed_in(token).is_some());
    for token in known.into_iter().chain(unknown.into_iter().take(MOST_UNKNOWN)) {
        access.sign_out(token).await?;
    }
    set_cookie(&headers, "", 0)
}

/// Who I am
///
/// To this server: the name, scopes and groups of the key, and how long a request may be. Without keys everybody is
/// nobody, and may do everything.
#[utoipa::path(get, path = "/me", tag = "access", operation_id = "me",
    responses((status = 200, description = "What the key is.", body = MeResponse))
)]
async fn me(State(app): Shared, actor: Actor) -> Json<MeResponse> {
    let authentication = app.gate.is_shut(&app.engine);
    // An admin's scopes are all of them, so that a page need not know what follows from which.
    let scopes = if actor.scopes.allow(crate::domain::scope::Scope::Admin) { Scopes::ALL } else { actor.scopes };
    let (name, groups) = (actor.name().map(str::to_owned), actor.groups.to_vec());
    let prevent_self_approval = app.engine.settings().prevent_self_approval;
    let max_body = app.settings.max_body;
    Json(MeResponse { name, scopes, groups, authentication, prevent_self_approval, max_body })
}

fn read_key(body: Value) -> Result<String, ServerError> {
    let mut reading = Reading::default();
    let mut members = reading.object(At::Body, body);
    let key = reading.required(At::Body, &mut members, "key");
    let key = key.map(|key| reading.text(At::Member(&At::Body, "key"), key)).unwrap_or_default();
    reading.finish(key)
}

/// Whether the browser came over TLS, which ends before this server: its own page says so.
fn is_over_tls(headers: &HeaderMap) -> bool {
    let is_https = |value: &HeaderValue| value.as_bytes().starts_with(b"https");
    headers.get(ORIGIN).is_some_and(is_https) || headers.get("x-forwarded-proto").is_some_and(is_https)
}

fn set_cookie(headers: &HeaderMap, token: &str, seconds: u32) -> Result<Response, ServerError> {
    let secure = if is_over_tls(headers) { "; Secure" } else { "" };
    let name = cookie_name(headers);
    let cookie = format!("{name}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    let cookie = HeaderValue::from_str(&cookie).map_err(|error| Error::Internal(error.to_string()))?;
    Ok((StatusCode::NO_CONTENT, [(SET_COOKIE, cookie)]).into_response())
}
