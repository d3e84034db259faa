//! Every route, and what stands around them.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::Request;
use axum::{Router, middleware};
use utoipa_axum::router::OpenApiRouter;

use super::app::{App, Documented};
use super::error::ServerError;
use super::settings::HttpSettings;
use super::{
    audit, docs, events, front, grants, health, interrupts, journal, keys, messages, metrics, openapi, resume,
    sessions, sign_in, triage, ui, unread, webhooks,
};
use crate::engine::Engine;

/// What the handlers of a server that listens on `bound` share.
pub fn app(engine: Arc<Engine>, settings: HttpSettings, bound: SocketAddr) -> Arc<App> {
    let paths = documented().into_openapi().paths.paths.into_keys().collect();
    App::new(engine, settings, bound, Documented { paths, document })
}

/// The router of everything, or of what a server answers that takes no requests.
pub fn router(app: &Arc<App>) -> Router {
    let router = if app.settings.takes_requests {
        let (router, _) = documented().split_for_parts();
        router
            .merge(docs::assets())
            .merge(if app.settings.ui { ui::routes() } else { Router::new() })
            .fallback(async || ServerError::NotFound)
    } else {
        let (router, _) = health::probes().merge(metrics::routes()).split_for_parts();
        router.fallback(async || ServerError::TakesNoRequests)
    };
    router
        .method_not_allowed_fallback(async |request: Request| ServerError::MethodNotAllowed(request.method().clone()))
        .layer(middleware::from_fn_with_state(Arc::clone(app), front::admit))
        .layer(middleware::from_fn_with_state(Arc::clone(app), unread::read_to_end))
        .with_state(Arc::clone(app))
}

/// Every documented route.
fn documented() -> OpenApiRouter<Arc<App>> {
    openapi::router()
        .merge(sessions::routes())
        .merge(grants::routes())
        .merge(journal::routes())
        .merge(messages::routes())
        .merge(resume::routes())
        .merge(interrupts::routes())
        .merge(triage::routes())
        .merge(events::routes())
        .merge(audit::routes())
        .merge(keys::routes())
        .merge(sign_in::routes())
        .merge(webhooks::routes())
        .merge(health::routes())
        .merge(metrics::routes())
        .merge(docs::routes())
}

/// The OpenAPI document, for tools and tests.
///
/// # Errors
/// Where it cannot be written as JSON.
pub fn document() -> Result<serde_json::Value, serde_json::Error> {
    openapi::complete(documented().into_openapi())
}
