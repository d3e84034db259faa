//! What comes in paths, queries and headers.

use std::fmt::Display;
use std::time::Duration;

use axum::extract::{FromRequestParts, Path};
use axum::http::header::LINK;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use url::form_urlencoded;

use super::error::ServerError;
use crate::domain::timeline::TimelineCursor;
use crate::domain::{Error, FieldError, FieldErrors, InterruptId, SessionId, Timestamp};
use crate::engine::telling::view::IdempotencyKey;

/// A session's id in the path. What is no UUID is no session either: 404.
pub struct SessionPath(pub SessionId);

impl<S: Send + Sync> FromRequestParts<S> for SessionPath {
    type Rejection = ServerError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ServerError> {
        let Path(id) = Path::<SessionId>::from_request_parts(parts, state)
            .await
            .map_err(|_| ServerError::from(Error::SessionNotFound))?;
        Ok(Self(id))
    }
}

/// An interrupt's id in the path, as the client wrote it.
pub struct InterruptPath(pub String);

impl<S: Send + Sync> FromRequestParts<S> for InterruptPath {
    type Rejection = ServerError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ServerError> {
        let Path(id) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|_| ServerError::from(Error::UnknownInterrupt("no UTF-8".to_owned())))?;
        Ok(Self(id))
    }
}

/// A query string; collects what is wrong with it.
pub struct Query {
    pairs: Vec<(String, String)>,
    errors: FieldErrors,
}

/// `limit` where a request does not say.
pub const DEFAULT_LIMIT: usize = 100;
/// The largest `limit`.
pub const MAX_LIMIT: usize = 1000;
/// The largest `after`: what the description of the routes can say.
const MOST_AFTER: u64 = i32::MAX as u64;
/// The longest `q`, in characters.
pub const LONGEST_SEARCH: usize = 200;
/// The longest poll; a longer `timeout` is as good as none.
const MAX_TIMEOUT: f64 = 365.0 * 24.0 * 3600.0;

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Self::Rejection> {
        Ok(Self::parse(parts.uri.query().unwrap_or_default()))
    }
}

/// That a request has no query, where none means anything.
pub struct NoQuery;

impl<S: Send + Sync> FromRequestParts<S> for NoQuery {
    type Rejection = ServerError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ServerError> {
        let mut query = Query::parse(parts.uri.query().unwrap_or_default());
        query.only(&[]);
        query.check().map(|()| Self)
    }
}

impl Query {
    /// Reads `a=1&b=2`.
    pub fn parse(text: &str) -> Self {
        let pairs =
            if text.is_empty() { Vec::new() } else { form_urlencoded::parse(text.as_bytes()).into_owned().collect() };
        Self { pairs, errors: FieldErrors::default() }
    }

    /// # Errors
    /// `invalid_request` with everything that was wrong.
    pub fn check(&mut self) -> Result<(), ServerError> {
        let errors = std::mem::take(&mut self.errors);
        if errors.is_empty() { Ok(()) } else { Err(ServerError::invalid(errors.into_vec(["query"]))) }
    }

    /// Refuses parameters that are not `known`, and a known one given twice: a filter with a typing error must not list
    /// everything.
    pub fn only(&mut self, known: &[&str]) {
        let mut seen: Vec<&str> = Vec::new();
        for (name, _) in &self.pairs {
            if !known.contains(&name.as_str()) {
                let msg = || {
                    if known.is_empty() {
                        "unknown parameter; there are none here".to_owned()
                    } else {
                        format!("unknown parameter; known here: {}", known.join(", "))
                    }
                };
                self.errors.push(|| FieldError::new(["query", name], "unknown_parameter", msg()));
            } else if seen.contains(&name.as_str()) {
                self.errors.push(|| FieldError::new(["query", name], "duplicate", "given twice"));
            } else {
                seen.push(name);
            }
        }
    }

    fn read<T>(&mut self, name: &str, kind: &str, wanted: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        // The last one counts, where one is given twice.
        let (_, text) = self.pairs.iter().rev().find(|(given, _)| given == name)?;
        let parsed = parse(text);
        if parsed.is_none() {
            self.errors.push(|| FieldError::new(["query", name], kind, format!("must be {wanted}")));
        }
        parsed
    }

    /// Any text but none.
    pub fn text(&mut self, name: &str) -> Option<String> {
        self.read(name, "invalid", "not empty", |text| (!text.is_empty()).then(|| text.to_owned()))
    }

    /// Any text of up to `most` characters but none.
    pub fn short_text(&mut self, name: &str, most: usize) -> Option<String> {
        self.read(name, "out_of_range", &format!("1 to {most} characters"), |text| {
            (1..=most).contains(&text.chars().count()).then(|| text.to_owned())
        })
    }

    /// 1/0, true/false, yes/no, on/off in any case.
    pub fn boolean(&mut self, name: &str) -> Option<bool> {
        self.read(name, "wrong_type", "a boolean: 1, 0, true, false, yes, no, on or off", |text| {
            let any = |words: [&str; 4]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
            if any(["1", "true", "yes", "on"]) {
                return Some(true);
            }
            any(["0", "false", "no", "off"]).then_some(false)
        })
    }

    /// Seconds to wait; zero for what is not positive.
    pub fn timeout(&mut self, name: &str) -> Option<Duration> {
        self.read(name, "wrong_type", "a finite number of seconds", |text| {
            let seconds: f64 = text.parse().ok()?;
            seconds.is_finite().then(|| Duration::from_secs_f64(seconds.clamp(0.0, MAX_TIMEOUT)))
        })
    }

    /// A page's size.
    pub fn limit(&mut self) -> usize {
        self.limit_if_any().unwrap_or(DEFAULT_LIMIT)
    }

    /// A page's size, where a list comes whole without one.
    pub fn limit_if_any(&mut self) -> Option<usize> {
        let wanted = format!("a whole number from 1 to {MAX_LIMIT}");
        self.read("limit", "out_of_range", &wanted, |text| {
            whole(text).and_then(|limit| usize::try_from(limit).ok()).filter(|limit| (1..=MAX_LIMIT).contains(limit))
        })
    }

    /// How many of a list to leave out, from the first on.
    pub fn after(&mut self) -> Option<usize> {
        let wanted = format!("a whole number from 0 to {MOST_AFTER}");
        self.read("after", "out_of_range", &wanted, |text| {
            whole(text).filter(|after| *after <= MOST_AFTER).and_then(|after| usize::try_from(after).ok())
        })
    }

    /// Where a page begins.
    pub fn cursor(&mut self) -> Option<u64> {
        self.read("cursor", "invalid", "a cursor out of a Link header", whole)
    }

    /// Where a page begins whose cursors have a `mark` in front, which tells them from those of another order.
    pub fn marked_cursor(&mut self, mark: &str) -> Option<u64> {
        self.read("cursor", "invalid", "a cursor out of a Link header of this order", |text| {
            text.strip_prefix(mark).and_then(whole)
        })
    }

    /// Where a page of a journal begins.
    pub fn journal_cursor(&mut self) -> Option<TimelineCursor> {
        self.read("cursor", "invalid", "a cursor out of a Link header", TimelineCursor::parse)
    }

    /// A word out of a list.
    pub fn word<T>(&mut self, name: &str, known: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        self.read(name, "unknown_value", &format!("one of {known}"), parse)
    }

    /// A session's id.
    pub fn session_id(&mut self, name: &str) -> Option<SessionId> {
        self.read(name, "invalid", "a UUID", |text| text.parse().ok())
    }

    /// An interrupt's id.
    pub fn interrupt_id(&mut self, name: &str) -> Option<InterruptId> {
        self.read(name, "invalid", "a UUID", |text| text.parse().ok())
    }

    /// A point in time.
    pub fn time(&mut self, name: &str) -> Option<Timestamp> {
        self.read(name, "invalid", "an RFC 3339 time, such as 2030-01-31T12:00:00Z", Timestamp::parse)
    }

    /// The `Link` to the page that begins at `next`: this query with another cursor.
    pub fn link(&self, path: &str, next: Option<impl Display>) -> Option<[(HeaderName, String); 1]> {
        self.link_by("cursor", path, next)
    }

    /// The same, where another parameter says where a page begins.
    pub fn link_by(
        &self,
        parameter: &str,
        path: &str,
        next: Option<impl Display>,
    ) -> Option<[(HeaderName, String); 1]> {
        let next = next?;
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(self.pairs.iter().filter(|(name, _)| name != parameter));
        query.append_pair(parameter, &next.to_string());
        Some([(LINK, format!("<{path}?{}>; rel=\"next\"", query.finish()))])
    }
}

/// A whole number that stores can hold.
fn whole(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| text.parse::<i64>().ok()).flatten()?;
    u64::try_from(number).ok()
}

/// `Last-Event-ID`: the number of the last event a listener has seen.
///
/// # Errors
/// `invalid_request` for what is no number.
pub fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, ServerError> {
    let wrong = || ServerError::invalid_at(["header", "Last-Event-ID"], "invalid", "must be the id of an event");
    match single(headers, &HeaderName::from_static("last-event-id")).map_err(|()| wrong())? {
        None => Ok(None),
        Some(text) => whole(text).map(Some).ok_or_else(wrong),
    }
}

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// `Idempotency-Key`, with the digest of the body it came with.
///
/// # Errors
/// `invalid_request` unless it is 1 to 255 visible ASCII characters.
pub fn idempotency_key(headers: &HeaderMap, body: &serde_json::Value) -> Result<Option<IdempotencyKey>, ServerError> {
    let wrong = || {
        let msg = "must be one header of 1 to 255 visible ASCII characters";
        ServerError::invalid_at(["header", "Idempotency-Key"], "invalid", msg)
    };
    let Some(key) = single(headers, &IDEMPOTENCY_KEY).map_err(|()| wrong())? else {
        return Ok(None);
    };
    if !(1..=255).contains(&key.len()) || !key.bytes().all(|byte| (0x21..=0x7e).contains(&byte)) {
        return Err(wrong());
    }
    Ok(Some(IdempotencyKey { key: key.to_owned(), request_digest: crate::domain::digest::of(body) }))
}

/// The header `traceparent` (W3C Trace Context). One that is none counts as absent: it is for whoever traces, and no reason
/// to refuse a message.
pub fn traceparent(headers: &HeaderMap) -> Option<String> {
    let text = single(headers, &TRACEPARENT).ok()??;
    let mut fields = text.split('-');
    let mut hex = |length: usize| {
        let field = fields.next()?;
        let is_hex = field.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (field.len() == length && is_hex).then_some(field)
    };
    let (version, trace, span, _) = (hex(2)?, hex(32)?, hex(16)?, hex(2)?);
    let is_over = version != "00" || fields.next().is_none();
    let is_one = |id: &str| id.bytes().any(|byte| byte != b'0');
    // A later version may have more fields; what is of use of it is said in the words of this one.
    (version != "ff" && is_over && is_one(trace) && is_one(span)).then(|| format!("00{}", &text[2..55]))
}

fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| ()),
        (Some(_), Some(_)) => Err(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read<T>(text: &str, read: impl FnOnce(&mut Query) -> T) -> Result<T, ServerError> {
        let mut query = Query::parse(text);
        let value = read(&mut query);
        query.check().map(|()| value)
    }

    #[test]
    fn booleans_have_four_spellings_in_any_case() {
        for text in ["1", "true", "YES", "On"] {
            assert_eq!(read(&format!("wait={text}"), |query| query.boolean("wait")), Ok(Some(true)));
        }
        for text in ["0", "False", "no", "OFF"] {
            assert_eq!(read(&format!("wait={text}"), |query| query.boolean("wait")), Ok(Some(false)));
        }
        for text in ["", "2", "t", "truee", "null"] {
            assert!(read(&format!("wait={text}"), |query| query.boolean("wait")).is_err(), "{text}");
        }
    }

    #[test]
    fn a_timeout_is_a_finite_number_of_seconds() {
        let timeout = |text: &str| read(&format!("timeout={text}"), |query| query.timeout("timeout"));
        assert_eq!(timeout("0.25"), Ok(Some(Duration::from_millis(250))));
        assert_eq!(timeout("-3"), Ok(Some(Duration::ZERO)));
        assert_eq!(timeout("1e300"), Ok(Some(Duration::from_secs_f64(MAX_TIMEOUT))));
        for text in ["nan", "inf", "-Infinity", "", "soon", "1e999"] {
            assert!(timeout(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_limit_is_from_1_to_1000() {
        let limit = |text: &str| read(text, Query::limit);
        assert_eq!(limit(""), Ok(100));
        assert_eq!(limit("limit=1000"), Ok(1000));
        for text in
            ["limit=0", "limit=1001", "limit=-1", "limit=+1", "limit=ten", "limit=", "limit=99999999999999999999"]
        {
            assert!(limit(text).is_err(), "{text}");
        }
    }

    #[test]
    fn strict_queries_name_what_they_do_not_know() {
        let Err(ServerError::Domain(Error::InvalidRequest(errors))) =
            read("stauts=pending&type=a&type=b", |query| query.only(&["status", "type"]))
        else {
            panic!("it was taken");
        };
        let kinds: Vec<_> = errors.iter().map(|error| (json!(error.loc), error.kind.as_str())).collect();
        assert_eq!(kinds, [(json!(["query", "stauts"]), "unknown_parameter"), (json!(["query", "type"]), "duplicate")]);
    }

    #[test]
    fn of_what_is_wrong_with_a_query_the_first_is_told() {
        let wrong = (0..70).map(|number| format!("p{number}=1")).collect::<Vec<_>>().join("&");
        let Err(ServerError::Domain(Error::InvalidRequest(errors))) = read(&wrong, |query| query.only(&[])) else {
            panic!("it was taken");
        };
        assert_eq!(errors.len(), 51);
        assert_eq!(json!(errors[49].loc), json!(["query", "p49"]));
        let last = (json!(errors[50].loc), errors[50].kind.as_str(), errors[50].msg.as_str());
        assert_eq!(last, (json!(["query"]), "too_many_errors", "and 20 more"));
    }

    #[test]
    fn the_next_page_keeps_the_filters() {
        let query = Query::parse("status=idle&cursor=3&q=a%26b");
        let link = "</sessions?status=idle&q=a%26b&cursor=7>; rel=\"next\"";
        assert_eq!(query.link("/sessions", Some(7)), Some([(LINK, link.to_owned())]));
        assert_eq!(query.link("/sessions", None::<u64>), None);
    }

    #[test]
    fn an_idempotency_key_is_visible_ascii() {
        let key = |text: &str| {
            let headers = HeaderMap::from_iter([(IDEMPOTENCY_KEY, text.parse().unwrap())]);
            idempotency_key(&headers, &json!({})).map(|key| key.map(|key| key.key))
        };
        assert_eq!(key("k-1"), Ok(Some("k-1".to_owned())));
        assert!(key(&"k".repeat(255)).is_ok());
        for text in ["", "a b", &"k".repeat(256), "ä"] {
            assert!(key(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_traceparent_names_a_span_or_counts_as_absent() {
        let read = |text: &str| traceparent(&HeaderMap::from_iter([(TRACEPARENT, text.parse().unwrap())]));
        let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
        let valid = format!("00-{trace}-{span}-01");
        assert_eq!(read(&valid), Some(valid.clone()));
        assert_eq!(read(&format!("cc-{trace}-{span}-00-more")), Some(format!("00-{trace}-{span}-00")));
        let zeros = "0".repeat(32);
        for text in [
            String::new(),
            format!("ff-{trace}-{span}-01"),
            format!("{valid}-more"),
            format!("00-{zeros}-{span}-01"),
            format!("00-{trace}-{}-01", &zeros[..16]),
            valid.to_uppercase(),
            valid[..54].to_owned(),
        ] {
            assert_eq!(read(&text), None, "{text}");
        }
        let twice = [(TRACEPARENT, valid.parse().unwrap()), (TRACEPARENT, valid.parse().unwrap())];
        let mut headers = HeaderMap::new();
        twice.into_iter().for_each(|(name, value)| {
            headers.append(name, value);
        });
        assert_eq!(traceparent(&headers), None);
    }

    #[test]
    fn a_listener_goes_on_after_a_number() {
        let last = |text: &'static str| {
            last_event_id(&HeaderMap::from_iter([(HeaderName::from_static("last-event-id"), text.parse().unwrap())]))
        };
        assert_eq!(last("17"), Ok(Some(17)));
        for text in ["", "-1", "x", "9223372036854775808"] {
            assert!(last(text).is_err(), "{text}");
        }
    }
}
