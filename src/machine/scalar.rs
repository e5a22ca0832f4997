//! Scalar arithmetic and branches of the sequencer: ALU_OP and COMPARE_BRANCH.

use super::control::write_specifier;
use super::fault::{DIVISION_BY_ZERO, device_fault};
use super::run::read_register;
use crate::error::{Error, Result};
use crate::isa::{Inst, f};
use crate::numeric::Dtype;

/// Executes ALU_OP 0xA8: `dst = src0 op src1`, 32 bits, or 64 bits when the dtype is 64-bit and a
/// high register is named (OPEN: seq choice 16). Division by zero is a device fault.
/// (wiki: neuronx-runtime isa/instruction-record; firmware/seq/error-handler)
///
/// # Errors
/// `alu_op` for an operation the scalar unit is not known to have, `register_specifier`,
/// device fault 2.
pub fn alu_op(registers: &mut [u32; 64], inst: &Inst) -> Result<()> {
    use f::ctrl_al as l;
    let byte = |field| inst.get(field) as u8;
    let dtype = Dtype::from_code(inst.generation, byte(l::DTYPE))?;
    let wide = dtype.size() == 8;
    let pair = |registers: &[u32; 64], low: u8, high: u8| -> Result<u64> {
        let value = u64::from(read_register(registers, low)?);
        if wide && high != 0 {
            Ok(value | u64::from(read_register(registers, high)?) << 32)
        } else {
            Ok(value)
        }
    };
    let a = pair(registers, byte(l::SRC0_REG_LO), byte(l::SRC0_REG_HI))?;
    let b = if byte(l::SRC1_DATASRC) == 1 {
        inst.get(l::IMMEDIATE)
    } else {
        pair(registers, byte(l::SRC1_REG_LO), byte(l::SRC1_REG_HI))?
    };
    let result = if dtype.is_float() {
        if dtype != Dtype::Fp32 {
            return Err(Error::illegal("alu_dtype", format!("ALU_OP on {}", dtype.name())));
        }
        u64::from(
            float_op(byte(l::OP), f32::from_bits(a as u32), f32::from_bits(b as u32))?.to_bits(),
        )
    } else {
        integer_op(byte(l::OP), a, b, dtype)?
    };
    write_specifier(registers, byte(l::DST_REG_LO), result as u32)?;
    if wide && byte(l::DST_REG_HI) != 0 {
        write_specifier(registers, byte(l::DST_REG_HI), (result >> 32) as u32)?;
    }
    Ok(())
}

fn integer_op(op: u8, a: u64, b: u64, dtype: Dtype) -> Result<u64> {
    let bits = dtype.size() as u32 * 8;
    let signed = dtype.is_signed();
    let extend = |v: u64| -> i128 {
        let shift = 64 - bits;
        if signed {
            i128::from(((v << shift) as i64) >> shift)
        } else {
            i128::from((v << shift) >> shift)
        }
    };
    let (x, y) = (extend(a), extend(b));
    let count = (y & i128::from(bits - 1)) as u32;
    let truth = |t: bool| i128::from(t);
    let value = match op {
        0x00 => x,
        0x01 => !x,
        0x02 | 0x10 => x << count,
        0x03 => ((x << (128 - bits)) >> (128 - bits)) >> count,
        0x04 | 0xC4 => x + y,
        0x05 | 0xC6 => x - y,
        0x06 | 0xC5 => x.wrapping_mul(y),
        0x07 | 0xC7 | 0xDC if y == 0 => {
            return Err(device_fault(DIVISION_BY_ZERO, "integer division by zero"));
        }
        0x07 | 0xC7 | 0xDC => x / y,
        0x1B | 0xC8 | 0xDD if y == 0 => {
            return Err(device_fault(DIVISION_BY_ZERO, "integer division by zero"));
        }
        0x1B | 0xC8 | 0xDD => x % y,
        0x08 | 0xCF | 0xD5 => x.max(y),
        0x09 | 0xD0 | 0xD6 => x.min(y),
        0x0A => x & y,
        0x0B => x | y,
        0x0C => x ^ y,
        0x0D => truth(x != 0 && y != 0),
        0x0E => truth(x != 0 || y != 0),
        0x0F => truth((x != 0) != (y != 0)),
        0x11 => i128::from(((a << (64 - bits)) >> (64 - bits)) >> count),
        0x12 => truth(x == y),
        0x13 => truth(x > y),
        0x14 => truth(x >= y),
        0x15 => truth(x <= y),
        0x16 => truth(x < y),
        0x17 => (x - y).abs(),
        0x18 => truth(x != y),
        0x19 => x.abs(),
        other => {
            return Err(Error::illegal(
                "alu_op",
                format!("the scalar unit has no integer operation {other:#04x}"),
            ));
        }
    };
    Ok(if bits == 64 { value as u64 } else { value as u64 & ((1 << bits) - 1) })
}

fn float_op(op: u8, a: f32, b: f32) -> Result<f32> {
    let truth = |t: bool| if t { 1.0 } else { 0.0 };
    Ok(match op {
        0x00 => a,
        0x04 => a + b,
        0x05 => a - b,
        0x06 => a * b,
        0x07 => a / b,
        0x08 => a.max(b),
        0x09 => a.min(b),
        0x12 => truth(a == b),
        0x13 => truth(a > b),
        0x14 => truth(a >= b),
        0x15 => truth(a <= b),
        0x16 => truth(a < b),
        0x17 => (a - b).abs(),
        0x18 => truth(a != b),
        0x19 => a.abs(),
        other => {
            return Err(Error::illegal(
                "alu_op",
                format!("the scalar unit has no FP32 operation {other:#04x}"),
            ));
        }
    })
}

/// Next word of COMPARE_BRANCH 0xA9 at `pc` in a stream of `len` words, or `None` if not taken.
/// Relative targets count bytes from the branch word (OPEN: seq choice 1); absolute ones bytes
/// from the start of the stream. Compares follow the dtype. (wiki: neuronx-runtime
/// isa/instruction-record; KLR BrCmpOp order for the unpublished values)
///
/// # Errors
/// `branch_compare`, `branch_target`, and target modes without a published meaning.
pub fn branch(registers: &[u32; 64], inst: &Inst, pc: usize, len: usize) -> Result<Option<usize>> {
    use f::ctrl_br as l;
    let byte = |field| inst.get(field) as u8;
    let code = byte(l::CMP_OP);
    if !(code == 0 || taken(registers, inst, code)?) {
        return Ok(None);
    }
    let pair = || -> Result<i64> {
        let low = read_register(registers, byte(l::TARGET_REG_LO))?;
        let high = read_register(registers, byte(l::TARGET_REG_HI))?;
        Ok((u64::from(low) | u64::from(high) << 32) as i64)
    };
    let here = pc as i64 * 64;
    let target = match byte(l::TARGET_MODE) {
        0 => inst.get(l::BR_IMMEDIATE) as i64,
        1 => pair()?,
        3 => here + i64::from(inst.get(l::BR_IMMEDIATE) as u32 as i32),
        4 => here + i64::from(read_register(registers, byte(l::TARGET_REG_LO))? as i32),
        other => {
            return Err(Error::missing_spec(
                format!("COMPARE_BRANCH target mode {other}"),
                "neuronx-runtime isa/pseudo-instruction-lowering",
            ));
        }
    };
    if target % 64 != 0 || target < 0 || target / 64 > len as i64 {
        return Err(Error::illegal(
            "branch_target",
            format!("the branch goes to byte {target:#x}, outside the stream or between words"),
        ));
    }
    Ok(Some((target / 64) as usize))
}

fn taken(registers: &[u32; 64], inst: &Inst, code: u8) -> Result<bool> {
    use f::ctrl_br as l;
    let a = read_register(registers, inst.get(l::CMP_REG0) as u8)?;
    let b = match code {
        1..=6 => inst.get(l::CMP_IMMEDIATE) as u32,
        7..=12 => read_register(registers, inst.get(l::CMP_REG1) as u8)?,
        other => {
            return Err(Error::illegal(
                "branch_compare",
                format!("there is no compare operation {other}"),
            ));
        }
    };
    let dtype = Dtype::from_code(inst.generation, inst.get(l::CMP_DTYPE) as u8)?;
    let order = if dtype.is_float() {
        if dtype != Dtype::Fp32 {
            return Err(Error::illegal("branch_compare", format!("compare of {}", dtype.name())));
        }
        f32::from_bits(a).partial_cmp(&f32::from_bits(b))
    } else {
        let shift = 32 - (dtype.size().min(4) as u32 * 8);
        Some(if dtype.is_signed() {
            (((a << shift) as i32) >> shift).cmp(&(((b << shift) as i32) >> shift))
        } else {
            ((a << shift) >> shift).cmp(&((b << shift) >> shift))
        })
    };
    use std::cmp::Ordering::{Equal, Greater, Less};
    Ok(match (code - 1) % 6 {
        0 => order == Some(Less),
        1 => matches!(order, Some(Less | Equal)),
        2 => order == Some(Equal),
        3 => order != Some(Equal),
        4 => matches!(order, Some(Greater | Equal)),
        _ => order == Some(Greater),
    })
}
