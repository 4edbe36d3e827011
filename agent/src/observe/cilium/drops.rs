//! Datapath drops from `cilium_metrics`, summed per reason. For metrics only; nothing is judged by them.

use std::collections::BTreeMap;

use aya::maps::{MapData, PerCpuHashMap};
use gwready_core::facts::Reading;
use gwready_core::facts::platform::DatapathDrops;
use gwready_core::lb::layout::METRICS;
use gwready_core::lb::metrics::{LABELS, OTHER, add, decode_count};
use gwready_core::time::Window;

use super::error::io_error;
use super::pin::{Pin, globals};
use super::{CiliumPaths, PinError};
use crate::clock;

/// Rows read at most; a real map has one per reason, direction and source line, some dozens.
const ROWS: usize = 8192;

/// Reads the drop counters. Blocking; walks the map, so read it per scrape or per second, not per pass.
pub struct DropsReader {
    paths: CiliumPaths,
    metrics: Pin<PerCpuHashMap<MapData, [u8; 8], [u8; 16]>>,
}

impl DropsReader {
    /// A reader; nothing is opened yet.
    #[must_use]
    pub fn new(paths: CiliumPaths) -> Self {
        Self { paths, metrics: Pin::new(METRICS, PerCpuHashMap::try_from) }
    }

    /// All drop counters since the map was made, or why they could not be read.
    pub fn read(&mut self) -> Reading<DatapathDrops> {
        let begin = clock::mono();
        let result = self.read_sums();
        let window = Window { begin, end: clock::mono() };
        match result {
            Ok(sums) => {
                let packets = sums.into_iter().map(|(label, count)| (label.to_owned(), count)).collect();
                Reading::Observed { value: DatapathDrops { packets }, window }
            }
            Err(error) => Reading::Unavailable(error.unavailable(window)),
        }
    }

    fn read_sums(&mut self) -> Result<BTreeMap<&'static str, u64>, PinError> {
        let globals = globals(&self.paths)?;
        // Reasons that have not dropped yet have no row, but a count: zero.
        let mut sums: BTreeMap<&'static str, u64> = LABELS.iter().map(|(_, label)| (*label, 0)).chain([(OTHER, 0)]).collect();
        for row in self.metrics.map(&globals)?.iter().take(ROWS) {
            let (key, values) = row.map_err(|error| PinError::Read { pin: METRICS.pin, source: io_error(error) })?;
            add(&mut sums, &key, values.iter().map(decode_count).fold(0, u64::saturating_add));
        }
        Ok(sums)
    }
}
