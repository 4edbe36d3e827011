//! Who holds a socket: /proc, cgroups, pod log folders.
