//! Every opcode of every generation prints as structured text that gives the same bytes back.

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

use super::inst::{assemble_line, generation_of, print};
use super::sp;
use crate::isa::{
    EventsKind, FieldType, Layout, OpcodeDef, Presence, SP_OPCODES, StructDef, opcode_by_name,
    opcode_table, struct_by_name, struct_in,
};

const LAYOUTS: [Layout; 7] =
    [Layout::V1, Layout::V1Wide, Layout::V2, Layout::V3, Layout::V4, Layout::V4Plus, Layout::V5];

/// Every (opcode, struct, spec byte) of a layout.
fn instructions(layout: Layout) -> Vec<(&'static OpcodeDef, &'static StructDef, Option<u8>)> {
    let generation = generation_of(layout);
    let mut out = Vec::new();
    for op in opcode_table(generation) {
        if op.presence_in(generation) == Presence::Absent || op.byte == 0xff {
            continue;
        }
        if op.struct_names.len() > 1 {
            for name in op.struct_names {
                let Some(def) = struct_by_name(layout, name) else { continue };
                out.extend(def.spec.iter().map(|spec| (op, def, Some(*spec))));
            }
        } else {
            out.push((op, struct_in(layout, op, 0).unwrap(), None));
        }
    }
    out
}

fn fill(rng: &mut Pcg64Mcg, bytes: &mut [u8]) {
    rng.fill_bytes(bytes);
}

fn check(layout: Layout, word: &[u8; 64]) {
    let text = print(layout, word);
    assert!(!text.starts_with('.'), "{layout:?} {:#04x} fell back to {text}", word[0]);
    let back = assemble_line(layout, &text).unwrap_or_else(|e| panic!("{text}: {e:?}"));
    assert_eq!(back.word, *word, "{text}");
}

#[test]
fn random_words_of_every_opcode_round_trip() {
    let mut rng = Pcg64Mcg::new(7);
    let mut count = 0;
    for layout in LAYOUTS {
        for (op, def, spec) in instructions(layout) {
            for round in 0..24 {
                let mut word = [0; 64];
                fill(&mut rng, &mut word);
                // Sparse words meet the rules that leave fields out.
                if round % 2 == 1 {
                    for byte in &mut word {
                        if !rng.next_u32().is_multiple_of(4) {
                            *byte = 0;
                        }
                    }
                }
                word[0] = op.byte;
                if let Some(spec) = spec {
                    word[12] = spec;
                }
                if round % 3 != 0 && def.events != EventsKind::None {
                    word[1] = 16;
                }
                check(layout, &word);
                count += 1;
            }
        }
    }
    println!("{count} words");
    assert!(count > 15_000);
}

#[test]
fn legal_looking_words_round_trip() {
    let mut rng = Pcg64Mcg::new(8);
    for layout in LAYOUTS {
        let generation = generation_of(layout);
        for (op, def, spec) in instructions(layout) {
            for _ in 0..24 {
                let mut word = [0; 64];
                for field in def.fields {
                    let range = usize::from(field.offset)..usize::from(field.offset + field.size);
                    let bytes = &mut word[range];
                    match field.ty_in(layout) {
                        FieldType::Reserved => {}
                        FieldType::Enum(e) => {
                            let members: Vec<u32> = e
                                .values
                                .iter()
                                .map(|v| v.0)
                                .filter(|v| e.contains(generation, (*v).into()))
                                .collect();
                            if !members.is_empty() {
                                bytes[0] = members[rng.next_u32() as usize % members.len()] as u8;
                            }
                        }
                        FieldType::Dtype => bytes[0] = (rng.next_u32() % 17) as u8,
                        FieldType::Reg => bytes[0] = (rng.next_u32() % 64) as u8,
                        FieldType::Pattern(_) | FieldType::Addr4 => {
                            fill(&mut rng, bytes);
                            let marker = [0, 0, 1, 0x20, 0x40, 0x80, 0xa0, 0xc0];
                            bytes[3] = marker[rng.next_u32() as usize % 8];
                            if bytes[3] & 0x80 != 0 {
                                let register = bytes[0] % 64;
                                bytes[..3].copy_from_slice(&[register, 0, 0]);
                            }
                        }
                        _ => fill(&mut rng, bytes),
                    }
                }
                word[0] = op.byte;
                word[1] = if def.name == "CTRL_CCI" { 0 } else { 16 };
                if let Some(spec) = spec {
                    word[12] = spec;
                }
                check(layout, &word);
            }
        }
    }
}

#[test]
fn every_events_block_round_trips() {
    for layout in LAYOUTS {
        let nop = opcode_by_name(generation_of(layout), "NOP").unwrap();
        for wait in 0..=255u8 {
            for update in 0..=255u8 {
                let mut word = [0; 64];
                word[..8].copy_from_slice(&[
                    nop.byte,
                    16,
                    0,
                    0,
                    wait,
                    wait / 3,
                    update,
                    update / 5,
                ]);
                if layout != Layout::V1 {
                    word[8] = wait ^ update;
                    word[9] = update & 1;
                }
                check(layout, &word);
            }
        }
    }
}

#[test]
fn unknown_opcodes_fall_back_to_hexadecimal() {
    for layout in LAYOUTS {
        for byte in [0xff, 0xc0] {
            let mut word = [0xa5; 64];
            word[0] = byte;
            let text = print(layout, &word);
            assert!(text.starts_with(".word64 "), "{text}");
            assert_eq!(assemble_line(layout, &text).unwrap().word, word);
        }
    }
}

#[test]
fn mnemonics_are_unambiguous() {
    for layout in LAYOUTS {
        let generation = generation_of(layout);
        for (op, ..) in instructions(layout) {
            let found = opcode_by_name(generation, op.name).map(|o| o.byte);
            assert_eq!(found, Some(op.byte), "{}", op.name);
        }
    }
}

#[test]
fn sp_words_round_trip() {
    let mut rng = Pcg64Mcg::new(9);
    for byte in 0..=255u8 {
        for _ in 0..50 {
            let mut word = [0; 8];
            fill(&mut rng, &mut word);
            word[0] = byte;
            if let Some(op) = SP_OPCODES.iter().find(|op| op.value == byte & 0x7f) {
                for field in op.fields.iter().filter(|f| f.name == "reserved") {
                    let at = usize::from(field.offset);
                    word[at..at + usize::from(field.size)].fill(0);
                }
                assert!(!sp::print(&word).starts_with('.'));
            }
            let text = sp::print(&word);
            assert_eq!(sp::assemble_line(&text).unwrap().0, word, "{text}");
        }
    }
}

#[test]
fn profiler_notation() {
    let samples = [
        (Layout::V2, "c8100000040a131600000000040a00000300000004000000200000000000000001"),
        (Layout::V2, "c11000000416000000000000715f6772616469656e745f6f7574"),
        (Layout::V2, "a0100000040b0000"),
    ];
    let texts: Vec<String> = samples
        .iter()
        .map(|(layout, hex)| {
            let mut bytes = super::hex(hex).unwrap();
            bytes.resize(64, 0);
            print(*layout, &bytes.try_into().unwrap())
        })
        .collect();
    assert_eq!(
        texts,
        [
            "PSEUDO_TRIGGER_COLLECTIVE $S[10]>0 $S[22]++@complete op=ADD dtype=fp32 \
             input_tensor_id=3 output_tensor_id=4 num_elements=32 ctype=ALL_REDUCE",
            "PSEUDO_DMATRIGGER $S[22]>0 queue_name=\"q_gradient_out\"",
            "EVENT_SEMAPHORE $S[11]>0",
        ]
    );
}

#[test]
fn tensors_take_their_dtype() {
    let word = assemble_line(
        Layout::V3,
        "TENSOR_TENSOR_ARITH_OP $S[3]>=R5 op=ADD channels=128 src0=fp32@0x5600[1,0,0][3,1,1] \
         src1=bf16@R7[1][4] dst=fp32@0x2000000[1][3]",
    )
    .unwrap()
    .word;
    assert_eq!(word[12], 0x6a);
    assert_eq!(word[13], 0x0a);
    assert_eq!(
        print(Layout::V3, &word),
        "TENSOR_TENSOR_ARITH_OP $S[3]>=R5 op=ADD num_active_channels=128 \
         src0=fp32@0x5600[1,0,0][3,1,1] src1=bf16@R7[1,0,0][4,1,1] dst=fp32@0x2000000[1,0,0][3,1,1]"
    );
}

#[test]
fn spellings_of_other_tools() {
    let word = |layout, text| assemble_line(layout, text).unwrap().word;
    assert_eq!(
        word(Layout::V2, "PSEUDO_DMA_TRIGGER $S[22]>0 queue_name=q block_id=1;"),
        word(Layout::V2, "PSEUDO_DMATRIGGER queue_name=\"q\" block_id_or_count=1 $S[22]>0")
    );
    assert_eq!(
        word(
            Layout::V2,
            "MATMUL S[5] (Tensor)++@complete acc_flags=3 src=fp16@0x5600[1,0,0][3,1,1]"
        ),
        word(Layout::V2, "matmul $S[5]++@complete psum_accumulate_flags=3 src=fp16@0x5600[1][3]")
    );
}

#[test]
fn mistakes_are_explained() {
    let message = |text: &str| {
        let error = assemble_line(Layout::V2, text).unwrap_err();
        format!("{} / {}", error.message, error.help.unwrap_or_default())
    };
    assert_eq!(message("MATMULL"), "v2 has no instruction `MATMULL` / did you mean `MATMUL`?");
    assert_eq!(
        message("MATMUL num_actve_rows=3"),
        "MATMUL has no operand `num_actve_rows` / did you mean `num_active_rows`?"
    );
    assert_eq!(message("MATMUL rows=300"), "300 is out of range, allowed is 0 to 255 / ");
    assert_eq!(
        message("MATMUL dst=fp32@0x2000000[1][3]"),
        "MATMUL has no dtype for `dst` on v2 / leave the dtype out"
    );
    assert_eq!(message("MATMUL rows=3 rows=4"), "`num_active_rows` is given twice / ");
    assert!(message("NOP $S[1]>=4 $S[2]+=5@complete").starts_with("the wait needs the value 0x4"));
    assert!(message("NOP $S[1]>=4 $S[2]>=4").starts_with("an instruction has one wait only"));
    assert!(message("MATMUL src=fp32@0[1][2] in_dtype=bf16").starts_with("the dtype is fp32 here"));
}
