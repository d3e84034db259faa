//! Figures as Prometheus text (<https://prometheus.io/docs/instrumenting/exposition_formats/>): the one place that
//! writes it. Why by ourselves is in docs/decisions/metrics-text.md.

use std::fmt::{self, Display, Formatter, Write as _};

use crate::engine::telling::figures::{Family, Figures, Labelled};
use crate::engine::telling::histogram::Counted;

/// What [`text`] is.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The families in their order.
pub fn text(families: &[Family]) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = families.iter().try_for_each(|family| write(&mut text, family));
    text
}

fn write(text: &mut String, Family { name, help, figures }: &Family) -> fmt::Result {
    writeln!(text, "# HELP {name} {help}")?;
    match figures {
        Figures::Gauge(values) => write_values(text, name, "gauge", values),
        Figures::Counter(values) => write_values(text, name, "counter", values),
        Figures::Histogram(histograms) => {
            writeln!(text, "# TYPE {name} histogram")?;
            histograms.iter().try_for_each(|histogram| write_histogram(text, name, histogram))
        }
    }
}

fn write_values(text: &mut String, name: &str, kind: &str, values: &[Labelled<u64>]) -> fmt::Result {
    writeln!(text, "# TYPE {name} {kind}")?;
    values.iter().try_for_each(|Labelled { labels, value }| writeln!(text, "{name}{} {value}", Labels(labels, None)))
}

fn write_histogram(text: &mut String, name: &str, Labelled { labels, value }: &Labelled<Counted>) -> fmt::Result {
    let Counted { buckets, total, sum } = value;
    for (bound, count) in buckets {
        writeln!(text, "{name}_bucket{} {count}", Labels(labels, Some(bound)))?;
    }
    writeln!(text, "{name}_bucket{} {total}", Labels(labels, Some(&"+Inf")))?;
    let labels = Labels(labels, None);
    writeln!(text, "{name}_sum{labels} {}\n{name}_count{labels} {total}", sum.as_secs_f64())
}

/// Names and values in braces, at the end the upper end of a bucket where it is one; nothing where there are none.
struct Labels<'a>(&'a [(&'static str, String)], Option<&'a dyn Display>);

impl Display for Labels<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut before = '{';
        for (name, value) in self.0 {
            write!(f, "{before}{name}=\"{}\"", escaped(value))?;
            before = ',';
        }
        if let Some(bound) = self.1 {
            write!(f, "{before}le=\"{bound}\"")?;
            before = ',';
        }
        if before == ',' { f.write_char('}') } else { Ok(()) }
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_family_is_its_help_its_type_and_a_line_for_each_value() {
        let labels = |kind: &str| vec![("type", kind.to_owned()), ("age", "new".to_owned())];
        let values = [("a\"b\\c\nd", 1), ("other", 2)];
        let figures = Figures::Counter(values.map(|(kind, value)| Labelled { labels: labels(kind), value }).into());
        let families = [
            Family::gauge("here", "How many are here.", 7),
            Family { name: "asked_total", help: "Asked.", figures },
            Family { name: "none_total", help: "None.", figures: Figures::Counter(Vec::new()) },
        ];
        let expected = "# HELP here How many are here.\n# TYPE here gauge\nhere 7\n\
            # HELP asked_total Asked.\n# TYPE asked_total counter\n\
            asked_total{type=\"a\\\"b\\\\c\\nd\",age=\"new\"} 1\nasked_total{type=\"other\",age=\"new\"} 2\n\
            # HELP none_total None.\n# TYPE none_total counter\n";
        assert_eq!(text(&families), expected);
    }

    #[test]
    fn a_histogram_is_its_buckets_its_sum_and_its_count() {
        let counted =
            |buckets: &[(f64, u64)]| Counted { buckets: buckets.to_vec(), total: 4, sum: Duration::from_millis(5_650) };
        let figures = Figures::Histogram(vec![Labelled::one("of", "b", counted(&[]))]);
        let families = [
            Family::histogram("t_seconds", "Times.", counted(&[(0.1, 2), (1.0, 3)])),
            Family { name: "u_seconds", help: "Others.", figures },
        ];
        let expected = "# HELP t_seconds Times.\n# TYPE t_seconds histogram\n\
            t_seconds_bucket{le=\"0.1\"} 2\nt_seconds_bucket{le=\"1\"} 3\nt_seconds_bucket{le=\"+Inf\"} 4\n\
            t_seconds_sum 5.65\nt_seconds_count 4\n\
            # HELP u_seconds Others.\n# TYPE u_seconds histogram\n\
            u_seconds_bucket{of=\"b\",le=\"+Inf\"} 4\nu_seconds_sum{of=\"b\"} 5.65\nu_seconds_count{of=\"b\"} 4\n";
        assert_eq!(text(&families), expected);
    }
}
