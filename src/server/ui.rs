//! The web inbox at `/`: one page with its script, style and icon. They are built from `ui/` (`make ui`) and committed,
//! so that building the server needs no node; `make lint` checks that they are what their source makes.
//!
//! The files are open to everybody: they hold nothing of the server, and ask it for everything, with a sign-in where it
//! has keys.

use std::sync::OnceLock;

use axum::Router;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use sha2::{Digest, Sha256};

/// What agents write is hostile: nothing but our own files, nothing inline, no HTML out of strings, no framing.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; form-action 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

struct File {
    route: &'static str,
    content_type: &'static str,
    text: &'static str,
    tag: OnceLock<Option<HeaderValue>>,
}

const fn file(route: &'static str, content_type: &'static str, text: &'static str) -> File {
    File { route, content_type, text, tag: OnceLock::new() }
}

static FILES: [File; 4] = [
    file("/", "text/html; charset=utf-8", include_str!("assets/ui/index.html")),
    file("/ui/inbox.js", "text/javascript; charset=utf-8", include_str!("assets/ui/inbox.js")),
    file("/ui/inbox.css", "text/css; charset=utf-8", include_str!("assets/ui/inbox.css")),
    file("/ui/icon.svg", "image/svg+xml", include_str!("assets/ui/icon.svg")),
];

/// The routes of this module.
pub fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    FILES.iter().fold(Router::new(), |router, file| {
        router.route(file.route, get(async move |headers: HeaderMap| file.response(&headers)))
    })
}

/// Whether a route is one of the page's files, which need no key.
pub fn is_file(route: &str) -> bool {
    FILES.iter().any(|file| file.route == route)
}

impl File {
    /// Another release has other files under the same names: browsers ask each time, and are told that nothing changed.
    fn response(&self, request: &HeaderMap) -> Response {
        let tag = self.tag.get_or_init(|| {
            let digest = Sha256::digest(self.text.as_bytes());
            let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
            HeaderValue::try_from(format!("\"{hex}\"")).ok()
        });
        let mut headers = HeaderMap::new();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
        if let Some(tag) = tag {
            headers.insert(ETAG, tag.clone());
            if has(request, tag) {
                return (StatusCode::NOT_MODIFIED, headers).into_response();
            }
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        (headers, self.text).into_response()
    }
}

/// Whether a browser has the file of this tag. What is between may have compressed it, and made the tag a weak one of that.
fn has(request: &HeaderMap, tag: &HeaderValue) -> bool {
    let tags = request.get_all(IF_NONE_MATCH).iter().flat_map(|tags| tags.as_bytes().split(|byte| *byte == b','));
    tags.map(<[u8]>::trim_ascii).any(|known| {
        let known = known.strip_prefix(b"W/").unwrap_or(known);
        known == b"*" || known == tag.as_bytes()
    })
}
