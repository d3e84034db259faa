//! Counts and durations of requests by route template, without a lock: every cell exists from the start.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use axum::http::{Method, StatusCode};

use crate::engine::telling::figures::{Family, Figures, Labelled};
use crate::engine::telling::histogram::Histogram;

/// Marks the answer to a request that waited because it was asked to: its duration says nothing about the server.
#[derive(Debug, Clone, Copy)]
pub struct LongPoll;

const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "DELETE", "other"];
const STATUSES: [u16; 25] = [
    200, 201, 202, 204, 304, 400, 401, 403, 404, 405, 408, 409, 410, 413, 414, 415, 422, 429, 431, 500, 501, 502, 503,
    504, 0,
];
/// Where the durations part, in seconds: from an answer out of memory to one that waited for the disk.
const DURATIONS: &[f64] = &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 5.0];
const UNMATCHED: &str = "(none)";

/// See the module.
pub struct Telemetry {
    routes: HashMap<String, Route>,
    unmatched: Route,
}

struct Route {
    counts: [[AtomicU64; STATUSES.len()]; METHODS.len()],
    durations: Histogram,
}

impl Default for Route {
    fn default() -> Self {
        Self { counts: Default::default(), durations: Histogram::new(DURATIONS) }
    }
}

impl Telemetry {
    /// For these route templates.
    pub fn new<'a>(templates: impl Iterator<Item = &'a str>) -> Self {
        let routes = templates.map(|template| (template.to_owned(), Route::default())).collect();
        Self { routes, unmatched: Route::default() }
    }

    /// Counts one answer; `took` is `None` where the duration would mislead.
    pub fn record(&self, template: Option<&str>, method: &Method, status: StatusCode, took: Option<Duration>) {
        let route = template.and_then(|template| self.routes.get(template)).unwrap_or(&self.unmatched);
        let row = METHODS.iter().position(|known| *known == method.as_str()).unwrap_or(METHODS.len() - 1);
        let column = STATUSES.iter().position(|known| *known == status.as_u16()).unwrap_or(STATUSES.len() - 1);
        route.counts[row][column].fetch_add(1, Relaxed);
        if let Some(took) = took {
            route.durations.add(took);
        }
    }

    /// The counts and the durations, by the name of the route; what did not happen is left out.
    pub fn figures(&self) -> [Family; 2] {
        let mut routes: Vec<(&str, &Route)> =
            self.routes.iter().map(|(template, route)| (template.as_str(), route)).collect();
        routes.sort_by_key(|(template, _)| *template);
        routes.push((UNMATCHED, &self.unmatched));
        let counts = routes.iter().flat_map(|(template, route)| route.counted(template)).collect();
        let durations = routes
            .iter()
            .map(|(template, route)| Labelled::one("route", template, route.durations.counted()))
            .filter(|durations| durations.value.total > 0)
            .collect();
        [
            Family {
                name: "hitl_http_requests_total",
                help: "Answered HTTP requests.",
                figures: Figures::Counter(counts),
            },
            Family {
                name: "hitl_http_request_duration_seconds",
                help: "Time to an answer's head, long polls left out.",
                figures: Figures::Histogram(durations),
            },
        ]
    }
}

impl Route {
    fn counted(&self, template: &str) -> Vec<Labelled<u64>> {
        let mut counted = Vec::new();
        for (method, row) in METHODS.iter().zip(&self.counts) {
            for (status, count) in STATUSES.iter().zip(row) {
                let value = count.load(Relaxed);
                if value > 0 {
                    let status = if *status == 0 { "other".to_owned() } else { status.to_string() };
                    let route = template.to_owned();
                    let labels = vec![("method", (*method).to_owned()), ("route", route), ("status", status)];
                    counted.push(Labelled { labels, value });
                }
            }
        }
        counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::exposition;

    #[test]
    fn counts_by_template_method_and_status_and_keeps_long_polls_out_of_the_durations() {
        let telemetry = Telemetry::new(["/sessions/{session_id}"].into_iter());
        let route = Some("/sessions/{session_id}");
        telemetry.record(route, &Method::GET, StatusCode::OK, Some(Duration::from_micros(200)));
        telemetry.record(route, &Method::GET, StatusCode::OK, None);
        telemetry.record(None, &Method::PATCH, StatusCode::IM_A_TEAPOT, Some(Duration::from_secs(60)));
        let text = exposition::text(&telemetry.figures());
        for wanted in [
            "hitl_http_requests_total{method=\"GET\",route=\"/sessions/{session_id}\",status=\"200\"} 2\n",
            "hitl_http_requests_total{method=\"other\",route=\"(none)\",status=\"other\"} 1\n",
            "hitl_http_request_duration_seconds_bucket{route=\"/sessions/{session_id}\",le=\"0.0001\"} 0\n",
            "hitl_http_request_duration_seconds_bucket{route=\"/sessions/{session_id}\",le=\"0.00025\"} 1\n",
            "hitl_http_request_duration_seconds_count{route=\"/sessions/{session_id}\"} 1\n",
            "hitl_http_request_duration_seconds_bucket{route=\"(none)\",le=\"5\"} 0\n",
            "hitl_http_request_duration_seconds_bucket{route=\"(none)\",le=\"+Inf\"} 1\n",
        ] {
            assert!(text.contains(wanted), "{wanted} is not in\n{text}");
        }
    }
}
