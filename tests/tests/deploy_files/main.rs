//! What is shipped in `deploy/`, read by the real tools and compared with the code: chart, kustomize base, alert rules,
//! dashboard, balancer configurations.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod agent;
mod as3;
mod balancers;
mod chart;
mod dashboard;
mod kustomize;
mod metric_names;
mod pages;
mod panels;
mod rules;
mod tools;
