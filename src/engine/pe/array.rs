//! The stationary operand: what LDWEIGHTS left in the cells of the array.
//!
//! A cell holds one weight, or several ("lanes") in the modes that multiply more than one
//! contraction row per cell. Weights are kept widened to FP32 in blocks of eight columns,
//! `[block][row][column]`, which is the order the multiplication loops read them in.

use crate::error::{Error, Result};
use crate::numeric::Dtype;
use crate::numeric::simd::{Level, NullaryFnOnce};

/// Columns of one block of the stored weights.
pub(super) const BLOCK: usize = 8;

/// Edge of the parts whose contents are remembered: the smallest row or column group.
const GROUP: usize = 32;

/// What a 32x32 part of the array holds.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Contents {
    /// Element type of the last load.
    pub dtype: Dtype,
    /// Weights for each cell.
    pub lanes: u8,
    /// Range of the weights' exponents and mantissas.
    pub span: Span,
}

/// How far the significant bits of a set of FP32 values reach.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Span {
    /// All mantissa bits of all values together.
    mantissas: u32,
    /// Smallest exponent field of a value that is not zero.
    low: u32,
    /// Largest exponent field.
    high: u32,
}

impl Span {
    /// Of no value at all.
    pub const EMPTY: Span = Span { mantissas: 0, low: 255, high: 0 };

    /// Takes `values` in.
    pub fn add(&mut self, values: &[f32]) {
        *self = Level::detect().run(Widened(*self, values));
    }

    /// Takes the values of `other` in.
    pub fn merge(&mut self, other: Span) {
        self.mantissas |= other.mantissas;
        self.low = self.low.min(other.low);
        self.high = self.high.max(other.high);
    }

    /// Whether every product of a value of `self` and one of `other` is an FP32 number, so that
    /// fusing the product with the sum cannot change the result.
    pub fn exact_with(self, other: Span) -> bool {
        if self.high == 0 && self.mantissas == 0 || other.high == 0 && other.mantissas == 0 {
            return self.high < 255 && other.high < 255;
        }
        let digits = |s: Span| 24 - (s.mantissas | 0x80_0000).trailing_zeros() as i32;
        let low = |s: Span| s.low.max(1) as i32 - 127 - (digits(s) - 1);
        let high = |s: Span| s.high as i32 - 127;
        digits(self) + digits(other) <= 24
            && low(self) + low(other) >= -149
            && high(self) + high(other) + 2 <= 127
    }
}

/// A span and the values that it takes in.
struct Widened<'a>(Span, &'a [f32]);

impl NullaryFnOnce for Widened<'_> {
    type Output = Span;

    #[inline(always)]
    fn call(self) -> Span {
        let Span { mut mantissas, mut low, mut high } = self.0;
        for v in self.1 {
            let bits = v.to_bits() & 0x7FFF_FFFF;
            let exponent = bits >> 23;
            mantissas |= bits & 0x7F_FFFF;
            low = low.min(if bits == 0 { 255 } else { exponent });
            high = high.max(exponent);
        }
        Span { mantissas, low, high }
    }
}

/// The cells of the array. Empty until the first load.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Array {
    rows: usize,
    /// Weights of lane 0, 1, ..: `[column / 8][row][column % 8]`.
    planes: Vec<Vec<f32>>,
    cols: usize,
    contents: Vec<Option<Contents>>,
}

impl Array {
    /// Makes room for `rows` x `cols` cells of `lanes` weights.
    pub fn ensure(&mut self, rows: usize, cols: usize, lanes: usize) {
        if self.rows != rows || self.cols != cols {
            *self = Array {
                rows,
                cols,
                planes: Vec::new(),
                contents: vec![None; rows.div_ceil(GROUP) * cols.div_ceil(GROUP)],
            };
        }
        let cells = cols.next_multiple_of(BLOCK) * rows;
        while self.planes.len() < lanes {
            self.planes.push(vec![0.0; cells]);
        }
    }

    /// Stores the weight of one cell. The cell exists.
    pub fn set(&mut self, lane: usize, row: usize, col: usize, weight: f32) {
        self.planes[lane][(col / BLOCK * self.rows + row) * BLOCK + col % BLOCK] = weight;
    }

    /// The weight of one cell.
    pub fn get(&self, lane: usize, row: usize, col: usize) -> f32 {
        self.planes[lane][(col / BLOCK * self.rows + row) * BLOCK + col % BLOCK]
    }

    /// `rows` rows of the eight columns of `block` from `row` on, `[row][column]`.
    pub fn block(&self, lane: usize, block: usize, row: usize, rows: usize) -> &[f32] {
        let at = (block * self.rows + row) * BLOCK;
        &self.planes[lane][at..at + rows * BLOCK]
    }

    fn groups(
        &self,
        row: usize,
        rows: usize,
        col: usize,
        cols: usize,
    ) -> impl Iterator<Item = (usize, usize)> + use<> {
        let cs = col / GROUP..(col + cols).div_ceil(GROUP);
        (row / GROUP..(row + rows).div_ceil(GROUP))
            .flat_map(move |r| cs.clone().map(move |c| (r, c)))
    }

    /// Notes that the cells `row..row + rows`, `col..col + cols` were loaded.
    pub fn loaded(
        &mut self,
        (row, rows): (usize, usize),
        (col, cols): (usize, usize),
        dtype: Dtype,
        lanes: usize,
    ) {
        let wide = self.cols.div_ceil(GROUP);
        for (r, c) in self.groups(row, rows, col, cols) {
            // The whole group is scanned: cells that this load left alone keep older weights.
            let mut span = Span::EMPTY;
            let (r0, r1) = (r * GROUP, ((r + 1) * GROUP).min(self.rows));
            for lane in 0..lanes {
                for block in c * GROUP / BLOCK..((c + 1) * GROUP).min(self.cols).div_ceil(BLOCK) {
                    span.add(self.block(lane, block, r0, r1 - r0));
                }
            }
            self.contents[r * wide + c] = Some(Contents { dtype, lanes: lanes as u8, span });
        }
    }

    /// What the cells `row..row + rows`, `col..col + cols` hold.
    ///
    /// # Errors
    /// `weights_loaded` if part of them was never loaded, or by loads of different kinds.
    pub fn contents(
        &self,
        (row, rows): (usize, usize),
        (col, cols): (usize, usize),
    ) -> Result<Contents> {
        let wide = self.cols.div_ceil(GROUP);
        let mut all: Option<Contents> = None;
        for (r, c) in self.groups(row, rows, col, cols) {
            let Some(Some(here)) = self.contents.get(r * wide + c) else {
                return Err(Error::undefined(
                    "weights_loaded",
                    format!(
                        "no weights were loaded into array rows {}.. columns {}..",
                        r * GROUP,
                        c * GROUP
                    ),
                )
                .help("load this row and column group with LDWEIGHTS before the matmul"));
            };
            match &mut all {
                None => all = Some(*here),
                Some(a) if a.lanes == here.lanes && same_kind(a.dtype, here.dtype) => {
                    a.span.merge(here.span);
                }
                Some(a) => {
                    return Err(Error::illegal(
                        "weights_loaded",
                        format!(
                            "the matmul uses weights of {} and of {} that were loaded differently",
                            a.dtype.name(),
                            here.dtype.name()
                        ),
                    ));
                }
            }
        }
        all.ok_or_else(|| Error::internal("a matmul without cells"))
    }
}

/// Whether weights and moving data of these types may meet: FP32 only with FP32, integers only
/// with integers, narrower floats in any mix (wiki: firmware/kernels/pe-matmul).
pub(super) fn same_kind(a: Dtype, b: Dtype) -> bool {
    let class = |d: Dtype| match d {
        Dtype::Fp32 | Dtype::Fp32r => 0,
        _ if d.is_int() => 1,
        _ => 2,
    };
    class(a) == class(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(values: &[f32]) -> Span {
        let mut s = Span::EMPTY;
        s.add(values);
        s
    }

    #[test]
    fn exactness_of_products() {
        let tiny = f32::from_bits(1);
        let exact = |a: &[f32], b: &[f32]| span(a).exact_with(span(b));
        assert!(exact(&[1.0, -1.5, 0.0], &[255.0, 0.125]));
        assert!(!exact(&[0.5], &[tiny]));
        assert!(!exact(&[1.0 + f32::EPSILON], &[1.0 + f32::EPSILON]));
        assert!(!exact(&[2.0f32.powi(100)], &[2.0f32.powi(27)]));
        assert!(!exact(&[f32::INFINITY], &[0.0]));
        assert!(exact(&[0.0], &[0.0]));
        // bf16 values: 8 digits each, exact in the middle of the range.
        assert!(exact(&[1.9921875, 2.0f32.powi(-60)], &[1.9921875, 2.0f32.powi(60)]));
    }
}
