//! Who calls: a key, or the cookie of somebody who has signed in with one.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::FromRequestParts;
use axum::http::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method};
use subtle::{ConditionallySelectable, ConstantTimeEq};

use super::error::ServerError;
use super::limits::{Buckets, network};
use super::settings::{ApiKey, HttpSettings};
use crate::domain::Error;
use crate::domain::access::{Actor, Digest, digest};
use crate::domain::scope::Scopes;
use crate::engine::Engine;

/// The cookie of somebody who has signed in, or what its name begins with: see [`cookie_name`].
pub const COOKIE_NAME: &str = "hitl_sign_in";
/// How many pairs of address and key are remembered.
const MANY: usize = 4096;

/// Who is let in.
pub struct Gate {
    /// The keys of the settings, which may do everything.
    settings: Vec<(Actor, Digest)>,
    wrong: Buckets<Option<IpAddr>>,
    /// Each sign-in is written, so that right ones are counted too: by key, so that nobody without it uses them up.
    sign_ins: Buckets<Digest>,
    /// Which keys of the settings have been right from which address. Whoever guesses keys from there does not shut these
    /// out.
    right: Mutex<HashSet<(Option<IpAddr>, Digest)>>,
}

/// Where a connection comes from. Put into its requests, which a handler sees as a part of the [`Actor`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub IpAddr);

/// What a request shows of itself.
#[derive(Clone, Copy)]
enum Credentials {
    None,
    /// A key, by its digest.
    Key(Digest),
    /// A cookie, by its digest.
    Cookie(Digest),
}

/// Whose a key is.
enum KeyOwner {
    Nobody,
    OfStore(Actor),
    OfSettings(Actor),
}

/// With what a request was let in, for what goes on after that. Put into requests; a handler takes it out.
#[derive(Clone, Copy)]
pub struct Pass(Credentials);

impl Gate {
    /// Lets in the keys of the settings, and those of the store.
    pub fn new(settings: &HttpSettings) -> Self {
        let known = |key: &ApiKey| (Actor::named(&key.name, Scopes::ALL, &[]), digest(key.key.as_bytes()));
        let (size, rate) = (settings.wrong_keys, settings.wrong_keys_a_minute / 60.0);
        Self {
            settings: settings.api_keys.iter().map(known).collect(),
            wrong: Buckets::new(size, rate),
            sign_ins: Buckets::new(size, rate),
            right: Mutex::default(),
        }
    }

    /// Whether anybody has to show anything: not while there has never been a key.
    pub fn is_shut(&self, engine: &Engine) -> bool {
        !self.settings.is_empty() || engine.access().known().has_any()
    }

    /// Who sent a request with these headers, and from where; and with what that was let in.
    ///
    /// # Errors
    /// [`ServerError::Unauthorized`] where there are keys and this is none of them, [`ServerError::RateLimited`],
    /// [`ServerError::CrossSiteRequest`].
    pub fn actor(
        &self,
        engine: &Engine,
        method: &Method,
        headers: &HeaderMap,
        address: Option<IpAddr>,
    ) -> Result<(Actor, Pass), ServerError> {
        if !self.is_shut(engine) {
            return Ok((Actor::anyone().at(address), Pass(Credentials::None)));
        }
        let shown = shown(engine, headers)?;
        let actor = match shown {
            Credentials::None => return Err(ServerError::Unauthorized),
            Credentials::Key(key) => self.holder(engine, key, address)?,
            Credentials::Cookie(token) => {
                let (sign_in, _) = engine.access().signed_in(&token).ok_or(ServerError::Unauthorized)?;
                let actor = self.find(engine, &sign_in.key).ok_or(ServerError::Unauthorized)?;
                let is_own = match *method {
                    Method::GET | Method::HEAD => !is_of_another_page(headers),
                    _ => is_same_origin(headers),
                };
                if !is_own {
                    return Err(ServerError::CrossSiteRequest);
                }
                actor.at(address)
            }
        };
        Ok((actor, Pass(shown)))
    }

    /// Whether what a request was let in with would still let it in; and for how long at most, where that is known.
    fn admits(&self, engine: &Engine, Pass(shown): Pass) -> Option<Duration> {
        match shown {
            Credentials::None => (!self.is_shut(engine)).then_some(Duration::MAX),
            Credentials::Key(key) => self.find(engine, &key).map(|_| Duration::MAX),
            Credentials::Cookie(token) => {
                let (sign_in, left) = engine.access().signed_in(&token)?;
                self.find(engine, &sign_in.key).map(|_| left)
            }
        }
    }

    /// Returns when that is over: the key is revoked, the sign-in has ended, or there is a first key.
    pub async fn until_over(&self, engine: &Engine, pass: Pass) {
        let mut changes = engine.access().key_changes();
        loop {
            // Before it is looked at, so that a change in between is not missed.
            changes.mark_unchanged();
            let Some(left) = self.admits(engine, pass) else { return };
            if let Ok(Err(_)) = tokio::time::timeout(left, changes.changed()).await {
                return;
            }
        }
    }

    /// # Errors
    /// [`ServerError::Unauthorized`] where that is over.
    pub fn check(&self, engine: &Engine, pass: Pass) -> Result<(), ServerError> {
        self.admits(engine, pass).map(drop).ok_or(ServerError::Unauthorized)
    }

    /// Whose key this is, with which somebody at `address` signs in.
    ///
    /// # Errors
    /// Those of [`Gate::holder`]; [`ServerError::RateLimited`] after too many sign-ins with this key.
    pub fn sign_in(&self, engine: &Engine, key: Digest, address: Option<IpAddr>) -> Result<Actor, ServerError> {
        let actor = self.holder(engine, key, address)?;
        self.sign_ins.take(key, Instant::now()).map_err(ServerError::RateLimited)?;
        Ok(actor)
    }

    /// Whose key this is, shown from `address`.
    ///
    /// # Errors
    /// [`ServerError::Unauthorized`]; [`ServerError::RateLimited`] after too many wrong ones, for right ones of the settings
    /// too: a person may have chosen those, and nobody who guesses gets to know. Those of the store are 32 random bytes,
    /// which nobody guesses.
    pub fn holder(&self, engine: &Engine, key: Digest, address: Option<IpAddr>) -> Result<Actor, ServerError> {
        let (now, whence) = (Instant::now(), network(address));
        match self.look_up(engine, &key) {
            KeyOwner::Nobody => {
                let counted = self.wrong.take(whence, now);
                Err(counted.map_or_else(ServerError::RateLimited, |()| ServerError::Unauthorized))
            }
            KeyOwner::OfStore(actor) => Ok(actor.at(address)),
            KeyOwner::OfSettings(actor) => {
                let mut right = self.right.lock().unwrap_or_else(PoisonError::into_inner);
                if !right.contains(&(whence, key)) {
                    self.wrong.look(&whence, now).map_err(ServerError::RateLimited)?;
                    if right.len() >= MANY {
                        right.clear();
                    }
                    right.insert((whence, key));
                }
                Ok(actor.at(address))
            }
        }
    }

    fn find(&self, engine: &Engine, key: &Digest) -> Option<Actor> {
        match self.look_up(engine, key) {
            KeyOwner::Nobody => None,
            KeyOwner::OfStore(actor) | KeyOwner::OfSettings(actor) => Some(actor),
        }
    }

    fn look_up(&self, engine: &Engine, key: &Digest) -> KeyOwner {
        // All keys are looked at, whichever fits: 0 is none, n is the n-th. Digests of equal length are compared, so that
        // neither content nor length of a key shows in the time it takes.
        let mut found = 0_u32;
        for (number, (_, wanted)) in (1_u32..).zip(&self.settings) {
            found.conditional_assign(&number, wanted.ct_eq(key));
        }
        let stored = engine.access().known().holder(key);
        let of_settings = (found as usize).checked_sub(1).and_then(|index| self.settings.get(index));
        match (of_settings, stored) {
            (Some((actor, _)), _) => KeyOwner::OfSettings(actor.clone()),
            (None, Some(actor)) => KeyOwner::OfStore(actor),
            (None, None) => KeyOwner::Nobody,
        }
    }
}

/// A program's key comes first: a browser that has signed in may have to show another one.
fn shown(engine: &Engine, headers: &HeaderMap) -> Result<Credentials, ServerError> {
    if let Some(key) = key(headers)? {
        return Ok(Credentials::Key(key));
    }
    // Browsers send along what any page of this host has set, and the foreign one first where it names a longer path.
    let mut sign_in = None;
    for token in cookies(headers).map(|token| digest(token.as_bytes())) {
        if sign_in == Some(token) || engine.access().signed_in(&token).is_none() {
            continue;
        }
        if sign_in.replace(token).is_some() {
            return Err(ServerError::AmbiguousSignIn);
        }
    }
    Ok(sign_in.map_or(Credentials::None, Credentials::Cookie))
}

fn key(headers: &HeaderMap) -> Result<Option<Digest>, ServerError> {
    if !headers.contains_key(AUTHORIZATION) {
        return Ok(None);
    }
    bearer(headers).map(|key| Some(digest(key))).ok_or(ServerError::Unauthorized)
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    let (scheme, key) = value.as_bytes().split_at_checked(6)?;
    let key = key.strip_prefix(b" ")?.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"bearer") && !key.is_empty()).then_some(key)
}

/// The name of the cookie at the address that the browser calls: with its port, where it names one. Browsers give the
/// cookies of a host to all its ports, and two servers on one machine would sign each other out.
pub fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
    host.and_then(|host| host.port_u16()).map_or_else(|| COOKIE_NAME.to_owned(), |port| format!("{COOKIE_NAME}_{port}"))
}

/// The tokens that the browser sends under that name: one, unless a page of another port or path has set its own.
pub fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let wanted = cookie_name(headers);
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(move |(name, value)| *name == wanted && !value.is_empty()).map(|(_, token)| token)
}

/// Whether the browser says that one of our own pages asks. Stricter than [`super::hosts`]: another port of the same
/// machine is the same site to `SameSite`, and somebody else's page.
fn is_same_origin(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value: &axum::http::HeaderValue| value.to_str().ok());
    // A proxy may have rewritten the host; what the browser makes of its own two addresses no page can write.
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == "same-origin";
    }
    let origin = text(ORIGIN).and_then(|origin| origin.split_once("://")).map(|(_, authority)| authority);
    origin.zip(text(HOST)).is_some_and(|(origin, host)| origin.eq_ignore_ascii_case(host))
}

/// Whether the browser says that another page has it read: that page sees nothing of the answer, and yet the audit would tell
/// who has seen a question. Pages are open to all, so that links to them work; what reads for them is our own.
fn is_of_another_page(headers: &HeaderMap) -> bool {
    headers.get_all("sec-fetch-site").iter().any(|site| site != "same-origin" && site != "none")
}

impl<S: Send + Sync> FromRequestParts<S> for Pass {
    type Rejection = ServerError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ServerError> {
        let nobody = || Error::Internal("a route goes on for somebody and asks nobody who it is".to_owned());
        parts.extensions.get::<Self>().copied().ok_or_else(|| nobody().into())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Actor {
    type Rejection = ServerError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ServerError> {
        // A route that is open to all has none, and must not act for anybody.
        let nobody = || Error::Internal("a route acts for somebody and asks nobody who it is".to_owned());
        parts.extensions.remove::<Self>().ok_or_else(|| nobody().into())
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
        HeaderMap::from_iter(pairs)
    }

    fn key_of(value: &'static str) -> Option<Digest> {
        key(&headers(&[("authorization", value)])).ok().flatten()
    }

    #[test]
    fn a_key_is_read_whatever_the_case_of_the_scheme() {
        assert_eq!(key_of("Bearer first"), Some(digest(b"first")));
        assert_eq!(key_of("bEARER first"), Some(digest(b"first")));
    }

    #[test]
    fn what_is_no_bearer_is_no_key_and_no_cookie_takes_its_place() {
        for value in ["Bearer ", "Bearer", "first", "Basic first", "Bearerfirst", "B", ""] {
            assert_eq!(key_of(value), None, "{value:?}");
        }
        let both = headers(&[("authorization", "Basic x"), ("cookie", "hitl_sign_in=token")]);
        assert_eq!(key(&both), Err(ServerError::Unauthorized));
    }

    fn cookie(headers: &HeaderMap) -> Option<&str> {
        cookies(headers).next()
    }

    #[test]
    fn every_cookie_of_the_name_is_found() {
        let several =
            headers(&[("cookie", "hitl_sign_in=foreign; a=b; hitl_sign_in=own"), ("cookie", "hitl_sign_in=x")]);
        assert_eq!(cookies(&several).collect::<Vec<_>>(), ["foreign", "own", "x"]);
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        assert_eq!(cookie(&headers(&[("cookie", "a=b; hitl_sign_in=token; c=d")])), Some("token"));
        for other in ["hitl_sign_in=", "xhitl_sign_in=token", "hitl_sign_in", ""] {
            assert_eq!(cookie(&headers(&[("cookie", other)])), None, "{other:?}");
        }
    }

    #[test]
    fn each_port_of_a_host_has_a_cookie_of_its_own() {
        let both = "hitl_sign_in=plain; hitl_sign_in_8000=first; hitl_sign_in_9000=second";
        for (host, token) in [
            ("hitl.example:8000", Some("first")),
            ("127.0.0.1:9000", Some("second")),
            ("[::1]:9000", Some("second")),
            ("hitl.example", Some("plain")),
            ("[::1]", Some("plain")),
            ("hitl.example:8001", None),
        ] {
            assert_eq!(cookie(&headers(&[("host", host), ("cookie", both)])), token, "{host}");
        }
    }

    #[test]
    fn only_our_own_pages_are_of_the_same_origin() {
        let host = ("host", "hitl.example:8000");
        for (pairs, same) in [
            (vec![host, ("origin", "http://hitl.example:8000")], true),
            (vec![host, ("origin", "https://HITL.example:8000")], true),
            (vec![host, ("origin", "http://hitl.example:3000")], false),
            (vec![host, ("origin", "http://hitl.example")], false),
            (vec![host, ("origin", "null")], false),
            (vec![host, ("origin", "http://hitl.example:3000"), ("sec-fetch-site", "same-origin")], true),
            (vec![host, ("origin", "http://hitl.example:8000"), ("sec-fetch-site", "cross-site")], false),
            (vec![host, ("sec-fetch-site", "same-origin")], true),
            (vec![host, ("sec-fetch-site", "same-site")], false),
            (vec![host, ("sec-fetch-site", "none")], false),
            (vec![host], false),
        ] {
            assert_eq!(is_same_origin(&headers(&pairs)), same, "{pairs:?}");
        }
    }

    #[test]
    fn a_key_is_never_shown() {
        assert_eq!(format!("{:?}", ApiKey { name: "ada".into(), key: "first".into() }), "ApiKey { name: \"ada\", .. }");
    }
}
