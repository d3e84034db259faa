//! Webhooks: where events are told, and which addresses must never be called.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};
use url::{Host, Url};

use super::error::Error;
use super::event::EventName;
use super::status::{InterruptStatus, Status};

/// How long a URL may be, in bytes. Notices are found by it, and what PostgreSQL finds by an index has to fit into a third of a
/// page.
pub const LONGEST_URL: usize = 2048;

/// What the server's own webhooks are told of where they do not say.
const UNSAID_OF_SERVER: [EventName; 6] = [
    EventName::Interrupt(InterruptStatus::Pending),
    EventName::Interrupt(InterruptStatus::Resolved),
    EventName::Interrupt(InterruptStatus::Expired),
    EventName::Interrupt(InterruptStatus::Cancelled),
    EventName::Session(Status::Idle),
    EventName::Session(Status::Error),
];

/// Where, how and of what to tell: of a message's turn, a session, or a whole server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhook {
    /// `http` or `https`.
    pub url: String,
    /// Sent as `Authorization: Bearer <token>`.
    #[serde(default)]
    pub token: Option<String>,
    /// Whether the body carries the session's messages.
    #[serde(default)]
    pub include_messages: bool,
    /// Which events to tell of; `session.idle` and `session.error` where absent. A bare status is the session's.
    #[serde(default)]
    pub events: Option<Vec<EventName>>,
}

impl Webhook {
    /// Whether it wants to be told of that: idle and error where it does not say.
    pub fn wants(&self, event: EventName) -> bool {
        match &self.events {
            Some(events) => events.contains(&event),
            None => matches!(event, EventName::Session(Status::Idle | Status::Error)),
        }
    }

    /// One of the server's own: `URL[,event...]`. Without events it is told of everything that a person or a client has
    /// to do something about, and of its end.
    ///
    /// # Errors
    /// [`Error::WebhookRefused`]: an unknown event, or those of [`Webhook::check`].
    pub fn of_server(text: &str, allow_private: bool) -> Result<Self, Error> {
        let mut parts = text.split(',').map(str::trim);
        let url = parts.next().unwrap_or_default().to_owned();
        let events = parts
            .map(|event| {
                let unknown = || Error::WebhookRefused(format!("{event:?} is none of {}", EventName::known()));
                EventName::parse(event).ok_or_else(unknown)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let events = if events.is_empty() { UNSAID_OF_SERVER.to_vec() } else { events };
        let webhook = Self { url, token: None, include_messages: false, events: Some(events) };
        webhook.check(allow_private).map(|_| webhook)
    }

    /// The webhooks that are told of an event, out of those of the message, the session and the server in this order: an
    /// address is told once, as the first that wants it says.
    pub fn told_of<'a>(event: EventName, webhooks: impl IntoIterator<Item = &'a Self>) -> Vec<&'a Self> {
        let mut told: Vec<&Self> = Vec::new();
        for webhook in webhooks {
            if webhook.wants(event) && told.iter().all(|earlier| earlier.url != webhook.url) {
                told.push(webhook);
            }
        }
        told
    }

    /// Reads the URL, and refuses what must not be called.
    ///
    /// # Errors
    /// [`Error::WebhookRefused`]: no URL, longer than [`LONGEST_URL`], neither http nor https, or (unless `allow_private`) a private or loopback address
    /// written out. A name is checked again when it is resolved, at delivery.
    pub fn check(&self, allow_private: bool) -> Result<Url, Error> {
        let url = check_url(&self.url, allow_private)?;
        match self.url.len().max(url.as_str().len()) {
            length if length > LONGEST_URL => {
                Err(Error::WebhookRefused(format!("it has {length} bytes, at most {LONGEST_URL} are taken")))
            }
            _ => Ok(url),
        }
    }
}

/// See [`Webhook::check`].
///
/// # Errors
/// [`Error::WebhookRefused`].
pub fn check_url(text: &str, allow_private: bool) -> Result<Url, Error> {
    let url = Url::parse(text).map_err(|error| Error::WebhookRefused(error.to_string()))?;
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
        return Err(Error::WebhookRefused("a private or loopback address, which the server may not call".to_owned()));
    }
    Ok(url)
}

/// Whether `address` is not a public unicast address.
pub fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_private_v4(address),
        IpAddr::V6(address) => is_private_v6(address),
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, d] = address.octets();
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
        // What Azure tells its machines of themselves, secrets among that: no private address, and reached from inside alone.
        || [a, b, c, d] == [168, 63, 129, 16]
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
