//! Webhooks: where a session's end is told, and which addresses must never be called.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};
use url::{Host, Url};

use super::error::Error;
use super::session::Status;

/// Where and how to tell of a turn's end (CONTRACT section 1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Webhook {
    /// `http` or `https`.
    pub url: String,
    /// Sent as `Authorization: Bearer <token>`.
    #[serde(default)]
    pub token: Option<String>,
    /// Whether the body carries the session's messages.
    #[serde(default)]
    pub include_messages: bool,
    /// Which statuses to tell of: `idle`, `error`, `interrupted`, `running`; idle and error where absent.
    #[serde(default)]
    pub events: Option<Vec<Status>>,
}

impl Webhook {
    /// Whether it wants to be told of `status`: idle and error where it does not say.
    pub fn wants(&self, status: Status) -> bool {
        match &self.events {
            Some(events) => events.contains(&status),
            None => matches!(status, Status::Idle | Status::Error),
        }
    }

    /// Reads the URL, and refuses what must not be called.
    ///
    /// # Errors
    /// [`Error::WebhookRefused`]: no URL, neither http nor https, or (unless `allow_private`) a private or loopback address
    /// written out. A name is checked again when it is resolved, at delivery.
    pub fn check(&self, allow_private: bool) -> Result<Url, Error> {
        let url = Url::parse(&self.url).map_err(|error| Error::WebhookRefused(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Error::WebhookRefused(format!("scheme {:?} is neither http nor https", url.scheme())));
        }
        let private = match url.host() {
            None => return Err(Error::WebhookRefused("it has no host".to_owned())),
            Some(Host::Ipv4(address)) => is_private(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => is_private(IpAddr::V6(address)),
            Some(Host::Domain(name)) => {
                let name = name.trim_end_matches('.');
                name == "localhost" || name.ends_with(".localhost")
            }
        };
        if private && !allow_private {
            return Err(Error::WebhookRefused(
                "a private or loopback address; start the server with --webhook-allow-private to allow it".to_owned(),
            ));
        }
        Ok(url)
    }
}

/// Whether `address` is not a public unicast address.
pub fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_private_v4(address),
        IpAddr::V6(address) => is_private_v6(address),
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_multicast()
        || address.is_documentation()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (18..20).contains(&b))
}

/// Of IPv6 only 2000::/3 is given out to the public, so whatever is not in there is refused without being named.
fn is_private_v6(address: Ipv6Addr) -> bool {
    if let Some(inner) = address.to_ipv4_mapped() {
        return is_private_v4(inner);
    }
    let v4 = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match address.segments() {
        // NAT64 and 6to4 carry an IPv4 address that would be reached in the end.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => is_private_v4(v4(high, low)),
        // Protocol assignments, Teredo's tunnels among them, and documentation.
        [0x2001, 0x0000..=0x01ff | 0x0db8, ..] | [0x3fff, 0x0000..=0x0fff, ..] => true,
        [first, ..] => first & 0xe000 != 0x2000,
    }
}

#[cfg(test)]
mod tests;
