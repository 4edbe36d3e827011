//! Puts an answer together from its datagrams. Pure: bytes in, state out; the exchange does the IO.

use netlink_packet_core::{NLM_F_DUMP_INTR, NLMSG_DONE, NLMSG_ERROR, NLMSG_NOOP, NLMSG_OVERRUN};
use rustix::io::Errno;

use super::NetlinkError;
use super::frame::Frames;

/// A dump on its way.
pub(super) struct DumpState<T> {
    sequence: u32,
    pub(super) items: Vec<T>,
    /// Datagrams that carried items. More than one means the kernel let go of its locks in between.
    pub(super) datagrams: u32,
    interrupted: bool,
}

impl<T> DumpState<T> {
    pub(super) const fn new(sequence: u32) -> Self {
        Self { sequence, items: Vec::new(), datagrams: 0, interrupted: false }
    }

    /// Takes one datagram; true when the dump is complete.
    pub(super) fn take<E: std::fmt::Display>(
        &mut self,
        datagram: &[u8],
        decode: &mut impl FnMut(u16, &[u8]) -> Result<Option<T>, E>,
    ) -> Result<bool, NetlinkError> {
        let mut counted = false;
        for frame in Frames(datagram) {
            let frame = frame?;
            if frame.sequence != self.sequence {
                // An answer to something that was given up; the socket is ours alone.
                continue;
            }
            // The flag may be on any message, NLMSG_DONE included (nl_dump_check_consistent).
            self.interrupted |= frame.flags & NLM_F_DUMP_INTR != 0;
            match frame.kind {
                NLMSG_NOOP => {}
                NLMSG_OVERRUN => return Err(NetlinkError::Overrun),
                NLMSG_ERROR => return Err(refusal(frame.body)?.map_or_else(no_answer, NetlinkError::Refused)),
                NLMSG_DONE => {
                    // A dump that fails half way says so here (netlink_dump_done).
                    if frame.body.len() >= 4
                        && let Some(errno) = refusal(frame.body)?
                    {
                        return Err(NetlinkError::Refused(errno));
                    }
                    return if self.interrupted { Err(NetlinkError::Interrupted(1)) } else { Ok(true) };
                }
                kind => {
                    if !counted {
                        counted = true;
                        self.datagrams += 1;
                    }
                    if let Some(item) = decode(kind, frame.body).map_err(|error| NetlinkError::Decode(error.to_string()))? {
                        self.items.push(item);
                    }
                }
            }
        }
        Ok(false)
    }
}

/// Answers to a batch of single requests, by position.
pub(super) struct BatchState<T> {
    first: u32,
    pub(super) answers: Vec<Option<Result<T, Errno>>>,
    missing: usize,
}

impl<T> BatchState<T> {
    /// Requests with the sequence numbers `first`, `first + 1`, … (wrapping), `count` of them.
    pub(super) fn new(first: u32, count: usize) -> Self {
        Self { first, answers: std::iter::repeat_with(|| None).take(count).collect(), missing: count }
    }

    /// Takes one datagram; true when every request is answered.
    pub(super) fn take<E: std::fmt::Display>(
        &mut self,
        datagram: &[u8],
        decode: &mut impl FnMut(u16, &[u8]) -> Result<T, E>,
    ) -> Result<bool, NetlinkError> {
        for frame in Frames(datagram) {
            let frame = frame?;
            let position = usize::try_from(frame.sequence.wrapping_sub(self.first)).unwrap_or(usize::MAX);
            let Some(slot) = self.answers.get_mut(position) else {
                continue;
            };
            let answer = match frame.kind {
                NLMSG_NOOP => continue,
                NLMSG_OVERRUN => return Err(NetlinkError::Overrun),
                NLMSG_ERROR => Err(refusal(frame.body)?.ok_or_else(no_answer)?),
                kind => Ok(decode(kind, frame.body).map_err(|error| NetlinkError::Decode(error.to_string()))?),
            };
            if slot.replace(answer).is_some() {
                return Err(NetlinkError::Malformed(format!("request {position} was answered twice")));
            }
            self.missing -= 1;
        }
        Ok(self.missing == 0)
    }
}

/// The negated errno at the start of `NLMSG_ERROR` and `NLMSG_DONE`; none for 0 (an acknowledgement) or a count.
fn refusal(body: &[u8]) -> Result<Option<Errno>, NetlinkError> {
    let code = body.first_chunk::<4>().map(|bytes| i32::from_ne_bytes(*bytes));
    let code = code.ok_or_else(|| NetlinkError::Malformed(format!("an error message of {} bytes", body.len())))?;
    Ok((code < 0).then(|| Errno::from_raw_os_error(code.saturating_neg())))
}

fn no_answer() -> NetlinkError {
    NetlinkError::Malformed("an acknowledgement in place of an answer".to_owned())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::super::frame::push_request;
    use super::*;

    fn datagram(messages: &[(u16, u16, u32, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        for (kind, flags, sequence, body) in messages {
            push_request(&mut out, *kind, *flags, *sequence, body).unwrap();
        }
        out
    }

    fn keep(kind: u16, body: &[u8]) -> Result<Option<(u16, Vec<u8>)>, Infallible> {
        Ok(Some((kind, body.to_vec())))
    }

    fn bytes(kind: u16, body: &[u8]) -> Result<(u16, Vec<u8>), Infallible> {
        Ok((kind, body.to_vec()))
    }

    const ZERO: &[u8] = &[0; 4];

    #[test]
    fn a_dump_is_complete_only_with_done() {
        let mut state = DumpState::new(5);
        assert!(!state.take(&datagram(&[(20, 2, 5, b"a"), (20, 2, 5, b"b")]), &mut keep).unwrap());
        assert!(!state.take(&datagram(&[(20, 2, 5, b"c")]), &mut keep).unwrap());
        assert!(state.take(&datagram(&[(NLMSG_DONE, 2, 5, ZERO)]), &mut keep).unwrap());
        assert_eq!(state.items.len(), 3);
        assert_eq!(state.datagrams, 2);
    }

    #[test]
    fn messages_of_another_exchange_are_left_out_even_their_done() {
        let mut state = DumpState::new(5);
        assert!(!state.take(&datagram(&[(20, 2, 4, b"old"), (NLMSG_DONE, 2, 4, ZERO)]), &mut keep).unwrap());
        assert!(state.take(&datagram(&[(20, 2, 5, b"new"), (NLMSG_DONE, 2, 5, ZERO)]), &mut keep).unwrap());
        assert_eq!(state.items, [(20, b"new".to_vec())]);
    }

    #[test]
    fn an_interrupted_dump_is_an_error_at_its_end_wherever_the_flag_was() {
        for flagged in 0..3 {
            let flag = |at: usize| if at == flagged { NLM_F_DUMP_INTR } else { 0 };
            let mut state = DumpState::new(1);
            assert!(!state.take(&datagram(&[(20, flag(0), 1, b"a"), (20, flag(1), 1, b"b")]), &mut keep).unwrap());
            let end = state.take(&datagram(&[(NLMSG_DONE, flag(2), 1, ZERO)]), &mut keep);
            assert!(matches!(end, Err(NetlinkError::Interrupted(_))), "{end:?}");
        }
    }

    #[test]
    fn an_error_ends_the_dump_also_inside_done() {
        let denied = (-1i32).to_ne_bytes();
        for kind in [NLMSG_ERROR, NLMSG_DONE] {
            let end = DumpState::new(1).take(&datagram(&[(20, 0, 1, b"a"), (kind, 0, 1, &denied)]), &mut keep);
            assert!(matches!(end, Err(NetlinkError::Refused(Errno::PERM))), "{end:?}");
        }
    }

    #[test]
    fn an_overrun_and_a_decoder_error_end_the_dump() {
        let lost = DumpState::new(1).take(&datagram(&[(NLMSG_OVERRUN, 0, 1, b"")]), &mut keep);
        assert!(matches!(lost, Err(NetlinkError::Overrun)));
        let mut refuse = |_: u16, _: &[u8]| Err::<Option<()>, _>("no such thing");
        let decode = DumpState::new(1).take(&datagram(&[(20, 0, 1, b"")]), &mut refuse);
        assert!(matches!(decode, Err(NetlinkError::Decode(sentence)) if sentence == "no such thing"));
    }

    #[test]
    fn batch_answers_are_put_to_their_requests_in_any_order_across_the_wrap() {
        let mut state = BatchState::new(u32::MAX, 3);
        let absent = (-2i32).to_ne_bytes();
        assert!(!state.take(&datagram(&[(20, 0, 1, b"third"), (20, 0, 77, b"stray")]), &mut bytes).unwrap());
        assert!(!state.take(&datagram(&[(NLMSG_ERROR, 0, 0, &absent)]), &mut bytes).unwrap());
        assert!(state.take(&datagram(&[(20, 0, u32::MAX, b"first")]), &mut bytes).unwrap());
        let expected = [Some(Ok((20, b"first".to_vec()))), Some(Err(Errno::NOENT)), Some(Ok((20, b"third".to_vec())))];
        assert_eq!(state.answers, expected);
    }

    #[test]
    fn a_second_answer_and_a_bare_acknowledgement_are_malformed() {
        let twice = BatchState::new(1, 2).take(&datagram(&[(20, 0, 1, b"a"), (20, 0, 1, b"a")]), &mut bytes);
        assert!(matches!(twice, Err(NetlinkError::Malformed(_))));
        let acknowledged = BatchState::new(1, 1).take(&datagram(&[(NLMSG_ERROR, 0, 1, ZERO)]), &mut bytes);
        assert!(matches!(acknowledged, Err(NetlinkError::Malformed(_))));
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_state_or_an_error(bytes_in in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = DumpState::new(0).take(&bytes_in, &mut keep);
            let _ = BatchState::new(0, 4).take(&bytes_in, &mut bytes);
        }
    }
}
