//! The OpenAPI document: what holds for every operation is added here, the rest stands at the handlers.

use axum::http::Method;
use serde_json::{Value, json};
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{Components, InfoBuilder, License, OpenApi, OpenApiBuilder};
use utoipa::{PartialSchema, ToSchema};
use utoipa_axum::router::OpenApiRouter;

use super::access::{Need, need};
use super::auth::COOKIE_NAME;
use super::error::Problem;
use super::reading::{LONGEST_TOKEN, MOST_EVENTS};
use super::resume::MOST_ANSWERS;
use super::{catalogue, problems};
use crate::domain::webhook::LONGEST_URL;

const ABOUT: &str = "Python agents that stop and ask a person, and go on exactly where they stopped.\n\n\
    Every refusal is an RFC 9457 problem (`application/problem+json`) with a stable `code`. \
    Where the server has API keys, send one as `Authorization: Bearer <key>`.";

/// In the order in which a newcomer needs them.
const TAGS: [(&str, &str); 6] = [
    ("sessions", "Conversations: one each, with at most one turn at work."),
    ("messages", "What a session is told and remembers."),
    ("interrupts", "What is asked, and the answers."),
    ("events", "What happens, as it happens."),
    ("access", "Keys, and signing in with one."),
    ("server", "How the server is, and this document."),
];

/// An empty router with the document's head.
pub fn router<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S> {
    let info = InfoBuilder::new()
        .title("hitl")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(ABOUT))
        .license(Some(License::new("Apache-2.0")));
    let tags = TAGS.map(|(name, about)| TagBuilder::new().name(name).description(Some(about)).build());
    OpenApiRouter::with_openapi(OpenApiBuilder::new().info(info.build()).tags(Some(tags)).build())
}

/// The document as JSON, with what every operation has: the refusals before a handler is reached, the scheme of keys, and
/// shared schemas.
///
/// # Errors
/// Where it cannot be written as JSON.
pub fn complete(mut document: OpenApi) -> Result<Value, serde_json::Error> {
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in operations(item) {
            let mut causes = vec![
                &catalogue::INVALID_HOST,
                &catalogue::INVALID_TRANSFER_ENCODING,
                &catalogue::FOREIGN_HOST,
                &catalogue::FOREIGN_ORIGIN,
            ];
            let need = need(&method, Some(path));
            if need != Need::Nothing {
                causes.extend([
                    &catalogue::UNAUTHORIZED,
                    &catalogue::AMBIGUOUS_SIGN_IN,
                    &catalogue::CROSS_SITE_REQUEST,
                    &catalogue::RATE_LIMITED,
                    &catalogue::TOO_MANY_AT_ONCE,
                ]);
                if operation.request_body.is_some() || method == Method::GET {
                    causes.push(&catalogue::TOO_MUCH_AT_ONCE);
                }
                let scopes: Vec<&str> = match need {
                    Need::Scope(scope) => {
                        causes.push(&catalogue::MISSING_SCOPE);
                        vec![scope.as_str()]
                    }
                    _ => Vec::new(),
                };
                let (key, cookie) =
                    (SecurityRequirement::new("key", scopes.clone()), SecurityRequirement::new("cookie", scopes));
                operation.security = Some(vec![key, cookie, SecurityRequirement::default()]);
            } else if method != Method::GET {
                causes.push(&catalogue::RATE_LIMITED);
            }
            if !["/healthz", "/readyz"].contains(&path.as_str()) {
                causes.extend([&catalogue::ADDRESS_LIMITED, &catalogue::TOO_MANY_CONNECTIONS]);
            }
            causes.push(&catalogue::URI_TOO_LONG);
            causes.push(&catalogue::INTERNAL);
            causes.push(&catalogue::UNREADABLE);
            for (status, response) in problems::responses(&causes) {
                merge(operation, status, response);
            }
        }
    }
    let components = document.components.get_or_insert_with(Components::new);
    let scheme = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "A key of `--api-key`, or of `hitl keys create`; each operation lists the scope that it asks for.",
        ))
        .build();
    components.add_security_scheme("key", SecurityScheme::Http(scheme));
    let cookie = ApiKeyValue::with_description(
        COOKIE_NAME,
        "What `POST /sign-in` sets; its name ends in the port where the address has one, as in `hitl_sign_in_8000`.",
    );
    components.add_security_scheme("cookie", SecurityScheme::ApiKey(ApiKey::Cookie(cookie)));
    let mut schemas = vec![(Problem::name().into_owned(), Problem::schema())];
    Problem::schemas(&mut schemas);
    components.schemas.extend(schemas);
    let mut document = serde_json::to_value(document)?;
    refine(&mut document["components"]["schemas"]);
    Ok(document)
}

/// What derived schemas cannot say, so that what the document allows is what the server takes.
fn refine(schemas: &mut Value) {
    schemas["Answers"] = answers();
    schemas["Interrupt"]["properties"]["response_schema"]["type"] = json!(["object", "boolean", "null"]);
    let webhook = &mut schemas["Webhook"]["properties"];
    webhook["url"] = json!({
        "type": "string", "pattern": WEBHOOK_URL, "maxLength": LONGEST_URL,
        "description": "`http` or `https`, by name. A literal public address is taken too, a private one only with `--webhook-allow-private`.",
    });
    webhook["token"]["pattern"] = json!("^[!-~]*$");
    webhook["token"]["maxLength"] = json!(LONGEST_TOKEN);
    webhook["events"]["maxItems"] = json!(MOST_EVENTS);
    webhook["events"]["uniqueItems"] = json!(true);
}

const WEBHOOK_URL: &str = "^https?://([A-Za-z0-9]+[.-])*[A-Za-z][A-Za-z0-9]*(:[0-9]{1,4})?(/[!-~]*)?$";

/// One answer or several, never both: `false` refuses a member, which derived schemas cannot say.
fn answers() -> Value {
    let named = json!({
        "type": ["string", "null"], "minLength": 1, "maxLength": 64,
        "description": "Who answers what they have claimed, where the server has no keys.",
    });
    let expected = json!({
        "type": ["string", "null"],
        "description": "The `type` of the interrupt that it is for: an answer to one of another type is refused.",
    });
    json!({
        "description": "One answer, or several that are taken all or none.",
        "oneOf": [
            {
                "type": "object", "required": ["interrupt_id", "value"],
                "properties": {
                    "interrupt_id": {"type": "string", "description": "Which interrupt."},
                    "value": {"description": "The answer; any JSON value that fits the interrupt's `response_schema`, null included."},
                    "expected_type": expected,
                    "as": named,
                    "resume": false,
                },
            },
            {
                "type": "object", "required": ["resume"],
                "properties": {
                    "resume": {
                        "type": "array", "minItems": 1, "maxItems": MOST_ANSWERS,
                        "items": {"$ref": "#/components/schemas/Answer"},
                        "description": "One for each of some interrupts of the session.",
                    },
                    "as": named,
                    "interrupt_id": false, "value": false, "expected_type": false,
                },
            },
        ],
        "examples": [{"interrupt_id": "f47ac10b-58cc-4372-a567-0e02b2c3d479", "value": {"approved": true}}],
    })
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (Method, &mut Operation)> {
    let all = [
        (Method::GET, &mut item.get),
        (Method::PUT, &mut item.put),
        (Method::POST, &mut item.post),
        (Method::DELETE, &mut item.delete),
    ];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
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
