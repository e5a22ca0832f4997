//! A program made ready to run: words decoded once, pseudo instructions lowered as the runtime
//! lowers them, DMA blocks turned into transfers.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::dma::block_transfers;
use super::sp::SpWord;
use crate::engine::libraries::{CUSTOM_OP_HEADER, CUSTOM_OP_PAYLOAD};
use crate::engine::{self, PrepareFn, Status, Transfer};
use crate::error::{Error, Location, Result};
use crate::isa::inst::INST_BYTES;
use crate::isa::validate::{judges_events_apart, validate_events};
use crate::isa::{Engine, Generation, Inst, StreamFormat, f, op, op_v1};
use crate::machine::config::MachineConfig;
use crate::program::lower::{self, Lowered};
use crate::program::{self, Program};
use crate::sync::{Operand, Sync, SyncId, Update, UpdateKind, When};

/// What the sequencer does with a word.
#[derive(Clone)]
pub enum Kind {
    /// Executed by the sequencer itself.
    Control,
    /// Handed to the data path.
    Data(PrepareFn),
    /// Starts a DMA block: queue and block index. What PSEUDO_DMA_TRIGGER becomes.
    Trigger(usize, usize),
    /// A timed stall. What PSEUDO_DMABARRIER becomes: NOP(NUM_ROWS).
    DmaBarrier,
    /// A branch label: nothing, in no time.
    Label,
    /// End of the stream.
    End,
    /// A word that only a simulator executes.
    Sim(Arc<super::sim::SimOp>),
    /// Cannot be executed.
    Refuse(Arc<Error>),
}

/// One decoded word.
#[derive(Clone)]
pub struct Word {
    /// The word.
    pub inst: Inst,
    /// Its waits and updates.
    pub sync: Sync,
    /// What it is.
    pub kind: Kind,
    /// Number of its payload (the word without its events block) in [`Image::shared`].
    pub payload: u32,
}

/// Payload of words that never become works.
const NO_PAYLOAD: u32 = u32::MAX;

/// A DMA block ready to run.
pub struct Block {
    /// Position of its queue.
    pub queue: usize,
    /// Transfers in order.
    pub transfers: Vec<Transfer>,
    /// Updates when the last byte is written.
    pub updates: Vec<Update>,
}

/// A program ready to run.
pub struct Image {
    /// Generation.
    pub generation: Generation,
    /// Words per engine, by engine number.
    pub words: [Vec<Word>; 5],
    /// Per engine and payload, whether several words have it.
    pub shared: [Vec<bool>; 5],
    /// The V1 SP program.
    pub sp: Vec<SpWord>,
    /// Names of the DMA queues: the program's, then one per engine for its DMA instructions.
    pub queues: Vec<String>,
    /// DMA blocks.
    pub blocks: Vec<Block>,
    /// Whether the course or the length of a run may depend on data in the memories.
    pub needs_data: bool,
    /// First word of POOL that loads a library.
    pub first_library: Option<usize>,
}

impl Image {
    /// Decodes and lowers `program`. With `strict`, every word must pass the validators.
    ///
    /// # Errors
    /// The first illegal word, with its place; errors of DMA blocks.
    pub fn new(program: &Program, config: &MachineConfig, strict: bool) -> Result<Image> {
        let mut image = Image {
            generation: program.generation,
            words: Default::default(),
            shared: Default::default(),
            sp: Vec::new(),
            queues: program
                .queues
                .iter()
                .map(|q| q.name.clone())
                .chain(Engine::ALL.iter().map(|e| format!("dge-{e}")))
                .collect(),
            blocks: Vec::new(),
            needs_data: false,
            first_library: None,
        };
        for block in &program.blocks {
            let at = || {
                let name = block.name.clone().unwrap_or_else(|| block.id.to_string());
                Location {
                    stream: program.queues.get(block.queue).map(|q| format!("queue {}", q.name)),
                    source: program.source_of(block.line),
                    disassembly: Some(format!("block {name}")),
                    ..Location::default()
                }
            };
            let transfers = block_transfers(block, config).map_err(|e| e.or_at(&at()))?;
            let updates = block.on_done.iter().map(done_update).collect();
            image.blocks.push(Block { queue: block.queue, transfers, updates });
        }
        let mut payloads = Payloads { strict, ..Payloads::default() };
        for stream in &program.streams {
            image.words[stream.engine.index()].reserve_exact(stream.words.len());
            for (pc, bytes) in stream.words.iter().enumerate() {
                let inst = if program.v1_events8 && program.generation == Generation::V1 {
                    Inst::new_wide_v1(*bytes)
                } else {
                    Inst::new(program.generation, *bytes)
                };
                let word = decode(
                    inst,
                    (&stream.words, pc),
                    stream.engine,
                    program,
                    &mut payloads,
                    &mut image.shared[stream.engine.index()],
                );
                let word = word.map_err(|e| {
                    e.or_at(&Location {
                        generation: Some(program.generation.to_string()),
                        stream: Some(stream.engine.to_string()),
                        pc: Some(pc as u64),
                        source: program.source_of(stream.line(pc)),
                        disassembly: Some(super::image::disassemble(&inst)),
                        ..Location::default()
                    })
                })?;
                if stream.engine == Engine::Pool && inst.opcode() == op::MODIFY_POOL_CONFIG {
                    image.first_library.get_or_insert(pc);
                }
                image.needs_data |= needs_data(&inst, stream.engine);
                image.words[stream.engine.index()].push(word);
            }
        }
        image.sp = super::sp::decode(&program.v1_sp.words)?;
        Ok(image)
    }
}

fn semaphore_add(index: u32, amount: u32) -> Update {
    Update {
        id: SyncId::Semaphore(index as u16),
        kind: UpdateKind::Add(Operand::Immediate(amount)),
        when: When::Complete,
    }
}

fn done_update(update: &program::Update) -> Update {
    use program::Update as U;
    let (id, kind) = match *update {
        U::SemaphoreAdd { index, amount } => return semaphore_add(index, amount),
        U::SemaphoreSub { index, amount } => {
            (SyncId::Semaphore(index as u16), UpdateKind::Sub(Operand::Immediate(amount)))
        }
        U::SemaphoreSet { index, value } => {
            (SyncId::Semaphore(index as u16), UpdateKind::Write(Operand::Immediate(value)))
        }
        U::EventSet { index } => (SyncId::Event(index as u16), UpdateKind::Set),
        U::EventClear { index } => (SyncId::Event(index as u16), UpdateKind::Clear),
    };
    Update { id, kind, when: When::Complete }
}

/// Whether a word's course or duration may come out of data in the memories: a register loaded from
/// memory, or library code that runs on it.
fn needs_data(inst: &Inst, engine: Engine) -> bool {
    let byte = inst.opcode();
    match inst.generation {
        Generation::V1 => false,
        _ if matches!(byte, op::TENSOR_LOAD | op::COMPACT_CONTROL_INST) => true,
        _ => {
            let loads = byte == op::MODIFY_POOL_CONFIG;
            engine == Engine::Pool && (loads || LIBRARY_OPCODES.contains(&byte))
        }
    }
}

/// Opcodes whose words a loaded library may define: extended instructions and custom operations.
pub(super) const LIBRARY_OPCODES: [u8; 3] = [0xF0, CUSTOM_OP_HEADER, CUSTOM_OP_PAYLOAD];

/// Words remembered as legal; programs repeat themselves, but not for ever.
const REMEMBERED: usize = 1 << 16;

/// Numbers the payloads of legal words: words that differ in their events blocks alone, as most
/// words of an unrolled loop do, share one, and it is validated and prepared once.
#[derive(Default)]
struct Payloads {
    strict: bool,
    known: FxHashMap<(Engine, [u8; INST_BYTES]), u32>,
}

impl Payloads {
    /// The number of a legal word's payload among those of its engine, in `shared`.
    ///
    /// # Errors
    /// What [`crate::isa::validate`] says about the word.
    fn number(&mut self, inst: &Inst, engine: Engine, shared: &mut Vec<bool>) -> Result<u32> {
        let mut key = (engine, inst.bytes);
        let apart = judges_events_apart(inst);
        if apart {
            key.1[4..12].fill(0);
        }
        if let Some(number) = self.known.get(&key) {
            if apart {
                validate_events(inst, engine, self.strict)?;
            }
            shared[*number as usize] = true;
            return Ok(*number);
        }
        crate::isa::validate(inst, engine, self.strict)?;
        if self.known.len() >= REMEMBERED {
            self.known.clear();
        }
        let number = shared.len() as u32;
        self.known.insert(key, number);
        shared.push(false);
        Ok(number)
    }
}

fn decode(
    inst: Inst,
    (words, pc): (&[[u8; INST_BYTES]], usize),
    engine: Engine,
    program: &Program,
    payloads: &mut Payloads,
    shared: &mut Vec<bool>,
) -> Result<Word> {
    let strict = payloads.strict;
    let word = |sync, kind, payload| Ok(Word { inst, sync, kind, payload });
    let refuse = |e: Error| word(Sync::default(), Kind::Refuse(Arc::new(e)), NO_PAYLOAD);
    let def = match inst.def() {
        Ok(def) => def,
        Err(e) if strict => return Err(e),
        Err(e) => return refuse(e),
    };
    let lowered = match lower::lower(program, words, pc)? {
        Lowered::Word => None,
        Lowered::Nothing => Some(Kind::Label),
        Lowered::DmaTrigger { queue, block } => Some(Kind::Trigger(queue, block)),
        Lowered::DmaBarrier => Some(Kind::DmaBarrier),
        Lowered::End => Some(Kind::End),
        Lowered::Replace(bytes) => {
            let format =
                StreamFormat { generation: program.generation, wide_events: program.v1_events8 };
            let alone = (&[bytes][..], 0);
            return decode(format.word(bytes), alone, engine, program, payloads, shared);
        }
    };
    if let Some(kind) = lowered {
        let sync = Sync::decode(inst.generation, program.v1_events8, &inst.events())?;
        return word(sync, kind, NO_PAYLOAD);
    }
    // no rule of the hardware knows these
    let sim = super::sim::SimOp::decode(&inst).and_then(|op| {
        let sync = op.is_some().then(|| decode_sync(&inst, program.v1_events8)).transpose()?;
        Ok(op.zip(sync))
    });
    match sim {
        Ok(Some((op, sync))) => return word(sync, Kind::Sim(Arc::new(op)), NO_PAYLOAD),
        Ok(None) => {}
        Err(e) if strict => return Err(e),
        Err(e) => return refuse(e),
    }
    let check = payloads.number(&inst, engine, shared);
    let events = decode_sync(&inst, program.v1_events8);
    // a library may give these a meaning of its own: they are judged when they are reached
    let library = engine == Engine::Pool && LIBRARY_OPCODES.contains(&def.byte);
    if let (true, Err(e), Ok(sync)) = (library, &check, &events) {
        return word(sync.clone(), Kind::Refuse(Arc::new(e.clone())), NO_PAYLOAD);
    }
    let (payload, sync) = match check.and_then(|payload| Ok((payload, events?))) {
        Ok(both) => both,
        Err(e) if strict => return Err(e),
        Err(e) => return refuse(e),
    };
    let kind = if super::control::is_control(inst.generation, def.byte) {
        Kind::Control
    } else {
        match engine::lookup(inst.generation, def.byte, def.name).map(|op| op.status) {
            Some(Status::Done(prepare)) => Kind::Data(prepare),
            Some(other) => Kind::Refuse(Arc::new(
                other
                    .refusal(def.name, def.byte)
                    .unwrap_or_else(|| Error::internal("an opcode that executes has no refusal")),
            )),
            None => Kind::Refuse(Arc::new(Error::unimplemented(format!(
                "{} {:#04x} is not implemented yet",
                def.name, def.byte
            )))),
        }
    };
    word(sync, kind, payload)
}

fn decode_sync(inst: &Inst, events8: bool) -> Result<Sync> {
    let mut sync = Sync::decode(inst.generation, events8, &inst.events())?;
    if inst.generation == Generation::V1 {
        explicit_v1(inst, &mut sync)?;
    }
    if inst.generation != Generation::V1 && inst.opcode() == op::EVENT_SEMAPHORE {
        let byte = |field| inst.get(field) as u8;
        sync.add_wait(
            inst.generation,
            byte(f::ctrl_es::EXT_WAIT_MODE),
            byte(f::ctrl_es::EXT_WAIT_IDX),
            inst.get(f::ctrl_es::SEM_WAIT_VALUE) as u32,
        )?;
        sync.add_update(
            inst.generation,
            byte(f::ctrl_es::EXT_UPDATE_MODE),
            byte(f::ctrl_es::EXT_UPDATE_IDX),
            inst.get(f::ctrl_es::SEM_UPDATE_VALUE) as u32,
        )?;
    }
    if inst.generation == Generation::V5
        && matches!(inst.opcode(), op::DMA_MEMCPY2 | op::DMA_IMMEDIATE)
    {
        // both have the wait at the same place, where other words have their events
        sync.add_wait(
            inst.generation,
            inst.get(f::dma_copy2d::WAIT_SEMA_MODE) as u8,
            inst.get(f::dma_copy2d::WAIT_SEMA_IDX) as u8,
            inst.get(f::dma_copy2d::WAIT_SEMA_VALUE) as u32,
        )?;
    }
    Ok(sync)
}

/// Adds what the explicit V1 instructions wait for and change beyond their embedded events.
/// (wiki: neff/seq-microcode 2.1)
fn explicit_v1(inst: &Inst, sync: &mut Sync) -> Result<()> {
    use crate::sync::{Compare, EventAction, Wait};
    let byte = |field| inst.get(field) as u8;
    match inst.opcode() {
        op_v1::EVENT_WAIT => {
            let event = u16::from(byte(f::v1_event_wait::EVENT_IDX));
            match byte(f::v1_event_wait::WAIT_MODE_ARG) {
                0 => {}
                1 => sync.waits.push(Wait::Event(event, true, EventAction::Keep)),
                2 => sync.waits.push(Wait::Event(event, true, EventAction::Flip)),
                m => {
                    return Err(Error::illegal(
                        "valid_event_modes",
                        format!("EVENT_WAIT mode {m}"),
                    ));
                }
            }
        }
        op_v1::EVENT_SET | op_v1::EVENT_CLEAR => {
            let set = inst.opcode() == op_v1::EVENT_SET;
            sync.updates.push(Update {
                id: SyncId::Event(u16::from(byte(f::v1_event::EVENT_IDX))),
                kind: if set { UpdateKind::Set } else { UpdateKind::Clear },
                when: When::Complete,
            });
        }
        op_v1::SEMAPHORE_TEST_AND_SET => {
            use f::v1_semaphore_test_and_set as l;
            let compare = Compare::from_code(byte(l::WAIT_COND)).ok_or_else(|| {
                Error::illegal("v1_wait_cond", format!("condition {}", byte(l::WAIT_COND)))
            })?;
            let value = Operand::Immediate(inst.get(l::WAIT_VALUE) as u32);
            sync.waits.push(Wait::Semaphore(u16::from(byte(l::SEMAPHORE_ID)), compare, value));
        }
        _ => {}
    }
    Ok(())
}

/// The instruction in assembly syntax.
pub fn disassemble(inst: &Inst) -> String {
    crate::isa::text::inst::print(inst.form(), &inst.bytes)
}
