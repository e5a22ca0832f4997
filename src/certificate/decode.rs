//! What each stream of a program executes and touches, read from its words.
//!
//! A small interpreter of sequencers: registers, branches and counters that depend on nothing but
//! the program. An instruction that looks at memory, events or semaphores to decide what follows is
//! refused, and so is one that this reader does not know.

use std::sync::Arc;

use crate::engine::libraries::{CUSTOM_OP_HEADER, CUSTOM_OP_PAYLOAD};
use crate::engine::{self, Env, Prepared, Status};
use crate::error::{Error, Result};
use crate::isa::{Engine, EventsKind, Generation, Inst, f, op, op_v1};
use crate::machine::address::{self, Place};
use crate::machine::dma::block_transfers;
use crate::machine::sp::SpWord;
use crate::machine::{MachineConfig, Options, Races};
use crate::machine::{scalar, sp};
use crate::memory::{Access, ByteSet, Region};
use crate::program::lower::{Lowered, lower};
use crate::program::{self, Program};

use super::refused;

/// Instructions of one stream beyond which it is refused.
const MOST_STEPS: usize = 100_000;

/// Cycles after which a run of library code is given up.
const MOST_CYCLES: u64 = 1_000_000_000;

/// An event (`false`) or a semaphore (`true`) and its number.
pub type Name = (bool, u16);

/// A condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// At least so much; for an event 1, set.
    AtLeast(u64),
    /// Exactly so much.
    Exactly(u64),
    /// The event is set, and is cleared by the wait.
    Consume,
    /// Anything that a growing value can make false.
    Inverse,
}

/// A change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Do {
    /// Counts up.
    Add(u64),
    /// Counts down.
    Sub(u64),
    /// Writes; 1 and 0 for events.
    Write(u64),
}

/// An update of an instruction.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// Of what.
    pub name: Name,
    /// What.
    pub act: Do,
    /// When the results are there (`false`: when the sources are read).
    pub late: bool,
}

/// A DMA job.
#[derive(Clone, Debug)]
pub struct Job {
    /// Index of its queue.
    pub queue: usize,
    /// Accesses of each transfer, in order.
    pub transfers: Vec<Vec<Access>>,
    /// Updates at its end.
    pub updates: Vec<(Name, Do)>,
}

/// One executed instruction.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// Word in its stream.
    pub pc: usize,
    /// Conditions that must hold together.
    pub waits: Vec<(Name, Ask)>,
    /// Accesses on the data path, if it uses that.
    pub data: Option<Vec<Access>>,
    /// Whether it waits for the data path before it acts.
    pub drains: bool,
    /// Accesses that the sequencer makes itself.
    pub touches: Vec<Access>,
    /// Changes that the sequencer makes itself.
    pub instants: Vec<(Name, Do)>,
    /// Updates.
    pub updates: Vec<Change>,
    /// Job that it rings for.
    pub job: Option<Job>,
    /// Whether it waits until the last partition of older works has caught up with the first.
    pub barrier: bool,
}

/// What a program executes.
pub struct Facts {
    /// Steps of each engine, by number.
    pub streams: Vec<Vec<Step>>,
    /// Names of the queues.
    pub queues: Vec<String>,
}

/// Whether `program` loads code into the Q7 cores. What that touches depends on data.
pub fn loads_libraries(program: &Program) -> bool {
    let modifies = |w: &[u8; 64]| w[0] == op::MODIFY_POOL_CONFIG;
    program.generation != Generation::V1
        && program.stream(Engine::Pool).is_some_and(|s| s.words.iter().any(modifies))
}

/// What library code touches, with the number of its instruction in POOL, in order. The cores are run for
/// that, once, in the order of simulated starts: if what they touch there is ordered against all
/// other accesses, they read the same bytes in every schedule.
fn library_touches(program: &Program, config: &MachineConfig) -> Result<Vec<(u64, Arc<[Access]>)>> {
    if !loads_libraries(program) {
        return Ok(Vec::new());
    }
    let options = || Options {
        races: Races::Ignore,
        library_touches: true,
        max_cycles: Some(MOST_CYCLES),
        ..Options::default()
    };
    let (program, config) = (Arc::new(program.clone()), Arc::new(config.clone()));
    let result = crate::machine::run(program, config, options, |_, _| Vec::new(), false)?;
    match result.finished.error {
        Some(error) => Err(refused(format!("the library code cannot be run: {error}"))),
        None => Ok(result.machine.library_touches().to_vec()),
    }
}

/// Reads `program`.
///
/// # Errors
/// Words that are not legal, not known here, or that let data or the schedule decide.
pub fn decode(program: &Program, config: &MachineConfig) -> Result<Facts> {
    let named = program.queues.iter().map(|q| q.name.clone());
    let queues: Vec<String> = named.chain(Engine::ALL.iter().map(|e| format!("dge-{e}"))).collect();
    let mut blocks = Vec::new();
    for block in &program.blocks {
        let transfers = block_transfers(block, config)?;
        let transfers = transfers.into_iter().map(|t| t.work.accesses.to_vec()).collect();
        let updates = block.on_done.iter().map(done).collect();
        blocks.push(Job { queue: block.queue, transfers, updates });
    }
    let touches = library_touches(program, config)?;
    let mut streams = Vec::new();
    for engine in Engine::ALL {
        let sp = engine == Engine::Sp && !program.v1_sp.words.is_empty();
        let mut reader = Reader {
            program,
            config,
            engine,
            blocks: &blocks,
            touches: if engine == Engine::Pool { &touches } else { &[] },
            registers: [0; 64],
            steps: Vec::new(),
        };
        if sp {
            reader.sp_program()?;
        } else {
            reader.stream()?;
        }
        if !reader.touches.is_empty() {
            return Err(refused("the library code ran elsewhere than the words say"));
        }
        streams.push(reader.steps);
    }
    Ok(Facts { streams, queues })
}

fn done(update: &program::Update) -> (Name, Do) {
    use program::Update as U;
    match *update {
        U::SemaphoreAdd { index, amount } => ((true, index as u16), Do::Add(amount.into())),
        U::SemaphoreSub { index, amount } => ((true, index as u16), Do::Sub(amount.into())),
        U::SemaphoreSet { index, value } => ((true, index as u16), Do::Write(value.into())),
        U::EventSet { index } => ((false, index as u16), Do::Write(1)),
        U::EventClear { index } => ((false, index as u16), Do::Write(0)),
    }
}

struct Reader<'a> {
    program: &'a Program,
    config: &'a MachineConfig,
    engine: Engine,
    blocks: &'a [Job],
    /// What the library code that comes next touches.
    touches: &'a [(u64, Arc<[Access]>)],
    registers: [u32; 64],
    steps: Vec<Step>,
}

impl Reader<'_> {
    fn refuse<T>(&self, pc: usize, why: impl std::fmt::Display) -> Result<T> {
        Err(refused(format!("{} pc {pc}: {why}", self.engine)))
    }

    fn register(&self, r: u8) -> Result<u64> {
        self.registers
            .get(usize::from(r))
            .map(|v| u64::from(*v))
            .ok_or_else(|| refused(format!("there is no register R{r}")))
    }

    fn push(&mut self, step: Step) -> Result<()> {
        if self.steps.len() >= MOST_STEPS {
            return self.refuse(step.pc, format!("more than {MOST_STEPS} instructions"));
        }
        self.steps.push(step);
        Ok(())
    }

    fn stream(&mut self) -> Result<()> {
        let Some(stream) = self.program.stream(self.engine) else { return Ok(()) };
        let mut pc = 0;
        while let Some(bytes) = stream.words.get(pc) {
            let mut step = Step { pc, ..Step::default() };
            let wide = self.program.v1_events8 && self.program.generation == Generation::V1;
            let (bytes, lowered) = match lower(self.program, &stream.words, pc)? {
                Lowered::Replace(word) => (word, lower(self.program, &[word], 0)?),
                lowered => (*bytes, lowered),
            };
            let inst = match wide {
                true => Inst::new_wide_v1(bytes),
                false => Inst::new(self.program.generation, bytes),
            };
            let mut next = Some(pc + 1);
            match lowered {
                Lowered::Replace(_) => {
                    return self.refuse(pc, "a replaced word is replaced again".to_owned());
                }
                Lowered::Nothing => {}
                Lowered::DmaTrigger { block, .. } => {
                    self.events(&inst, &mut step)?;
                    step.drains = self.config.sequencer.doorbell_drains;
                    step.job = self.blocks.get(block).cloned();
                }
                Lowered::DmaBarrier => {
                    self.events(&inst, &mut step)?;
                    step.barrier = true;
                }
                Lowered::End => {
                    self.events(&inst, &mut step)?;
                    step.drains = true;
                    next = None;
                }
                Lowered::Word
                    if self
                        .touches
                        .first()
                        .is_some_and(|(at, _)| *at == self.steps.len() as u64) =>
                {
                    self.events(&inst, &mut step)?;
                    step.data = Some(self.touches[0].1.to_vec());
                    self.touches = &self.touches[1..];
                    if inst.opcode() == CUSTOM_OP_HEADER {
                        let payload = |w: &&[u8; 64]| w[0] == CUSTOM_OP_PAYLOAD;
                        let count = stream.words[pc + 1..].iter().take_while(payload).count();
                        // they are part of this instruction
                        next = Some(pc + count + 1);
                    }
                }
                Lowered::Word => {
                    self.events(&inst, &mut step)?;
                    next = if self.program.generation == Generation::V1 {
                        self.word_v1(&inst, pc, &mut step)?
                    } else {
                        self.word(&inst, pc, &mut step, stream.words.len())?
                    };
                }
            }
            self.push(step)?;
            match next {
                Some(n) => pc = n,
                None => break,
            }
        }
        Ok(())
    }

    /// The events block: bytes 4 to 7, with a 32-bit value behind it except in the short form.
    fn events(&self, inst: &Inst, step: &mut Step) -> Result<()> {
        let [wait, wait_of, update, update_of] = [4, 5, 6, 7].map(|at| inst.bytes[at]);
        match inst.events_kind() {
            EventsKind::None => Ok(()),
            EventsKind::V1 => {
                match wait {
                    0 => {}
                    1 => step.waits.push(((false, wait_of.into()), Ask::AtLeast(1))),
                    2 => step.waits.push(((false, wait_of.into()), Ask::Consume)),
                    m => return self.refuse(step.pc, format!("wait mode {m}")),
                }
                match update {
                    0 => {}
                    1..=3 => step.updates.push(Change {
                        name: (false, update_of.into()),
                        act: Do::Write(1),
                        late: update > 1,
                    }),
                    m => return self.refuse(step.pc, format!("update mode {m}")),
                }
                Ok(())
            }
            EventsKind::V2 => {
                let value = u32::from_le_bytes([8, 9, 10, 11].map(|at| inst.bytes[at]));
                self.wait(step, wait, wait_of, value)?;
                self.update(step, update, update_of, value)
            }
        }
    }

    fn wait(&self, step: &mut Step, mode: u8, of: u8, value: u32) -> Result<()> {
        let of = u16::from(of);
        let number = match mode {
            0 => return Ok(()),
            1..=5 => u64::from(value),
            0x81..=0x85 => self.register(value as u8)?,
            0x91..=0x95 => {
                let base = self.register(value as u8)? as u32;
                u64::from(base.wrapping_add(value >> 8))
            }
            6 | 7 | 0x0E | 0x0F => 0,
            m => return self.refuse(step.pc, format!("wait mode {m:#04x}")),
        };
        step.waits.push(match mode {
            6 => ((false, of), Ask::AtLeast(1)),
            7 => ((false, of), Ask::Consume),
            0x0E | 0x0F => ((false, of), Ask::Inverse),
            _ => {
                let ask = match mode & 0x0F {
                    1 => Ask::Exactly(number),
                    4 => Ask::AtLeast(number + 1),
                    5 => Ask::AtLeast(number),
                    _ => Ask::Inverse,
                };
                ((true, of), ask)
            }
        });
        Ok(())
    }

    fn update(&self, step: &mut Step, mode: u8, of: u8, value: u32) -> Result<()> {
        if mode == 0 {
            return Ok(());
        }
        let (late, register) = (mode & 0x10 != 0, mode & 0x80 != 0);
        let what = mode & 0x6F;
        // a data path reads the register when the work starts, which may be later than here
        if register {
            return self.refuse(step.pc, "an update by a register");
        }
        let (semaphore, act) = match what {
            1 => (false, Do::Write(1)),
            2 => (false, Do::Write(0)),
            3 => (true, Do::Add(1)),
            4 => (true, Do::Sub(1)),
            5 => (true, Do::Add(value.into())),
            7 => (true, Do::Sub(value.into())),
            9 => (true, Do::Write(value.into())),
            m => return self.refuse(step.pc, format!("update mode {m}")),
        };
        step.updates.push(Change { name: (semaphore, of.into()), act, late });
        Ok(())
    }

    fn word_v1(&mut self, inst: &Inst, pc: usize, step: &mut Step) -> Result<Option<usize>> {
        let byte = |field| inst.get(field) as u8;
        match inst.opcode() {
            op_v1::NOP | op_v1::NOTIFY => {}
            op_v1::EVENT_WAIT => {
                let event = (false, u16::from(byte(f::v1_event_wait::EVENT_IDX)));
                match byte(f::v1_event_wait::WAIT_MODE_ARG) {
                    0 => {}
                    1 => step.waits.push((event, Ask::AtLeast(1))),
                    2 => step.waits.push((event, Ask::Consume)),
                    m => return self.refuse(pc, format!("wait mode {m}")),
                }
            }
            op_v1::EVENT_SET | op_v1::EVENT_CLEAR => step.updates.push(Change {
                name: (false, u16::from(byte(f::v1_event::EVENT_IDX))),
                act: Do::Write(u64::from(inst.opcode() == op_v1::EVENT_SET)),
                late: true,
            }),
            op_v1::SEMAPHORE_TEST_AND_SET => {
                use f::v1_semaphore_test_and_set as l;
                let value = inst.get(l::WAIT_VALUE) as u32;
                let mode = byte(l::WAIT_COND);
                if !(1..=5).contains(&mode) {
                    return self.refuse(pc, format!("wait condition {mode}"));
                }
                self.wait(step, mode, byte(l::SEMAPHORE_ID), value)?;
            }
            op_v1::WRITE => self.store(
                step,
                inst.get(f::v1_write::ADDRESS),
                inst.get(f::v1_write::DATA),
                inst.get(f::v1_write::SIZE),
            )?,
            _ => self.data(inst, pc, step)?,
        }
        Ok(Some(pc + 1))
    }

    fn word(
        &mut self,
        inst: &Inst,
        pc: usize,
        step: &mut Step,
        len: usize,
    ) -> Result<Option<usize>> {
        let byte = |field| inst.get(field) as u8;
        match inst.opcode() {
            op::NOP
            | op::INSTRUCTION_FLUSH
            | op::BRANCH_PREFETCH_HINT
            | op::SET_ORDERING_MODE
            | op::NOTIFY => {}
            op::DRAIN => step.drains = true,
            op::HALT => return Ok(None),
            op::EVENT_SEMAPHORE => {
                let (mode, of) = (byte(f::ctrl_es::EXT_WAIT_MODE), byte(f::ctrl_es::EXT_WAIT_IDX));
                self.wait(step, mode, of, inst.get(f::ctrl_es::SEM_WAIT_VALUE) as u32)?;
                let mode = byte(f::ctrl_es::EXT_UPDATE_MODE);
                let of = byte(f::ctrl_es::EXT_UPDATE_IDX);
                self.update(step, mode, of, inst.get(f::ctrl_es::SEM_UPDATE_VALUE) as u32)?;
            }
            op::MOVE => self.moves(inst, pc)?,
            op::ALU_OP => scalar::alu_op(&mut self.registers, inst)?,
            op::COMPARE_BRANCH => {
                let target = scalar::branch(&self.registers, inst, pc, len)?.unwrap_or(pc + 1);
                return Ok(Some(target));
            }
            op::WRITE => self.store(
                step,
                inst.get(f::ctrl_wr::ADDRESS),
                inst.get(f::ctrl_wr::DATA),
                inst.get(f::ctrl_wr::SIZE),
            )?,
            op::EVENT_SEMAPHORE_RANGE_CLEAR => {
                let get = |field| inst.get(field) as u16;
                for i in get(f::ctrl_er::RANGE_FIRST)..=get(f::ctrl_er::RANGE_LAST) {
                    step.instants.push(((true, i), Do::Write(0)));
                    step.instants.push(((false, i), Do::Write(0)));
                }
            }
            op::TENSOR_LOAD
            | op::TENSOR_STORE
            | op::POLL_SEM
            | op::TEST_EVENT_SEM
            | op::COMPACT_CONTROL_INST
            | op::MOVE_SHAPE => {
                return self.refuse(pc, format!("opcode {:#04x} is not covered", inst.opcode()));
            }
            opcode => {
                let dma = matches!(opcode, op::DMA_MEMCPY2 | op::DMA_IMMEDIATE);
                if inst.generation == Generation::V5 && dma {
                    let mode = byte(f::dma_copy2d::WAIT_SEMA_MODE);
                    let of = byte(f::dma_copy2d::WAIT_SEMA_IDX);
                    self.wait(step, mode, of, inst.get(f::dma_copy2d::WAIT_SEMA_VALUE) as u32)?;
                }
                self.data(inst, pc, step)?;
            }
        }
        Ok(Some(pc + 1))
    }

    fn moves(&mut self, inst: &Inst, pc: usize) -> Result<()> {
        let count = (inst.get(f::ctrl_mv::NUM_MOV) as usize).min(8);
        let (from, to) =
            (inst.slice(f::ctrl_mv::SRC_REGISTERS), inst.slice(f::ctrl_mv::DST_REGISTERS));
        let immediates = inst.slice(f::ctrl_mv::IMMEDIATE);
        let old = self.registers;
        for k in 0..count {
            let value = if inst.get(f::ctrl_mv::MOVE_SOURCE) == 1 {
                u32::from_le_bytes([0, 1, 2, 3].map(|b| immediates[4 * k + b]))
            } else {
                match from[k] {
                    // the address of the word itself
                    128 => pc as u32 * 64,
                    129 => 0,
                    r => match old.get(usize::from(r)) {
                        Some(v) => *v,
                        None => return self.refuse(pc, format!("there is no register R{r}")),
                    },
                }
            };
            match self.registers.get_mut(usize::from(to[k])) {
                Some(register) => *register = value,
                None if matches!(to[k], 128 | 129) => {}
                None => return self.refuse(pc, format!("there is no register R{}", to[k])),
            }
        }
        Ok(())
    }

    /// A scalar store: memory, or a window of the event and semaphore unit, 0x400 bytes each:
    /// events, three more of theirs, then semaphores to read, set, increment, decrement.
    fn store(&self, step: &mut Step, address: u64, value: u64, size: u64) -> Result<()> {
        match address::locate(&self.config.address_map, &self.config.geometry, address)? {
            Place::Memory(at) => {
                address::exists(&self.config.geometry, at, size)?;
                let bytes = ByteSet::dense(at.byte, size);
                step.touches.push(Access::write(Region::new(at.space, at.partition, 1, bytes)));
            }
            Place::Sync(offset) => {
                let (window, index) = (offset / 0x400, ((offset % 0x400) / 4) as u16);
                let number = u64::from(value as u32);
                match window {
                    0 => step.instants.push(((false, index), Do::Write(number & 1))),
                    5 => step.instants.push(((true, index), Do::Write(number))),
                    6 => step.instants.push(((true, index), Do::Add(number))),
                    7 => step.instants.push(((true, index), Do::Sub(number))),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// A data-path or DMA instruction.
    fn data(&self, inst: &Inst, pc: usize, step: &mut Step) -> Result<()> {
        let def = inst.def()?;
        crate::isa::validate(inst, self.engine, true)?;
        let found = engine::lookup(inst.generation, def.byte, def.name).map(|op| op.status);
        let Some(Status::Done(prepare)) = found else {
            return self.refuse(pc, format!("opcode {:#04x} is not executed", def.byte));
        };
        let env = Env {
            inst,
            engine: self.engine,
            config: self.config,
            registers: &self.registers,
            shapes: &Default::default(),
            used_registers: std::cell::Cell::new(false),
        };
        match prepare(&env)? {
            Prepared::Work(work) if work.judged => step.data = Some(work.accesses.to_vec()),
            Prepared::Work(_) => return self.refuse(pc, "its accesses are not known"),
            Prepared::Dma(request) => {
                let all = |t: &engine::Transfer| t.work.accesses.to_vec();
                if request.transfers.iter().any(|t| !t.work.judged) {
                    return self.refuse(pc, "its accesses are not known");
                }
                let add = |&(s, n): &(u16, u32)| ((true, s), Do::Add(n.into()));
                step.job = Some(Job {
                    queue: self.program.queues.len() + self.engine.index(),
                    transfers: request.transfers.iter().map(all).collect(),
                    updates: request.semaphores.iter().map(add).collect(),
                });
            }
        }
        Ok(())
    }

    /// The V1 SP: counters and address registers of its own.
    fn sp_program(&mut self) -> Result<()> {
        let words = sp::decode(&self.program.v1_sp.words)?;
        let (mut counters, mut addresses) = ([0u32; sp::REGISTERS], [0u64; sp::REGISTERS]);
        let mut pc = 0;
        while let Some(&word) = words.get(pc) {
            let mut step = Step { pc, ..Step::default() };
            let mut next = pc + 1;
            match word {
                SpWord::Write8Indirect(r, offset, data) => {
                    let at = addresses[usize::from(r)] + u64::from(offset);
                    self.store(&mut step, at, data.into(), 1)?;
                }
                SpWord::Write32Indirect(r, offset, data) => {
                    let at = addresses[usize::from(r)] + u64::from(offset);
                    self.store(&mut step, at, data.into(), 4)?;
                }
                SpWord::Write8Direct(at, data) => {
                    self.store(&mut step, at.into(), data.into(), 1)?
                }
                SpWord::NotifyHalt(_) => next = usize::MAX,
                SpWord::WaitCycles(_) => {}
                SpWord::WaitEvents(base, mask) => {
                    for bit in (0..32u16).filter(|b| mask >> b & 1 == 1) {
                        step.waits.push(((false, base + bit), Ask::AtLeast(1)));
                    }
                }
                SpWord::Branch(target) => next = target as usize,
                SpWord::BranchEvent(..) => {
                    return self.refuse(pc, "branches on an event without waiting");
                }
                SpWord::BranchCounter(c, zero, target) => {
                    if (counters[usize::from(c)] == 0) == zero {
                        next = target as usize;
                    }
                }
                SpWord::SetCounter(c, value) => counters[usize::from(c)] = value,
                SpWord::DecrementCounter(c) => {
                    let c = &mut counters[usize::from(c)];
                    *c = c.saturating_sub(1);
                }
                SpWord::ClearAllEvents => {
                    step.instants.extend((0..sp::EVENTS).map(|e| ((false, e), Do::Write(0))));
                }
                SpWord::ClearEvent(e) => step.instants.push(((false, e), Do::Write(0))),
                SpWord::SetAddress(r, at) => addresses[usize::from(r)] = at,
            }
            self.push(step)?;
            pc = next;
        }
        Ok(())
    }
}

/// Turns any error of the readers into a refusal.
pub fn as_refusal(error: Error) -> Error {
    if error.rule.as_deref() == Some("certificate") {
        return error;
    }
    refused(format!("the program does not decode: {error}"))
}
