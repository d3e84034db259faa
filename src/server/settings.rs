//! What an operator sets about HTTP.

use std::time::Duration;

use super::hosts::HostName;

/// A key that clients send as `Authorization: Bearer <key>`.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Who holds it: what `resolved_by` says.
    pub name: String,
    /// The secret.
    pub key: String,
}

impl std::fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiKey").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Settings of the HTTP server; sizes in bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpSettings {
    /// Keys that are let in and may do everything, besides those of the store. Without any, everybody is let in.
    pub api_keys: Vec<ApiKey>,
    /// How many requests a second a key may make, or an address where there is no key; `None` for any number.
    pub rate_limit: Option<f64>,
    /// How many wrong keys an address may show at once, and how often one may sign in with a right one.
    pub wrong_keys: f64,
    /// How many more in a minute.
    pub wrong_keys_a_minute: f64,
    /// Names (`name` or `name:port`) by which the server may be called and whose pages may call it, besides its own
    /// address and loopback.
    pub allowed_hosts: Vec<HostName>,
    /// Whether requests are taken, or probes and `/metrics` alone answered.
    pub takes_requests: bool,
    /// Whether the web inbox is served at `/`.
    pub ui: bool,
    /// The largest request body. A route that takes answers takes at least `max_value` and its envelope.
    pub max_body: usize,
    /// The longest path and query.
    pub max_uri: usize,
    /// The largest request head.
    pub max_head: usize,
    /// How long a request's head may take to arrive, and how long a connection may stay idle between requests.
    pub head_timeout: Duration,
    /// How long a request's body may take to arrive.
    pub body_timeout: Duration,
    /// How long a client may take none of what it is sent before its connection is closed.
    pub write_timeout: Duration,
    /// How many bytes of a connection the kernel keeps that are on their way, in each direction; Linux makes twice as
    /// many of it. Without a bound it would be megabytes, for each of thousands that never read.
    pub socket_buffer: usize,
    /// How many connections are served at once. Beyond them probes are answered, everybody else is refused.
    pub max_connections: usize,
    /// How many of them one address may have.
    pub max_connections_per_address: usize,
    /// How many requests of one key, or of one address where there is no key, may be at work at once.
    pub max_requests_per_key: usize,
    /// How often an event stream without events says that it lives.
    pub event_keep_alive: Duration,
    /// How long requests at work may take to finish once the server stops.
    pub shutdown_timeout: Duration,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            api_keys: Vec::new(),
            rate_limit: None,
            wrong_keys: 20.0,
            wrong_keys_a_minute: 20.0,
            allowed_hosts: Vec::new(),
            takes_requests: true,
            ui: true,
            max_body: 1024 * 1024,
            max_uri: 8 * 1024,
            max_head: 32 * 1024,
            head_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            socket_buffer: 128 * 1024,
            max_connections: 4096,
            max_connections_per_address: 2048,
            max_requests_per_key: 2048,
            event_keep_alive: Duration::from_secs(15),
            shutdown_timeout: Duration::from_secs(10),
        }
    }
}
