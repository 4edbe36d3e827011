//! Field offsets out of a kernel's type information (BTF), and nothing else of it.
//!
//! Format: `Documentation/bpf/btf.rst`, `include/uapi/linux/btf.h`. Written by hand because a full parse
//! of the kernel's types costs tens of megabytes for eight numbers. Any byte string is safe to give: what
//! does not fit is `None`.

const MAGIC: u16 = 0xeb9f;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
/// Anonymous structs nest a few levels deep at most; more is a loop in the data.
const DEPTH: u32 = 8;

/// Type information of a kernel: borrowed bytes and where each type begins.
pub(super) struct Btf<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    /// Byte position of type `id` at index `id - 1`.
    positions: Vec<usize>,
}

/// The fixed part of a type.
struct Type<'a> {
    name: &'a [u8],
    kind: u32,
    /// Members carry a bit field size in their offset's upper byte.
    kind_flag: bool,
    count: usize,
    /// Size, or the type referred to.
    refers: u32,
    position: usize,
}

impl<'a> Btf<'a> {
    /// Finds the sections and where each type begins.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        if u16::from_ne_bytes(*bytes.first_chunk()?) != MAGIC {
            return None;
        }
        let word = |index: usize| usize_at(bytes, 4 + index * 4);
        let header = word(0)?;
        let section = |offset: usize, length: usize| {
            let begin = header.checked_add(offset)?;
            bytes.get(begin..begin.checked_add(length)?)
        };
        let types = section(word(1)?, word(2)?)?;
        let strings = section(word(3)?, word(4)?)?;
        let mut btf = Self { types, strings, positions: Vec::new() };
        let mut position = 0;
        while position < types.len() {
            btf.positions.push(position);
            let found = btf.read(position)?;
            position = position.checked_add(12 + extra(found.kind, found.count)?)?;
        }
        Some(btf)
    }

    /// Byte offset of the field reached from struct `name` by `path`, e.g. `net`, `["ns", "inum"]`.
    /// Members of anonymous structs and unions count as the outer struct's. `None`: no such field, or a
    /// bit field.
    pub(super) fn offset(&self, name: &str, path: &[&str]) -> Option<u32> {
        // A name may occur more than once (one per variant of a driver's own struct): the first that has the field.
        self.positions.iter().find_map(|position| {
            let found = self.read(*position)?;
            if found.kind != STRUCT || found.name != name.as_bytes() {
                return None;
            }
            self.follow(&found, path)
        })
    }

    fn follow(&self, outer: &Type<'_>, path: &[&str]) -> Option<u32> {
        let (first, rest) = path.split_first()?;
        let (bits, refers) = self.member(outer, first.as_bytes(), DEPTH)?;
        let offset = bits / 8;
        if rest.is_empty() {
            return (bits % 8 == 0).then_some(offset);
        }
        offset.checked_add(self.follow(&self.resolve(refers)?, rest)?)
    }

    /// Bit offset and type of a member.
    fn member(&self, outer: &Type<'_>, name: &[u8], depth: u32) -> Option<(u32, u32)> {
        if !matches!(outer.kind, STRUCT | UNION) || depth == 0 {
            return None;
        }
        (0..outer.count).find_map(|index| {
            let at = outer.position + 12 + index * 12;
            let member = self.string(u32_at(self.types, at)?)?;
            let refers = u32_at(self.types, at + 4)?;
            let raw = u32_at(self.types, at + 8)?;
            let (bits, width) = if outer.kind_flag { (raw & 0x00ff_ffff, raw >> 24) } else { (raw, 0) };
            if member == name {
                return (width == 0).then_some((bits, refers));
            }
            if !member.is_empty() {
                return None;
            }
            let (inner, refers) = self.member(&self.resolve(refers)?, name, depth - 1)?;
            Some((bits.checked_add(inner)?, refers))
        })
    }

    /// Type `id` with typedef, const, volatile, restrict and tags taken off.
    fn resolve(&self, mut id: u32) -> Option<Type<'a>> {
        for _ in 0..DEPTH * 2 {
            let found = self.read(*self.positions.get(usize::try_from(id).ok()?.checked_sub(1)?)?)?;
            match found.kind {
                8..=11 | 18 => id = found.refers,
                _ => return Some(found),
            }
        }
        None
    }

    fn read(&self, position: usize) -> Option<Type<'a>> {
        let info = u32_at(self.types, position.checked_add(4)?)?;
        Some(Type {
            name: self.string(u32_at(self.types, position)?)?,
            kind: info >> 24 & 0x1f,
            kind_flag: info >> 31 == 1,
            count: usize::try_from(info & 0xffff).ok()?,
            refers: u32_at(self.types, position + 8)?,
            position,
        })
    }

    fn string(&self, offset: u32) -> Option<&'a [u8]> {
        self.strings.get(usize::try_from(offset).ok()?..)?.split(|byte| *byte == 0).next()
    }
}

/// Bytes behind the fixed part of a type of `kind` with `count` members.
fn extra(kind: u32, count: usize) -> Option<usize> {
    match kind {
        // int, var, decl_tag
        1 | 14 | 17 => Some(4),
        // array
        3 => Some(12),
        // struct, union, datasec, enum64
        4 | 5 | 15 | 19 => Some(count * 12),
        // enum, func_proto
        6 | 13 => Some(count * 8),
        // pointer, forward, typedef, qualifiers, func, float, type_tag
        2 | 7..=12 | 16 | 18 => Some(0),
        _ => None,
    }
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(offset..)?.first_chunk()?))
}

fn usize_at(bytes: &[u8], offset: usize) -> Option<usize> {
    usize::try_from(u32_at(bytes, offset)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct net { int a; struct { typedef-to ns_common ns; int bits:3; } }`, `struct ns_common { int x; int inum; }`.
    fn sample() -> Vec<u8> {
        let strings = b"\0int\0net\0a\0ns\0bits\0ns_common\0x\0inum\0";
        let at = |name: &str| {
            let needle = [b"\0", name.as_bytes(), b"\0"].concat();
            let found = strings.windows(needle.len()).position(|window| window == needle);
            found.and_then(|index| u32::try_from(index + 1).ok()).unwrap_or(0)
        };
        let info = |kind: u32, count: u32, flag: u32| flag << 31 | kind << 24 | count;
        let words = [
            vec![at("int"), info(1, 0, 0), 4, 32],
            vec![at("ns_common"), info(4, 2, 0), 8, at("x"), 1, 0, at("inum"), 1, 32],
            vec![at("ns_common"), info(8, 0, 0), 2],
            vec![0, info(4, 2, 1), 12, at("ns"), 3, 32, at("bits"), 1, 3 << 24 | 96],
            vec![at("net"), info(4, 2, 0), 20, at("a"), 1, 0, 0, 4, 64],
        ]
        .concat();
        let types: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(0);
        for word in [24, 0, length(&types), length(&types), length(strings)] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(types);
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn offsets_add_up_through_anonymous_structs_and_typedefs() {
        let bytes = sample();
        let btf = Btf::parse(&bytes).expect("well-formed");
        assert_eq!(btf.offset("net", &["a"]), Some(0));
        assert_eq!(btf.offset("net", &["ns"]), Some(8 + 4));
        assert_eq!(btf.offset("net", &["ns", "inum"]), Some(8 + 4 + 4));
    }

    #[test]
    fn a_bit_field_an_unknown_field_and_an_unknown_struct_have_no_offset() {
        let bytes = sample();
        let btf = Btf::parse(&bytes).expect("well-formed");
        assert_eq!(btf.offset("net", &["bits"]), None);
        assert_eq!(btf.offset("net", &["a", "b"]), None);
        assert_eq!(btf.offset("net", &["missing"]), None);
        assert_eq!(btf.offset("sock", &["a"]), None);
        assert_eq!(btf.offset("net", &[]), None);
    }

    #[test]
    fn cut_or_broken_bytes_are_never_more_than_nothing() {
        let whole = sample();
        for length in 0..whole.len() {
            assert_eq!(Btf::parse(&whole[..length]).and_then(|btf| btf.offset("sock", &["x"])), None);
        }
        for index in 0..whole.len() {
            let mut broken = whole.clone();
            broken[index] ^= 0xff;
            let _ = Btf::parse(&broken).and_then(|btf| btf.offset("net", &["ns", "inum"]));
        }
    }
}
