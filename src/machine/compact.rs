//! COMPACT_CONTROL_INST 0xB6 of v5: 15 micro-operations of 4 bytes on the sequencer's register file.
//! (wiki: firmware/kernels/dma-transpose-opcode-cluster; generations/maverick-profile 5)
//!
//! The encodings are published, the interpreter is not. OPEN throughout: an operation without
//! suffix is unsigned and wraps, one with `_S` is signed and saturates; 64-bit operands are an even
//! register and the next; a shift count is taken modulo the width; MOV has the operand places of
//! the ALU form; MOV_IMM_LO clears the high half, MOV_IMM_LO_S extends the sign, MOV_IMM_HI keeps
//! the low half; a memory operand is the 64-bit address in a register pair plus an unsigned byte
//! offset. What is refused, because no source lists it: the members of the compare, branch and most
//! of the logical group, and the operand places of the semaphore group.

use super::fault::{DIVISION_BY_ZERO, device_fault};
use super::run::{Machine, read_register};
use crate::error::{Error, Result};
use crate::isa::{Inst, e::ccop as c, f};
use crate::numeric::AluOp;
use crate::numeric::alu::apply_f32;

/// Bytes of a micro-operation.
const MICRO: usize = 4;

/// The two members of 0x50..0x57 that the sources name. (wiki:
/// firmware/kernels/dma-transpose-opcode-cluster)
const LOGICAL_AND: u8 = 0x50;
const BITWISE_XOR: u8 = 0x57;

type Registers = [u32; 64];

/// Executes the micro-operations of the word at `pc`; returns the target of a taken branch, which
/// no known micro-operation is.
///
/// # Errors
/// Missing specification for micro-operations that are not published, register and memory errors,
/// a device fault for a division by zero.
pub fn execute(machine: &mut Machine, s: usize, pc: usize, inst: &Inst) -> Result<Option<usize>> {
    let words = inst.slice(f::ctrl_cci::INSTS).to_vec();
    for micro in words.as_chunks::<MICRO>().0 {
        if matches!(micro[0], c::LDR..=c::STRQ) {
            memory(machine, s, pc, *micro)?;
        } else {
            scalar(&mut machine.streams[s].registers, *micro)?;
        }
    }
    Ok(None)
}

fn write(registers: &mut Registers, r: u8, value: u32) -> Result<()> {
    match registers.get_mut(usize::from(r)) {
        Some(slot) => {
            *slot = value;
            Ok(())
        }
        None => Err(Error::illegal("register_specifier", format!("there is no register R{r}"))),
    }
}

fn even(r: u8) -> Result<u8> {
    if r.is_multiple_of(2) {
        Ok(r)
    } else {
        Err(Error::illegal("register_pair", format!("a 64-bit operand starts at odd R{r}")))
    }
}

fn read_pair(registers: &Registers, r: u8) -> Result<u64> {
    let r = even(r)?;
    let high = read_register(registers, r + 1)?;
    Ok(u64::from(read_register(registers, r)?) | u64::from(high) << 32)
}

fn write_pair(registers: &mut Registers, r: u8, value: u64) -> Result<()> {
    let r = even(r)?;
    write(registers, r, value as u32)?;
    write(registers, r + 1, (value >> 32) as u32)
}

/// A micro-operation that touches registers only.
fn scalar(registers: &mut Registers, [op, x, y, z]: [u8; MICRO]) -> Result<()> {
    match op {
        c::NOP => Ok(()),
        c::MOV => {
            let value = read_register(registers, x)?;
            write(registers, z, value)
        }
        c::MOV_IMM_LO | c::MOV_IMM_HI | c::MOV_IMM_LO_S => {
            let immediate = u16::from_le_bytes([y, z]);
            let value = match op {
                c::MOV_IMM_LO => u32::from(immediate),
                c::MOV_IMM_LO_S => i32::from(immediate as i16) as u32,
                _ => u32::from(immediate) << 16 | (read_register(registers, x)? & 0xFFFF),
            };
            write(registers, x, value)
        }
        c::ADDF..=c::ABS_MINF => {
            let a = f32::from_bits(read_register(registers, x)?);
            // the operations of one operand leave the second register number alone
            let unary = matches!(op, c::TRUNCF | c::ABS_VALUEF);
            let b = if unary { 0.0 } else { f32::from_bits(read_register(registers, y)?) };
            write(registers, z, float(op, a, b)?.to_bits())
        }
        c::ADD64..=c::MIN64
        | c::ADD64_S..=c::MIN64_S
        | c::ABS_VALUE64..=c::ABS_MIN64
        | c::ASL64..=c::LSR64 => {
            let a = read_pair(registers, x)?;
            let b = match op {
                c::ABS_VALUE64 => 0,
                c::ASL64..=c::LSR64 => u64::from(read_register(registers, y)?),
                _ => read_pair(registers, y)?,
            };
            let value = integer(short(op), i128::from(a), i128::from(b), 64)?;
            write_pair(registers, z, value as u64)
        }
        c::CLZ64 => {
            let value = read_pair(registers, x)?.leading_zeros();
            write(registers, z, value)
        }
        c::CLZ => {
            let value = read_register(registers, x)?.leading_zeros();
            write(registers, z, value)
        }
        c::ADD..=c::MIN
        | c::ADD_S..=c::MIN_S
        | c::ABS_VALUE..=c::ABS_MIN
        | c::ASL..=c::ROR
        | LOGICAL_AND
        | BITWISE_XOR => {
            let a = i128::from(read_register(registers, x)?);
            let unary = op == c::ABS_VALUE;
            let b = if unary { 0 } else { i128::from(read_register(registers, y)?) };
            let value = integer(op, a, b, 32)?;
            write(registers, z, value as u32)
        }
        other => Err(Error::missing_spec(
            format!("the meaning or operand places of compact micro-operation {other:#04x}"),
            "generations/maverick-profile",
        )),
    }
}

/// The 32-bit operation that a 64-bit one does on pairs.
fn short(op: u8) -> u8 {
    match op {
        c::ADD64..=c::MIN64 | c::ADD64_S..=c::MIN64_S => op - c::ADD64 + c::ADD,
        c::ABS_VALUE64..=c::ABS_MIN64 => op - c::ABS_VALUE64 + c::ABS_VALUE,
        _ => op - c::ASL64 + c::ASL,
    }
}

/// An integer operation on operands of `bits` bits, given zero-extended.
fn integer(op: u8, a: i128, b: i128, bits: u32) -> Result<i128> {
    let signed = |v: i128| (v << (128 - bits)) >> (128 - bits);
    let (x, y) = (signed(a), signed(b));
    let (low, high) = (-1i128 << (bits - 1), (1i128 << (bits - 1)) - 1);
    let count = (b & i128::from(bits - 1)) as u32;
    let fault = || device_fault(DIVISION_BY_ZERO, "integer division by zero");
    Ok(match op {
        c::ADD => a + b,
        c::SUB => a - b,
        c::MUL => a.wrapping_mul(b),
        c::DIV => a.checked_div(b).ok_or_else(fault)?,
        c::MOD => a.checked_rem(b).ok_or_else(fault)?,
        c::MAX => a.max(b),
        c::MIN => a.min(b),
        c::ADD_S => (x + y).clamp(low, high),
        c::SUB_S => (x - y).clamp(low, high),
        c::MUL_S => x.saturating_mul(y).clamp(low, high),
        c::DIV_S => x.checked_div(y).ok_or_else(fault)?.clamp(low, high),
        c::MOD_S => x.checked_rem(y).ok_or_else(fault)?,
        c::MAX_S => x.max(y),
        c::MIN_S => x.min(y),
        c::ABS_VALUE => x.abs(),
        c::ABS_MAX => x.abs().max(y.abs()),
        c::ABS_MIN => x.abs().min(y.abs()),
        c::ASL | c::LSL => a << count,
        c::ASR => x >> count,
        c::LSR => a >> count,
        c::ROL if bits == 32 => i128::from((a as u32).rotate_left(count)),
        c::ROR if bits == 32 => i128::from((a as u32).rotate_right(count)),
        LOGICAL_AND => i128::from(a != 0 && b != 0),
        BITWISE_XOR => a ^ b,
        other => return Err(Error::internal(format!("compact integer operation {other:#04x}"))),
    })
}

fn float(op: u8, a: f32, b: f32) -> Result<f32> {
    let alu = match op {
        c::ADDF => AluOp::Add,
        c::SUBF => AluOp::Subtract,
        c::MULF => AluOp::Mult,
        c::DIVF => AluOp::Divide,
        c::TRUNCF => return Ok(a.trunc()),
        c::MAXF => AluOp::Max,
        c::MINF => AluOp::Min,
        c::ABS_VALUEF => AluOp::AbsoluteValue,
        c::ABS_MAXF => AluOp::AbsMax,
        c::ABS_MINF => AluOp::AbsMin,
        other => return Err(Error::internal(format!("compact FP32 operation {other:#04x}"))),
    };
    apply_f32(alu, a, b)
}

/// A load or store: {operation, first register, address register, offset}.
fn memory(
    machine: &mut Machine,
    s: usize,
    pc: usize,
    [op, r, base, offset]: [u8; 4],
) -> Result<()> {
    let address = read_pair(&machine.streams[s].registers, base)?.wrapping_add(u64::from(offset));
    let (size, store) = match op {
        c::LDR => (4, false),
        c::LDRH | c::LDRHS => (2, false),
        c::LDRB | c::LDRBS => (1, false),
        c::LDRD => (8, false),
        c::LDRQ => (16, false),
        c::STR => (4, true),
        c::STRH => (2, true),
        c::STRB => (1, true),
        c::STRD => (8, true),
        _ => (16, true),
    };
    let registers = (size as u8).div_ceil(4);
    if store {
        for (part, from) in (0..registers).step_by(2).enumerate() {
            let registers = &machine.streams[s].registers;
            let value = if size >= 8 {
                read_pair(registers, r.saturating_add(from))?
            } else {
                u64::from(read_register(registers, r)?)
            };
            let at = address.wrapping_add(8 * part as u64);
            machine.store_scalar(s, pc, at, value, size.min(8))?;
        }
        return Ok(());
    }
    let mut bytes = [0u8; 16];
    machine.load_bytes(s, pc, address, &mut bytes[..size])?;
    let file = &mut machine.streams[s].registers;
    if size >= 8 {
        even(r)?;
    }
    for (to, word) in (0..registers).zip(bytes.as_chunks::<4>().0) {
        let word = u32::from_le_bytes(*word);
        let value = match op {
            c::LDRHS => i32::from(word as i16) as u32,
            c::LDRBS => i32::from(word as i8) as u32,
            _ => word,
        };
        write(file, r.saturating_add(to), value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorClass;

    fn run(setup: &[(u8, u32)], micro: [u8; 4]) -> Result<Registers> {
        let mut registers = [0; 64];
        for &(r, v) in setup {
            registers[usize::from(r)] = v;
        }
        scalar(&mut registers, micro).map(|()| registers)
    }

    #[test]
    fn moves_and_immediates() {
        assert_eq!(run(&[(1, 7)], [c::MOV, 1, 0, 5]).unwrap()[5], 7);
        let set = [(3, 0xFFFF_FFFF)];
        assert_eq!(run(&set, [c::MOV_IMM_LO, 3, 0x34, 0x92]).unwrap()[3], 0x9234);
        assert_eq!(run(&set, [c::MOV_IMM_LO_S, 3, 0x34, 0x92]).unwrap()[3], 0xFFFF_9234);
        assert_eq!(run(&set, [c::MOV_IMM_HI, 3, 0x34, 0x12]).unwrap()[3], 0x1234_FFFF);
    }

    #[test]
    fn wrapping_and_saturating() {
        let set = [(0, 0x7FFF_FFFF), (1, 2)];
        assert_eq!(run(&set, [c::ADD, 0, 1, 2]).unwrap()[2], 0x8000_0001);
        assert_eq!(run(&set, [c::ADD_S, 0, 1, 2]).unwrap()[2], 0x7FFF_FFFF);
        assert_eq!(run(&set, [c::MUL, 0, 1, 2]).unwrap()[2], 0xFFFF_FFFE);
        let set = [(0, u32::MAX), (1, 3)];
        assert_eq!(run(&set, [c::MAX, 0, 1, 2]).unwrap()[2], u32::MAX);
        assert_eq!(run(&set, [c::MAX_S, 0, 1, 2]).unwrap()[2], 3);
        assert_eq!(run(&set, [c::ABS_VALUE, 0, 1, 2]).unwrap()[2], 1);
        assert_eq!(run(&set, [c::DIV, 0, 1, 2]).unwrap()[2], 0x5555_5555);
        assert_eq!(run(&set, [c::DIV_S, 0, 1, 2]).unwrap()[2], 0);
        let fault = run(&[(0, 5)], [c::MOD, 0, 1, 2]).unwrap_err();
        assert_eq!(fault.class, ErrorClass::DeviceFault);
    }

    #[test]
    fn pairs_and_shifts() {
        let set = [(0, u32::MAX), (2, 1), (4, 0x8000_0000), (5, 4)];
        let sum = run(&set, [c::ADD64, 0, 2, 6]).unwrap();
        assert_eq!((sum[6], sum[7]), (0, 1));
        assert!(run(&set, [c::ADD64, 1, 2, 6]).is_err(), "odd pair");
        assert_eq!(run(&set, [c::ASR, 4, 5, 6]).unwrap()[6], 0xF800_0000);
        assert_eq!(run(&set, [c::LSR, 4, 5, 6]).unwrap()[6], 0x0800_0000);
        assert_eq!(run(&set, [c::ROL, 4, 5, 6]).unwrap()[6], 8);
        assert_eq!(run(&set, [c::CLZ, 5, 0, 6]).unwrap()[6], 29);
        assert_eq!(run(&set, [c::CLZ64, 2, 0, 6]).unwrap()[6], 63);
        let shifted = run(&set, [c::LSL64, 2, 5, 6]).unwrap();
        assert_eq!((shifted[6], shifted[7]), (16, 0));
        assert_eq!(run(&set, [BITWISE_XOR, 4, 5, 6]).unwrap()[6], 0x8000_0004);
    }

    #[test]
    fn floats() {
        let set = [(0, 2.5f32.to_bits()), (1, (-4.0f32).to_bits())];
        let value = |op| f32::from_bits(run(&set, [op, 0, 1, 2]).unwrap()[2]);
        assert_eq!(value(c::MULF), -10.0);
        assert_eq!(value(c::TRUNCF), 2.0);
        assert_eq!(value(c::MAXF), 2.5);
        assert_eq!(value(c::ABS_MAXF), 4.0);
    }

    #[test]
    fn unpublished_operations_are_refused() {
        for op in [0x51, 0x60, 0x90, 0x9B, c::SEM_READ, c::SEM_ADD, 0xFF] {
            let error = run(&[], [op, 0, 0, 0]).unwrap_err();
            assert_eq!(error.class, ErrorClass::MissingSpecification, "{op:#x}");
        }
        assert!(run(&[], [c::ADD, 64, 0, 0]).is_err());
        // no byte combination panics
        for op in 0..=255u8 {
            for r in [0, 1, 62, 63, 64, 255] {
                let _ = run(&[(0, 1), (1, 1)], [op, r, r, r]);
            }
        }
    }
}
