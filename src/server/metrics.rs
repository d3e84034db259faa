//! `/metrics`: what the engine and the HTTP server count, as Prometheus text.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Shared};
use super::error::ServerError;
use super::exposition;
use super::problems::problems;

/// The routes of this module.
pub fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::default().routes(routes!(metrics))
}

problems!(Problems: SHUTTING_DOWN, STORE_UNAVAILABLE);

/// Prometheus metrics
#[utoipa::path(get, path = "/metrics", tag = "server", operation_id = "metrics",
    responses((status = 200, description = "Prometheus text.", body = String, content_type = "text/plain"), Problems)
)]
async fn metrics(State(app): Shared) -> Result<Response, ServerError> {
    let mut families = app.engine.figures().await?;
    families.extend(app.telemetry.figures());
    Ok(([(CONTENT_TYPE, exposition::CONTENT_TYPE)], exposition::text(&families)).into_response())
}
