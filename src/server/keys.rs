//! `/keys`: who may call.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Shared};
use super::body::read_json;
use super::error::ServerError;
use super::models::{CreatedKey, NewKeyBody};
use super::params::NoQuery;
use super::problems::problems;
use super::reading::{At, Reading, present};
use crate::domain::access::{Actor, Key, NewKey};
use crate::domain::scope::Scope;
use crate::domain::{Error, KeyId};

/// The routes of this module.
pub fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::default().routes(routes!(list_keys, create_key)).routes(routes!(revoke_key))
}

problems!(ListProblems: INVALID_REQUEST, SHUTTING_DOWN, STORE_UNAVAILABLE);
problems!(CreateProblems: REQUEST_TIMEOUT, KEY_EXISTS, BODY_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE,
    INVALID_REQUEST, DUPLICATE_MEMBER, NUMBER_OUT_OF_RANGE, SHUTTING_DOWN, STORE_UNAVAILABLE);
problems!(RevokeProblems: UNKNOWN_KEY, SHUTTING_DOWN, STORE_UNAVAILABLE);

/// List keys
///
/// The revoked ones too, oldest first. Their secrets are nowhere.
#[utoipa::path(get, path = "/keys", tag = "access", operation_id = "list_keys",
    responses((status = 200, description = "The keys of the store.", body = Vec<Key>), ListProblems)
)]
async fn list_keys(State(app): Shared, _: NoQuery) -> Result<Json<Vec<Key>>, ServerError> {
    Ok(Json(app.engine.access().known().keys().to_vec()))
}

/// Create a key
///
/// The answer holds its secret, this once. From the first key on, nobody is let in without one.
#[utoipa::path(post, path = "/keys", tag = "access", operation_id = "create_key",
    request_body = NewKeyBody,
    responses((status = 201, description = "The key, with its secret in `key`.", body = CreatedKey), CreateProblems)
)]
async fn create_key(
    State(app): Shared,
    actor: Actor,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<CreatedKey>), ServerError> {
    let body = read_json(&headers, body, app.limits()).await?.unwrap_or(Value::Null);
    let (record, key) = app.engine.access().create_key(read_key(body)?, actor).await?;
    Ok((StatusCode::CREATED, Json(CreatedKey { record, key })))
}

/// Revoke a key
///
/// It is worth nothing from now on, and whoever signed in with it is signed out.
#[utoipa::path(delete, path = "/keys/{key_id}", tag = "access", operation_id = "revoke_key",
    params(("key_id" = KeyId, Path, description = "The key.")),
    responses((status = 204, description = "It is revoked."), RevokeProblems)
)]
async fn revoke_key(
    State(app): Shared,
    actor: Actor,
    path: Result<Path<String>, axum::extract::rejection::PathRejection>,
) -> Result<StatusCode, ServerError> {
    let Path(id) = path.map_err(|_| Error::UnknownKey("no UTF-8".to_owned()))?;
    app.engine.access().revoke_key(&id, actor).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn read_key(body: Value) -> Result<NewKey, ServerError> {
    let mut reading = Reading::default();
    let mut members = reading.object(At::Body, body);
    let (at_scopes, at_groups) = (At::Member(&At::Body, "scopes"), At::Member(&At::Body, "groups"));
    let name = reading.required(At::Body, &mut members, "name");
    let name = name.map(|name| reading.text(At::Member(&At::Body, "name"), name)).unwrap_or_default();
    let scopes = reading.required(At::Body, &mut members, "scopes");
    let scopes = scopes.map(|scopes| reading.array(at_scopes, scopes, Reading::scope)).unwrap_or_default();
    let groups = present(&mut members, "groups");
    let groups = groups.map(|groups| reading.array(at_groups, groups, Reading::text)).unwrap_or_default();
    // A member with a typing error must not make another key than was meant.
    for name in members.keys() {
        reading.wrong(At::Member(&At::Body, name), "unknown_member", "is no member of a key");
    }
    reading.finish(NewKey { name, scopes: scopes.into_iter().flatten().collect(), groups })
}

impl Reading {
    fn scope(&mut self, at: At<'_>, value: Value) -> Option<Scope> {
        self.one_of(at, &value, Scope::parse, "read, send, answer, admin")
    }
}
