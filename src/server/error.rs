//! Errors as HTTP answers: RFC 9457 problem details. The one place where a cause becomes a status.

use axum::Json;
use axum::http::header::{ALLOW, CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::catalogue::{self, CatalogueEntry};
use crate::domain::{Error, FieldError, Timestamp};

/// Everything a request can be refused for: the domain's causes, and those that only HTTP knows.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ServerError {
    /// What the engine says.
    #[error("{0}")]
    Domain(#[from] Error),
    /// No `Host`, several, or none that parses.
    #[error("Exactly one valid Host header is required")]
    InvalidHost,
    /// A body that is encoded on its way in another way than in chunks.
    #[error("Transfer-Encoding must be chunked and nothing else")]
    InvalidTransferEncoding,
    /// Two sign-ins in one request.
    #[error("The browser sends two sign-ins; which of them is meant cannot be told")]
    AmbiguousSignIn,
    /// No key, or a wrong one.
    #[error("A valid API key is required: send it as Authorization: Bearer <key>")]
    Unauthorized,
    /// A browser's cookie, and a page that is not this server's.
    #[error("A signed-in browser may only act from this server's own pages")]
    CrossSiteRequest,
    /// Too many requests, or too many wrong keys; seconds until the next is looked at.
    #[error("Too many requests; try again in {0} s")]
    RateLimited(u32),
    /// Every connection there may be is taken: so many.
    #[error("All {0} connections are taken")]
    TooManyConnections(usize),
    /// One address has as many connections as it may have.
    #[error("This address has {0} connections, as many as it may have")]
    AddressLimited(usize),
    /// One key, or one address without a key, has as many requests at work as it may have.
    #[error("{0} requests of this client are at work, as many as there may be")]
    TooManyAtOnce(usize),
    /// The same for long polls and event streams.
    #[error("{0} long polls and event streams of this client are open, as many as there may be")]
    TooManyWaiting(usize),
    /// Requests, or answers that nobody has taken, have as many bytes in memory as they may have: so many, of one client or
    /// of all.
    #[error(
        "The bodies of requests that are at work, or of answers that are not taken, have {0} bytes, as many as they may"
    )]
    TooMuchAtOnce(usize),
    /// The store is another server's.
    #[error("A run has the store; this server stands by until it is over")]
    StandingBy,
    /// `Host` names another server.
    #[error("Host {0:?} is not allowed; the server can be started with --allowed-host to allow it")]
    ForeignHost(String),
    /// A web page from elsewhere asks.
    #[error("Origin {0:?} is not allowed: a page of another address cannot use this server")]
    ForeignOrigin(String),
    /// No such route.
    #[error("Nothing is here; /openapi.json lists what is")]
    NotFound,
    /// The server runs turns, and answers probes alone.
    #[error("This server only runs turns; send requests to one that takes them")]
    TakesNoRequests,
    /// The route has other methods.
    #[error("Method {0} is not allowed here")]
    MethodNotAllowed(Method),
    /// The body did not arrive in time; seconds.
    #[error("The request body did not arrive within {0} seconds")]
    RequestTimeout(f64),
    /// The body is larger than this many bytes.
    #[error("The request body is larger than the limit of {0} bytes")]
    BodyTooLarge(usize),
    /// The URI is longer than this many bytes.
    #[error("The request URI is longer than the limit of {0} bytes")]
    UriTooLong(usize),
    /// A body that is not declared as JSON.
    #[error("The body must be sent with content-type application/json in UTF-8, not {0}")]
    UnsupportedMediaType(String),
}

impl ServerError {
    /// A request that does not have the documented form.
    pub fn invalid(errors: Vec<FieldError>) -> Self {
        Self::Domain(Error::InvalidRequest(errors))
    }

    /// One place of a request that is wrong.
    pub fn invalid_at(loc: [&str; 2], kind: &str, msg: impl Into<String>) -> Self {
        Self::invalid(vec![FieldError::new(loc, kind, msg)])
    }

    /// Its entry in the catalogue.
    pub fn cause(&self) -> &'static CatalogueEntry {
        match self {
            Self::Domain(error) => catalogue::cause_of(error),
            Self::InvalidHost => &catalogue::INVALID_HOST,
            Self::InvalidTransferEncoding => &catalogue::INVALID_TRANSFER_ENCODING,
            Self::AmbiguousSignIn => &catalogue::AMBIGUOUS_SIGN_IN,
            Self::Unauthorized => &catalogue::UNAUTHORIZED,
            Self::CrossSiteRequest => &catalogue::CROSS_SITE_REQUEST,
            Self::RateLimited(_) => &catalogue::RATE_LIMITED,
            Self::TooManyConnections(_) => &catalogue::TOO_MANY_CONNECTIONS,
            Self::AddressLimited(_) => &catalogue::ADDRESS_LIMITED,
            Self::TooManyAtOnce(_) => &catalogue::TOO_MANY_AT_ONCE,
            Self::TooManyWaiting(_) => &catalogue::TOO_MANY_WAITING,
            Self::TooMuchAtOnce(_) => &catalogue::TOO_MUCH_AT_ONCE,
            Self::StandingBy => &catalogue::STANDING_BY,
            Self::ForeignHost(_) => &catalogue::FOREIGN_HOST,
            Self::ForeignOrigin(_) => &catalogue::FOREIGN_ORIGIN,
            Self::NotFound => &catalogue::NOT_FOUND,
            Self::TakesNoRequests => &catalogue::TAKES_NO_REQUESTS,
            Self::MethodNotAllowed(_) => &catalogue::METHOD_NOT_ALLOWED,
            Self::RequestTimeout(_) => &catalogue::REQUEST_TIMEOUT,
            Self::BodyTooLarge(_) => &catalogue::BODY_TOO_LARGE,
            Self::UriTooLong(_) => &catalogue::URI_TOO_LONG,
            Self::UnsupportedMediaType(_) => &catalogue::UNSUPPORTED_MEDIA_TYPE,
        }
    }

    /// The body of the answer. What went wrong inside is for the log, not for clients.
    pub fn problem(&self) -> Problem {
        let cause = self.cause();
        let mut problem = Problem {
            kind: format!("urn:hitl:error:{}", cause.code),
            title: cause.title.to_owned(),
            status: cause.status.as_u16(),
            detail: cause.detail.to_owned(),
            code: cause.code.to_owned(),
            errors: None,
            resolved_by: None,
            resolved_at: None,
            claimed_by: None,
            claimed_until: None,
        };
        match self {
            Self::Domain(Error::Internal(_) | Error::Unreadable(_) | Error::StoreUnavailable(_)) => return problem,
            Self::Domain(
                Error::InvalidRequest(errors)
                | Error::InvalidAnswer(errors)
                | Error::DuplicateMember(errors)
                | Error::NumberOutOfRange(errors),
            ) => {
                problem.errors = Some(errors.clone());
            }
            Self::Domain(error @ Error::WebhookRefused(_)) => {
                problem.errors = Some(vec![FieldError::new(["body", "webhook", "url"], "refused", error.to_string())]);
            }
            Self::Domain(error @ Error::DuplicateAnswer(_)) => {
                problem.errors = Some(vec![FieldError::new(["body", "resume"], "duplicate", error.to_string())]);
            }
            Self::Domain(error @ Error::IdempotencyKeyReused) => {
                problem.errors =
                    Some(vec![FieldError::new(["header", "Idempotency-Key"], "reused", error.to_string())]);
            }
            Self::Domain(Error::AlreadyResolved { resolved_by, resolved_at }) => {
                problem.resolved_by = Some(resolved_by.clone());
                problem.resolved_at = Some(*resolved_at);
            }
            Self::Domain(Error::InterruptClaimed { claimed_by, claimed_until }) => {
                problem.claimed_by = Some(claimed_by.clone());
                problem.claimed_until = Some(*claimed_until);
            }
            _ => {}
        }
        problem.detail = self.to_string();
        problem
    }
}

/// RFC 9457 problem details.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Problem {
    /// `urn:hitl:error:<code>`.
    #[serde(rename = "type")]
    #[schema(examples("urn:hitl:error:session_not_found"))]
    pub kind: String,
    /// What kind of problem, the same at every occurrence.
    #[schema(examples("Session not found"))]
    pub title: String,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599)]
    pub status: u16,
    /// What is wrong this time.
    #[schema(examples("Session not found"))]
    pub detail: String,
    /// A stable word for the cause.
    #[schema(examples("session_not_found"), pattern = "^[a-z_]+$")]
    pub code: String,
    /// For 422: each place that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub errors: Option<Vec<FieldError>>,
    /// For `already_resolved`: who answered, null where nobody was authenticated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub resolved_by: Option<Option<String>>,
    /// For `already_resolved`: when.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub resolved_at: Option<Timestamp>,
    /// For `interrupt_claimed`: who works on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub claimed_by: Option<String>,
    /// For `interrupt_claimed`: until when.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub claimed_until: Option<Timestamp>,
}

impl IntoResponse for ServerError {
    fn into_response(self) -> Response {
        let cause = self.cause();
        if let Self::Domain(error @ (Error::Internal(_) | Error::Unreadable(_) | Error::StoreUnavailable(_))) = &self {
            tracing::error!(code = cause.code, "{error}");
        }
        let mut response = (cause.status, Json(self.problem())).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = cause.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        match self {
            Self::Unauthorized | Self::AmbiguousSignIn => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"hitl\""));
            }
            Self::RateLimited(seconds) => {
                headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
            }
            Self::Domain(Error::CustomIdsDisabled) => {
                headers.insert(ALLOW, HeaderValue::from_static("GET,HEAD,DELETE"));
            }
            // What is left of the body would be taken for the next request.
            Self::BodyTooLarge(_) | Self::RequestTimeout(_) | Self::InvalidTransferEncoding => {
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        response
    }
}
