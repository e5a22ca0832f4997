//! The static legality rules: what a host validator checks before a word is staged
//! (wiki: neuronx-runtime isa/validator-architecture).
//!
//! Every rule is a named [`Rule`]; the error prints its name. [`validate`] stops at the first rule
//! that does not hold, in the order queue, header, events, struct, opcode; [`validate_all`] goes on.
//! Rules about memory, semaphore state or tables loaded at run time are not here.

mod act_pe;
mod common;
mod dma;
mod index;
mod operands;
mod queue;
mod reduce;
mod search;
mod seq;
mod vector;

use std::cell::RefCell;

use rustc_hash::FxHashMap;

use super::defs::{Class, EventsKind, FieldDef, FieldType, Layout, OpcodeDef, Presence, StructDef};
use super::generation::{Engine, Generation};
use super::geometry::Geometry;
use super::inst::Inst;
use super::pattern::Pattern;
use super::tables::op;
use crate::error::{Error, Result};

/// One legality rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// Name printed with the error; the source's own name where it gives one.
    pub name: &'static str,
    /// What must hold.
    pub what: &'static str,
    /// Page.
    pub page: &'static str,
}

/// Declares the rules of a file and the list of them.
macro_rules! rules {
    ($($ident:ident $name:literal $page:literal $what:literal;)*) => {
        $(pub(super) const $ident: super::Rule =
            super::Rule { name: $name, what: $what, page: $page };)*
        pub(super) static RULES: &[&super::Rule] = &[$(&$ident),*];
    };
}
use rules;

/// Every rule, for documentation and tests.
pub fn rules_list() -> impl Iterator<Item = &'static Rule> {
    [
        queue::RULES,
        common::RULES,
        vector::RULES,
        reduce::RULES,
        act_pe::RULES,
        search::RULES,
        dma::RULES,
        seq::RULES,
    ]
    .into_iter()
    .flatten()
    .copied()
}

/// Names of the rules that the structs of `def` have beyond the common ones.
pub fn opcode_rule_names(def: &OpcodeDef) -> Vec<&'static str> {
    if def.presence_in(Generation::V1) != Presence::Absent {
        return match (def.class, def.struct_names) {
            (_, ["PSEUDO_DMA_TRIGGER"]) => vec![seq::QUEUE_NAME.name],
            (Class::Compute, _) => vec![vector::V1_DIVIDE.name],
            _ => Vec::new(),
        };
    }
    let mut names: Vec<_> =
        def.struct_names.iter().flat_map(|s| index::of_struct(s)).map(|r| r.name).collect();
    names.dedup();
    names
}

/// Names of the rules that every opcode has: stream, header, events, fields, operands.
pub fn common_rule_names() -> Vec<&'static str> {
    queue::RULES.iter().chain(common::RULES).map(|r| r.name).collect()
}

/// Whether the stream of `engine` may carry `def` in `generation`.
pub fn queue_legal(def: &OpcodeDef, generation: Generation, engine: Engine) -> bool {
    let device = !matches!(def.class, Class::Pseudo | Class::Simulator | Class::Sentinel);
    device && queue::legal(def, generation, engine)
}

/// Checks `inst` for the stream of `engine`. `strict` also demands zero in reserved bytes and
/// partition spans that start at their own alignment.
///
/// # Errors
/// [`crate::ErrorClass::IllegalInstruction`] with the name of the first rule that does not hold.
pub fn validate(inst: &Inst, engine: Engine, strict: bool) -> Result<()> {
    let mut cx = Context::new(inst, engine, strict, true);
    match run(&mut cx) {
        Err(e) => Err(e),
        Ok(()) => cx.errors.into_iter().next().map_or(Ok(()), Err),
    }
}

/// Whether the verdict of [`validate`] on `inst` depends on the events block only through the
/// rules that every opcode shares. If so, of two words that differ in their events blocks alone
/// and of which one is legal, the other is legal if [`validate_events`] finds nothing.
pub fn judges_events_apart(inst: &Inst) -> bool {
    inst.events_kind() == EventsKind::V2 && !matches!(inst.opcode(), op::EVENT_SEMAPHORE)
}

/// The rules about the events block alone.
///
/// # Errors
/// As [`validate`].
pub fn validate_events(inst: &Inst, engine: Engine, strict: bool) -> Result<()> {
    common::events(&mut Context::new(inst, engine, strict, true))
}

/// Every rule that `inst` breaks; empty if it is legal. Rules that depend on a broken one may be
/// left out.
pub fn validate_all(inst: &Inst, engine: Engine, strict: bool) -> Vec<Error> {
    let mut cx = Context::new(inst, engine, strict, false);
    match run(&mut cx) {
        Ok(()) => cx.errors,
        Err(e) => {
            cx.errors.push(e);
            cx.errors
        }
    }
}

/// Every rule that a record breaks as the host sees it, before the loader lowers pseudo records:
/// [`validate_all`] without the rules about streams.
pub fn validate_host(inst: &Inst, strict: bool) -> Vec<Error> {
    let mut cx = Context::new(inst, Engine::Pool, strict, false);
    cx.host = true;
    match run(&mut cx) {
        Ok(()) => cx.errors,
        Err(e) => {
            cx.errors.push(e);
            cx.errors
        }
    }
}

fn run(cx: &mut Context<'_>) -> Result<()> {
    let def = cx.inst.def()?;
    if !cx.host {
        queue::check(cx, def)?;
    }
    let layout = cx.inst.layout()?;
    cx.layout = Some(layout);
    common::check(cx, def, layout)?;
    if cx.generation() == Generation::V1 {
        vector::check_v1(cx, def)?;
        return if layout.name == "PSEUDO_DMA_TRIGGER" {
            seq::dma_trigger(cx, def)
        } else {
            Ok(())
        };
    }
    let Some(opcode_rules) = opcode_rules(def, layout) else { return Ok(()) };
    opcode_rules(cx, def)
}

type Check = fn(&mut Context<'_>, &'static OpcodeDef) -> Result<()>;

/// The function with the additional conditions of an opcode, chosen by its struct.
fn opcode_rules(_def: &OpcodeDef, layout: &StructDef) -> Option<Check> {
    Some(match layout.name {
        "S3S3D3_TT" => vector::tensor_tensor,
        "EXTENDED_TTA" => vector::extended_tta,
        "S3D3_TS" => vector::tensor_scalar,
        "S2S2D2_STT" => vector::scalar_tensor_tensor,
        "S2D2_ADDR" => vector::tensor_scalar_addr,
        "S3D3_TS_SELECT" => vector::select,
        "S3D3_CP_PRED_SCALAR" => vector::copy_predicated_scalar,
        "S2D2_RS" => vector::range_select,
        "S2D2_TS_AS" => vector::affine_select,
        "D4_IOTA" => vector::iota,
        "S2S2D2D2_TT" | "S2D2D2_TS_WIDE" => vector::int_wide,
        "S4D4_TR" => reduce::tensor_reduce,
        "S4D4_CR" => reduce::cross_lane,
        "S4D4_PL" => reduce::pool,
        "S4D4_TSM" => reduce::ptr_multi,
        "D4_MR" => reduce::fill,
        "S4_PB" => reduce::pool_buffer,
        "CTRL_IM" => reduce::immediates,
        "MODIFY_POOL_CONFIG" => reduce::modify_pool_config,
        "CUSTOM_OP_HEADER" => reduce::custom_op_header,
        "S3D3_AC" | "S3D3_AQ" => act_pe::activate,
        "D1_RD" => act_pe::read_accumulator,
        "S2D2_AC" | "S1S2D2_AM" => act_pe::activate2,
        "S3_LW" | "S3D3_MM" | "S4D3_MM" | "S3_LT" | "SMX1_LW" | "SMX1D3_MM" => act_pe::matmul,
        "S2S1D2_PE_SEED" => act_pe::pe_seed,
        "S3DMX1_QUANT" => act_pe::quantize_mx,
        "S2_CONVLUT" => act_pe::conv_lut,
        "S3D3_SC" | "S2D2D2_SC" => act_pe::sparsity,
        "S3D3_TENS_DEQUANT" => act_pe::dequantize,
        "S4D2_BN" => search::batch_norm,
        "S2_BN" | "S2_BNPL2" => search::param_load,
        "S4D4_MR" => search::match_replace,
        "S3S3D1_BN" | "S3S3D1_BN2" => search::grad_accumulate,
        "S1D2_SORT" => search::sort,
        "S3D3_NONZERO_WITH_COUNT" => search::nonzero,
        "S3D3_SEQ_BOUNDS" => search::sequence_bounds,
        "S1_RAND" => search::rand_set_state,
        "D4_RAND" => search::rand_get_state,
        "D3_RAND" => search::rand2,
        "S3D3_DROPOUT" => search::dropout,
        "S4D4_GT" => search::gather,
        "S4D4_IC" => search::indirect_copy,
        "S3D3_COLLECTIVE" => search::collective,
        "DMA_DIRECT2D" => dma::direct2d,
        "DMA_COPY2D" => dma::copy2d,
        "DMA_IMMEDIATE" => dma::immediate,
        "DMA_INDIRECT1D" => dma::indirect,
        "DMA_DIRECT2D_XPOSE" => dma::transpose,
        "DMA_GATHER_XPOSE" => dma::gather_transpose,
        "MEM_2D" => seq::mem_2d,
        "CTRL_MV" => seq::moves,
        "CTRL_MS" => seq::move_shape,
        "CTRL_AL" => seq::alu_op,
        "CTRL_BR" | "BRANCH_PREFETCH_HINT" => seq::branch,
        "CTRL_ES" => seq::event_semaphore,
        "CTRL_POLL_SEM" => seq::poll_sem,
        "CTRL_TEST_ES" => seq::test_event_sem,
        "CTRL_NO" => seq::ctrl_no,
        "CTRL_ER" => seq::range_clear,
        "CTRL_CCI" => seq::compact_control,
        "PSEUDO_DMA_TRIGGER" => seq::dma_trigger,
        _ => return None,
    })
}

/// Where a struct has a field that a rule asks for: struct, then address and length of the name.
type Found = FxHashMap<(usize, usize, usize), Option<&'static FieldDef>>;

thread_local! {
    static FOUND: RefCell<Found> = RefCell::default();
}

/// [`StructDef::field`], looked up by name once: the rules ask for the same names for every word.
fn found(layout: &'static StructDef, name: &'static str) -> Option<&'static FieldDef> {
    let key = (std::ptr::from_ref(layout).addr(), name.as_ptr().addr(), name.len());
    FOUND.with_borrow_mut(|found| *found.entry(key).or_insert_with(|| layout.field(name)))
}

/// State of one validation.
struct Context<'a> {
    inst: &'a Inst,
    engine: Engine,
    strict: bool,
    first_only: bool,
    host: bool,
    layout: Option<&'static StructDef>,
    geometry: Geometry,
    errors: Vec<Error>,
}

impl<'a> Context<'a> {
    fn new(inst: &'a Inst, engine: Engine, strict: bool, first_only: bool) -> Self {
        let geometry = Geometry::of(inst.generation);
        Context {
            inst,
            engine,
            strict,
            first_only,
            host: false,
            layout: None,
            geometry,
            errors: Vec::new(),
        }
    }

    fn generation(&self) -> Generation {
        self.inst.generation
    }

    fn form(&self) -> Layout {
        self.inst.form()
    }

    /// Notes a broken rule. With `first_only` the error goes up at once.
    fn require(
        &mut self,
        rule: &'static Rule,
        holds: bool,
        why: impl FnOnce() -> String,
    ) -> Result<()> {
        if holds {
            return Ok(());
        }
        let name = self.inst.def().map_or("?", |d| d.name);
        let detail = why();
        let message = if detail.is_empty() {
            format!("{name}: {}", rule.what)
        } else {
            format!("{name}: {}; {detail}", rule.what)
        };
        let error = Error::illegal(rule.name, message);
        if self.first_only {
            return Err(error);
        }
        self.errors.push(error);
        Ok(())
    }

    fn field(&self, name: &'static str) -> Option<&'static FieldDef> {
        found(self.layout?, name)
    }

    /// Value of a field of at most 8 bytes; 0 if this form does not have it.
    fn get(&self, name: &'static str) -> u64 {
        self.field(name).map_or(0, |f| {
            let mut le = [0; 8];
            let raw = self.inst.raw(f);
            let n = raw.len().min(8);
            le[..n].copy_from_slice(&raw[..n]);
            u64::from_le_bytes(le)
        })
    }

    fn byte(&self, name: &'static str) -> u8 {
        self.get(name) as u8
    }

    fn f32(&self, name: &'static str) -> f32 {
        f32::from_bits(self.get(name) as u32)
    }

    fn bytes(&self, name: &'static str) -> &'a [u8] {
        self.field(name).map_or(&[], |f| self.inst.raw(f))
    }

    /// Low and high nibble of a pair-coded byte.
    fn pair(&self, name: &'static str) -> (u8, u8) {
        let b = self.byte(name);
        (b & 0xF, b >> 4)
    }

    fn pattern(&self, name: &'static str) -> Option<Pattern> {
        let field = self.field(name)?;
        matches!(field.ty_in(self.form()), FieldType::Pattern(_))
            .then(|| self.inst.pattern_of(field).ok())
            .flatten()
    }

    /// Element count of a plain pattern with an immediate shape; `None` when it is not static.
    fn count(&self, name: &'static str) -> Option<u64> {
        match self.pattern(name)? {
            Pattern::Tensor(t) if !t.addr.shape_from_register() => Some(t.count()),
            Pattern::Data { dims, .. } => Some(dims.iter().map(|&(_, n)| u64::from(n)).product()),
            _ => None,
        }
    }

    /// Counts per dimension of a plain pattern with an immediate shape.
    fn nums(&self, name: &'static str) -> Option<Vec<u16>> {
        match self.pattern(name)? {
            Pattern::Tensor(t) if !t.addr.shape_from_register() => {
                Some(t.dims.iter().map(|&(_, n)| n).collect())
            }
            _ => None,
        }
    }

    /// Steps per dimension, as [`Context::nums`].
    fn steps(&self, name: &'static str) -> Option<Vec<i16>> {
        match self.pattern(name)? {
            Pattern::Tensor(t) if !t.addr.shape_from_register() => {
                Some(t.dims.iter().map(|&(s, _)| s).collect())
            }
            _ => None,
        }
    }
}
