//! The core: windows, loops, special registers, faults, vector loads and stores, timing, and the
//! rule that all slots of a bundle read the old state.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::Value;
use tpbemu::q7::asm::{Options, assemble};
use tpbemu::q7::codec::{self, tables};
use tpbemu::q7::core::loadstore::{align_merge, align_window};
use tpbemu::q7::core::{BusFault, Cause, Core, CoreConfig, DRAM_BASE, Fault, NoBus, Q7Bus, Stop};
use tpbemu::q7::ops;
use tpbemu::q7::regs::Vec512;

const LIMIT: u64 = 1_000_000;

fn load(source: &str, config: CoreConfig) -> Core {
    let options = Options { text_base: 0, data_base: 0x9_0000, ..Options::default() };
    let assembly = assemble("test.s", source, &options).expect("assembles");
    let mut core = Core::new(config, 3);
    for section in &assembly.sections {
        let (memory, base) = if section.address < DRAM_BASE {
            (&mut core.iram, 0)
        } else {
            (&mut core.dram, DRAM_BASE)
        };
        let at = (section.address - base) as usize;
        memory[at..at + section.bytes.len()].copy_from_slice(&section.bytes);
    }
    core.pc = assembly.section(".text").expect("text").address;
    core
}

/// Runs to `halt 0`.
fn run(source: &str) -> Core {
    let mut core = load(&format!("{source}\nhalt 0\n"), CoreConfig::v3());
    assert_eq!(core.run(&mut NoBus, LIMIT), Stop::Halted, "stopped at {:#x}", core.pc);
    core
}

fn fault(source: &str) -> (Cause, u32) {
    let mut core = load(&format!("{source}\nhalt 0\n"), CoreConfig::v3());
    match core.run(&mut NoBus, LIMIT) {
        Stop::Fault(Fault::Exception { cause, pc, address }) => {
            assert_eq!(core.pc, pc);
            assert_eq!(core.read_special(0xe8), cause.number());
            assert_eq!(core.read_special(0xb1), pc);
            (cause, address)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn multiplies_and_const16() {
    let mut rng = Pcg64::seed_from_u64(1);
    for _ in 0..200 {
        let (a, b) = (rng.next_u32(), rng.next_u32());
        let core = run(&format!(
            "movi a2, {a:#x}\nmovi a3, {b:#x}\nmuluh a4, a2, a3\nmulsh a5, a2, a3\nmull a6, a2, a3"
        ));
        assert_eq!((core.a(2), core.a(3)), (a, b));
        let unsigned = u64::from(a) * u64::from(b);
        let signed = i64::from(a as i32) * i64::from(b as i32);
        assert_eq!(core.a(4), (unsigned >> 32) as u32);
        assert_eq!(core.a(5), (signed >> 32) as u32);
        assert_eq!(core.a(6), unsigned as u32);
    }
}

#[test]
fn deep_windowed_recursion_spills_and_refills() {
    // sum(n) = n + sum(n - 1); every frame keeps n in a3 and a pattern in a4..a7.
    let source = "
sum:    entry a1, 48
        mov a3, a2
        addi a4, a2, 100
        addi a5, a2, 110
        addi a6, a2, 120
        addi a7, a2, 127
        beqz a3, 1f
        addi a10, a3, -1
        call8 sum
        addi a8, a3, 100
        bne a8, a4, bad
        addi a8, a3, 110
        bne a8, a5, bad
        addi a8, a3, 120
        bne a8, a6, bad
        addi a8, a3, 127
        bne a8, a7, bad
        add a2, a3, a10
        retw
1:      movi a2, 0
        retw
bad:    ill";
    for depth in [0, 1, 3, 6, 7, 8, 9, 20, 50] {
        let mut core = load(source, CoreConfig::v3());
        let sum = core.pc;
        let result = core.call(&mut NoBus, sum, 0xa_0000, &[depth], LIMIT);
        assert_eq!(result.ok(), Some(depth * (depth + 1) / 2), "depth {depth}");
    }
}

#[test]
fn special_registers() {
    let core = run("rsr.prid a2
        movi a3, 0x1234
        wsr.misc0 a3
        rsr.misc0 a4
        movi a5, 7
        xsr.sar a5
        rsr.sar a6
        wur.threadptr a3
        rur.threadptr a7
        movi a8, 0x7f
        wur.fcr a8
        rur.fcr a9
        rsr.ccount a10
        rsr.ccount a11
        wsr.prid a3
        rsr.prid a12");
    assert_eq!(
        (core.a(2), core.a(4), core.a(6), core.a(7), core.a(9)),
        (3, 0x1234, 7, 0x1234, 0x7f)
    );
    assert!(core.a(11) > core.a(10));
    assert_eq!(core.a(12), 3);
}

#[test]
fn faults_have_their_causes() {
    assert_eq!(fault("movi a2, 0x80001\nl32i a3, a2, 0"), (Cause::Alignment, 0x8_0001));
    assert_eq!(fault("movi a2, 0x80002\ns32i a3, a2, 0"), (Cause::Alignment, 0x8_0002));
    assert_eq!(fault("movi a2, 0x80001\nl16ui a3, a2, 0"), (Cause::Alignment, 0x8_0001));
    assert_eq!(fault("movi a2, 0x70000\nl32i a3, a2, 0"), (Cause::LoadStore, 0x7_0000));
    assert_eq!(fault("movi a2, 0xffffffff\ns8i a3, a2, 0"), (Cause::LoadStore, u32::MAX));
    assert_eq!(fault("movi a2, 0x70000\njx a2"), (Cause::Fetch, 0x7_0000));
    assert_eq!(fault("movi a3, 0\nquos a2, a2, a3").0, Cause::DivideByZero);
    assert_eq!(fault("ill").0, Cause::Illegal);
    assert_eq!(fault("syscall").0, Cause::Syscall);
    assert_eq!(
        fault("movi a2, 0\nwsr.cpenable a2\n{ nop; nop; nop; ivp_addnx16 v0, v0, v0 }").0,
        Cause::Coprocessor1
    );
    assert_eq!(
        fault("movi a2, 0x80020\n{ ivp_lv2nx8_i v0, a2, 0; nop }"),
        (Cause::Alignment, 0x8_0020)
    );
    let config = CoreConfig { floor_misaligned_vectors: true, ..CoreConfig::v3() };
    let source = "movi a2, 0x80020\n{ ivp_lv2nx8_i v0, a2, 0; nop }\nhalt 0";
    assert_eq!(load(source, config).run(&mut NoBus, LIMIT), Stop::Halted);
    // PSUM is not on the bus of a core, and the hole between the memories traps.
    assert_eq!(fault("movi a2, 0x20000\nl8ui a3, a2, 0").0, Cause::LoadStore);
}

#[test]
fn slots_read_the_old_state() {
    // Both slots use a2: the load takes its old value, addi writes the new one.
    let mut core = load(
        "movi a2, 0x80000
        { addi a2, a2, 64; nop; nop; ivp_movav32 a3, v1 }
        { ivp_lv2nx8_i v1, a2, 0; ivp_movva32 v2, a2 }
        { ivp_sv2nx8_ip v1, a2, 64; ivp_movva32 v1, a2 }
        halt 0",
        CoreConfig::v3(),
    );
    core.dram[64..68].copy_from_slice(&0x1122_3344u32.to_le_bytes());
    core.regs.vec[1] = Vec512::splat32(5);
    assert_eq!(core.run(&mut NoBus, LIMIT), Stop::Halted);
    assert_eq!(core.a(3), 5);
    assert_eq!(core.a(2), 0x8_0080);
    assert_eq!(core.regs.vec[2], Vec512::splat32(0x8_0040));
    assert_eq!(core.dram[64..68], 0x1122_3344u32.to_le_bytes());
    // v1 was stored as loaded and then replaced.
    assert_eq!(core.regs.vec[1], Vec512::splat32(0x8_0040));
}

#[test]
fn self_modifying_code_is_decoded_again() {
    // The second round runs `addi a2, a2, 5` where the first ran `addi a2, a2, 1`.
    let core = run("movi a2, 0
        movi a4, 2
        movi a5, patch
        movi a6, 5
0:      j patch
        .align 4
patch:  addi a2, a2, 1
        s8i a6, a5, 2
        addi a4, a4, -1
        bnez a4, 0b");
    assert_eq!(core.a(2), 6);
}

#[test]
fn loops_and_their_limits() {
    let core = run("movi a2, 5
        movi a3, 0
        loop a2, 1f
        addi a3, a3, 1
1:      movi a4, 0
        movi a5, 9
        loopnez a4, 2f
        movi a5, 1
2:      movi a6, -4
        loopgtz a6, 3f
        movi a5, 2
3:      rsr.lcount a7");
    assert_eq!((core.a(3), core.a(5)), (5, 9));
}

fn vector_memory(seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; 0x1000];
    Pcg64::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

#[test]
fn promoting_loads_and_narrowing_stores() {
    let bytes = vector_memory(1);
    let mut core = load(
        "movi a2, 0x80000
        movi a3, 0x80800
        { ivp_lvnx8s_i v1, a2, 32; nop }
        { ivp_lvnx8u_i v2, a2, 32; nop }
        { ivp_lvn_2x16s_i v3, a2, 32; nop }
        { ivp_lvn_2x16u_i v4, a2, 32; nop }
        { ivp_svnx8s_i v1, a3, 0; nop }
        { ivp_svn_2x16u_i v4, a3, 32; nop }
        { ivp_lsrnx16_i v5, a2, 2; nop }
        { ivp_lsn_2x32_i v6, a2, 4; nop }
        { ivp_ssn_2x32_i v6, a3, 64; nop }
        { ivp_lb2n_i vb3, a2, 8; nop }
        { ivp_lbn_i vb4, a2, 8; nop }
        { ivp_sb2n_i vb3, a3, 72; nop }
        { ivp_sbn_i vb4, a3, 80; nop }
        halt 0",
        CoreConfig::v3(),
    );
    core.dram[..0x800].copy_from_slice(&bytes[..0x800]);
    assert_eq!(core.run(&mut NoBus, LIMIT), Stop::Halted);
    for lane in 0..32 {
        assert_eq!(core.regs.vec[1].i16s()[lane], i16::from(bytes[32 + lane] as i8));
        assert_eq!(core.regs.vec[2].u16s()[lane], u16::from(bytes[32 + lane]));
    }
    for lane in 0..16 {
        let half = u16::from_le_bytes([bytes[32 + 2 * lane], bytes[33 + 2 * lane]]);
        assert_eq!(core.regs.vec[3].i32s()[lane], i32::from(half as i16));
        assert_eq!(core.regs.vec[4].u32s()[lane], u32::from(half));
    }
    assert_eq!(core.dram[0x800..0x820], bytes[32..64]);
    assert_eq!(core.dram[0x820..0x840], bytes[32..64]);
    let half = u16::from_le_bytes([bytes[2], bytes[3]]);
    assert_eq!(core.regs.vec[5], Vec512::splat16(half));
    let word = u32::from_le_bytes(bytes[4..8].try_into().unwrap());
    let mut lane0 = Vec512::ZERO;
    lane0.u32s_mut()[0] = word;
    assert_eq!(core.regs.vec[6], lane0);
    assert_eq!(core.dram[0x840..0x844], word.to_le_bytes());
    let mask = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
    assert_eq!(core.regs.vbool[3], mask);
    for lane in 0..32 {
        let field = core.regs.vbool[4] >> (2 * lane) & 3;
        assert_eq!(field, 3 * (mask >> lane & 1));
    }
    assert_eq!(core.dram[0x848..0x850], mask.to_le_bytes());
    assert_eq!(core.dram[0x850..0x854], (mask as u32).to_le_bytes());
}

#[test]
fn unaligned_streams_copy_any_range() {
    // The copy idiom with a tail, for all source and destination offsets.
    let source = "
        { ivp_la_pp u0, a2; nop }
        { ivp_zalign u1; nop }
        loopgtz a5, 1f
        { ivp_la2nx8_ip v0, u0, a2; nop }
        { ivp_sa2nx8_ip v0, u1, a3; nop }
1:      { ivp_lav2nx8_xp v0, u0, a2, a4; nop }
        { ivp_sav2nx8_xp v0, u1, a3, a4; nop }
        { ivp_sapos_fp u1, a3; nop }
        halt 0";
    let bytes = vector_memory(2);
    let template = load(source, CoreConfig::v3());
    for from in (0..64).step_by(3) {
        for to in 0..64usize {
            for length in [0usize, 1, 63, 64, 65, 200] {
                let mut core = template.clone();
                core.dram[0x1000..0x2000].copy_from_slice(&bytes);
                let canary = 0xc7;
                core.dram[0x4000..0x5000].fill(canary);
                core.set_a(2, DRAM_BASE + 0x1000 + from as u32);
                core.set_a(3, DRAM_BASE + 0x4040 + to as u32);
                core.set_a(4, (length % 64) as u32);
                core.set_a(5, (length / 64) as u32);
                assert_eq!(core.run(&mut NoBus, LIMIT), Stop::Halted);
                let start = 0x4040 + to;
                assert_eq!(
                    core.dram[start..start + length],
                    bytes[from..from + length],
                    "{from} {to} {length}"
                );
                let before = core.dram[0x4000..start].iter().all(|&b| b == canary);
                let after = core.dram[start + length..0x5000].iter().all(|&b| b == canary);
                assert!(
                    before && after,
                    "{from} {to} {length}: bytes outside the stream were touched"
                );
            }
        }
    }
}

#[test]
fn predicated_stores_write_only_their_lanes() {
    let mut core = load(
        "movi a2, 0x80800
        { ivp_sv2nx8t_ip v1, a2, 64, vb1; nop }
        { ivp_svn_2x16ut_ip v1, a2, 32, vb1; nop }
        halt 0",
        CoreConfig::v3(),
    );
    core.regs.vec[1] = Vec512::from_u8s(std::array::from_fn(|i| i as u8));
    core.regs.vbool[1] = 0x0123_4567_89ab_cdef;
    core.dram[0x800..0x880].fill(0xee);
    assert_eq!(core.run(&mut NoBus, LIMIT), Stop::Halted);
    assert_eq!(core.a(2), 0x8_0860);
    for lane in 0..64 {
        let want = if core.regs.vbool[1] >> lane & 1 != 0 { lane as u8 } else { 0xee };
        assert_eq!(core.dram[0x800 + lane], want, "lane {lane}");
    }
    for lane in 0..16 {
        let want = if core.regs.vbool[1] >> (4 * lane) & 1 != 0 {
            [4 * lane as u8, 4 * lane as u8 + 1]
        } else {
            [0xee, 0xee]
        };
        assert_eq!(core.dram[0x840 + 2 * lane..0x842 + 2 * lane], want, "lane {lane}");
    }
}

/// Golden vectors of loads and stores.
#[test]
fn golden_load_store_vectors() {
    let vectors: Vec<Value> =
        serde_json::from_str(include_str!("golden/golden_q7_encoding.json")).unwrap();
    let mut ran = 0;
    let number = |value: &Value| match value {
        Value::String(s) => i64::from_str_radix(s.trim_start_matches("0x"), 16).unwrap(),
        other => other.as_i64().unwrap(),
    };
    for vector in vectors {
        let (inputs, expect) = (&vector["inputs"], &vector["expect"]);
        match vector["op"].as_str().unwrap() {
            "ar_post_update" => {
                let increment = number(&inputs["increment"]);
                let source = "{ ivp_lv2nx8_xp v0, a2, a3; nop }\nhalt 0";
                let mut core = load(source, CoreConfig::v3());
                core.set_a(2, number(&inputs["base"]) as u32);
                core.set_a(3, increment as u32);
                struct Zeros;
                impl Q7Bus for Zeros {
                    fn read(&mut self, _: u32, _: &mut [u8]) -> Result<(), BusFault> {
                        Ok(())
                    }
                    fn write(&mut self, _: u32, _: &[u8]) -> Result<(), BusFault> {
                        Ok(())
                    }
                }
                // The update is modulo 2^32 and the row may lie anywhere.
                let config = CoreConfig { floor_misaligned_vectors: true, ..CoreConfig::v3() };
                core.config = config;
                assert_eq!(core.run(&mut Zeros, LIMIT), Stop::Halted);
                assert_eq!(i64::from(core.a(2)), number(&expect["base_after"]), "{vector}");
            }
            "lashift_512_512_6" => {
                let carry = std::array::from_fn(|i| i as u8);
                let row = std::array::from_fn(|i| 0x40 + i as u8);
                if inputs["shift"].is_string() {
                    for shift in 0..64u8 {
                        let out = align_window(&carry, &row, usize::from(shift));
                        assert!((0..64u8).all(|j| out[usize::from(j)] == shift + j), "{vector}");
                    }
                    ran += 1;
                    continue;
                }
                let out = align_window(&carry, &row, number(&inputs["shift"]) as usize);
                let got: String = out[..8].iter().map(|b| format!("{b:02x}")).collect();
                assert_eq!(got, expect["out_bytes_0_7"].as_str().unwrap(), "{vector}");
            }
            "sel_2nx8_align_crosscheck" => {
                let align = number(&inputs["align"]) as usize;
                let stream: Vec<u8> = (0..128).collect();
                let (carry, row) =
                    (stream[..64].try_into().unwrap(), stream[64..].try_into().unwrap());
                assert_eq!(align_window(carry, row, align)[..], stream[align..align + 64]);
            }
            "sav_merge" => {
                let offset = number(&inputs["offset"]) as usize;
                let out = align_merge(&[0xbb; 64], &[0xaa; 64], offset);
                let new = out.iter().filter(|&&b| b == 0xaa).count() / 4;
                assert_eq!(new as i64, number(&expect["words_from_new"]), "{vector}");
                assert_eq!(16 - new as i64, number(&expect["words_from_carry"]), "{vector}");
            }
            "vector_load_line_mask" => {
                // The access size is what the address mask leaves below the line.
                let bits = number(&expect["extract_funnel_bits"]);
                let mask = number(&expect["address_mask"]) as u32;
                let ignored = (!mask & 63) + (bits as u32 / 8) - 1;
                assert_eq!(ignored & 63, 63 - (mask & 63) + bits as u32 / 8 - 1, "{vector}");
                let name = match bits {
                    16 => "ivp_lsnx16_i",
                    32 => "ivp_lsn_2x32_i",
                    64 => "ivp_lsn_4x64_i",
                    128 => "ivp_lsn_8x128_i",
                    _ if inputs["shape"].as_str().unwrap().starts_with("nx8") => "ivp_lvnx8u_i",
                    _ => "ivp_lsn_16x256_i",
                };
                // One access unit on is aligned, half a unit is not.
                let unit = bits / 8;
                let load_at = |offset: i64| {
                    let source = format!("{{ {name} v0, a2, 0; nop }}\nhalt 0");
                    let mut core = load(&source, CoreConfig::v3());
                    core.set_a(2, DRAM_BASE + offset as u32);
                    core.run(&mut NoBus, LIMIT)
                };
                assert_eq!(load_at(unit), Stop::Halted, "{vector}");
                assert!(matches!(
                    load_at(unit / 2),
                    Stop::Fault(Fault::Exception { cause: Cause::Alignment, .. })
                ));
            }
            _ => continue,
        }
        ran += 1;
    }
    println!("{ran} run");
    assert_eq!(ran, 25);
}

fn cycles(source: &str) -> u64 {
    let mut core = load(&format!("{source}\nhalt 0\n"), CoreConfig::v3());
    assert_eq!(core.run(&mut NoBus, LIMIT), Stop::Halted);
    core.cycles()
}

/// The worked examples of the timing page, as differences between two programs.
#[test]
fn latencies_follow_the_pages() {
    let base = "movi a2, 0x80000\nnop\nnop\nnop\nnop\nnop\nnop\nnop\nnop\n";
    let pair = |first: &str, second: &str| {
        cycles(&format!("{base}{first}\n{second}")) as i64
            - cycles(&format!("{base}{first}\nnop")) as i64
    };
    // Scalar: a load to an adder stalls once, a multiply twice, the adder not at all.
    assert_eq!(pair("l32i a3, a2, 0", "add a4, a3, a3"), 1);
    assert_eq!(pair("mull a3, a2, a2", "add a4, a3, a3"), 2);
    assert_eq!(pair("add a3, a2, a2", "add a4, a3, a3"), 0);
    let vector = |text: &str| format!("{{ nop; nop; nop; {text} }}");
    let fma = |text: &str| format!("{{ nop; nop; {text} }}");
    let nop = vector("ivp_or2nx8 v20, v20, v20");
    let apart = |first: &str, second: &str| {
        let alone = cycles(&format!("{base}{first}\n{nop}")) as i64;
        1 + cycles(&format!("{base}{first}\n{second}")) as i64 - alone
    };
    // Vector: issue distances 1, 2 and 3; a load may be used in the next bundle.
    assert_eq!(apart(&vector("ivp_addnx16 v1, v2, v3"), &vector("ivp_addnx16 v4, v1, v1")), 1);
    assert_eq!(apart(&vector("ivp_raddnx16 v1, v2"), &vector("ivp_addnx16 v4, v1, v1")), 2);
    assert_eq!(apart(&fma("ivp_mulan_2xf32 v1, v2, v3"), &fma("ivp_addn_2xf32 v4, v1, v1")), 3);
    assert_eq!(apart("{ ivp_lv2nx8_i v1, a2, 0; nop }", &vector("ivp_add2nx8 v4, v1, v1")), 1);
    // A taken branch costs its bubble, a zero-overhead loop nothing.
    let branch =
        cycles("movi a2, 1\nbnez a2, 1f\n1: nop") - cycles("movi a2, 0\nbnez a2, 1f\n1: nop");
    assert_eq!(branch, 6);
    let looped = |n: u32| cycles(&format!("movi a3, {n}\nloop a3, 1f\nnop\nnop\n1: nop"));
    assert_eq!(looped(101) - looped(1), 200);
}

/// Every slot operation that decodes and has a defined meaning can be lowered and run.
#[test]
fn every_slot_operation_joins_its_meaning() {
    let (mut joined, mut without, mut missing) = (0, Vec::new(), 0);
    for format in tables().formats.iter().filter(|f| f.known && f.length >= 8) {
        for slot in &format.slots {
            for row in slot.rows.iter().filter(|row| row.mnemonic != "nop") {
                let mut word = format.rest_value | row.value;
                for other in format.slots.iter().filter(|other| other.id != slot.id) {
                    let nop = other.rows.iter().find(|row| row.mnemonic == "nop");
                    word |= nop.map_or(0, |row| row.value);
                }
                let bytes = &word.to_le_bytes()[..usize::from(format.length)];
                let bundle = codec::decode(bytes, 0, codec::Options::OWN).unwrap();
                assert!(
                    bundle.ops.iter().any(|op| op.row.mnemonic == row.mnemonic),
                    "{}",
                    row.mnemonic
                );
                let mut core = Core::new(CoreConfig::v3(), 0);
                core.iram[..bytes.len()].copy_from_slice(bytes);
                for n in 0..16 {
                    core.set_a(n, DRAM_BASE + 0x100);
                }
                match core.run(&mut NoBus, 1) {
                    Stop::Limit => joined += 1,
                    Stop::Fault(Fault::Error { error, .. }) => {
                        use tpbemu::ErrorClass as C;
                        match error.class {
                            C::Unimplemented => {
                                assert!(ops::lookup(row.mnemonic).is_none());
                                without.push(row.mnemonic);
                            }
                            C::MissingSpecification => missing += 1,
                            _ => panic!("{}: {error}", row.mnemonic),
                        }
                    }
                    // Index registers hold addresses, so a sum of two leaves the memories.
                    Stop::Fault(Fault::Exception { cause: Cause::LoadStore, .. }) => joined += 1,
                    other => panic!("{}: {other:?}", row.mnemonic),
                }
            }
        }
    }
    without.sort_unstable();
    without.dedup();
    println!("{joined} words run, {missing} lack a fact, without a meaning: {without:?}");
    assert!(joined > 350, "{joined}");
}

/// One-bit logic takes the values of its boolean registers, not their numbers.
#[test]
fn boolean_register_logic() {
    for bits in 0..4u16 {
        let (a, b) = (bits & 1, bits >> 1);
        for (name, want) in [("ivp_andnotb1", a & !b & 1), ("ivp_ornotb1", (a | !b) & 1)] {
            let source = format!("F0 {{ nop; {name} b4, b7, b2; nop; nop }}\nhalt 0");
            let mut core = load(&source, CoreConfig::v3());
            core.br = a << 7 | b << 2 | 0x8001;
            assert_eq!(core.run(&mut NoBus, LIMIT), Stop::Halted);
            assert_eq!(core.br, a << 7 | b << 2 | 0x8001 | want << 4, "{name} {a} {b}");
        }
    }
}
