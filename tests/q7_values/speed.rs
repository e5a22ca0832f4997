//! Time of one operation with commit, for every mnemonic: a listing, not a check of absolute speed.

use std::hint::black_box;
use std::time::Instant;

use tpbemu::q7::ops::{self, OpOut, SlotOperands};
use tpbemu::q7::regs::{RegFile, Vec512};

/// Prints nanoseconds per operation, slowest first; run with `--release -- --ignored --nocapture speed`.
#[test]
#[ignore = "prints timings"]
fn speed_of_every_operation() {
    let mut rows = Vec::new();
    for def in ops::all() {
        let Ok(exec) = def.exec() else { continue };
        let mut regs = RegFile::default();
        for (i, v) in regs.vec.iter_mut().enumerate() {
            *v = Vec512::from_u32s(std::array::from_fn(|k| {
                0x3f80_0000 + (i * 1_234_577 + k * 7_654_321) as u32
            }));
        }
        regs.vbool = [0x5a5a_f0f0_1234_ffff; 16];
        let operands = SlotOperands { v: [1, 2, 3, 4, 5, 6] };
        let mut out = OpOut::default();
        let rounds = 20_000;
        let best = (0..3)
            .map(|_| {
                let start = Instant::now();
                for _ in 0..rounds {
                    black_box(exec)(black_box(&regs), black_box(&operands), &mut out);
                    out.commit(black_box(&def.writes), &operands, &mut regs);
                }
                start.elapsed().as_secs_f64() / f64::from(rounds) * 1e9
            })
            .fold(f64::MAX, f64::min);
        rows.push((best, def.mnemonic));
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (ns, mnemonic) in &rows {
        println!("{ns:8.1} ns  {mnemonic}");
    }
    assert!(rows.iter().all(|(ns, _)| ns.is_finite()));
}
