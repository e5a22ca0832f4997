//! The multiplication loops, one for each instruction set the host may have.
//!
//! Every version computes, for each output, the same sum: contraction rows ascending, from +0, in
//! FP32, so all results are bit-identical whatever the host. A fused multiply-add is used only
//! where the caller knows that all products are exact.

use crate::numeric::simd::{Level, Simd, WithSimd};

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

/// Vectors of moving columns in a panel of V3 and V4. With eight columns of V4 (four of V3) the sums
/// of a panel take half of the registers.
const VECTORS: usize = 2;

/// Does the job with the instructions of `level`.
pub fn multiply(level: Level, job: Job<'_>) {
    assert!(level.available(), "panels are as wide as the vectors of the level");
    match (level, job.exact) {
        (Level::Scalar, _) => plain(job),
        (Level::V3, false) => level.run_simd(Product::<4, false>(job)),
        (Level::V3, true) => level.run_simd(Product::<4, true>(job)),
        (Level::V4, false) => level.run_simd(Product::<8, false>(job)),
        (Level::V4, true) => level.run_simd(Product::<8, true>(job)),
    }
}

/// A job in vectors, `COLS` columns of weights at a time.
struct Product<'a, const COLS: usize, const FUSED: bool>(Job<'a>);

impl<const COLS: usize, const FUSED: bool> WithSimd for Product<'_, COLS, FUSED> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Job { rows, weights, moving, out, .. } = self.0;
        let panel = VECTORS * S::F32_LANES;
        if rows == 0 {
            return;
        }
        let width = moving.len() / rows;
        for (p, data) in moving.chunks_exact(rows * panel).enumerate() {
            for (block, out) in weights.iter().zip(out.chunks_exact_mut(BLOCK * width)) {
                for part in 0..BLOCK / COLS {
                    let sums = sums::<S, COLS, FUSED>(simd, &block[part * COLS..], data);
                    for (c, sums) in sums.iter().enumerate() {
                        let at = (part * COLS + c) * width + p * panel;
                        let (to, _) = S::as_mut_simd_f32s(&mut out[at..at + panel]);
                        to.copy_from_slice(sums);
                    }
                }
            }
        }
    }
}

/// The sums of `COLS` columns for one panel. Written in vectors, for the compiler keeps the sums of
/// a plain loop in registers or not as it pleases.
#[inline(always)]
fn sums<S: Simd, const COLS: usize, const FUSED: bool>(
    simd: S,
    weights: &[f32],
    panel: &[f32],
) -> [[S::f32s; VECTORS]; COLS] {
    let mut acc = [[simd.splat_f32s(0.0); VECTORS]; COLS];
    let (panel, _) = S::as_simd_f32s(panel);
    let (panel, _) = panel.as_chunks::<VECTORS>();
    for (x, w) in panel.iter().zip(weights.chunks(BLOCK)) {
        let Some(w) = w.first_chunk::<COLS>() else { break };
        for c in 0..COLS {
            let w = simd.splat_f32s(w[c]);
            for n in 0..VECTORS {
                acc[c][n] = if FUSED {
                    simd.mul_add_f32s(w, x[n], acc[c][n])
                } else {
                    simd.add_f32s(acc[c][n], simd.mul_f32s(w, x[n]))
                };
            }
        }
    }
    acc
}

/// The same in portable code: a product and a sum for each step.
fn plain(job: Job<'_>) {
    const COLS: usize = 4;
    const PANEL: usize = 8;
    let Job { rows, weights, moving, out, .. } = job;
    if rows == 0 {
        return;
    }
    let width = moving.len() / rows;
    for (p, panel) in moving.chunks_exact(rows * PANEL).enumerate() {
        for (block, out) in weights.iter().zip(out.chunks_exact_mut(BLOCK * width)) {
            for part in 0..BLOCK / COLS {
                let mut acc = [[0f32; PANEL]; COLS];
                for (x, w) in panel.chunks_exact(PANEL).zip(block[part * COLS..].chunks(BLOCK)) {
                    for (acc, w) in acc.iter_mut().zip(w) {
                        acc.iter_mut().zip(x).for_each(|(a, x)| *a += w * x);
                    }
                }
                for (c, sums) in acc.iter().enumerate() {
                    let at = (part * COLS + c) * width + p * PANEL;
                    out[at..at + PANEL].copy_from_slice(sums);
                }
            }
        }
    }
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
