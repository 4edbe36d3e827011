//! A request to its response. What is said comes from [`Pages`]; how it is said stands here.

use std::net::IpAddr;

use gwready_core::render::page::{CONTENT_SECURITY_POLICY, render_page};
use gwready_core::render::status::StatusDocument;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY as POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Request, Response, StatusCode};
use ipnet::IpNet;

use super::access::is_allowed;
use super::route::{Route, route};
use crate::control::Readiness;
use crate::metrics::Exposition;

/// What the daemon has to say. Every call must be quick and must not read the kernel for the judgement.
pub trait Pages: Send + Sync + 'static {
    /// The text of `/metrics`.
    fn metrics(&self, format: Exposition) -> String;
    /// Is the process able to work? Must not depend on the verdict: the kubelet must not restart the agent of a bad node.
    fn live(&self) -> Readiness;
    /// Is the agent itself ready: observing, fresh, and able to see what its configuration requires?
    fn ready(&self) -> Readiness;
    /// The status document.
    fn status(&self) -> StatusDocument;
}

const PLAIN: &str = "text/plain; charset=utf-8";

/// Answers one request.
pub(super) fn answer<B>(request: &Request<B>, client: IpAddr, allow: &[IpNet], pages: &impl Pages) -> Response<Full<Bytes>> {
    let route = match route(request.method(), request.uri().path()) {
        Ok(route) => route,
        Err(status) => {
            let mut response = text(status, PLAIN, format!("{status}\n"));
            if status == StatusCode::METHOD_NOT_ALLOWED {
                response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            }
            return response;
        }
    };
    if !route.is_open() && !is_allowed(client, allow) {
        let sentence = "403 Forbidden: only for loopback and for the clients that admin.allow lists\n";
        return text(StatusCode::FORBIDDEN, PLAIN, sentence.to_owned());
    }
    match route {
        Route::Metrics => {
            let format = Exposition::for_accept(request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok()));
            text(StatusCode::OK, format.content_type(), pages.metrics(format))
        }
        Route::Live => readiness(&pages.live()),
        Route::Ready => readiness(&pages.ready()),
        Route::Status => match serde_json::to_string(&pages.status()) {
            Ok(json) => text(StatusCode::OK, "application/json", json + "\n"),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, format!("{error}\n")),
        },
        Route::Page => {
            let mut response = text(StatusCode::OK, "text/html; charset=utf-8", render_page(&pages.status()));
            response.headers_mut().insert(POLICY, HeaderValue::from_static(CONTENT_SECURITY_POLICY));
            response
        }
    }
}

/// 200 `ok`, or 503 with what is pending, a line each.
fn readiness(readiness: &Readiness) -> Response<Full<Bytes>> {
    if readiness.is_fine() {
        text(StatusCode::OK, PLAIN, "ok\n".to_owned())
    } else {
        text(StatusCode::SERVICE_UNAVAILABLE, PLAIN, format!("{}\n", readiness.pending.join("\n")))
    }
}

fn text(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}
