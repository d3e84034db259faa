//! `/interrupts/{interrupt_id}/claim` and `/snooze`: who works on an interrupt, and what is put off.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Shared};
use super::body::read_json;
use super::error::ServerError;
use super::models::{NewClaim, NewSnooze};
use super::params::{InterruptPath, NoQuery, Query};
use super::problems::problems;
use super::reading::{At, LONGEST_NAME, Reading};
use crate::domain::access::Actor;
use crate::domain::interrupt::Interrupt;

/// The routes of this module.
pub fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::default()
        .routes(routes!(claim_interrupt, release_interrupt))
        .routes(routes!(snooze_interrupt, unsnooze_interrupt))
}

problems!(ClaimProblems: UNKNOWN_INTERRUPT, SELF_APPROVAL, NOT_AN_APPROVER, REQUEST_TIMEOUT, ALREADY_RESOLVED,
    INTERRUPT_CLAIMED, INTERRUPT_CANCELLED, INTERRUPT_EXPIRED, BODY_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE,
    INVALID_REQUEST, DUPLICATE_MEMBER, NUMBER_OUT_OF_RANGE, SHUTTING_DOWN, STORE_UNAVAILABLE);
problems!(ReleaseProblems: UNKNOWN_INTERRUPT, SELF_APPROVAL, NOT_AN_APPROVER, ALREADY_RESOLVED, INTERRUPT_CLAIMED,
    INTERRUPT_CANCELLED, INTERRUPT_EXPIRED, INVALID_REQUEST, SHUTTING_DOWN, STORE_UNAVAILABLE);
problems!(SnoozeProblems: UNKNOWN_INTERRUPT, SELF_APPROVAL, NOT_AN_APPROVER, REQUEST_TIMEOUT,
    ALREADY_RESOLVED, INTERRUPT_CANCELLED, INTERRUPT_EXPIRED, BODY_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE,
    INVALID_REQUEST, DUPLICATE_MEMBER, NUMBER_OUT_OF_RANGE, SHUTTING_DOWN, STORE_UNAVAILABLE);
problems!(UnsnoozeProblems: UNKNOWN_INTERRUPT, SELF_APPROVAL, NOT_AN_APPROVER, ALREADY_RESOLVED, INTERRUPT_CANCELLED, INTERRUPT_EXPIRED,
    INVALID_REQUEST, SHUTTING_DOWN, STORE_UNAVAILABLE);

/// How long a claim lasts where a request does not say.
const CLAIM: f64 = 300.0;
/// The longest claim: a day.
const LONGEST_CLAIM: f64 = 24.0 * 3600.0;
/// The longest snooze: a year.
const LONGEST_SNOOZE: f64 = 365.0 * 24.0 * 3600.0;

/// Claim an interrupt
///
/// By who may answer it. Until then nobody else can answer or claim it. Claimed again by the same, it is theirs for
/// longer.
#[utoipa::path(post, path = "/interrupts/{interrupt_id}/claim", tag = "interrupts", operation_id = "claim_interrupt",
    params(("interrupt_id" = String, Path, description = "The interrupt.")),
    request_body = Option<NewClaim>,
    responses((status = 200, description = "The interrupt, claimed.", body = Interrupt), ClaimProblems)
)]
async fn claim_interrupt(
    State(app): Shared,
    InterruptPath(id): InterruptPath,
    actor: Actor,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Interrupt>, ServerError> {
    let body = read_json(&headers, body, app.limits()).await?.filter(|body| !body.is_null());
    let mut reading = Reading::default();
    let mut members = reading.object(At::Body, body.unwrap_or_else(|| Value::Object(crate::domain::JsonObject::new())));
    let seconds = reading.seconds(At::Body, &mut members, LONGEST_CLAIM);
    let said = reading.name(At::Body, &mut members);
    let (seconds, said) = reading.finish((seconds.unwrap_or(CLAIM), said))?;
    Ok(Json(app.engine.claim_interrupt(&id, actor, said, seconds).await?))
}

/// Release an interrupt
///
/// By whoever has claimed it and may answer it, or by a key with the scope `admin`. Nothing happens where nobody has.
#[utoipa::path(delete, path = "/interrupts/{interrupt_id}/claim", tag = "interrupts", operation_id = "release_interrupt",
    params(
        ("interrupt_id" = String, Path, description = "The interrupt."),
        ("as" = Option<String>, Query, min_length = 1, max_length = 64,
            description = "Where the server has no keys: who claimed it."),
    ),
    responses((status = 200, description = "The interrupt.", body = Interrupt), ReleaseProblems)
)]
async fn release_interrupt(
    State(app): Shared,
    InterruptPath(id): InterruptPath,
    actor: Actor,
    mut query: Query,
) -> Result<Json<Interrupt>, ServerError> {
    query.only(&["as"]);
    let said = query.short_text("as", LONGEST_NAME);
    query.check()?;
    Ok(Json(app.engine.release_interrupt(&id, actor, said).await?))
}

/// Snooze an interrupt
///
/// By who may answer it. It stays pending, and can be answered; lists tell it apart, and it is not reminded of.
#[utoipa::path(post, path = "/interrupts/{interrupt_id}/snooze", tag = "interrupts", operation_id = "snooze_interrupt",
    params(("interrupt_id" = String, Path, description = "The interrupt.")),
    request_body = NewSnooze,
    responses((status = 200, description = "The interrupt, snoozed.", body = Interrupt), SnoozeProblems)
)]
async fn snooze_interrupt(
    State(app): Shared,
    InterruptPath(id): InterruptPath,
    actor: Actor,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Interrupt>, ServerError> {
    let body = read_json(&headers, body, app.limits()).await?.unwrap_or(Value::Null);
    let mut reading = Reading::default();
    let mut members = reading.object(At::Body, body);
    let is_there = members.get("seconds").is_some_and(|seconds| !seconds.is_null());
    let seconds = reading.seconds(At::Body, &mut members, LONGEST_SNOOZE);
    if !is_there {
        reading.wrong(At::Member(&At::Body, "seconds"), "missing", "is required");
    }
    let said = reading.name(At::Body, &mut members);
    let (seconds, said) = reading.finish((seconds.unwrap_or_default(), said))?;
    Ok(Json(app.engine.snooze_interrupt(&id, actor, said, seconds).await?))
}

/// Unsnooze an interrupt
///
/// By who may answer it. Nothing happens where nobody has snoozed it.
#[utoipa::path(delete, path = "/interrupts/{interrupt_id}/snooze", tag = "interrupts",
    operation_id = "unsnooze_interrupt",
    params(("interrupt_id" = String, Path, description = "The interrupt.")),
    responses((status = 200, description = "The interrupt.", body = Interrupt), UnsnoozeProblems)
)]
async fn unsnooze_interrupt(
    State(app): Shared,
    InterruptPath(id): InterruptPath,
    actor: Actor,
    _: NoQuery,
) -> Result<Json<Interrupt>, ServerError> {
    Ok(Json(app.engine.unsnooze_interrupt(&id, actor).await?))
}
