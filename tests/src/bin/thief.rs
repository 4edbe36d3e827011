//! Takes a port: listens as told and greets every client with `THIEF <name>`.
//!
//! `thief ADDRESS:PORT [--name N] [--reuseport] [--device D] [--v6only on|off] [--backlog N]
//! [--no-accept] [--comm C]`. Prints `listening` when it does. Ends with its parent.

use std::ffi::CString;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use socket2::{Domain, Protocol, Socket, Type};

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let address: SocketAddr = args.next().context("no address")?.parse()?;
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    let (mut name, mut backlog, mut accept) = (String::from("thief"), 128, true);
    while let Some(option) = args.next() {
        let mut value = || args.next().with_context(|| format!("{option}: no value"));
        match option.as_str() {
            "--name" => name = value()?,
            "--reuseport" => socket.set_reuse_port(true)?,
            "--device" => socket.bind_device(Some(value()?.as_bytes()))?,
            "--v6only" => socket.set_only_v6(value()? == "on")?,
            "--backlog" => backlog = value()?.parse()?,
            "--no-accept" => accept = false,
            "--comm" => rustix::thread::set_name(&CString::new(value()?)?)?,
            other => bail!("unknown option {other}"),
        }
    }
    socket.bind(&address.into()).with_context(|| format!("bind {address}"))?;
    socket.listen(backlog)?;
    println!("listening");
    if !accept {
        loop {
            std::thread::park();
        }
    }
    let listener = TcpListener::from(socket);
    loop {
        let (stream, _) = listener.accept()?;
        let greeting = format!("THIEF {name}\n");
        std::thread::spawn(move || drop(greet(stream, &greeting)));
    }
}

/// Says its name and closes only after the client, so that no RST eats the greeting.
fn greet(mut stream: TcpStream, greeting: &str) -> std::io::Result<()> {
    stream.write_all(greeting.as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut sink = [0; 1024];
    while stream.read(&mut sink)? > 0 {}
    Ok(())
}
