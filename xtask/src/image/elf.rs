//! Is an executable what it should be: for this machine, and without a loader or libraries of others?

use super::Architecture;
use anyhow::{Context, Result, ensure};

const MAGIC: &[u8] = b"\x7fELF\x02\x01";
/// Program header type (elf(5)).
const PT_INTERP: u32 = 3;

/// The file is a 64-bit little-endian ELF for the architecture that asks for no interpreter.
///
/// # Errors
/// It is something else.
pub(super) fn check_static(file: &[u8], architecture: Architecture) -> Result<()> {
    ensure!(file.starts_with(MAGIC), "no 64-bit little-endian ELF file");
    let wanted = match architecture {
        Architecture::X8664 => 62,
        Architecture::Aarch64 => 183,
    };
    let machine = u16_at(file, 18)?;
    ensure!(machine == wanted, "built for machine {machine}, not {wanted}");
    let offset = usize::try_from(u64_at(file, 32)?)?;
    let (size, count) = (usize::from(u16_at(file, 54)?), usize::from(u16_at(file, 56)?));
    for number in 0..count {
        let kind = u32_at(file, offset + number * size)?;
        ensure!(kind != PT_INTERP, "not static: it names a program interpreter");
    }
    Ok(())
}

fn bytes<const N: usize>(file: &[u8], at: usize) -> Result<[u8; N]> {
    let part = file.get(at..at.saturating_add(N)).context("the ELF file is cut off")?;
    Ok(part.try_into()?)
}

fn u16_at(file: &[u8], at: usize) -> Result<u16> {
    Ok(u16::from_le_bytes(bytes(file, at)?))
}

fn u32_at(file: &[u8], at: usize) -> Result<u32> {
    Ok(u32::from_le_bytes(bytes(file, at)?))
}

fn u64_at(file: &[u8], at: usize) -> Result<u64> {
    Ok(u64::from_le_bytes(bytes(file, at)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with program headers of these types, 56 bytes each.
    fn elf(machine: u16, kinds: &[u32]) -> Vec<u8> {
        let mut file = vec![0; 64];
        file[..6].copy_from_slice(MAGIC);
        file[18..20].copy_from_slice(&machine.to_le_bytes());
        file[32] = 64;
        file[54] = 56;
        file[56] = u8::try_from(kinds.len()).unwrap();
        for kind in kinds {
            let mut header = [0; 56];
            header[..4].copy_from_slice(&kind.to_le_bytes());
            file.extend(header);
        }
        file
    }

    #[test]
    fn a_static_file_for_the_right_machine_passes() {
        assert!(check_static(&elf(62, &[1, 2]), Architecture::X8664).is_ok());
        assert!(check_static(&elf(183, &[1]), Architecture::Aarch64).is_ok());
    }

    #[test]
    fn another_machine_an_interpreter_and_a_cut_file_are_refused() {
        assert!(check_static(&elf(62, &[1]), Architecture::Aarch64).is_err());
        assert!(check_static(&elf(62, &[1, PT_INTERP]), Architecture::X8664).is_err());
        assert!(check_static(&elf(62, &[1, 1])[..100], Architecture::X8664).is_err());
        assert!(check_static(b"#!/bin/sh\n", Architecture::X8664).is_err());
    }

    #[test]
    fn our_own_test_program_is_not_static() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        if cfg!(target_arch = "x86_64") {
            assert!(check_static(&own, Architecture::X8664).unwrap_err().to_string().contains("interpreter"));
        }
    }
}
