//! The multiplication loops, compiled once for each instruction set the host may have.
//!
//! Every version computes, for each output, the same sum: contraction rows ascending, from +0, in
//! FP32, so all results are bit-identical whatever the host. A fused multiply-add is used only
//! where the caller knows that all products are exact.

use crate::numeric::simd::{Level, NullaryFnOnce};

/// Columns of a block of weights.
const BLOCK: usize = super::array::BLOCK;

/// One product: `out[c][n] = sum over k of w[c / 8][k][c % 8] * x[n / panel][k][n % panel]`.
pub struct Job<'a> {
    /// Contraction rows.
    pub rows: usize,
    /// Weights of each block of eight columns, `[row][column]`, `rows * 8` values.
    pub weights: &'a [&'a [f32]],
    /// Moving data in panels of `panel` columns, `[panel][row][column]`.
    pub moving: &'a [f32],
    /// Results, `[block][column][n]` with rows of `moving.len() / rows` values.
    pub out: &'a mut [f32],
    /// All products are exact.
    pub exact: bool,
}

/// Moving columns of one panel of `level`.
pub fn panel(level: Level) -> usize {
    match level {
        Level::Scalar => 8,
        Level::V3 => 16,
        Level::V4 => 32,
    }
}

/// Does the job as compiled for `level`.
pub fn multiply(level: Level, job: Job<'_>) {
    match (level, job.exact) {
        (Level::Scalar, _) => product::<4, 8, false>(job),
        (Level::V3, false) => level.run(Product::<4, 16, false>(job)),
        (Level::V3, true) => level.run(Product::<4, 16, true>(job)),
        (Level::V4, false) => level.run(Product::<4, 32, false>(job)),
        (Level::V4, true) => level.run(Product::<4, 32, true>(job)),
    }
}

/// [`product`], to be compiled for the instruction set that runs it: without one that has a fused
/// multiply-add each of its steps would be a call.
struct Product<'a, const COLS: usize, const PANEL: usize, const FUSED: bool>(Job<'a>);

impl<const COLS: usize, const PANEL: usize, const FUSED: bool> NullaryFnOnce
    for Product<'_, COLS, PANEL, FUSED>
{
    type Output = ();

    #[inline(always)]
    fn call(self) {
        product::<COLS, PANEL, FUSED>(self.0);
    }
}

/// All blocks of `COLS` columns times all panels of `PANEL` moving columns.
#[inline(always)]
fn product<const COLS: usize, const PANEL: usize, const FUSED: bool>(job: Job<'_>) {
    let Job { rows, weights, moving, out, .. } = job;
    if rows == 0 {
        return;
    }
    let width = moving.len() / rows;
    for (p, panel) in moving.chunks_exact(rows * PANEL).enumerate() {
        for (block, out) in weights.iter().zip(out.chunks_exact_mut(BLOCK * width)) {
            for part in 0..BLOCK / COLS {
                let sums = sums::<COLS, PANEL, FUSED>(rows, &block[part * COLS..], panel);
                for (c, sums) in sums.iter().enumerate() {
                    let at = (part * COLS + c) * width + p * PANEL;
                    out[at..at + PANEL].copy_from_slice(sums);
                }
            }
        }
    }
}

/// The sums of `COLS` columns for one panel.
#[inline(always)]
fn sums<const COLS: usize, const PANEL: usize, const FUSED: bool>(
    rows: usize,
    weights: &[f32],
    panel: &[f32],
) -> [[f32; PANEL]; COLS] {
    let mut acc = [[0f32; PANEL]; COLS];
    let (panel, _) = panel.as_chunks::<PANEL>();
    for (k, x) in panel.iter().enumerate().take(rows) {
        let w: &[f32; COLS] = weights[k * BLOCK..].first_chunk().expect("a block of weights");
        for c in 0..COLS {
            for n in 0..PANEL {
                acc[c][n] =
                    if FUSED { w[c].mul_add(x[n], acc[c][n]) } else { acc[c][n] + w[c] * x[n] };
            }
        }
    }
    acc
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, one output at a time.
    fn naive(
        rows: usize,
        cols: usize,
        n: usize,
        w: &[Vec<f32>],
        x: &[f32],
        panel: usize,
    ) -> Vec<u32> {
        let mut out = Vec::new();
        for c in 0..cols {
            for j in 0..n {
                let mut sum = 0f32;
                for k in 0..rows {
                    let a = w[c / BLOCK][k * BLOCK + c % BLOCK];
                    sum += a * x[(j / panel * rows + k) * panel + j % panel];
                }
                out.push(sum.to_bits());
            }
        }
        out
    }

    #[test]
    fn every_version_gives_the_same_bits() {
        let mut seed = 1u32;
        let mut random = move || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed
        };
        let mut tried = 0;
        for level in Level::ALL {
            if !level.available() {
                continue;
            }
            tried += 1;
            for exact in [false, true] {
                for (rows, blocks, panels) in [(1, 1, 1), (37, 3, 2), (128, 16, 1)] {
                    let mut value = || {
                        let r = random();
                        let x = (r >> 8) as f32 / (1 << 20) as f32 - 8.0;
                        // Exact products need short mantissas.
                        if exact { f32::from_bits(x.to_bits() & 0xFFFF_0000) } else { x }
                    };
                    let n = panels * panel(level);
                    let w: Vec<Vec<f32>> =
                        (0..blocks).map(|_| (0..rows * BLOCK).map(|_| value()).collect()).collect();
                    let x: Vec<f32> = (0..n * rows).map(|_| value()).collect();
                    let blocks: Vec<&[f32]> = w.iter().map(Vec::as_slice).collect();
                    let mut out = vec![0.0; blocks.len() * BLOCK * n];
                    multiply(
                        level,
                        Job { rows, weights: &blocks, moving: &x, out: &mut out, exact },
                    );
                    let got: Vec<u32> = out.iter().map(|v| v.to_bits()).collect();
                    let want = naive(rows, blocks.len() * BLOCK, n, &w, &x, panel(level));
                    assert!(got == want, "{level:?} exact {exact} {rows} rows");
                }
            }
        }
        assert!(tried >= 1);
    }
}
