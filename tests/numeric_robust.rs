//! Arbitrary operands end in a value or an error, never in a panic, and never in results that
//! depend on how work is cut up.

use proptest::prelude::*;
use tpbemu::isa::Generation;
use tpbemu::numeric::alu::{self, AluOp};
use tpbemu::numeric::convert::{Rounding, convert};
use tpbemu::numeric::mx::DequantFormat;
use tpbemu::numeric::pwl::{CamEntry, Control, ProfileBits, Segment, TableSet};
use tpbemu::numeric::rng::Lfsr;
use tpbemu::numeric::{ActFunc, Dtype, Walk, gather_f32, load_f32, scatter_f32, store_f32};

fn any_dtype() -> impl Strategy<Value = Dtype> {
    prop::sample::select(Dtype::all().collect::<Vec<_>>())
}

fn any_op() -> impl Strategy<Value = AluOp> {
    prop::sample::select(AluOp::all().collect::<Vec<_>>())
}

proptest! {
    #[test]
    fn conversion_of_any_bytes(
        from in any_dtype(),
        to in any_dtype(),
        src in prop::collection::vec(any::<u8>(), 0..70),
        room in 0usize..700,
        seed: u32,
    ) {
        let mut dst = vec![0; room];
        let mut lfsr = Lfsr::new(seed);
        let _ = convert(from, to, &src, &mut dst, Rounding::Stochastic(&mut lfsr));
        let _ = convert(from, to, &src, &mut dst, Rounding::NearestEven);
    }

    #[test]
    fn operations_on_any_operands(op in any_op(), a: u64, b: u64, dtype in any_dtype(), width in 0u32..70) {
        let (x, y) = (f32::from_bits(a as u32), f32::from_bits(b as u32));
        if let Ok(z) = alu::apply_f32(op, x, y) {
            let kept = matches!(op, AluOp::Bypass | AluOp::AbsoluteValue);
            prop_assert!(kept || !z.is_nan() || z.to_bits() == 0x7FC0_0000);
        }
        if let Ok(z) = alu::apply_bits(op, a, b, width) {
            prop_assert!(width == 64 || z >> width == 0);
        }
        let _ = alu::apply_wide(op, a as i64, b as i64);
        let _ = alu::arg_reduce(op, &[a as i64, b as i64], dtype);
        // Operands as memory would give them.
        let mut bytes = a.to_le_bytes();
        let (mut i, mut j) = ([0], [0]);
        if tpbemu::numeric::load_i64(dtype, &bytes, &mut i).is_ok() {
            bytes = b.to_le_bytes();
            tpbemu::numeric::load_i64(dtype, &bytes, &mut j).unwrap();
            if let Ok(z) = alu::apply_i64(op, i[0], j[0], dtype) {
                // The result is a value of the dtype: storing and loading keeps it.
                let mut k = [0];
                tpbemu::numeric::store_i64(dtype, &[z], &mut bytes).unwrap();
                tpbemu::numeric::load_i64(dtype, &bytes, &mut k).unwrap();
                prop_assert_eq!(k[0], z, "{} on {}", op, dtype);
            }
        }
    }

    #[test]
    fn walks_over_any_pattern(
        start in prop_oneof![0usize..300, any::<usize>()],
        dims in prop::collection::vec((any::<i32>(), any::<u32>()), 0..6),
        small in prop::collection::vec((-4i32..5, 0u32..6), 0..6),
        dtype in any_dtype(),
    ) {
        let mut row = vec![7; 256];
        let mut out = Vec::new();
        for dims in [dims, small] {
            let walk = Walk::new(start, &dims, dtype.size());
            if gather_f32(dtype, &row, &walk, &mut out).is_ok() {
                prop_assert_eq!(out.len(), walk.len());
                let _ = scatter_f32(dtype, &mut row, &walk, &out, Rounding::NearestEven);
            }
        }
    }

    #[test]
    fn pieces_give_what_the_whole_gives(
        dtype in any_dtype(),
        values in prop::collection::vec(any::<f32>(), 1..40),
        cut in 0usize..40,
        seed: u32,
    ) {
        // Elements of one byte and more lie apart; nibbles do not.
        prop_assume!(dtype.bits() >= 8);
        let size = dtype.size();
        let (mut whole, mut parts) = (vec![0; values.len() * size], vec![0; values.len() * size]);
        let (mut one, mut two) = (Lfsr::new(seed), Lfsr::new(seed));
        let Ok(()) = store_f32(dtype, &values, &mut whole, Rounding::Stochastic(&mut one)) else {
            return Ok(());
        };
        let cut = cut.min(values.len());
        let mut rounding = Rounding::Stochastic(&mut two);
        store_f32(dtype, &values[..cut], &mut parts, rounding.reborrow()).unwrap();
        store_f32(dtype, &values[cut..], &mut parts[cut * size..], rounding.reborrow()).unwrap();
        prop_assert_eq!(&whole, &parts);
        // Every result is one of the two neighbours: loading it back and storing it keeps it.
        let mut back = vec![0.0; values.len()];
        load_f32(dtype, &whole, &mut back).unwrap();
        store_f32(dtype, &back, &mut parts, Rounding::NearestEven).unwrap();
        let exact = !dtype.is_int() || dtype.bits() < 32;
        prop_assert!(!exact || dtype == Dtype::Fp32 || whole == parts);
    }

    #[test]
    fn tables_of_any_bytes(
        record: [u8; 32],
        profile in prop::collection::vec(any::<u8>(), 128..129),
        v: f32,
        text in ".{0,60}",
        words in prop::collection::vec(any::<u32>(), 0..20),
        format in 0u8..6,
    ) {
        let segment = Segment::from_bytes(&record);
        segment.evaluate(v);
        let control = Control::from_word(u32::from_le_bytes([record[0], record[1], record[2], record[3]]));
        prop_assert_eq!(Control::from_word(control.to_word()), control);
        for generation in Generation::ALL {
            CamEntry::from_bytes(generation, &record).matches(record[5], record[6]);
        }
        ProfileBits::from_bytes(&profile.try_into().unwrap());
        let mut set = TableSet::default();
        let _ = set.push_profile(1, &text);
        let _ = TableSet::from_blobs(&record, &record, &text);
        if let Ok(format) = DequantFormat::from_code(format) {
            let _ = format.expand(true, &words);
            let _ = format.expand(false, &words);
        }
        for &function in ActFunc::ALL {
            function.evaluate(v, v);
        }
    }
}
