//! One minute of `cargo xtask soak`: a healthy node in constant change stays up, memory and descriptors stay flat.

use std::time::Duration;

use gwready_tests::bench::soak;

#[test]
fn a_minute_of_churn_changes_no_verdict_and_leaks_nothing() {
    let report = soak::run(Duration::from_secs(60)).unwrap();
    println!("{}", report.table());
    report.judge().unwrap();
    assert!(report.rounds >= 20, "too few rounds to mean anything: {}", report.rounds);
}
