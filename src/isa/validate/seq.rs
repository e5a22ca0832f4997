//! Sequencer opcodes (wiki: firmware/kernels/tensorload; firmware/kernels/move-dtype;
//! neuronx-runtime isa pseudo-instruction lowering).

use super::common::event_pair;
use super::dma::addr8;
use super::vector::readable;
use super::{Context, rules};
use crate::error::Result;
use crate::isa::defs::OpcodeDef;
use crate::isa::generation::Generation;
use crate::isa::geometry::dtype_bytes;
use crate::isa::pattern::Addr8;
use crate::isa::tables::{class, e, enums, op};

rules! {
    MEM_COUNT "mem_2d_count" "firmware/kernels/tensorload 4"
        "each count is 1 to 32, and their product fits the registers or the packed immediates";
    MEM_SOURCE "tensor_load_source" "firmware/kernels/tensorload 4"
        "a load has registers as its data";
    MEM_TYPE "mem_2d_dtype" "firmware/kernels/tensorload 4"
        "the type is an 8- to 32-bit integer, FP32 or UINT64";
    MEM_PAIRS "mem_2d_even_registers" "firmware/kernels/tensorload 6"
        "UINT64 uses even registers";
    MEM_REGS "mem_2d_registers" "firmware/kernels/tensorload 2"
        "data registers are general registers";
    MEM_ALIGN "mem_2d_aligned" "firmware/kernels/tensorload 6"
        "an immediate address is a multiple of the element size";
    MEM_WINDOW "mem_2d_window" "firmware/kernels/tensorload 7"
        "the whole span lies inside one aligned 16 MiB window";
    MOVE_COUNT "move_count" "firmware/kernels/move-dtype 4"
        "1 to 8 moves";
    MOVE_TYPE "move_dtype" "firmware/kernels/move-dtype 3"
        "the type is UINT32, INT32 or FP32";
    MOVE_REGS "move_registers" "firmware/kernels/move-dtype 3.3"
        "sources are readable registers, destinations general registers or the read-only 128 and 129";
    MOVE_UNUSED "move_unused_sources" "firmware/kernels/move-dtype 4"
        "unused source slots are 0";
    MOVE_ALIAS "move_aliasing" "firmware/kernels/move-dtype 4"
        "destinations are unique and no source is a destination";
    MOVE_TILE "move_tile_index" "firmware/kernels/move-dtype 7"
        "on v5 the tile index is 0";
    ALU_VALID "alu_op_valid" "neuronx-runtime isa pseudo-instruction lowering"
        "operator and types are members of their enums";
    ALU_REGS "alu_op_registers" "firmware/kernels/move-dtype 3.3"
        "register specifiers are 0 to 63, 128 or 129";
    BR_VALID "compare_branch_valid" "neuronx-runtime isa pseudo-instruction lowering"
        "compare operator, type and target mode must be known";
    BR_REACH "compare_branch_reach" "firmware/seq/branch-prefetch 3"
        "a relative displacement is below 2^31 either way";
    ES_COMPLETE "event_semaphore_complete" "collectives/ops/sync-barrier 5"
        "EVENT_SEMAPHORE reads no memory, so its updates are of the COMPLETE forms or none";
    POLL "poll_sem_valid" "uarch/per-engine-depth 7.1"
        "at most 16 reads, folded by MIN, into a general register";
    TEST_COUNT "test_event_sem_count" "firmware/kernels/dma-transpose-opcode-cluster"
        "1 to 16 ids, unique, with zero in unused slots";
    TEST_UPDATE "test_event_sem_update" "firmware/kernels/dma-transpose-opcode-cluster"
        "the update is not an immediate form";
    NO_ZERO "ctrl_no_reserved_zero" "neuronx-runtime isa/validator-architecture"
        "this opcode has no operands";
    RANGE "range_clear_order" "neff/seq-microcode"
        "the first index is not above the last";
    QUEUE_NAME "dma_trigger_queue_name" "neff/seq-microcode 7.2"
        "a DMA trigger names its queue";
    COMPACT "compact_control_ops" "generations/maverick-profile 5"
        "every micro-operation is a member of CCOP";
}

pub(super) fn mem_2d(cx: &mut Context<'_>, def: &'static OpcodeDef) -> Result<()> {
    let code = cx.byte("dtype");
    let known = class::DTYPE_MEM_2D.contains(code);
    cx.require(&MEM_TYPE, known, || format!("{code:#x}"))?;
    let registers = cx.byte("src_datasrc") == e::data_src::REGISTER;
    cx.require(&MEM_SOURCE, registers || def.byte == op::TENSOR_STORE, String::new)?;
    let size = dtype_bytes(code).unwrap_or(1);
    let [n0, n1] = [cx.bytes("num_elem")[0], cx.bytes("num_elem")[1]].map(u32::from);
    let most = if registers || size == 1 { 32 } else { 32 / size };
    let a = addr8(cx, "start_addr")?;
    if !a.shape_from_register() {
        let ok = (1..=32).contains(&n0) && (1..=32).contains(&n1) && n0 * n1 <= most;
        cx.require(&MEM_COUNT, ok, || format!("{n0} x {n1}, at most {most}"))?;
    }
    if registers {
        let data = cx.bytes("data");
        let odd = code == e::dtype::UINT64 && data.iter().any(|r| r % 2 != 0);
        cx.require(&MEM_PAIRS, !odd, || format!("{data:?}"))?;
        let used = (n0 * n1).min(32) as usize;
        let ok = data[..used].iter().all(|r| readable(*r));
        cx.require(&MEM_REGS, ok, || format!("{:?}", &data[..used]))?;
    }
    let Addr8::Imm(start) = a else { return Ok(()) };
    cx.require(&MEM_ALIGN, start.is_multiple_of(u64::from(size)), || format!("{start:#x}"))?;
    let step = cx.bytes("step_elem");
    let step = |i: usize| {
        let s = &step[4 * i..4 * i + 4];
        i64::from(i32::from_le_bytes([s[0], s[1], s[2], s[3]]))
    };
    let reach: [i64; 2] = [
        step(0) * i64::from(n0.max(1) - 1) * i64::from(size),
        step(1) * i64::from(n1.max(1) - 1) * i64::from(size),
    ];
    let below: i64 = reach.iter().filter(|r| **r < 0).sum();
    let above: i64 = reach.iter().filter(|r| **r > 0).sum();
    let first = i128::from(start) + i128::from(below);
    let last = i128::from(start) + i128::from(above) + i128::from(size) - 1;
    let ok = first >= 0 && first >> 24 == last >> 24;
    cx.require(&MEM_WINDOW, ok, || format!("{first:#x} to {last:#x}"))
}

pub(super) fn moves(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    let n = usize::from(cx.byte("num_mov"));
    cx.require(&MOVE_COUNT, (1..=8).contains(&n), || format!("{n}"))?;
    let n = n.min(8);
    let code = cx.byte("dtype");
    cx.require(&MOVE_TYPE, class::DTYPE_MOVE.contains(code), || format!("{code:#x}"))?;
    let registers = cx.byte("move_source") == e::data_src::REGISTER;
    let (src, dst) = (cx.bytes("src_registers"), cx.bytes("dst_registers"));
    let used = if registers { n } else { 0 };
    let ok = src[..used].iter().chain(&dst[..n]).all(|r| readable(*r));
    cx.require(&MOVE_REGS, ok, || format!("{:?} to {:?}", &src[..used], &dst[..n]))?;
    let unused = src[used..].iter().all(|r| *r == 0);
    cx.require(&MOVE_UNUSED, unused, || format!("{src:?}"))?;
    let unique = (1..n).all(|i| !dst[..i].contains(&dst[i]));
    let disjoint = src[..used].iter().all(|r| !dst[..n].contains(r));
    cx.require(&MOVE_ALIAS, unique && disjoint, || {
        format!("{:?} to {:?}", &src[..used], &dst[..n])
    })?;
    let tile = cx.inst.u8(3) & 3;
    cx.require(&MOVE_TILE, cx.generation() != Generation::V5 || tile == 0, || format!("{tile}"))
}

pub(super) fn move_shape(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    let n = cx.byte("num_move");
    cx.require(&MOVE_COUNT, (1..=8).contains(&n), || format!("{n}"))
}

pub(super) fn alu_op(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    let g = cx.generation();
    let (code, out) = (cx.get("dtype"), cx.get("dst_dtype"));
    // Host builders leave the destination type 0 (wiki: neuronx-runtime isa pseudo-instruction
    // lowering).
    let ok = code != 0 && enums::DTYPE.contains(g, code) && enums::DTYPE.contains(g, out);
    cx.require(&ALU_VALID, ok, || format!("types {code:#x} and {out:#x}"))?;
    let names =
        ["src0_reg_lo", "src0_reg_hi", "src1_reg_lo", "src1_reg_hi", "dst_reg_lo", "dst_reg_hi"];
    let bad = names.into_iter().find(|n| !readable(cx.byte(n)));
    cx.require(&ALU_REGS, bad.is_none(), || format!("{bad:?}"))
}

pub(super) fn branch(cx: &mut Context<'_>, def: &'static OpcodeDef) -> Result<()> {
    use e::br_target_mode::{RELATIVE_IMMEDIATE, RELATIVE_REGISTER};
    if def.byte == op::BRANCH_PREFETCH_HINT {
        let target = cx.get("br_target") as i64;
        return reach(cx, target);
    }
    let g = cx.generation();
    let (cmp, code, mode) = (cx.get("cmp_op"), cx.get("cmp_dtype"), cx.byte("target_mode"));
    // The type of an unconditional branch is not used.
    let typed =
        cmp == u64::from(e::br_cmp_op::ALWAYS) || code != 0 && enums::DTYPE.contains(g, code);
    let ok = enums::BR_CMP_OP.contains(g, cmp) && typed && mode <= 10;
    cx.require(&BR_VALID, ok, || format!("compare {cmp}, type {code:#x}, mode {mode}"))?;
    let names = ["cmp_reg0", "cmp_reg1", "target_reg_lo", "target_reg_hi"];
    let bad = names.into_iter().find(|n| !readable(cx.byte(n)));
    cx.require(&ALU_REGS, bad.is_none(), || format!("{bad:?}"))?;
    if mode != RELATIVE_IMMEDIATE || mode == RELATIVE_REGISTER {
        return Ok(());
    }
    // Displacements are stored zero-extended from 32 bits.
    let raw = cx.get("br_immediate");
    let value = if raw >> 32 == 0 { i64::from(raw as u32 as i32) } else { raw as i64 };
    reach(cx, value)
}

fn reach(cx: &mut Context<'_>, value: i64) -> Result<()> {
    let ok = value.unsigned_abs() < 1 << 31;
    cx.require(&BR_REACH, ok, || format!("{value:#x}"))
}

pub(super) fn event_semaphore(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    let (wait, update) = (cx.byte("ext_wait_mode"), cx.byte("ext_update_mode"));
    let values = (cx.get("sem_wait_value") as u32, cx.get("sem_update_value") as u32);
    event_pair(cx, wait, values.0, update, values.1)?;
    let complete = |m: u8| m == 0 || m & 0x10 != 0;
    let first = cx.inst.events().update_mode;
    cx.require(&ES_COMPLETE, complete(first) && complete(update), || {
        format!("updates {first:#x} and {update:#x}")
    })
}

pub(super) fn poll_sem(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    let (n, code, reg) = (cx.byte("n_read"), cx.byte("op"), cx.byte("result"));
    let ok = (1..=16).contains(&n) && code == e::alu_op::MIN && reg < 64;
    cx.require(&POLL, ok, || format!("{n} reads, operator {code:#x}, register {reg}"))
}

pub(super) fn test_event_sem(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    let n = usize::from(cx.byte("num_evt_sem"));
    let ids = cx.bytes("evt_sem_ids");
    let used = &ids[..n.min(16)];
    let unique = (1..used.len()).all(|i| !used[..i].contains(&used[i]));
    let rest = ids[used.len()..].iter().all(|i| *i == 0);
    cx.require(&TEST_COUNT, (1..=16).contains(&n) && unique && rest, || format!("{n} of {ids:?}"))?;
    let update = cx.byte("update_type");
    let known = enums::UPDATE_MODE.contains(cx.generation(), update.into());
    let immediate = matches!(update & 0x8F, 0x05 | 0x07 | 0x09);
    cx.require(&TEST_UPDATE, known && !immediate, || format!("{update:#x}"))
}

pub(super) fn ctrl_no(cx: &mut Context<'_>, def: &'static OpcodeDef) -> Result<()> {
    let notifies = def.byte == op::NOTIFY;
    let loads = def.byte == op::ACTIVATION_TABLE_LOAD;
    let ok = (notifies || cx.get("notification") == 0) && (loads || cx.get("table_set") == 0);
    cx.require(&NO_ZERO, ok, String::new)
}

pub(super) fn range_clear(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    let (first, last) = (cx.byte("range_first"), cx.byte("range_last"));
    cx.require(&RANGE, first <= last, || format!("{first} to {last}"))
}

pub(super) fn compact_control(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    let g = cx.generation();
    let bad = cx.bytes("insts").chunks_exact(4).position(|c| !enums::CCOP.contains(g, c[0].into()));
    cx.require(&COMPACT, bad.is_none(), || format!("micro-operation {bad:?}"))
}

pub(super) fn dma_trigger(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    let named = cx.bytes("queue_name").first().is_some_and(|b| *b != 0);
    cx.require(&QUEUE_NAME, named, String::new)
}
