//! The health port: what load balancers read. Never touches the kernel beyond its own sockets.
