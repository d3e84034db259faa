//! The OpenAPI document: what holds for every operation is added here, the rest stands at the handlers.

use std::sync::Arc;

use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Components, InfoBuilder, License, OpenApi, OpenApiBuilder};
use utoipa::{PartialSchema, ToSchema};
use utoipa_axum::router::OpenApiRouter;

use super::app::App;
use super::error::Problem;
use super::health::{HEALTHZ, READYZ};
use super::{catalogue, problems};

const ABOUT: &str = "Python agents that stop and ask a person, and go on exactly where they stopped.\n\n\
    Every refusal is an RFC 9457 problem (`application/problem+json`) with a stable `code`. \
    Where the server has API keys, send one as `Authorization: Bearer <key>`.";

/// An empty router with the document's head.
pub fn router() -> OpenApiRouter<Arc<App>> {
    let info = InfoBuilder::new()
        .title("hitl")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(ABOUT))
        .license(Some(License::new("Apache-2.0")));
    OpenApiRouter::with_openapi(OpenApiBuilder::new().info(info.build()).build())
}

/// Adds what every operation has: the refusals before a handler is reached, the scheme of keys, and shared schemas.
pub fn complete(mut document: OpenApi) -> OpenApi {
    for (path, item) in &mut document.paths.paths {
        let open = [HEALTHZ, READYZ].contains(&path.as_str());
        for operation in operations(item) {
            let mut causes = vec![&catalogue::INVALID_HOST, &catalogue::FOREIGN_HOST, &catalogue::FOREIGN_ORIGIN];
            if !open {
                causes.push(&catalogue::UNAUTHORIZED);
                operation.security =
                    Some(vec![SecurityRequirement::new("key", [""; 0]), SecurityRequirement::default()]);
            }
            causes.push(&catalogue::URI_TOO_LONG);
            causes.push(&catalogue::INTERNAL);
            for (status, response) in problems::responses(&causes) {
                merge(operation, status, response);
            }
        }
    }
    let components = document.components.get_or_insert_with(Components::new);
    let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("A key of `--api-key`.")).build();
    components.add_security_scheme("key", SecurityScheme::Http(scheme));
    let mut schemas = vec![(Problem::name().into_owned(), Problem::schema())];
    Problem::schemas(&mut schemas);
    components.schemas.extend(schemas);
    document
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.put, &mut item.post, &mut item.delete].into_iter().filter_map(Option::as_mut)
}

/// A status that the operation documents itself gets the shared causes added.
fn merge(operation: &mut Operation, status: String, shared: utoipa::openapi::RefOr<utoipa::openapi::Response>) {
    use utoipa::openapi::RefOr::T;
    let responses = &mut operation.responses.responses;
    let (Some(T(own)), T(shared)) = (responses.get_mut(&status), &shared) else {
        responses.insert(status, shared);
        return;
    };
    own.description = format!("{}\n\n{}", own.description, shared.description);
    for (kind, content) in &shared.content {
        if let (Some(T(own)), T(content)) = (own.content.get_mut(kind), content) {
            own.examples.extend(content.examples.clone());
        }
    }
}
