//! Whom the server lets itself be called by: a check against DNS rebinding and against web pages from elsewhere.
//!
//! A web page can make a browser send requests to any address, loopback included. The browser says in `Host` which name
//! it resolved and in `Origin` which page asks; both have to be ours. API keys do not replace this check, nor it them.
//!
//! | the server listens on | `Host` | `Origin` |
//! |---|---|---|
//! | loopback | loopback names and addresses, `--allowed-host` | the same, with the server's own port |
//! | another address | loopback, any literal IP address, `--allowed-host` | the same as `Host`, `--allowed-host` |
//!
//! A literal address cannot be rebound, so it is safe as a `Host`; as an `Origin` it could be anybody's page.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Uri};

use super::error::ServerError;

/// The port of a URL that names none.
const HTTP_PORT: u16 = 80;

/// See the module.
pub struct Hosts {
    /// What nearly every request says, to compare without parsing.
    usual: [String; 2],
    bound: IpAddr,
    port: u16,
    allowed: Vec<HostName>,
}

/// A host, and the port where it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostName {
    host: String,
    port: Option<u16>,
}

impl HostName {
    /// A name of `--allowed-host`; `None` where that could never be the host of a request, or of a page.
    pub fn allowed(text: &str) -> Option<Self> {
        // A wildcard would be compared as it stands, and allow nothing.
        Self::parse(text).filter(|name| !name.host.contains('*'))
    }

    fn parse(text: &str) -> Option<Self> {
        let authority: Authority = text.parse().ok()?;
        if text.contains('@') || authority.host().is_empty() {
            return None;
        }
        // A port that is no number makes `port_u16` none, as a missing one does.
        if authority.port_u16().is_none() && !text.ends_with(authority.host()) {
            return None;
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
        Some(Self { host: host.to_ascii_lowercase(), port: authority.port_u16() })
    }

    fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok().map(|address: IpAddr| address.to_canonical())
    }

    fn is_loopback(&self) -> bool {
        self.host == "localhost"
            || self.host.ends_with(".localhost")
            || self.address().is_some_and(|address| address.is_loopback())
    }

    fn allows(&self, other: &Self) -> bool {
        self.host == other.host && (self.port.is_none() || self.port == other.port)
    }
}

/// Whether an `--allowed-host` is a name of this machine for itself, at which no other one calls.
pub fn is_loopback_name(allowed: &str) -> bool {
    HostName::parse(allowed).is_some_and(|name| name.is_loopback())
}

impl Hosts {
    /// For a server that listens on `bound`, with the names of `--allowed-host`.
    pub fn new(bound: SocketAddr, allowed: &[HostName]) -> Self {
        Self {
            usual: [bound.to_string(), format!("localhost:{}", bound.port())],
            bound: bound.ip().to_canonical(),
            port: bound.port(),
            allowed: allowed.to_vec(),
        }
    }

    /// # Errors
    /// [`ServerError::InvalidHost`], [`ServerError::ForeignHost`], [`ServerError::ForeignOrigin`].
    pub fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), ServerError> {
        let host = self.host(uri, headers)?;
        let mut origins = headers.get_all(ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (None, _) => Ok(()),
            (Some(origin), None) if self.is_own_origin(origin, host) => Ok(()),
            (Some(origin), _) => Err(ServerError::ForeignOrigin(shown(origin.as_bytes()))),
        }
    }

    fn host<'a>(&self, uri: &'a Uri, headers: &'a HeaderMap) -> Result<&'a str, ServerError> {
        let mut hosts = headers.get_all(HOST).iter();
        let header = match (hosts.next(), hosts.next()) {
            (Some(host), None) => host.to_str().map_err(|_| ServerError::InvalidHost)?,
            _ => return Err(ServerError::InvalidHost),
        };
        // A request line with a full URL names a host too; both have to be ours.
        for host in std::iter::once(header).chain(uri.authority().map(Authority::as_str)) {
            if self.usual.iter().any(|usual| usual == host) {
                continue;
            }
            let name = HostName::parse(host).ok_or(ServerError::InvalidHost)?;
            if !self.is_own(&name) {
                return Err(ServerError::ForeignHost(shown(host.as_bytes())));
            }
        }
        Ok(header)
    }

    fn is_own(&self, name: &HostName) -> bool {
        name.is_loopback()
            || self.is_allowed(name)
            || name.address().is_some_and(|address| address == self.bound || !self.bound.is_loopback())
    }

    fn is_allowed(&self, name: &HostName) -> bool {
        self.allowed.iter().any(|allowed| allowed.allows(name))
    }

    fn is_own_origin(&self, origin: &HeaderValue, host: &str) -> bool {
        let Some(authority) = origin.to_str().ok().and_then(authority_of_origin) else {
            return false;
        };
        if host.eq_ignore_ascii_case(authority) {
            return true;
        }
        HostName::parse(authority)
            .is_some_and(|name| self.is_allowed(&name) || (self.bound.is_loopback() && self.is_this_server(&name)))
    }

    /// A page of another program on this machine is as foreign as any.
    fn is_this_server(&self, name: &HostName) -> bool {
        name.is_loopback() && name.port.unwrap_or(HTTP_PORT) == self.port
    }
}

fn authority_of_origin(origin: &str) -> Option<&str> {
    origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"))
}

/// A header of anybody's making, short enough for an answer.
fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).chars().take(120).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOPBACK: &str = "127.0.0.1:8000";
    const PUBLIC: &str = "0.0.0.0:8000";

    fn check(bound: &str, host: &str, origin: Option<&str>) -> Result<(), ServerError> {
        let allowed = ["hitl.example", "ported.example:81"].map(|name| HostName::allowed(name).unwrap());
        let hosts = Hosts::new(bound.parse().unwrap(), &allowed);
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        hosts.check(&Uri::from_static("/"), &headers)
    }

    #[test]
    fn loopback_is_ours_under_every_name_and_port() {
        for host in [
            "127.0.0.1:8000",
            "127.0.0.1",
            "localhost",
            "LocalHost:9",
            "localhost.",
            "a.localhost",
            "127.9.9.9",
            "[::1]:8000",
            "[::ffff:127.0.0.1]",
        ] {
            assert_eq!(check(LOOPBACK, host, None), Ok(()), "{host}");
        }
    }

    #[test]
    fn another_host_is_foreign() {
        for host in
            ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "[::2]", "evillocalhost"]
        {
            assert_eq!(check(LOOPBACK, host, None), Err(ServerError::ForeignHost(host.to_owned())), "{host}");
        }
    }

    #[test]
    fn a_malformed_host_is_no_host() {
        for host in ["", "user@localhost", "localhost:port", "local host", "http://localhost", "localhost/path"] {
            assert_eq!(check(LOOPBACK, host, None), Err(ServerError::InvalidHost), "{host}");
        }
    }

    #[test]
    fn a_name_of_this_machine_for_itself_is_told_from_one_for_others() {
        for name in ["localhost", "LOCALHOST:8000", "inbox.localhost", "127.8.8.8", "[::1]:80", "localhost."] {
            assert!(is_loopback_name(name), "{name}");
        }
        for name in ["agents.example.com", "localhost.evil.example", "10.0.0.7:8000", "[::2]", "evillocalhost"] {
            assert!(!is_loopback_name(name), "{name}");
        }
    }

    #[test]
    fn an_allowed_host_counts_with_its_port_if_it_has_one() {
        assert_eq!(check(LOOPBACK, "hitl.example:1234", Some("https://hitl.example")), Ok(()));
        assert_eq!(check(LOOPBACK, "ported.example:81", None), Ok(()));
        assert!(check(LOOPBACK, "ported.example:82", None).is_err());
    }

    #[test]
    fn what_no_request_could_be_sent_to_is_no_allowed_host() {
        for name in ["hitl.example", "hitl.example:81", "10.0.0.1", "[::2]:81"] {
            assert!(HostName::allowed(name).is_some(), "{name}");
        }
        for name in ["", "https://hitl.example", "hitl.example/", "*.example", "*", "a b", "hitl.example:port", "a@b"] {
            assert_eq!(HostName::allowed(name), None, "{name}");
        }
    }

    #[test]
    fn elsewhere_than_on_loopback_literal_addresses_are_ours_and_names_are_not() {
        assert_eq!(check(PUBLIC, "192.168.1.5:8000", None), Ok(()));
        assert_eq!(check(PUBLIC, "localhost:8000", None), Ok(()));
        assert!(check(PUBLIC, "rebound.example:8000", None).is_err());
    }

    #[test]
    fn a_page_from_elsewhere_is_foreign() {
        for origin in [
            "null",
            "http://evil.example",
            "https://localhost.evil.example",
            "file://",
            "http://",
            "http://10.0.0.1",
            "http://127.0.0.1:5173",
            "http://localhost",
        ] {
            let refused = Err(ServerError::ForeignOrigin(origin.to_owned()));
            assert_eq!(check(LOOPBACK, "localhost:8000", Some(origin)), refused, "{origin}");
        }
        assert_eq!(check(LOOPBACK, "localhost:8000", Some("http://127.0.0.1:8000")), Ok(()));
    }

    #[test]
    fn elsewhere_than_on_loopback_only_its_own_pages_may_call() {
        assert_eq!(check(PUBLIC, "192.168.1.5:8000", Some("http://192.168.1.5:8000")), Ok(()));
        assert!(check(PUBLIC, "192.168.1.5:8000", Some("http://192.168.1.66:8000")).is_err());
        assert!(check(PUBLIC, "192.168.1.5:8000", Some("http://localhost:3000")).is_err());
        // Whose page that is depends on whose machine the browser runs on.
        assert!(check(PUBLIC, "192.168.1.5:8000", Some("http://localhost:8000")).is_err());
    }

    #[test]
    fn a_request_of_two_origins_is_foreign_though_each_of_them_is_ours() {
        let hosts = Hosts::new(LOOPBACK.parse().unwrap(), &[]);
        let own = HeaderValue::from_static("http://127.0.0.1:8000");
        let mut headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static(LOOPBACK)), (ORIGIN, own.clone())]);
        assert_eq!(hosts.check(&Uri::from_static("/"), &headers), Ok(()));
        headers.append(ORIGIN, own);
        assert!(matches!(hosts.check(&Uri::from_static("/"), &headers), Err(ServerError::ForeignOrigin(_))));
    }

    #[test]
    fn a_request_needs_exactly_one_host() {
        let hosts = Hosts::new(LOOPBACK.parse().unwrap(), &[]);
        let none = HeaderMap::new();
        assert_eq!(hosts.check(&Uri::from_static("/"), &none), Err(ServerError::InvalidHost));
        let mut two = HeaderMap::new();
        two.append(HOST, LOOPBACK.parse().unwrap());
        two.append(HOST, LOOPBACK.parse().unwrap());
        assert_eq!(hosts.check(&Uri::from_static("/"), &two), Err(ServerError::InvalidHost));
    }

    #[test]
    fn a_full_url_in_the_request_line_counts_too() {
        let hosts = Hosts::new(LOOPBACK.parse().unwrap(), &[]);
        let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static(LOOPBACK))]);
        let uri = Uri::from_static("http://evil.example/sessions");
        assert!(matches!(hosts.check(&uri, &headers), Err(ServerError::ForeignHost(_))));
    }
}
