//! How a webhook is called over HTTP: one try, signed as Standard Webhooks, never at a private address.

use std::borrow::Cow;
use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::BoxFuture;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect;
use sha2::Sha256;

use crate::domain::Timestamp;
use crate::domain::notice::Notice;
use crate::domain::webhook::{check_url, is_private};
use crate::engine::ports::deliver::{Deliver, Undelivered};
use crate::engine::settings::Settings;

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
    /// The addresses that the operator has named.
    own: HashSet<String>,
    allow_private: bool,
}

impl Webhooks {
    /// A sender, as the operator set it.
    ///
    /// # Errors
    /// [`WebhooksError`].
    pub fn new(settings: &Settings) -> Result<Self, WebhooksError> {
        let secret = settings.webhook_secret.as_deref().map(read_secret).transpose()?;
        let own = settings.webhooks.iter().map(|webhook| webhook.url.clone()).collect();
        let (allow_private, timeout) =
            (settings.webhook_allow_private, Duration::from_secs_f64(settings.webhook_timeout));
        let builder = reqwest::Client::builder()
            .timeout(timeout)
            // A connection that is kept has a file descriptor, and clients could name any number of receivers.
            .pool_max_idle_per_host(0)
            // A redirect could lead to where the first address was not allowed to.
            .redirect(redirect::Policy::none())
            .no_proxy()
            .user_agent(concat!("hitl/", env!("CARGO_PKG_VERSION")));
        // Without this there is no default among TLS implementations; another call may have been first.
        drop(rustls::crypto::ring::default_provider().install_default());
        let builder = if allow_private { builder } else { builder.dns_resolver(Arc::new(PublicOnly)) };
        let client = builder.build().map_err(|error| WebhooksError::Client(error.to_string()))?;
        Ok(Self { client, secret, own, allow_private })
    }

    async fn call(&self, notice: &Notice, now: Timestamp) -> Result<(), Undelivered> {
        let url = check_url(&notice.url, self.allow_private).map_err(|error| error.to_string())?;
        let body = notice.body.clone().unwrap_or_default();
        let id = notice.id.to_string();
        let timestamp = (now.millis() / 1000).to_string();
        let mut request = self
            .client
            .post(url)
            .header("content-type", "application/json")
            .header("webhook-id", &id)
            .header("webhook-timestamp", &timestamp);
        if let Some(secret) = self.secret_for(&notice.url)? {
            request = request.header("webhook-signature", sign(&secret, &id, &timestamp, &body)?);
        }
        if let Some(token) = &notice.token {
            request = request.bearer_auth(token);
        }
        let response = request.body(body).send().await.map_err(|error| {
            let is_silent = error.is_timeout();
            Undelivered { why: causes(&error.without_url()), is_silent }
        })?;
        if response.status().is_success() { Ok(()) } else { Err(format!("it answered {}", response.status()).into()) }
    }
}

impl Deliver for Webhooks {
    fn attempt<'a>(&'a self, notice: &'a Notice, now: Timestamp) -> BoxFuture<'a, Result<(), Undelivered>> {
        Box::pin(self.call(notice, now))
    }
}

impl Webhooks {
    /// The operator's own receivers share the secret. Any other has one that is made from it and its address: a client that
    /// names its own receiver would else be sent what verifies at the operator's.
    fn secret_for(&self, url: &str) -> Result<Option<Cow<'_, [u8]>>, String> {
        match &self.secret {
            Some(secret) if !self.own.contains(url) => Ok(Some(Cow::Owned(mac(secret, url)?))),
            secret => Ok(secret.as_deref().map(Cow::Borrowed)),
        }
    }
}

/// An error with what is behind it.
fn causes(error: &dyn std::error::Error) -> String {
    let behind = std::iter::successors(error.source(), |error| error.source());
    std::iter::once(error.to_string()).chain(behind.map(ToString::to_string)).collect::<Vec<_>>().join(": ")
}

fn read_secret(text: &str) -> Result<Vec<u8>, WebhooksError> {
    let encoded = text.strip_prefix("whsec_").ok_or(WebhooksError::InvalidSecret)?;
    let secret = STANDARD.decode(encoded).map_err(|_| WebhooksError::InvalidSecret)?;
    if (24..=64).contains(&secret.len()) { Ok(secret) } else { Err(WebhooksError::InvalidSecret) }
}

/// `v1,<base64 of HMAC-SHA256 over id.timestamp.body>`.
fn sign(secret: &[u8], id: &str, timestamp: &str, body: &str) -> Result<String, String> {
    Ok(format!("v1,{}", STANDARD.encode(mac(secret, &format!("{id}.{timestamp}.{body}"))?)))
}

/// HMAC-SHA256 of a text.
fn mac(secret: &[u8], text: &str) -> Result<Vec<u8>, String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).map_err(|error| error.to_string())?;
    mac.update(text.as_bytes());
    Ok(mac.finalize().into_bytes().to_vec())
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

    #[tokio::test]
    async fn a_name_that_leads_to_this_machine_is_not_called() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://localhost:{}/", listener.local_addr().unwrap().port());
        let call = async |allow_private| {
            let settings =
                Settings { webhook_allow_private: allow_private, webhook_timeout: 0.5, ..Settings::default() };
            let webhooks = Webhooks::new(&settings).unwrap();
            // Past the check of the URL, which knows this name.
            webhooks.client.post(&url).send().await.map_err(|error| causes(&error)).unwrap_err()
        };
        let refused = call(false).await;
        assert!(refused.contains("the name leads to a private or loopback address"), "{refused}");
        assert!(listener.accept().is_err(), "it was called");
        call(true).await;
        assert!(listener.accept().is_ok());
    }

    #[tokio::test]
    async fn a_receiver_that_says_nothing_in_its_time_is_silent_and_one_that_is_not_there_is_not() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let settings = Settings { webhook_allow_private: true, webhook_timeout: 0.2, ..Settings::default() };
        let webhooks = Webhooks::new(&settings).unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let notice = Notice { url, ..crate::store::contract::outbox::notice(1, 1) };
        let try_it = async || webhooks.attempt(&notice, Timestamp::from_millis(0)).await.unwrap_err().is_silent;
        assert!(try_it().await);
        drop(listener);
        assert!(!try_it().await);
    }

    #[test]
    fn a_secret_of_another_form_is_refused() {
        for text in ["secret", "whsec_", "whsec_c2hvcnQ=", "whsec_!"] {
            assert_eq!(read_secret(text), Err(WebhooksError::InvalidSecret), "{text}");
        }
    }
}
