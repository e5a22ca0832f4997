//! Batch-norm arithmetic, in FP32 with one rounding for each operation
//! (wiki-cc: bir/sim-bn-rng-collective-dma 1; wiki: firmware/kernels/batchnorm-forward).
//!
//! OPEN: whether the device fuses any product with a sum; only the unfused form is printed.

use super::canonical;

/// Reciprocals that the parameter memory holds at reset: entry n-1 is 1/n. OPEN: contents at reset.
pub fn reciprocals() -> [f32; 256] {
    std::array::from_fn(|i| 1.0 / (i + 1) as f32)
}

/// Statistics {count, mean, sum of squared deviations} of the elements at even and at odd
/// positions. `reciprocal(n)` is entry n-1 of the parameter memory.
pub fn stats(x: &[f32], reciprocal: impl Fn(u32) -> f32) -> [f32; 6] {
    let mut out = [0.0; 6];
    out[0] = x.len().div_ceil(2) as f32;
    out[3] = (x.len() / 2) as f32;
    for (i, &x) in x.iter().enumerate() {
        let lane = 3 * (i % 2);
        let r = reciprocal((i / 2) as u32 + 1);
        let old = out[lane + 1];
        let (kept, share) = ((1.0 - r) * old, r * x);
        let new = kept + share;
        let square = (x - new) * (x - old);
        out[lane + 1] = new;
        out[lane + 2] += square;
    }
    out.map(canonical)
}

/// Mean and population variance of groups {count, mean, sum of squared deviations}, merged one
/// after the other. No elements at all give NaN.
pub fn aggregate<'a>(groups: impl IntoIterator<Item = &'a [f32; 3]>) -> [f32; 2] {
    let (mut count, mut mean, mut variance) = (0f32, 0f32, 0f32);
    for &[n, m, m2] in groups {
        let total = n + count;
        let r = 1.0 / total;
        let d = mean - m;
        let (before, added) = (mean * count, n * m);
        let weighted = (variance * count + m2) * r;
        let between = n * count * d * d * r * r;
        mean = (before + added) * r;
        variance = weighted + between;
        count = total;
    }
    [canonical(mean), canonical(variance)]
}

/// Sums of the gradient pass over one partition, added to `sums`: {sum dy, sum (x-m) dy vf^2,
/// sum (x-m) dy vf}, with vf the inverse standard deviation.
pub fn gradients(x: &[f32], dy: &[f32], mean: f32, inverse_std: f32, sums: &mut [f32; 3]) {
    for (&x, &dy) in x.iter().zip(dy) {
        let t = (x - mean) * dy * inverse_std;
        let scaled = t * inverse_std;
        sums[0] = canonical(sums[0] + dy);
        sums[1] = canonical(sums[1] + scaled);
        sums[2] = canonical(sums[2] + t);
    }
}

/// Parameters of the backward pass of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct BackProp {
    /// Elements of the whole batch.
    pub n: f32,
    /// Mean of the batch.
    pub mean: f32,
    /// gamma * inverse standard deviation / n.
    pub a: f32,
    /// Sum of dy.
    pub b: f32,
    /// Inverse variance times sum of (x-m) dy.
    pub c: f32,
}

impl BackProp {
    /// dx of one element: ((dy n) - ((x - mean) c + b)) a.
    pub fn dx(&self, x: f32, dy: f32) -> f32 {
        let scaled = dy * self.n;
        let product = (x - self.mean) * self.c;
        canonical((scaled - (product + self.b)) * self.a)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(n: u32) -> f32 {
        1.0 / n as f32
    }

    fn merged(x: &[f32]) -> [f32; 2] {
        let s = stats(x, exact);
        aggregate(&[[s[0], s[1], s[2]], [s[3], s[4], s[5]]])
    }

    #[test]
    fn statistics() {
        assert_eq!(stats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], exact), [3.0, 3.0, 8.0, 3.0, 4.0, 8.0]);
        assert_eq!(stats(&[1.0, 2.0, 3.0, 4.0, 5.0], exact), [3.0, 3.0, 8.0, 2.0, 3.0, 2.0]);
        let [mean, variance] = merged(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!((mean.to_bits(), variance.to_bits()), (0x4060_0000, 0x403A_AAAB));
        assert_eq!(merged(&[1.0, 2.0, 3.0, 4.0, 5.0]), [3.0, 2.0]);
        assert_eq!(merged(&[10001.0, 10002.0, 10003.0, 10004.0]), [10002.5, 1.25]);
        assert!(aggregate(&[[0.0; 3]])[0].is_nan());
        assert_eq!(reciprocals()[2], 1.0 / 3.0);
    }

    #[test]
    fn backward() {
        let (x, dy) = ([1.0, 2.0, 3.0, 4.0], [0.5, -1.0, 2.0, 1.0]);
        let mut sums = [0.0; 3];
        gradients(&x, &dy, 2.5, 0.5, &mut sums);
        assert_eq!(sums, [2.5, 0.5625, 1.125]);
        let pass = BackProp { n: 4.0, mean: 2.5, a: 0.125, b: 2.5, c: 0.5625 };
        let dx: Vec<f32> = x.iter().zip(dy).map(|(&x, dy)| pass.dx(x, dy)).collect();
        assert_eq!(dx, [0.04296875, -0.77734375, 0.65234375, 0.08203125]);
    }
}
