//! Webhooks: told of a turn's end with retries while the server lives, signed as Standard Webhooks.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect;
use serde_json::Value;
use sha2::Sha256;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::clock;
use crate::domain::webhook::{Webhook, is_private};

/// Pauses between tries: about ten minutes in all.
const PAUSES: [u64; 9] = [1, 2, 5, 10, 20, 40, 80, 160, 300];
/// How long one try may take.
const TRY: Duration = Duration::from_secs(15);
/// How many deliveries run at once.
const AT_ONCE: usize = 32;

/// One thing to tell.
#[derive(Clone)]
pub struct Notice {
    /// Stable over all tries.
    pub id: String,
    /// Whom.
    pub webhook: Webhook,
    /// What.
    pub body: Value,
}

impl fmt::Debug for Notice {
    // The token and the messages stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notice").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Why webhooks cannot be sent at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WebhooksError {
    /// The secret is not what Standard Webhooks has: `whsec_` and base64.
    #[error("the webhook secret must be `whsec_` followed by base64 of 24 to 64 bytes")]
    InvalidSecret,
    /// No HTTP client could be made.
    #[error("cannot send webhooks: {0}")]
    Client(String),
}

/// See the module.
pub struct Webhooks {
    client: reqwest::Client,
    secret: Option<Vec<u8>>,
    allow_private: bool,
    places: Arc<Semaphore>,
    stopping: CancellationToken,
}

impl Webhooks {
    /// A sender; `secret` is `whsec_<base64>`.
    ///
    /// # Errors
    /// [`WebhooksError`].
    pub fn new(secret: Option<&str>, allow_private: bool, stopping: CancellationToken) -> Result<Self, WebhooksError> {
        let secret = secret.map(read_secret).transpose()?;
        let builder = reqwest::Client::builder()
            .timeout(TRY)
            // A redirect could lead to where the first address was not allowed to.
            .redirect(redirect::Policy::none())
            .no_proxy()
            .user_agent(concat!("hitl/", env!("CARGO_PKG_VERSION")));
        // Without this there is no default among TLS implementations; another call may have been first.
        drop(rustls::crypto::ring::default_provider().install_default());
        let builder = if allow_private { builder } else { builder.dns_resolver(Arc::new(PublicOnly)) };
        let client = builder.build().map_err(|error| WebhooksError::Client(error.to_string()))?;
        Ok(Self { client, secret, allow_private, places: Arc::new(Semaphore::new(AT_ONCE)), stopping })
    }

    /// Delivers in the background.
    pub fn send(self: &Arc<Self>, notice: Notice) {
        let this = Arc::clone(self);
        tokio::spawn(async move {
            let stopping = this.stopping.clone();
            tokio::select! {
                () = stopping.cancelled() => tracing::warn!(id = notice.id, "webhook not delivered: the server stops"),
                () = this.deliver(&notice) => {}
            }
        });
    }

    async fn deliver(&self, notice: &Notice) {
        for (attempt, pause) in PAUSES.into_iter().map(Some).chain([None]).enumerate() {
            let outcome = {
                let Ok(_place) = self.places.acquire().await else { return };
                self.attempt(notice).await
            };
            match (outcome, pause) {
                (Ok(()), _) => return,
                (Err(reason), Some(pause)) => {
                    tracing::info!(id = notice.id, attempt, reason, "webhook failed, it is tried again");
                    tokio::time::sleep(Duration::from_secs(pause)).await;
                }
                (Err(reason), None) => tracing::warn!(id = notice.id, reason, "webhook given up"),
            }
        }
    }

    async fn attempt(&self, notice: &Notice) -> Result<(), String> {
        let url = notice.webhook.check(self.allow_private).map_err(|error| error.to_string())?;
        let body = notice.body.to_string();
        let timestamp = (clock::now().millis() / 1000).to_string();
        let mut request = self
            .client
            .post(url)
            .header("content-type", "application/json")
            .header("webhook-id", &notice.id)
            .header("webhook-timestamp", &timestamp);
        if let Some(secret) = &self.secret {
            request = request.header("webhook-signature", sign(secret, &notice.id, &timestamp, &body)?);
        }
        if let Some(token) = &notice.webhook.token {
            request = request.bearer_auth(token);
        }
        // Without its URL: that may hold a secret.
        let response = request.body(body).send().await.map_err(|error| error.without_url().to_string())?;
        if response.status().is_success() { Ok(()) } else { Err(format!("it answered {}", response.status())) }
    }
}

/// Checks a secret before anything is opened or created.
///
/// # Errors
/// [`WebhooksError::InvalidSecret`].
pub fn check_secret(text: &str) -> Result<(), WebhooksError> {
    read_secret(text).map(drop)
}

fn read_secret(text: &str) -> Result<Vec<u8>, WebhooksError> {
    let encoded = text.strip_prefix("whsec_").ok_or(WebhooksError::InvalidSecret)?;
    let secret = STANDARD.decode(encoded).map_err(|_| WebhooksError::InvalidSecret)?;
    if (24..=64).contains(&secret.len()) { Ok(secret) } else { Err(WebhooksError::InvalidSecret) }
}

/// `v1,<base64 of HMAC-SHA256 over id.timestamp.body>`.
fn sign(secret: &[u8], id: &str, timestamp: &str, body: &str) -> Result<String, String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).map_err(|error| error.to_string())?;
    mac.update(format!("{id}.{timestamp}.{body}").as_bytes());
    Ok(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
}

/// Resolves names, and refuses those that lead to a private address: the check at the request cannot know them.
struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let addresses: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            if addresses.iter().any(|address| is_private(address.ip())) {
                return Err("the name leads to a private or loopback address".into());
            }
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_as_standard_webhooks_does() {
        // The example of the Standard Webhooks reference libraries.
        let secret = read_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let signed =
            sign(&secret.unwrap_or_default(), "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", r#"{"test": 2432232314}"#);
        assert_eq!(signed.as_deref(), Ok("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="));
    }

    #[test]
    fn a_secret_of_another_form_is_refused() {
        for text in ["secret", "whsec_", "whsec_c2hvcnQ=", "whsec_!"] {
            assert_eq!(read_secret(text), Err(WebhooksError::InvalidSecret), "{text}");
        }
    }
}
