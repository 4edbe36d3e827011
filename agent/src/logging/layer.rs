//! `tracing` events → lines.

use std::fmt;

use gwready_core::render::log_line::{Level, Line};
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use super::sink::Sink;

/// Makes a [`Line`] of every event. Events of other crates are taken from `warn` up only: their notices are not ours.
pub(super) struct LineLayer {
    sink: &'static Sink,
}

impl LineLayer {
    pub(super) const fn new(sink: &'static Sink) -> Self {
        Self { sink }
    }
}

impl<S: Subscriber> Layer<S> for LineLayer {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        let level = level_of(*metadata.level());
        self.sink.wants(level) && (level <= Level::Warn || metadata.target().starts_with("gwready"))
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.sink.write(&line_of(event), crate::clock::now().unix_ms);
    }
}

fn line_of(event: &Event<'_>) -> Line {
    let mut fields = Fields { message: String::new(), fields: Vec::new() };
    event.record(&mut fields);
    Line::notice(level_of(*event.metadata().level()), &fields.message, fields.fields)
}

const fn level_of(level: tracing::Level) -> Level {
    match level {
        tracing::Level::ERROR => Level::Error,
        tracing::Level::WARN => Level::Warn,
        tracing::Level::INFO => Level::Info,
        tracing::Level::DEBUG => Level::Debug,
        tracing::Level::TRACE => Level::Trace,
    }
}

struct Fields {
    message: String,
    fields: Vec<(&'static str, String)>,
}

impl Fields {
    fn take(&mut self, field: &Field, value: String) {
        match field.name() {
            "message" => self.message = value,
            name => self.fields.push((name, value)),
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.take(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::SubscriberExt;

    use super::super::sink::Format;
    use super::*;

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("memory").extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: Format, level: Level, events: impl FnOnce()) -> Vec<String> {
        let memory = Memory::default();
        let sink: &'static Sink = Box::leak(Box::new(Sink::new(format, level, Box::new(memory.clone()))));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(LineLayer::new(sink)), events);
        let bytes = memory.0.lock().expect("memory").clone();
        String::from_utf8(bytes).expect("text").lines().map(str::to_owned).collect()
    }

    #[test]
    fn text_lines_have_time_level_message_and_fields() {
        let lines = logged(Format::Text, Level::Info, || {
            tracing::warn!(port = 80, why = "a b\nstate=up", "listener lost");
            tracing::debug!("not wanted");
        });
        assert_eq!(lines.len(), 1);
        let (time, rest) = lines[0].split_once(' ').expect("time");
        assert!(time.ends_with('Z') && time.starts_with("20"), "{time}");
        assert_eq!(rest, "WARN listener lost port=80 why=\"a b?state=up\"");
    }

    #[test]
    fn json_lines_are_one_object_each() {
        let lines = logged(Format::Json, Level::Debug, || tracing::debug!(n = 1, ok = true, error = %io::Error::other("x\"y"), "done"));
        let value: serde_json::Value = serde_json::from_str(&lines[0]).expect("json");
        assert_eq!(
            (&value["level"], &value["msg"], &value["error"], &value["n"]),
            (&"debug".into(), &"done".into(), &"x\"y".into(), &"1".into())
        );
    }

    #[test]
    fn a_long_notice_is_whole_and_still_one_line() {
        let configuration = format!("{{\n{}}}", "\"key\": 1, ".repeat(200));
        let lines = logged(Format::Text, Level::Info, || tracing::info!(%configuration, "effective configuration: {configuration}"));
        assert_eq!(lines.len(), 1);
        assert!(lines[0].len() > 2 * configuration.len() && lines[0].ends_with("}\""), "{}", lines[0].len());
    }

    #[test]
    fn other_crates_speak_from_warn_up_only() {
        let lines = logged(Format::Text, Level::Trace, || {
            tracing::info!(target: "hyper", "chatter");
            tracing::warn!(target: "hyper", "trouble");
            tracing::trace!("ours");
        });
        assert_eq!(lines.len(), 2, "{lines:?}");
    }
}
