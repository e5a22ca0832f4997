//! The example libraries of `programs/q7`: assembled, prelinked, loaded into eight cores over a plain
//! byte-array bus, run, and compared with values computed here.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use tpbemu::q7::asm::{Options, assemble, link};
use tpbemu::q7::core::{BusFault, Q7Bus};
use tpbemu::q7::library::custom::{Argument, Header, Storage, TensorArg};
use tpbemu::q7::library::{
    Bounds, Cluster, ClusterConfig, ModifyOp, ModifyPoolConfig, Staged, prelink,
};

const STRIDE: u32 = 0x4_0000;
const SBUF: u32 = 0x8000_0000;
const HBM: u32 = 0x8400_0000;

/// 128 partitions of 64 KiB and a little HBM.
struct Memory {
    partitions: Vec<Vec<u8>>,
    hbm: Vec<u8>,
}

impl Memory {
    fn new() -> Self {
        Memory { partitions: vec![vec![0; 0x1_0000]; 128], hbm: vec![0; 0x1000] }
    }

    fn at(&mut self, address: u32, length: usize) -> Result<&mut [u8], BusFault> {
        let (bytes, offset) = if let Some(offset) = address.checked_sub(HBM) {
            (&mut self.hbm, offset)
        } else {
            let offset = address.checked_sub(SBUF).ok_or(BusFault::Unmapped)?;
            let partition = self.partitions.get_mut((offset / STRIDE) as usize);
            (partition.ok_or(BusFault::Unmapped)?, offset % STRIDE)
        };
        bytes.get_mut(offset as usize..offset as usize + length).ok_or(BusFault::Unmapped)
    }
}

impl Q7Bus for Memory {
    fn read(&mut self, address: u32, out: &mut [u8]) -> Result<(), BusFault> {
        out.copy_from_slice(self.at(address, out.len())?);
        Ok(())
    }

    fn write(&mut self, address: u32, bytes: &[u8]) -> Result<(), BusFault> {
        self.at(address, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }
}

fn stage(source: &str, bounds: &Bounds) -> Staged {
    let options = Options::default();
    let assembly = assemble("example.s", source, &options).expect("assembles");
    let file = link::library(&assembly, options.text_base, options.data_base).expect("links");
    prelink(&file, bounds).expect("prelinks")
}

fn cluster(source: &str, memory: &mut Memory) -> Cluster {
    let config = ClusterConfig::v3();
    let mut cluster = Cluster::new(config);
    let report = cluster.load_staged(&stage(source, &config.bounds), 7, memory).expect("loads");
    assert_eq!(report.cores, 0xff);
    cluster
}

/// An extended instruction word with four parameters.
fn word(spec: u8, parameters: [u32; 4]) -> [u8; 64] {
    let mut out = [0; 64];
    out[0] = 0xf0;
    out[1] = 0x10;
    out[12] = spec;
    for (place, value) in out[16..32].chunks_exact_mut(4).zip(parameters) {
        place.copy_from_slice(&value.to_le_bytes());
    }
    out
}

fn put16(bytes: &mut [u8], values: &[i16]) {
    for (place, value) in bytes.chunks_exact_mut(2).zip(values) {
        place.copy_from_slice(&value.to_le_bytes());
    }
}

fn get16(bytes: &[u8], at: usize) -> i16 {
    i16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn row(rng: &mut Pcg64, partition: usize, length: usize) -> Vec<i16> {
    (0..length)
        .map(|_| match partition % 4 {
            0 => (rng.next_u32() % 200) as i16 - 100,
            1 => rng.next_u32() as i16,
            2 => 30_000,
            _ => -30_000,
        })
        .collect()
}

#[test]
fn row_sum_saturates() {
    let mut memory = Memory::new();
    let mut cluster = cluster(include_str!("../programs/q7/row_sum.s"), &mut memory);
    let mut rng = Pcg64::seed_from_u64(1);
    let mut wanted = Vec::new();
    for p in 0..128 {
        let values = row(&mut rng, p, 96);
        put16(&mut memory.partitions[p][0x100..], &values);
        let lanes: Vec<i16> = (0..32)
            .map(|lane| {
                values[lane..].iter().step_by(32).fold(0i16, |sum, &v| sum.saturating_add(v))
            })
            .collect();
        let sum: i32 = lanes.iter().map(|&v| i32::from(v)).sum();
        wanted.push(sum.clamp(-32768, 32767) as i16);
    }
    let report = cluster.dispatch(&word(0x20, [0x100, 0x40, 3, STRIDE]), &mut memory).unwrap();
    assert_eq!(report.cores, 0xff);
    assert!(report.cycles > 100);
    for (p, want) in wanted.iter().enumerate() {
        assert_eq!(get16(&memory.partitions[p], 0x40), *want, "partition {p}");
    }
    assert!(wanted.contains(&32767) && wanted.contains(&-32768));
}

#[test]
fn permutes() {
    let mut memory = Memory::new();
    let mut cluster = cluster(include_str!("../programs/q7/permute.s"), &mut memory);
    let mut rng = Pcg64::seed_from_u64(2);
    let rows: Vec<_> = (0..128).map(|_| [row(&mut rng, 1, 32), row(&mut rng, 1, 32)]).collect();
    for (p, [a, b]) in rows.iter().enumerate() {
        put16(&mut memory.partitions[p][0..], a);
        put16(&mut memory.partitions[p][0x40..], b);
    }
    cluster.dispatch(&word(0x21, [0, 0, 0x80, STRIDE]), &mut memory).unwrap();
    cluster.dispatch(&word(0x22, [0, 0x40, 0xc0, STRIDE]), &mut memory).unwrap();
    for (p, [a, b]) in rows.iter().enumerate() {
        for lane in 0..32 {
            assert_eq!(get16(&memory.partitions[p], 0x80 + 2 * lane), a[31 - lane]);
            let source = if lane % 2 == 0 { a } else { b };
            assert_eq!(
                get16(&memory.partitions[p], 0xc0 + 2 * lane),
                source[lane / 2],
                "lane {lane}"
            );
        }
    }
}

#[test]
fn reciprocal_is_accurate() {
    let mut memory = Memory::new();
    let mut cluster = cluster(include_str!("../programs/q7/reciprocal.s"), &mut memory);
    let mut rng = Pcg64::seed_from_u64(3);
    let mut inputs = Vec::new();
    for p in 0..128 {
        for lane in 0..32usize {
            // Normal numbers whose reciprocal is normal too.
            let exponent = 40 + rng.next_u32() % 170;
            let bits = rng.next_u32() & 0x807f_ffff | exponent << 23;
            memory.partitions[p][4 * lane..4 * lane + 4].copy_from_slice(&bits.to_le_bytes());
            inputs.push((p, lane, f32::from_bits(bits)));
        }
    }
    cluster.dispatch(&word(0x23, [0, 0x400, 2, STRIDE]), &mut memory).unwrap();
    let mut worst = 0;
    for (p, lane, x) in inputs {
        let at = 0x400 + 4 * lane;
        let bytes = memory.partitions[p][at..at + 4].try_into().unwrap();
        let got = u32::from_le_bytes(bytes);
        let want = ((1.0 / f64::from(x)) as f32).to_bits();
        worst = worst.max(got.abs_diff(want));
        assert!(got.abs_diff(want) <= 1, "1/{x:e}: got {got:#x}, want {want:#x}");
    }
    println!("largest error {worst} units in the last place");
}

#[test]
fn argmax_finds_the_first() {
    let mut memory = Memory::new();
    let mut cluster = cluster(include_str!("../programs/q7/argmax.s"), &mut memory);
    let mut rng = Pcg64::seed_from_u64(4);
    let mut wanted = Vec::new();
    for p in 0..128usize {
        let mut values = row(&mut rng, p % 3, 128);
        if p % 5 == 0 {
            // Ties across and inside chunks, also of the smallest value.
            let value = if p % 10 == 0 { i16::MIN } else { 100 };
            values.fill(value);
            values[p % 128] = value.saturating_add(1);
            values[(p + 50) % 128] = value.saturating_add(1);
        }
        put16(&mut memory.partitions[p], &values);
        let best = *values.iter().max().unwrap();
        wanted.push((best, values.iter().position(|&v| v == best).unwrap()));
    }
    cluster.dispatch(&word(0x24, [0, 0x800, 4, STRIDE]), &mut memory).unwrap();
    for (p, (best, at)) in wanted.into_iter().enumerate() {
        assert_eq!(get16(&memory.partitions[p], 0x800), best, "partition {p}");
        assert_eq!(get16(&memory.partitions[p], 0x802), at as i16, "partition {p}");
    }
}

fn tensor(storage: Storage) -> [u8; 64] {
    Argument::Tensor(TensorArg { dtype: 8, shape_kind: 2, shape: [0; 16], storage }).encode()
}

#[test]
fn custom_op_adds_a_constant() {
    let mut memory = Memory::new();
    let mut cluster = Cluster::new(ClusterConfig::v2());
    let staged = stage(include_str!("../programs/q7/custom_add.s"), &cluster.config.bounds);
    cluster.load_staged(&staged, 1, &mut memory).unwrap();
    memory.hbm[0x120..0x124].copy_from_slice(&(-7i32).to_le_bytes());
    let mut rng = Pcg64::seed_from_u64(5);
    // 40 partitions: core 2 has half of its share, cores 3 to 7 have none.
    for p in 0..128 {
        rng.fill_bytes(&mut memory.partitions[p][..0x400]);
    }
    let header = Header { num_payloads: 3, function_id: 1, num_arguments: 3, scratch: None };
    let place = |address| Storage::Sbuf { address, elements: 40 * 32, partitions: 40, block: 32 };
    let words = [
        header.encode(),
        tensor(place(0x200)),
        tensor(place(0x000)),
        tensor(Storage::Hbm { address: 0x20_1400_0120, elements: 1 }),
    ];
    let before = memory.partitions.clone();
    let report = cluster.custom_op(&words, &mut memory).unwrap();
    assert_eq!(report.results, [0; 8]);
    for (p, old) in before.iter().enumerate() {
        for i in 0..32 {
            let word =
                |bytes: &[u8], at: usize| i32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            let want =
                if p < 40 { word(old, 4 * i).wrapping_sub(7) } else { word(old, 0x200 + 4 * i) };
            assert_eq!(
                word(&memory.partitions[p], 0x200 + 4 * i),
                want,
                "partition {p} element {i}"
            );
        }
    }
    // Too few payloads.
    assert!(cluster.custom_op(&words[..3], &mut memory).is_err());
}

#[test]
fn load_unload_reload_and_replace() {
    let mut memory = Memory::new();
    let config = ClusterConfig::v3();
    let mut cluster = Cluster::new(config);
    let sum = stage(include_str!("../programs/q7/row_sum.s"), &config.bounds);
    let max = stage(include_str!("../programs/q7/argmax.s"), &config.bounds);
    let record = |op, core_mask, library_index, size: usize| ModifyPoolConfig {
        op,
        core_mask,
        soc_addr: 0x1000,
        library_index,
        library_size: size as u32,
    };
    let load = |index, staged: &Staged| record(ModifyOp::Load, 0xff, index, staged.image.len());

    assert!(cluster.dispatch(&word(0x20, [0, 0, 0, 0]), &mut memory).is_err());
    assert!(cluster.log.iter().any(|line| line == "UNKNOWN EXTENDED OPCODE=32"));
    // Cores 0 and 2 only; the table is found by its shape.
    let some = record(ModifyOp::Load, 0b101, 5, sum.image.len());
    let report = cluster.modify(&some, &sum.image, None, &mut memory).unwrap();
    assert_eq!((report.cores, report.replaced, report.reloaded), (0b101, 0, 0));
    assert_eq!(cluster.lookup(0, 0xf0, 0x20), cluster.lookup(2, 0xf0, 0x20));
    assert!(cluster.lookup(0, 0xf0, 0x20).is_some());
    assert_eq!(cluster.lookup(1, 0xf0, 0x20), None);
    let report = cluster.dispatch(&word(0x20, [0x100, 0x40, 1, STRIDE]), &mut memory).unwrap();
    assert_eq!(report.cores, 0b101);
    // The same index again on all cores, then another library in its place.
    let report = cluster.modify(&load(5, &sum), &sum.image, sum.table, &mut memory).unwrap();
    assert_eq!((report.cores, report.replaced, report.reloaded), (0xff, 0, 0b101));
    let report = cluster.modify(&load(6, &max), &max.image, max.table, &mut memory).unwrap();
    assert_eq!((report.replaced, report.reloaded), (0xff, 0));
    assert!(!cluster.has_kernel(0xf0, 0x20) && cluster.has_kernel(0xf0, 0x24));
    // Unloading by index alone; an unknown index is no error.
    let unload =
        |index| ModifyPoolConfig { soc_addr: 0, ..record(ModifyOp::Unload, 0xff, index, 0) };
    assert_eq!(cluster.modify(&unload(5), &[], None, &mut memory).unwrap().cores, 0);
    assert!(cluster.has_kernel(0xf0, 0x24));
    assert_eq!(cluster.modify(&unload(6), &[], None, &mut memory).unwrap().cores, 0xff);
    assert!(!cluster.has_kernel(0xf0, 0x24));
    // Empty mask, image too short, corrupt header, null start, too large.
    let none = record(ModifyOp::Load, 0, 5, sum.image.len());
    assert_eq!(cluster.modify(&none, &sum.image, None, &mut memory).unwrap().cores, 0);
    assert!(cluster.modify(&load(5, &sum), &sum.image[..40], None, &mut memory).is_err());
    let mut broken = sum.image.clone();
    broken[0] = 0;
    assert!(cluster.modify(&load(5, &sum), &broken, None, &mut memory).is_err());
    let mut broken = sum.image.clone();
    broken[0x1c..0x20].fill(0);
    let error = cluster.modify(&load(5, &sum), &broken, None, &mut memory).unwrap_err();
    assert!(error.message.contains("NULL start symbol"));
    let big = record(ModifyOp::Load, 0xff, 5, 0x1_0001);
    assert!(cluster.modify(&big, &sum.image, None, &mut memory).is_err());
    // Size 0 takes the size of the header.
    let unsized_record = record(ModifyOp::Load, 0xff, 5, 0);
    let report = cluster.modify(&unsized_record, &sum.image, sum.table, &mut memory).unwrap();
    assert_eq!(report.bytes as usize, sum.image.len());
    assert!(cluster.has_kernel(0xf0, 0x20));
}
