//! Bounded waiting for a condition: the only place of this crate where a thread sleeps.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

const PAUSE: Duration = Duration::from_millis(5);

/// Asks again and again until `condition` is `Ok`, and returns its value. When `timeout` has
/// passed, the error is the last one that `condition` gave. It is asked at least once.
pub fn eventually<T>(timeout: Duration, mut condition: impl FnMut() -> Result<T>) -> Result<T> {
    let end = Instant::now() + timeout;
    loop {
        match condition() {
            Ok(value) => return Ok(value),
            Err(error) if Instant::now() >= end => {
                return Err(error.context(anyhow!("not reached within {timeout:?}")));
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_the_value_of_the_first_success() {
        let mut asked = 0;
        let value = eventually(Duration::from_secs(5), || {
            asked += 1;
            if asked < 3 { Err(anyhow!("not yet")) } else { Ok(asked) }
        });
        assert_eq!(value.unwrap(), 3);
    }

    #[test]
    fn a_timeout_tells_the_last_reason() {
        let error = eventually(Duration::ZERO, || Err::<(), _>(anyhow!("port closed")));
        assert!(format!("{:#}", error.unwrap_err()).contains("port closed"));
    }
}
