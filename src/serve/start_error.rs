//! Why a server does not start, whose it is to mend, and how.

use std::io;
use std::net::IpAddr;

use crate::adapters::webhooks::WebhooksError;
use crate::engine::access::policy_file::PolicyError;
use crate::engine::access::pushed_policy::PushedPolicyError;
use crate::store::open_error::OpenError;
use crate::supervisor::settings;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerStartError {
    /// It cannot listen.
    #[error("cannot listen on {host}:{port}: {source}")]
    Listen {
        /// Where.
        host: String,
        /// Where.
        port: u16,
        /// Why.
        source: io::Error,
    },
    /// There are too few file descriptors.
    #[error("up to {needed} files and connections may have to be open at once, and this process may have {limit}")]
    Descriptors {
        /// How many it may have.
        limit: u64,
        /// How many there may be.
        needed: u64,
    },
    /// Anybody could answer.
    #[error(
        "--host: {0} can be reached from other machines, and anybody there could answer for you: the store has no key"
    )]
    Exposed(IpAddr),
    /// Anybody who reaches a proxy could answer.
    #[error(
        "--allowed-host: {0} is a name for other machines, and anybody who reaches it could answer for you: the store \
         has no key"
    )]
    ExposedByName(String),
    /// Nobody would run turns.
    #[error("--no-workers: no other server can run the turns of this store, which one server has for itself")]
    Workless,
    /// Nobody would take requests.
    #[error("hitl work: no other server can take requests for this store, which one server has for itself")]
    OnlyWorks,
    /// Nobody could tell who sends and who answers.
    #[error("--prevent-self-approval: without keys nobody can tell who sends and who answers")]
    Nameless,
    /// Somebody's key would be the server's own.
    #[error(
        "--api-key: that is the key {0:?} of the store, and as the server's own it could do everything, whatever its scopes"
    )]
    KeyOfStore(String),
    /// Workers could not be told until when their server may act.
    #[error("workers cannot be told until when this server may act: {0}")]
    LeasePage(io::Error),
    /// There are no workers.
    #[error(transparent)]
    Workers(#[from] settings::SupervisorStartError),
    /// There is no store.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// The policy file cannot be used.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The policy that was pushed cannot be used.
    #[error(transparent)]
    PushedPolicy(#[from] PushedPolicyError),
    /// One of the server's own webhooks is none.
    #[error("--webhook {0}")]
    Webhook(String),
    /// A name by which nobody could call the server.
    #[error("--allowed-host {0:?} is no host")]
    AllowedHost(String),
    /// Webhooks cannot be sent.
    #[error(transparent)]
    Webhooks(#[from] WebhooksError),
    /// The store does not say what the engine has to know.
    #[error(transparent)]
    Engine(#[from] crate::domain::Error),
}

impl ServerStartError {
    /// Its stable name, as Python has it in `.code`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Workers(settings::SupervisorStartError::TimedOut { .. }) => "start_timeout",
            Self::Workers(settings::SupervisorStartError::Stopped) => "start_stopped",
            _ => "serve_failed",
        }
    }

    /// Whose it is to mend: `usage` (an option), `agent` or `runtime`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Workers(error) if error.is_agents() => "agent",
            Self::PushedPolicy(error) if error.hint().is_none() => "runtime",
            Self::Descriptors { .. }
            | Self::Exposed(_)
            | Self::ExposedByName(_)
            | Self::Workless
            | Self::OnlyWorks
            | Self::Nameless
            | Self::KeyOfStore(_)
            | Self::Store(_)
            | Self::Policy(_)
            | Self::PushedPolicy(_)
            | Self::Webhook(_)
            | Self::AllowedHost(_)
            | Self::Webhooks(_) => "usage",
            Self::Listen { source, .. } if source.kind() != io::ErrorKind::AddrInUse => "usage",
            _ => "runtime",
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Listen { port, source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
                Some(format!("another program listens on port {port}; choose another with --port, or 0 for a free one"))
            }
            Self::Descriptors { .. } => Some(
                "raise the limit (`ulimit -Hn`, LimitNOFILE= of systemd), or lower --max-connections, --max-warm or --workers"
                    .to_owned(),
            ),
            Self::Nameless => Some("make a key for each of them: hitl keys create NAME --scope SCOPE".to_owned()),
            Self::KeyOfStore(_) => Some(
                "HITL_API_KEY is what clients read as well: unset it here, since the store has its keys already; for a key \
                 of the server's own take another one: openssl rand -hex 32"
                    .to_owned(),
            ),
            Self::Workless | Self::OnlyWorks => Some("name a database that servers share: --store postgresql://USER@HOST/DATABASE".to_owned()),
            Self::Exposed(_) | Self::ExposedByName(_) => Some(
                "make one with `hitl keys create`, add --api-key, or --insecure if the network itself is guarded"
                    .to_owned(),
            ),
            Self::Listen { port, source, .. } if source.kind() == io::ErrorKind::PermissionDenied => Some(format!(
                "this user may not listen on port {port}; choose one of 1024 or more with --port"
            )),
            Self::Listen { .. } => Some("--host takes an address of this machine, such as 127.0.0.1".to_owned()),
            Self::Workers(settings::SupervisorStartError::AgentImport { hint, .. }) => hint.clone(),
            Self::Workers(settings::SupervisorStartError::TimedOut { .. }) => Some(
                "let the module do what takes long, or waits for others, when a turn begins and not when it is imported; \
                 or allow more with --start-timeout (0 is no limit)"
                    .to_owned(),
            ),
            Self::Store(error) => Some(error.hint().to_owned()),
            Self::Policy(error) => Some(error.hint().to_owned()),
            Self::PushedPolicy(error) => error.hint(),
            Self::Webhooks(WebhooksError::InvalidSecret) => {
                Some("for example: echo whsec_$(openssl rand -base64 32)".to_owned())
            }
            Self::AllowedHost(_) => Some(
                "a name as it stands in the address bar, with the port where that is to be the same: agents.example.com, \
                 agents.example.com:8443; without https://, a path or a *"
                    .to_owned(),
            ),
            Self::Webhook(_) => Some(
                "for example: --webhook https://example.com/hook,interrupt.created,session.error (a comma in the URL is \
                 written %2C); an address of a private network needs --webhook-allow-private"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(kind: io::ErrorKind) -> String {
        let refused = ServerStartError::Listen { host: "127.0.0.1".to_owned(), port: 80, source: kind.into() };
        refused.hint().expect("a hint")
    }

    #[test]
    fn what_keeps_a_server_from_listening_is_told_apart() {
        assert!(hint(io::ErrorKind::AddrInUse).starts_with("another program listens on port 80"));
        assert!(hint(io::ErrorKind::PermissionDenied).starts_with("this user may not listen on port 80"));
        assert!(hint(io::ErrorKind::AddrNotAvailable).starts_with("--host takes an address of this machine"));
    }
}
