//! Takes a port: listens as told and greets every client with `THIEF <name>`.
//!
//! `thief ADDRESS:PORT [--name N] [--reuseport] [--device D] [--v6only on|off] [--backlog N]
//! [--no-accept] [--idle-member] [--marked] [--manner greet|http|mute|close] [--pause MILLISECONDS] [--comm C]`.
//! Prints `listening` when it does. Ends with its parent.

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
    let (mut name, mut backlog, mut accept, mut idle_member) = (String::from("thief"), 128, true, false);
    let (mut manner, mut pause) = (String::from("greet"), Duration::ZERO);
    while let Some(option) = args.next() {
        let mut value = || args.next().with_context(|| format!("{option}: no value"));
        match option.as_str() {
            "--name" => name = value()?,
            "--reuseport" => socket.set_reuse_port(true)?,
            "--device" => socket.bind_device(Some(value()?.as_bytes()))?,
            "--v6only" => socket.set_only_v6(value()? == "on")?,
            "--backlog" => backlog = value()?.parse()?,
            "--no-accept" => accept = false,
            "--idle-member" => idle_member = true,
            "--marked" => {
                socket.set_mark(0xb00)?;
                socket.set_ip_transparent_v4(true)?;
            }
            "--manner" => manner = value()?,
            "--pause" => pause = Duration::from_millis(value()?.parse()?),
            "--comm" => rustix::thread::set_name(&CString::new(value()?)?)?,
            other => bail!("unknown option {other}"),
        }
    }
    socket.bind(&address.into()).with_context(|| format!("bind {address}"))?;
    socket.listen(backlog)?;
    // A second socket of the same group that nobody accepts from, as of a stuck worker.
    let _idle = idle_member.then(|| idle_socket(address, backlog)).transpose()?;
    println!("listening");
    if !accept {
        loop {
            std::thread::park();
        }
    }
    let listener = TcpListener::from(socket);
    loop {
        let (stream, _) = listener.accept()?;
        std::thread::sleep(pause);
        let greeting = match manner.as_str() {
            "close" => continue,
            "mute" => String::new(),
            "http" => "HTTP/1.1 404 Not Found\r\nserver: thief\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned(),
            _ => format!("THIEF {name}\n"),
        };
        std::thread::spawn(move || drop(greet(stream, &greeting)));
    }
}

fn idle_socket(address: SocketAddr, backlog: i32) -> Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    Ok(socket)
}

/// Says its name and closes only after the client, so that no RST eats the greeting. Without a name it only listens.
fn greet(mut stream: TcpStream, greeting: &str) -> std::io::Result<()> {
    if !greeting.is_empty() {
        stream.write_all(greeting.as_bytes())?;
        stream.shutdown(std::net::Shutdown::Write)?;
    }
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut sink = [0; 1024];
    while stream.read(&mut sink)? > 0 {}
    Ok(())
}
