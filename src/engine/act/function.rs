//! Which function an `activation_func` byte selects, and its values.
//!
//! With a resident table set the function is data: segments of cubics. Functions of fixed logic,
//! and every function as long as the program brought no tables, use their closed form (OPEN: the
//! hardware has no closed forms; without tables its results are undefined).
//! (wiki: uarch/activation-transcendental-tables; wiki-cc: activation/pwp-model)

use crate::engine::Lane;
use crate::error::{Error, Result};
use crate::numeric::ActFunc;
use crate::numeric::activation::affine;

/// A decoded `activation_func` byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct Function {
    number: u8,
    closed: Option<ActFunc>,
}

impl Function {
    /// The function of number `number`. Numbers without a known name still work if a resident
    /// table set has them.
    pub fn new(number: u8) -> Function {
        Function { number, closed: ActFunc::from_wire_id(number).ok() }
    }

    /// Replaces each value by the function of it; `alpha` is the slope of the parametric ReLU.
    ///
    /// # Errors
    /// Missing specification for a number that neither the pages name nor the tables have.
    pub fn apply(self, lane: &Lane<'_>, values: &mut [f32], alpha: f32) -> Result<()> {
        let act = &lane.state.act;
        let tables = act.resident.and_then(|n| act.sets.get(&n));
        if tables.is_none()
            && !act.sets.is_empty()
            && !self.closed.is_some_and(|f| f.is_hardwired())
        {
            return Err(Error::undefined(
                "activation_table",
                format!("function {} before any ACTIVATION_TABLE_LOAD", self.number),
            ));
        }
        match (self.closed, tables) {
            (Some(f), _) if f.is_hardwired() => f.evaluate_in_place(values, alpha),
            (_, Some(tables)) => {
                for v in values {
                    *v = tables.evaluate(self.number, *v)?;
                }
            }
            (Some(f), None) => f.evaluate_in_place(values, alpha),
            (None, None) => ActFunc::from_wire_id(self.number)?.evaluate_in_place(values, alpha),
        }
        Ok(())
    }
}

/// scale * x + bias for a whole row, rounded once as [`affine`] does.
pub(super) fn affine_row(values: &mut [f32], scale: f32, bias: f32) {
    let canonical = |y: f32| if y.is_nan() { crate::numeric::CANONICAL_NAN } else { y };
    // With a neutral scale or bias a plain operation has the same single rounding.
    if scale == 1.0 {
        for x in values {
            *x = canonical(*x + bias);
        }
    } else if bias == 0.0 {
        for x in values {
            let y = *x * scale;
            // The sign of a zero depends on whether the product underflowed.
            *x = if y == 0.0 { affine(*x, scale, bias) } else { canonical(y) };
        }
    } else {
        for x in values {
            *x = affine(*x, scale, bias);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_affine_equals_the_fused_one() {
        let mut seed = 7u32;
        let mut next = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f32::from_bits(seed ^ seed >> 15)
        };
        for _ in 0..2000 {
            let (x, a) = (next(), next());
            for (scale, bias) in [(1.0, a), (a, 0.0), (a, -0.0), (1.0, -0.0), (a, 1.5)] {
                let mut row = [x, 0.0, -0.0, f32::INFINITY, f32::NAN];
                let want = row.map(|x| affine(x, scale, bias).to_bits());
                affine_row(&mut row, scale, bias);
                assert_eq!(row.map(f32::to_bits), want, "{x} * {scale} + {bias}");
            }
        }
    }
}
