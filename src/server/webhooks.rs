//! `/webhooks`: what webhooks were told, and what they still have to be told.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Shared};
use super::error::ServerError;
use super::models::NoticeResponse;
use super::params::Query;
use super::problems::problems;
use crate::domain::status::NoticeStatus;
use crate::domain::{Error, SessionId};
use crate::store::query::NoticeQuery;

/// The routes of this module.
pub fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::default().routes(routes!(list_webhooks)).routes(routes!(retry_webhook))
}

problems!(ListProblems: INVALID_REQUEST, SHUTTING_DOWN, STORE_UNAVAILABLE);
problems!(RetryProblems: UNKNOWN_NOTICE, NOTICE_NOT_FAILED, SHUTTING_DOWN, STORE_UNAVAILABLE);

const FILTERS: [&str; 4] = ["status", "session_id", "limit", "cursor"];

/// List what webhooks are told
///
/// One notice for each event and webhook, newest first: what is still to be delivered, what was delivered or given up
/// in the last seven days, and reminders whose time has not come. An unknown filter is a 422.
#[utoipa::path(get, path = "/webhooks", tag = "server", operation_id = "list_webhooks",
    params(
        ("status" = Option<NoticeStatus>, Query, description = "Only those with this status."),
        ("session_id" = Option<SessionId>, Query, description = "Only those of this session."),
        ("limit" = Option<usize>, Query, minimum = 1, maximum = 1000, description = "How many at most; 100 where absent."),
        ("cursor" = Option<String>, Query, pattern = "^[0-9]{1,18}$",
            description = "Where the page begins: out of the `Link` of the page before."),
    ),
    responses(
        (status = 200, description = "A page of notices.", body = Vec<NoticeResponse>,
            headers(("Link" = Option<String>, description = "`<...>; rel=\"next\"` where there are more."))),
        ListProblems,
    )
)]
async fn list_webhooks(State(app): Shared, mut query: Query) -> Result<Response, ServerError> {
    query.only(&FILTERS);
    let wanted = NoticeQuery {
        status: query.word("status", "scheduled, pending, delivered, failed", NoticeStatus::parse),
        session_id: query.session_id("session_id"),
        limit: query.limit(),
        cursor: query.cursor(),
    };
    query.check()?;
    let page = app.engine.telling().notices(wanted).await?;
    let notices: Vec<NoticeResponse> = page.items.into_iter().map(NoticeResponse::from).collect();
    Ok((query.link("/webhooks", page.next), Json(notices)).into_response())
}

/// Tell a webhook again
///
/// What it could not be told: a notice that was given up is tried again, as often as a new one, under its own id and with
/// its own body.
#[utoipa::path(post, path = "/webhooks/{notice_id}/retry", tag = "server", operation_id = "retry_webhook",
    params(("notice_id" = String, Path, description = "The notice.")),
    responses((status = 202, description = "The notice, pending.", body = NoticeResponse), RetryProblems)
)]
async fn retry_webhook(State(app): Shared, id: Result<Path<String>, PathRejection>) -> Result<Response, ServerError> {
    let Path(id) = id.map_err(|_| Error::UnknownNotice("no UTF-8".to_owned()))?;
    let notice = app.engine.telling().retry_notice(&id).await?;
    Ok((StatusCode::ACCEPTED, Json(NoticeResponse::from(notice))).into_response())
}
