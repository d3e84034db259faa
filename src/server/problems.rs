//! How refusals are documented: per operation a list of causes, grouped by status.

use std::collections::BTreeMap;

use serde_json::json;
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response, ResponseBuilder};

use super::catalogue::CatalogueEntry;

/// The documented answers for these causes.
pub fn responses(causes: &[&'static CatalogueEntry]) -> BTreeMap<String, RefOr<Response>> {
    let mut by_status: BTreeMap<u16, Vec<&'static CatalogueEntry>> = BTreeMap::new();
    for cause in causes {
        by_status.entry(cause.status.as_u16()).or_default().push(cause);
    }
    by_status.into_iter().map(|(status, causes)| (status.to_string(), RefOr::T(response(&causes)))).collect()
}

fn response(causes: &[&'static CatalogueEntry]) -> Response {
    let lines: Vec<String> = causes.iter().map(|cause| format!("`{}`: {}", cause.code, cause.detail)).collect();
    let content = causes.iter().fold(
        ContentBuilder::new().schema(Some(RefOr::Ref(Ref::from_schema_name("Problem")))),
        |content, cause| {
            let example = ExampleBuilder::new().summary(cause.title).value(Some(example(cause))).build();
            content.examples_from_iter([(cause.code, example)])
        },
    );
    let mut response =
        ResponseBuilder::new().description(lines.join("\n\n")).content("application/problem+json", content.build());
    if causes.iter().any(|cause| cause.retry_after.is_some()) {
        response = response.header("Retry-After", header("When to try again, in seconds.", Type::Integer));
    }
    match causes.first().map(|cause| cause.status.as_u16()) {
        Some(401) => response = response.header("WWW-Authenticate", header("`Bearer`.", Type::String)),
        Some(405) => response = response.header("Allow", header("The methods there are.", Type::String)),
        _ => {}
    }
    response.build()
}

fn header(description: &str, kind: Type) -> utoipa::openapi::Header {
    HeaderBuilder::new().schema(Some(ObjectBuilder::new().schema_type(kind))).description(Some(description)).build()
}

fn example(cause: &CatalogueEntry) -> serde_json::Value {
    let mut problem = json!({
        "type": format!("urn:hitl:error:{}", cause.code), "title": cause.title, "status": cause.status.as_u16(),
        "detail": cause.detail, "code": cause.code,
    });
    match cause.code {
        "invalid_request" => {
            problem["errors"] =
                json!([{"loc": ["body", "content"], "msg": "must be a string, got a number", "type": "wrong_type"}]);
        }
        "invalid_answer" => {
            problem["errors"] = json!([{"loc": ["body", "value", "approved"], "msg": "must be a boolean, got a string", "type": "wrong_type"}]);
        }
        "already_resolved" => {
            problem["resolved_by"] = json!("ada");
            problem["resolved_at"] = json!("2030-01-31T12:00:00.000Z");
        }
        "interrupt_claimed" => {
            problem["claimed_by"] = json!("ada");
            problem["claimed_until"] = json!("2030-01-31T12:05:00.000Z");
        }
        _ => {}
    }
    problem
}

/// Declares a type that documents the refusals of an operation: `problems!(Name: CAUSE, ...)`.
macro_rules! problems {
    ($name:ident: $($cause:ident),+ $(,)?) => {
        #[doc = "The refusals of an operation, for its documentation."]
        struct $name;

        impl utoipa::IntoResponses for $name {
            fn responses() -> std::collections::BTreeMap<String, utoipa::openapi::RefOr<utoipa::openapi::Response>> {
                $crate::server::problems::responses(&[$(&$crate::server::catalogue::$cause),+])
            }
        }
    };
}
pub(super) use problems;
