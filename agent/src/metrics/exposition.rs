//! The two text formats and the choice between them. The encoders are prometheus-client's.

use prometheus_client::encoding::{prometheus_text, text};
use prometheus_client::registry::Registry;

/// A format of `/metrics`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposition {
    /// OpenMetrics 1.0.0: counters are declared without `_total`, the end is marked.
    OpenMetrics,
    /// Prometheus text format 0.0.4: counters are declared with `_total`, no end mark.
    Text,
}

impl Exposition {
    /// OpenMetrics only if the client names it with a quality that is neither 0 nor lower than that of plain text
    /// (RFC 9110 12.5.1, as far as Prometheus and its kin use it).
    #[must_use]
    pub fn for_accept(accept: Option<&str>) -> Self {
        let best = |media: &str| {
            let mut best = 0.0_f32;
            for range in accept.into_iter().flat_map(|accept| accept.split(',')) {
                let mut parts = range.split(';').map(str::trim);
                if parts.next().is_some_and(|name| name.eq_ignore_ascii_case(media)) {
                    let quality = parts.find_map(|parameter| parameter.strip_prefix("q=")?.trim().parse::<f32>().ok());
                    best = best.max(quality.unwrap_or(1.0));
                }
            }
            best
        };
        let open = best("application/openmetrics-text");
        if open > 0.0 && open >= best("text/plain") { Self::OpenMetrics } else { Self::Text }
    }

    /// The `Content-Type`.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => prometheus_text::CONTENT_TYPE,
        }
    }

    /// Everything that is registered. Writing to a string can't fail; an encoder that does leaves the text short.
    pub(super) fn encode(self, registry: &Registry) -> String {
        let mut out = String::with_capacity(32 * 1024);
        let _ = match self {
            Self::OpenMetrics => text::encode(&mut out, registry),
            Self::Text => prometheus_text::encode(&mut out, registry),
        };
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clients_choice() {
        // Prometheus 2.x/3.x, curl, none, and odd ones.
        for (accept, format) in [
            (
                Some(
                    "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                ),
                Exposition::OpenMetrics,
            ),
            (Some("application/openmetrics-text"), Exposition::OpenMetrics),
            (Some("text/plain;version=0.0.4;q=0.5,application/openmetrics-text;q=0.2"), Exposition::Text),
            (Some("application/openmetrics-text;q=0"), Exposition::Text),
            (Some("*/*"), Exposition::Text),
            (Some("text/html"), Exposition::Text),
            (Some(";;,q=,"), Exposition::Text),
            (None, Exposition::Text),
        ] {
            assert_eq!(Exposition::for_accept(accept), format, "{accept:?}");
        }
    }
}
