//! `/openapi.json` and `/docs`, which renders it: one page, one script and one style sheet of our own, so that it works
//! without a network and under a strict content security policy.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Shared};
use super::error::ServerError;

const PAGE: &str = include_str!("assets/docs.html");
const SCRIPT: &str = include_str!("assets/docs.js");
const STYLE: &str = include_str!("assets/docs.css");

/// Nothing but our own files, no inline script, no framing.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The documented routes of this module.
pub fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::default().routes(routes!(openapi)).routes(routes!(docs))
}

/// The files that the page loads.
pub fn assets() -> Router<Arc<App>> {
    Router::new()
        .route("/docs/docs.js", get(async || asset("text/javascript; charset=utf-8", SCRIPT)))
        .route("/docs/docs.css", get(async || asset("text/css; charset=utf-8", STYLE)))
}

/// This document
#[utoipa::path(get, path = "/openapi.json", tag = "server", operation_id = "openapi",
    responses((status = 200, description = "OpenAPI as JSON.", body = utoipa::openapi::Object))
)]
async fn openapi(State(app): Shared) -> Result<Response, ServerError> {
    Ok(([(CONTENT_TYPE, "application/json")], app.document_json()?).into_response())
}

/// This document, to read
#[utoipa::path(get, path = "/docs", tag = "server", operation_id = "docs",
    responses((status = 200, description = "A page.", body = String, content_type = "text/html"))
)]
async fn docs() -> Response {
    asset("text/html; charset=utf-8", PAGE)
}

fn asset(content_type: &'static str, text: &'static str) -> Response {
    ([(CONTENT_TYPE, content_type), (CONTENT_SECURITY_POLICY, POLICY)], text).into_response()
}
