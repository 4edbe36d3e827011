//! Which page a request is for. Pure.

use hyper::{Method, StatusCode};

/// The pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    Metrics,
    Live,
    Ready,
    Status,
    Page,
}

impl Route {
    /// Open to every client.
    pub(super) const fn is_open(self) -> bool {
        matches!(self, Self::Metrics | Self::Live | Self::Ready)
    }
}

/// The page, else 404 for a path that is none, else 405 for a method that is neither GET nor HEAD.
pub(super) fn route(method: &Method, path: &str) -> Result<Route, StatusCode> {
    let route = match path {
        "/metrics" => Route::Metrics,
        "/livez" => Route::Live,
        "/readyz" => Route::Ready,
        "/status" => Route::Status,
        "/" => Route::Page,
        _ => return Err(StatusCode::NOT_FOUND),
    };
    if *method == Method::GET || *method == Method::HEAD { Ok(route) } else { Err(StatusCode::METHOD_NOT_ALLOWED) }
}
