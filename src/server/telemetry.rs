//! Counts and durations of requests by route template, without a lock: every cell exists from the start.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use axum::http::{Method, StatusCode};

/// Marks the answer to a request that waited because it was asked to: its duration says nothing about the server.
#[derive(Debug, Clone, Copy)]
pub struct LongPoll;

const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "DELETE", "other"];
const STATUSES: [u16; 24] = [
    200, 201, 202, 204, 400, 401, 403, 404, 405, 408, 409, 410, 413, 414, 415, 422, 429, 431, 500, 501, 502, 503, 504,
    0,
];
/// Upper bounds in microseconds, and how Prometheus writes them in seconds.
const BUCKETS: [(u64, &str); 11] = [
    (100, "0.0001"),
    (250, "0.00025"),
    (500, "0.0005"),
    (1_000, "0.001"),
    (2_500, "0.0025"),
    (5_000, "0.005"),
    (10_000, "0.01"),
    (50_000, "0.05"),
    (250_000, "0.25"),
    (1_000_000, "1"),
    (5_000_000, "5"),
];
const UNMATCHED: &str = "(none)";

/// See the module.
pub struct Telemetry {
    routes: HashMap<String, Route>,
    unmatched: Route,
}

#[derive(Default)]
struct Route {
    counts: [[AtomicU64; STATUSES.len()]; METHODS.len()],
    /// One for each of [`BUCKETS`], and one for what is slower.
    durations: [AtomicU64; BUCKETS.len() + 1],
    micros: AtomicU64,
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
            let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
            let bucket = BUCKETS.iter().position(|(bound, _)| micros <= *bound).unwrap_or(BUCKETS.len());
            route.durations[bucket].fetch_add(1, Relaxed);
            route.micros.fetch_add(micros, Relaxed);
        }
    }

    /// Prometheus text.
    pub fn render(&self) -> String {
        let mut routes: Vec<(&str, &Route)> =
            self.routes.iter().map(|(template, route)| (template.as_str(), route)).collect();
        routes.sort_by_key(|(template, _)| *template);
        routes.push((UNMATCHED, &self.unmatched));
        let mut text = String::from(
            "# HELP hitl_http_requests_total Answered HTTP requests.\n# TYPE hitl_http_requests_total counter\n",
        );
        for (template, route) in &routes {
            route.render_counts(template, &mut text);
        }
        text.push_str(
            "# HELP hitl_http_request_duration_seconds Time to an answer's head, long polls left out.\n\
             # TYPE hitl_http_request_duration_seconds histogram\n",
        );
        for (template, route) in &routes {
            route.render_durations(template, &mut text);
        }
        text
    }
}

impl Route {
    fn render_counts(&self, template: &str, text: &mut String) {
        for (method, row) in METHODS.iter().zip(&self.counts) {
            for (status, count) in STATUSES.iter().zip(row) {
                let count = count.load(Relaxed);
                if count == 0 {
                    continue;
                }
                let status = if *status == 0 { "other".to_owned() } else { status.to_string() };
                line(
                    text,
                    format_args!(
                        "hitl_http_requests_total{{method=\"{method}\",route=\"{template}\",status=\"{status}\"}} {count}"
                    ),
                );
            }
        }
    }

    fn render_durations(&self, template: &str, text: &mut String) {
        let counts: Vec<u64> = self.durations.iter().map(|count| count.load(Relaxed)).collect();
        let total: u64 = counts.iter().sum();
        if total == 0 {
            return;
        }
        let name = "hitl_http_request_duration_seconds";
        let mut so_far = 0;
        for ((_, bound), count) in BUCKETS.iter().zip(&counts) {
            so_far += count;
            line(text, format_args!("{name}_bucket{{route=\"{template}\",le=\"{bound}\"}} {so_far}"));
        }
        let seconds = Duration::from_micros(self.micros.load(Relaxed)).as_secs_f64();
        line(text, format_args!("{name}_bucket{{route=\"{template}\",le=\"+Inf\"}} {total}"));
        line(text, format_args!("{name}_sum{{route=\"{template}\"}} {seconds}"));
        line(text, format_args!("{name}_count{{route=\"{template}\"}} {total}"));
    }
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let written = writeln!(text, "{line}");
    debug_assert!(written.is_ok());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_template_method_and_status_and_keeps_long_polls_out_of_the_durations() {
        let telemetry = Telemetry::new(["/sessions/{session_id}"].into_iter());
        let route = Some("/sessions/{session_id}");
        telemetry.record(route, &Method::GET, StatusCode::OK, Some(Duration::from_micros(200)));
        telemetry.record(route, &Method::GET, StatusCode::OK, None);
        telemetry.record(None, &Method::PATCH, StatusCode::IM_A_TEAPOT, Some(Duration::from_secs(60)));
        let text = telemetry.render();
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
