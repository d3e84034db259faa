//! What a server can be told, and what its parts are told of it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::start_error::ServerStartError;
use crate::domain::cluster::routing::routed_code;
use crate::domain::digest;
use crate::domain::notice::Tries;
use crate::domain::webhook::Webhook;
use crate::engine::ports::dispatch::Runtime;
use crate::engine::settings::Settings;
use crate::faults;
#[cfg(doc)]
use crate::server::HttpSettings;
use crate::server::hosts::HostName;
use crate::store::shared::options::OptionsDigests;
use crate::store::shared::servers::{RunningNow, ServerRole};
use crate::supervisor::settings::{self, Isolation, SupervisorSettings};

/// Everything `hitl serve` can be told; times in seconds, sizes in bytes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `MODULE:ATTR`, or what sessions record of a live agent.
    pub agent: String,
    /// The interpreter of workers.
    pub python: PathBuf,
    /// Where workers run, and import from.
    pub working_dir: PathBuf,
    /// The environment of workers, without the server's secrets.
    pub environment: HashMap<String, String>,
    /// `process` or `task`.
    pub isolation: IsolationName,
    /// Address to listen on.
    pub host: String,
    /// Port; 0 for a free one.
    pub port: u16,
    /// Address of the store.
    pub store: String,
    /// The policy file.
    pub policy: Option<PathBuf>,
    /// See [`Settings::workers`].
    pub workers: usize,
    /// Run no turns, and leave them to the servers on the same store that do.
    pub no_workers: bool,
    /// See [`HttpSettings::takes_requests`]; a server that takes none leaves them to others on the same store.
    pub takes_requests: bool,
    /// See [`Settings::queue`].
    pub queue: usize,
    /// See [`Settings::max_sessions`]; 0 for no limit.
    pub max_sessions: usize,
    /// See [`Settings::allow_custom_ids`].
    pub allow_custom_ids: bool,
    /// See [`Settings::ttl`].
    pub ttl: f64,
    /// See [`Settings::timeout`].
    pub timeout: f64,
    /// See [`Settings::interrupt_ttl`].
    pub interrupt_ttl: f64,
    /// See [`Settings::suspended_ttl`].
    pub suspended_ttl: f64,
    /// See [`Settings::park_after`].
    pub park_after: f64,
    /// See [`SupervisorSettings::hold`].
    pub hold: f64,
    /// See [`Settings::max_warm`].
    pub max_warm: usize,
    /// See [`SupervisorSettings::start_timeout`].
    pub start_timeout: f64,
    /// See [`SupervisorSettings::worker_timeout`].
    pub worker_timeout: f64,
    /// See [`Settings::max_recoveries`].
    pub max_recoveries: u32,
    /// See [`Settings::keep_journal`].
    pub keep_journal: f64,
    /// See [`Settings::max_payload`].
    pub max_payload: usize,
    /// See [`Settings::max_value`].
    pub max_value: usize,
    /// See [`HttpSettings::max_body`].
    pub max_body: usize,
    /// See [`HttpSettings::max_connections`]; 0 for as many as there are file descriptors for, 4096 at most.
    pub max_connections: usize,
    /// See [`HttpSettings::max_connections_per_address`]; 0 for half of all.
    pub max_connections_per_address: usize,
    /// See [`HttpSettings::max_requests_per_key`]; 0 for half of all connections.
    pub max_requests_per_key: usize,
    /// How long turns at work may take to finish at the end.
    pub shutdown_timeout: f64,
    /// See [`HttpSettings::allowed_hosts`].
    pub allowed_hosts: Vec<String>,
    /// Allow an address that others can reach without any key.
    pub insecure: bool,
    /// See [`Settings::prevent_self_approval`].
    pub prevent_self_approval: bool,
    /// See [`HttpSettings::rate_limit`]; 0 for no limit.
    pub rate_limit: f64,
    /// See [`HttpSettings::ui`].
    pub ui: bool,
    /// A key with all scopes, besides those of the store.
    pub api_key: Option<String>,
    /// See [`Settings::webhook_secret`].
    pub webhook_secret: Option<String>,
    /// See [`Settings::allow_import`].
    pub allow_import: bool,
    /// See [`Settings::state_key`].
    pub state_key: Option<String>,
    /// See [`Settings::webhook_allow_private`].
    pub webhook_allow_private: bool,
    /// The server's own webhooks, each `URL[,event...]`.
    pub webhooks: Vec<String>,
    /// How often a webhook is tried again.
    pub webhook_retries: u32,
    /// See [`Settings::remind_after`].
    pub remind_after: f64,
}

/// How turns are kept apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IsolationName {
    /// A process for each.
    Process,
    /// Tasks in a few processes.
    Task,
}

impl Config {
    /// The names of `--allowed-host`.
    ///
    /// # Errors
    /// [`ServerStartError::AllowedHost`].
    pub(super) fn allowed_hosts(&self) -> Result<Vec<HostName>, ServerStartError> {
        let read = |text: &String| HostName::allowed(text).ok_or_else(|| ServerStartError::AllowedHost(text.clone()));
        self.allowed_hosts.iter().map(read).collect()
    }

    /// What the engine is told of it.
    ///
    /// # Errors
    /// [`ServerStartError::Webhook`].
    pub(super) fn engine_settings(&self) -> Result<Settings, ServerStartError> {
        let webhooks = self
            .webhooks
            .iter()
            .map(|text| {
                let invalid = |error: crate::domain::Error| ServerStartError::Webhook(error.to_string());
                Webhook::of_server(text, self.webhook_allow_private).map_err(invalid)
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Settings {
            agent: self.agent.clone(),
            workers: self.workers,
            queue: self.queue,
            max_sessions: Some(self.max_sessions).filter(|limit| *limit > 0),
            allow_custom_ids: self.allow_custom_ids,
            timeout: self.timeout,
            interrupt_ttl: self.interrupt_ttl,
            ttl: self.ttl,
            suspended_ttl: self.suspended_ttl,
            park_after: self.park_after,
            max_warm: self.max_warm,
            max_recoveries: self.max_recoveries,
            keep_journal: self.keep_journal,
            max_payload: self.max_payload,
            max_value: self.max_value,
            webhook_allow_private: self.webhook_allow_private,
            webhook_secret: self.webhook_secret.clone(),
            webhooks,
            tries: Tries { retries: self.webhook_retries, ..Tries::default() },
            remind_after: self.remind_after,
            allow_import: self.allow_import,
            state_key: self.state_key.clone(),
            prevent_self_approval: self.prevent_self_approval,
            ..Settings::default()
        })
    }

    /// What other servers are told of it, by its row.
    pub(super) fn role(&self, runtime: Option<Runtime>) -> ServerRole {
        let code = runtime.and_then(|runtime| routed_code(&runtime.code, &runtime.python));
        ServerRole {
            agent: Some(self.agent.clone()),
            serves_http: self.takes_requests,
            workers: self.workers,
            options: Some(self.options()),
            running: RunningNow { code, policy: None },
        }
    }

    /// The digests of the options that should be the same at all servers, whichever a session or a request comes to. Not of what a
    /// server does for itself, such as its workers; of secrets only whether there are any.
    fn options(&self) -> OptionsDigests {
        // Each is sorted: a new one has to be, too.
        let Self {
            // What becomes of a session.
            ttl,
            timeout,
            interrupt_ttl,
            suspended_ttl,
            max_recoveries,
            keep_journal,
            max_payload,
            prevent_self_approval,
            webhook_allow_private,
            webhooks,
            webhook_retries,
            remind_after,
            webhook_secret,
            // What becomes of a request.
            max_sessions,
            allow_custom_ids,
            max_value,
            allow_import,
            api_key,
            state_key,
            takes_requests,
            // What it is for, of which its row says more than a digest.
            agent: _,
            no_workers: _,
            policy: _,
            // Where it is.
            python: _,
            working_dir: _,
            environment: _,
            host: _,
            port: _,
            store: _,
            // How it does by itself what it has to do, and for how many.
            isolation: _,
            workers: _,
            queue: _,
            park_after: _,
            hold: _,
            max_warm: _,
            start_timeout: _,
            worker_timeout: _,
            shutdown_timeout: _,
            // Whom it lets in, of those who reach this one.
            max_body: _,
            max_connections: _,
            max_connections_per_address: _,
            max_requests_per_key: _,
            allowed_hosts: _,
            insecure: _,
            rate_limit: _,
            ui: _,
        } = self;
        let of_sessions = json!({
            "ttl": ttl,
            "timeout": timeout,
            "interrupt_ttl": interrupt_ttl,
            "suspended_ttl": suspended_ttl,
            "max_recoveries": max_recoveries,
            "keep_journal": keep_journal,
            "max_payload": max_payload,
            "prevent_self_approval": prevent_self_approval,
            "webhook_allow_private": webhook_allow_private,
            "webhooks": webhooks,
            "webhook_retries": webhook_retries,
            "remind_after": remind_after,
            "webhook_secret": webhook_secret.is_some(),
        });
        let of_requests = json!({
            "max_sessions": max_sessions,
            "allow_custom_ids": allow_custom_ids,
            "max_value": max_value,
            "allow_import": allow_import,
            "api_key": api_key.is_some(),
            "state_key": state_key.is_some(),
        });
        OptionsDigests {
            of_sessions: digest::of(&of_sessions),
            of_requests: takes_requests.then(|| digest::of(&of_requests)),
        }
    }

    /// What the supervisor of worker processes is told of it.
    pub(super) fn supervisor_settings(&self) -> SupervisorSettings {
        let isolation = match self.isolation {
            IsolationName::Process => Isolation::Process,
            IsolationName::Task => Isolation::tasks(),
        };
        SupervisorSettings {
            python: self.python.clone(),
            agent: self.agent.clone(),
            isolation,
            workers: self.workers,
            working_dir: self.working_dir.clone(),
            environment: self.environment.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            paths: vec![self.working_dir.clone()],
            max_payload: self.max_payload,
            hold: self.hold,
            start_timeout: seconds(self.start_timeout),
            stop_grace: settings::STOP_GRACE,
            worker_timeout: seconds(self.worker_timeout),
            spare_silent: faults::spares_silent_workers(),
        }
    }
}

/// What one client may have of all connections: what is set, or half of them.
pub(super) fn share(set: usize, connections: usize) -> usize {
    if set == 0 { (connections / 2).max(1) } else { set }
}

/// None that ends, where it is more than time can tell.
pub(super) fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Those that decide what becomes of a session.
    const OF_SESSIONS: [&str; 13] = [
        "ttl",
        "timeout",
        "interrupt_ttl",
        "suspended_ttl",
        "max_recoveries",
        "keep_journal",
        "max_payload",
        "prevent_self_approval",
        "webhook_allow_private",
        "webhooks",
        "webhook_retries",
        "remind_after",
        "webhook_secret",
    ];
    /// Those that decide what becomes of a request.
    const OF_REQUESTS: [&str; 6] =
        ["max_sessions", "allow_custom_ids", "max_value", "allow_import", "api_key", "state_key"];

    const OPTIONS: &str = r#"{
        "agent": "app:agent", "python": "python3", "working_dir": "/", "environment": {}, "isolation": "process",
        "host": "127.0.0.1", "port": 8000, "store": "memory", "policy": null, "workers": 4, "no_workers": false,
        "takes_requests": true, "queue": 100, "max_sessions": 0, "allow_custom_ids": false, "ttl": 3600,
        "timeout": 0, "interrupt_ttl": 0, "suspended_ttl": 0, "park_after": 60, "hold": 5, "max_warm": 64,
        "start_timeout": 60, "worker_timeout": 60, "max_recoveries": 3, "keep_journal": 0, "max_payload": 16384,
        "max_value": 65536, "max_body": 1048576, "max_connections": 0, "max_connections_per_address": 0,
        "max_requests_per_key": 0, "shutdown_timeout": 10, "allowed_hosts": [], "insecure": false,
        "prevent_self_approval": false, "rate_limit": 0, "ui": false, "api_key": null, "webhook_secret": null,
        "allow_import": false, "state_key": null, "webhook_allow_private": false, "webhooks": [],
        "webhook_retries": 5, "remind_after": 0
    }"#;

    fn options() -> Value {
        serde_json::from_str(OPTIONS).unwrap()
    }

    fn digests(options: &Value) -> OptionsDigests {
        serde_json::from_value::<Config>(options.clone()).unwrap().options()
    }

    fn other(name: &str, value: &Value) -> Value {
        match value {
            Value::Bool(is_so) => json!(!is_so),
            Value::Number(number) => json!(number.as_u64().unwrap() + 1),
            Value::Array(_) => json!(["https://example.com"]),
            Value::Object(_) => json!({"NAME": "value"}),
            _ if name == "isolation" => json!("task"),
            _ => json!("another"),
        }
    }

    #[test]
    fn the_digests_are_of_what_should_be_the_same_at_all_servers_and_of_nothing_else() {
        let told = options();
        let before = digests(&told);
        for (name, value) in told.as_object().unwrap() {
            let mut changed = told.clone();
            changed[name] = other(name, value);
            let after = digests(&changed);
            let differ = [before.of_sessions != after.of_sessions, before.of_requests != after.of_requests];
            let name = name.as_str();
            // Who takes none says nothing of requests.
            let expected = [OF_SESSIONS.contains(&name), OF_REQUESTS.contains(&name) || name == "takes_requests"];
            assert_eq!(differ, expected, "{name}");
        }
        assert!(OF_SESSIONS.iter().chain(&OF_REQUESTS).all(|name| told.get(name).is_some()));
    }

    #[test]
    fn an_allowed_host_that_is_none_is_named() {
        let mut told = options();
        told["allowed_hosts"] = json!(["hitl.example", "https://agents.example"]);
        let refused = serde_json::from_value::<Config>(told).unwrap().allowed_hosts().unwrap_err();
        assert_eq!(refused.to_string(), "--allowed-host \"https://agents.example\" is no host");
        assert_eq!(refused.kind(), "usage");
        assert!(refused.hint().is_some_and(|hint| hint.contains("without https://")));
    }

    #[test]
    fn of_a_secret_they_say_whether_there_is_one_and_not_which() {
        let with = |secret: &str| {
            let mut told = options();
            for name in ["api_key", "webhook_secret", "state_key"] {
                told[name] = json!(secret);
            }
            digests(&told)
        };
        assert_eq!(with("one"), with("another"));
    }

    #[test]
    fn a_server_that_takes_no_requests_says_nothing_of_what_becomes_of_them() {
        let mut told = options();
        told["takes_requests"] = json!(false);
        assert_eq!(digests(&told), OptionsDigests { of_requests: None, ..digests(&options()) });
    }
}
