//! The sides of a DMA instruction: device addresses, strided patterns over them, bound registers.
//! (wiki: dma/dge-microop-encoding; dma/gather-scatter-descriptors; firmware/dge/dge-emit)

use smallvec::SmallVec;

use crate::engine::Env;
use crate::error::{Error, ErrorClass, Result};
use crate::isa::{Addr8, Field, b};

/// Most elements of one pattern; more is refused before memory is spent on it.
const MAX_POINTS: u64 = 1 << 28;

/// A strided pattern over device addresses.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// Address of the first element.
    pub base: u64,
    /// Byte step and count of each dimension, innermost first.
    pub dims: SmallVec<[(i64, u64); 5]>,
    /// Bytes of an element.
    pub element: u64,
}

impl Pattern {
    /// Number of elements.
    pub fn points(&self) -> u64 {
        self.dims.iter().map(|d| d.1).product()
    }

    /// Number of bytes.
    pub fn bytes(&self) -> u64 {
        self.points() * self.element
    }

    /// Address of element `k` in pattern order. Wraps as 64-bit hardware does.
    pub fn address(&self, mut k: u64) -> u64 {
        let mut at = self.base;
        for &(step, count) in &self.dims {
            at = at.wrapping_add_signed(step.wrapping_mul((k % count) as i64));
            k /= count;
        }
        at
    }

    /// Lowest and highest element address, as far as they go.
    pub fn reach(&self) -> (i128, i128) {
        let base = i128::from(self.base);
        self.dims.iter().fold((base, base), |(low, high), &(step, count)| {
            let span = i128::from(step) * i128::from(count - 1);
            (low + span.min(0), high + span.max(0))
        })
    }
}

/// The address in `field`, its register forms resolved.
///
/// # Errors
/// `device_address` for forms that are no address, missing specification for table forms.
pub fn device_address(env: &Env<'_>, field: Field) -> Result<u64> {
    match env.inst.addr8(field) {
        Addr8::Imm(a) | Addr8::ImmShapeReg { addr: a } => Ok(a),
        Addr8::Reg { lo, hi } | Addr8::RegShapeReg { lo, hi } => {
            Ok(u64::from(env.register(lo)?) | u64::from(env.register(hi)?) << 32)
        }
        Addr8::Table { .. } => Err(Error::missing_spec(
            "where table index and offset lie in an address of the table form",
            "dma/dge-microop-encoding",
        )),
        Addr8::Variable(id) => Err(Error::illegal(
            "device_address",
            format!("variable {id:#x} stands in host words only"),
        )),
        Addr8::Unknown(raw) => {
            Err(Error::illegal("device_address", format!("{raw:#x} is no device address")))
        }
    }
}

/// The dimensions of the operand at `field`: its steps and counts, or those of the shape register
/// that the first step names. Steps count `unit` bytes.
///
/// # Errors
/// `dma_shape` for a pattern without elements, register errors.
pub fn dims(
    env: &Env<'_>,
    field: Field,
    steps: &[i32],
    counts: &[u16],
    unit: i64,
) -> Result<SmallVec<[(i64, u64); 5]>> {
    let mut dims: SmallVec<[(i64, u64); 5]> = SmallVec::new();
    if env.inst.addr8(field).shape_from_register() {
        let number = steps.first().copied().unwrap_or(0);
        let shape = env.shape_register(u8::try_from(number).unwrap_or(u8::MAX))?;
        // dimensions behind the last one in use count nothing
        let used = shape.num.iter().rposition(|&n| n != 0).map_or(0, |last| last + 1);
        for d in 0..used {
            dims.push((i64::from(shape.step[d]) * unit, u64::from(shape.num[d])));
        }
    } else {
        let pairs = steps.iter().zip(counts);
        dims.extend(pairs.map(|(&s, &n)| (i64::from(s) * unit, u64::from(n))));
    }
    let points = dims.iter().try_fold(1u64, |n, d| n.checked_mul(d.1));
    match points {
        Some(0) => Err(Error::illegal("dma_shape", "a DMA pattern without elements")),
        Some(n) if n <= MAX_POINTS && !dims.is_empty() => Ok(dims),
        Some(_) if dims.is_empty() => {
            Err(Error::illegal("dma_shape", "the shape register holds no shape"))
        }
        _ => Err(Error::new(
            ErrorClass::LimitReached,
            format!("a DMA pattern of more than {MAX_POINTS} elements"),
        )),
    }
}

/// An element size field, in which 0 stands for 65536.
pub fn element_size(env: &Env<'_>, field: Field) -> u64 {
    match env.inst.get(field) {
        0 => 65536,
        n => n,
    }
}

/// Two signed 32-bit numbers.
pub fn two_i32(env: &Env<'_>, field: Field) -> [i32; 2] {
    let raw = env.inst.get(field);
    [raw as i32, (raw >> 32) as i32]
}

/// Two 16-bit numbers.
pub fn two_u16(env: &Env<'_>, field: Field) -> [u16; 2] {
    let raw = env.inst.get(field);
    [raw as u16, (raw >> 16) as u16]
}

/// A bound check that is switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Value of the bound register.
    pub limit: u64,
    /// Whether a failure is reported.
    pub notify: bool,
}

/// The bound in `field`. Data bounds are 64-bit addresses in a register pair, index bounds 32-bit
/// (OPEN: the page says only that a wide bound takes the next register too).
///
/// # Errors
/// `bound_check_reg` for a byte that is neither zero nor enabled, register errors.
pub fn bound(env: &Env<'_>, field: Field, wide: bool) -> Result<Option<Bound>> {
    use b::bound_check_reg as g;
    let byte = env.inst.get(field);
    if byte == 0 {
        return Ok(None);
    }
    if g::BC_ENABLED.get(byte) == 0 {
        return Err(Error::illegal(
            "bound_check_reg",
            format!("bound byte {byte:#04x} is neither zero nor enabled"),
        ));
    }
    let register = g::BC_REG.get(byte) as u8;
    let low = u64::from(env.register(register)?);
    let high = if wide { u64::from(env.register(register + 1)?) } else { 0 };
    let notify = g::BC_DISABLE_OOB_ERROR_NOTIF.get(byte) == 0;
    Ok(Some(Bound { limit: low | high << 32, notify }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn element_addresses_in_pattern_order() {
        let pattern =
            Pattern { base: 100, dims: SmallVec::from_slice(&[(4, 3), (-50, 2)]), element: 4 };
        let all: Vec<u64> = (0..pattern.points()).map(|k| pattern.address(k)).collect();
        assert_eq!(all, [100, 104, 108, 50, 54, 58]);
        assert_eq!(pattern.reach(), (50, 108));
        assert_eq!(pattern.bytes(), 24);
    }
}
