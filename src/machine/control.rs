//! Instructions that the sequencer executes itself: control flow, registers, scalar memory
//! access, synchronisation. They do not wait for older data-path instructions, except DRAIN.
//! (wiki: firmware/seq/main-loop; firmware/kernels/move-dtype; tensorload; tensorstore)

use smallvec::SmallVec;

use super::livelock::Looked;
use super::queue::Job;
use super::run::{Machine, read_register};
use super::stream::RunState;
use super::updates::Post;
use crate::check::log::{Got, Lane};
use crate::engine::ShapeRegister;
use crate::error::{Error, Result};
use crate::isa::{Generation, Inst, e, f, op, op_v1};
use crate::machine::image::Kind;
use crate::numeric::Dtype;
use crate::sync::{Operand, SyncId, UpdateKind};
use crate::trace::StallCause;

/// Whether the sequencer executes `byte` itself.
pub fn is_control(generation: Generation, byte: u8) -> bool {
    if generation == Generation::V1 {
        return matches!(
            byte,
            op_v1::EVENT_WAIT
                | op_v1::EVENT_SET
                | op_v1::EVENT_CLEAR
                | op_v1::SEMAPHORE_TEST_AND_SET
                | op_v1::NOP
                | op_v1::WRITE
                | op_v1::NOTIFY
        );
    }
    matches!(
        byte,
        op::EVENT_SEMAPHORE
            | op::HALT
            | op::DRAIN
            | op::INSTRUCTION_FLUSH
            | op::NOP
            | op::WRITE
            | op::NOTIFY
            | op::MOVE
            | op::ALU_OP
            | op::COMPARE_BRANCH
            | op::TENSOR_LOAD
            | op::TENSOR_STORE
            | op::EVENT_SEMAPHORE_RANGE_CLEAR
            | op::SET_ORDERING_MODE
            | op::MOVE_SHAPE
            | op::POLL_SEM
            | op::TEST_EVENT_SEM
            | op::BRANCH_PREFETCH_HINT
            | op::COMPACT_CONTROL_INST
    )
}

/// MOVE_SHAPE: loads a shape register with four steps and four counts, X first.
///
/// The compiler emits this form alone: one register, of type 1, from the word. Its data are four
/// 32-bit steps and, 16 bytes on, four 16-bit counts. (wiki-cc: isa/dve-datamove-encoding 6)
///
/// # Errors
/// `shape_register`, and what no source says about the other forms.
fn move_shape(shapes: &mut [ShapeRegister; 4], inst: &Inst) -> Result<()> {
    use f::ctrl_ms as m;
    const PAGE: &str = "wiki-cc: isa/dve-datamove-encoding 6";
    if inst.get(m::MOVE_TYPE) as u8 != e::tensor_shape_move_type::IMMEDIATE {
        return Err(Error::missing_spec(
            "which general registers MOVE_SHAPE moves to or from a shape register",
            PAGE,
        ));
    }
    if inst.get(m::NUM_MOVE) != 1 || inst.get(m::SHAPE_REG_TYPE) != 1 {
        return Err(Error::missing_spec(
            "how MOVE_SHAPE moves several shapes, or another shape register type than 1",
            PAGE,
        ));
    }
    let number = inst.slice(m::SHAPE_REGISTERS).first().copied().unwrap_or(0);
    let shape = shapes.get_mut(usize::from(number)).ok_or_else(|| {
        Error::illegal("shape_register", format!("there is no shape register {number}"))
    })?;
    let data = inst.slice(m::DATA);
    for (step, bytes) in shape.step.iter_mut().zip(data.as_chunks::<4>().0) {
        *step = i32::from_le_bytes(*bytes);
    }
    for (num, bytes) in shape.num.iter_mut().zip(data[16..].as_chunks::<2>().0) {
        *num = u16::from_le_bytes(*bytes);
    }
    Ok(())
}

/// What a control instruction asks of the sequencer.
struct Done {
    /// Next word; `None` is the following one.
    next: Option<usize>,
    /// Time it takes, in ticks, beyond one control cycle.
    extra: u64,
    /// State of the stream afterwards.
    state: RunState,
}

impl Done {
    fn plain() -> Done {
        Done { next: None, extra: 0, state: RunState::Running }
    }
}

impl Machine {
    /// Executes the control word at `pc` of engine stream `s`.
    pub(super) fn control(&mut self, s: usize, pc: usize) -> Result<()> {
        let image = std::sync::Arc::clone(&self.image);
        let word = &image.words[s][pc];
        let inst = &word.inst;
        let drains = match word.kind {
            // compiled V1 programs place the trigger right behind the producer and rely on it
            Kind::Trigger(..) => self.config.sequencer.doorbell_drains,
            Kind::End | Kind::Sim(_) => true,
            Kind::Control => inst.generation != Generation::V1 && inst.opcode() == op::DRAIN,
            _ => false,
        };
        if drains && !self.drained(s) {
            return Ok(());
        }
        let period = self.time.period(self.streams[s].engine);
        let cycle = self.config.sequencer.control_cycles.max(1) * period;
        let done = match word.kind {
            Kind::Label => {
                self.leave_head(s, pc + 1, self.now);
                return Ok(());
            }
            Kind::Trigger(queue, block) => {
                let doorbell = self.time.from_ps(self.config.sequencer.doorbell_ps);
                self.ring(queue, Job::Block(block), s, pc, self.now + doorbell)?;
                Done { extra: doorbell, ..Done::plain() }
            }
            Kind::DmaBarrier => {
                let place = self.streams[s].executed as u32;
                if let Some(log) = &mut self.log {
                    log.barriers.push((s, place));
                }
                Done { extra: self.config.sequencer.dma_barrier_cycles * period, ..Done::plain() }
            }
            Kind::End => Done { state: RunState::Done, ..Done::plain() },
            Kind::Sim(ref op) => {
                self.sim(s, pc, op)?;
                Done::plain()
            }
            _ if inst.generation == Generation::V1 => self.control_v1(s, pc, inst)?,
            _ => self.control_v2(s, pc, inst, cycle)?,
        };
        let end = self.now + cycle + done.extra;
        let index = self.streams[s].executed;
        self.post_control(s, pc, index, [self.now, end])?;
        self.record_control(s, pc, end);
        self.streams[s].state = done.state;
        let mut next = end;
        if done.next.is_some() {
            next += self.config.sequencer.branch_cycles * period;
        }
        let target = done.next.unwrap_or(pc + 1);
        if target <= pc && done.state == RunState::Running {
            self.lap(s, pc, target)?;
        }
        if target >= self.image.words[s].len() && done.state == RunState::Running {
            self.streams[s].state = RunState::Done;
        }
        self.leave_head(s, target, next);
        Ok(())
    }

    /// Whether everything the stream issued is complete. If not, the head comes again when it is.
    fn drained(&mut self, s: usize) -> bool {
        let now = self.now;
        let stream = &mut self.streams[s];
        if !stream.pending.is_empty() {
            // the start of the last pending work fixes its end; look again then
            let at = stream.pending.back().map_or(now, |p| p.start).max(now);
            stream.stall.get_or_insert(StallCause::Drain);
            stream.blocked = super::stream::Blocked::Granted;
            let at = self.edge(s, at + 1);
            self.agenda.at(at, s, super::agenda::Action::Head);
            return false;
        }
        if stream.last_end > now {
            stream.stall.get_or_insert(StallCause::Drain);
            stream.blocked = super::stream::Blocked::Granted;
            let at = self.edge(s, self.streams[s].last_end);
            self.agenda.at(at, s, super::agenda::Action::Head);
            return false;
        }
        let works = stream.works;
        stream.clock.learn_results(s, works);
        let pc = stream.pc;
        self.learn(s, pc, Got::Own(works));
        true
    }

    fn control_v1(&mut self, s: usize, pc: usize, inst: &Inst) -> Result<Done> {
        let mut done = Done::plain();
        match inst.opcode() {
            op_v1::EVENT_WAIT | op_v1::EVENT_SET | op_v1::EVENT_CLEAR => {}
            op_v1::SEMAPHORE_TEST_AND_SET => {}
            op_v1::NOP => {
                let length = inst.get(f::v1_nop::LENGTH);
                done.extra = length * self.time.period(self.streams[s].engine);
            }
            op_v1::WRITE => {
                let address = inst.get(f::v1_write::ADDRESS);
                let data = inst.get(f::v1_write::DATA);
                let size = inst.get(f::v1_write::SIZE) as usize;
                self.store_scalar(s, pc, address, data, size)?;
            }
            op_v1::NOTIFY => {
                let value = inst.get(f::v1_notify::NOTIFICATION);
                self.note(s, pc, format!("notification {value:#x}"));
            }
            other => return Err(Error::internal(format!("V1 control opcode {other:#04x}"))),
        }
        Ok(done)
    }

    fn control_v2(&mut self, s: usize, pc: usize, inst: &Inst, cycle: u64) -> Result<Done> {
        let mut done = Done::plain();
        match inst.opcode() {
            op::EVENT_SEMAPHORE => {
                let s = &self.config.sequencer;
                done.extra = self.time.from_ps(s.event_semaphore_ps).saturating_sub(cycle);
            }
            op::NOP | op::INSTRUCTION_FLUSH | op::BRANCH_PREFETCH_HINT => {}
            op::DRAIN => {}
            // each sequencer is already strongly ordered: one word after the other, memory
            // sequentially consistent (wiki: uarch/atomics-ordering)
            op::SET_ORDERING_MODE => {}
            op::HALT => {
                // OPEN (seq choice 5): the external status bit is clear, so HALT halts
                done.state = RunState::Halted;
            }
            op::NOTIFY => {
                let value = inst.get(f::ctrl_no::NOTIFICATION);
                self.note(s, pc, format!("notification {value:#x}"));
            }
            op::WRITE => {
                let address = inst.get(f::ctrl_wr::ADDRESS);
                let data = inst.get(f::ctrl_wr::DATA);
                let size = inst.get(f::ctrl_wr::SIZE) as usize;
                self.store_scalar(s, pc, address, data, size)?;
            }
            op::MOVE => self.move_registers(s, inst)?,
            op::MOVE_SHAPE => move_shape(&mut self.streams[s].shapes, inst)?,
            op::ALU_OP => super::scalar::alu_op(&mut self.streams[s].registers, inst)?,
            op::COMPARE_BRANCH => {
                let len = self.image.words[s].len();
                done.next = super::scalar::branch(&self.streams[s].registers, inst, pc, len)?;
            }
            op::TENSOR_LOAD => done.extra = self.tensor_load(s, pc, inst)?,
            op::TENSOR_STORE => self.tensor_store(s, pc, inst)?,
            op::EVENT_SEMAPHORE_RANGE_CLEAR => self.range_clear(s, pc, inst)?,
            op::POLL_SEM => done.extra = self.poll_sem(s, pc, inst)?,
            op::TEST_EVENT_SEM => self.test_event_sem(s, pc, inst)?,
            op::COMPACT_CONTROL_INST => {
                done.next = super::compact::execute(self, s, pc, inst)?;
            }
            other => {
                return Err(Error::internal(format!("control opcode {other:#04x}")));
            }
        }
        Ok(done)
    }

    fn move_registers(&mut self, s: usize, inst: &Inst) -> Result<()> {
        let n = (inst.get(f::ctrl_mv::NUM_MOV) as usize).min(8);
        let immediate = inst.get(f::ctrl_mv::MOVE_SOURCE) == 1;
        let source = inst.slice(f::ctrl_mv::SRC_REGISTERS);
        let dest = inst.slice(f::ctrl_mv::DST_REGISTERS);
        let values = inst.slice(f::ctrl_mv::IMMEDIATE);
        let pc_address = self.word_address(s);
        let mut moved: SmallVec<[u32; 8]> = SmallVec::new();
        for k in 0..n {
            moved.push(if immediate {
                u32::from_le_bytes([0, 1, 2, 3].map(|b| values[4 * k + b]))
            } else {
                read_specifier(&self.streams[s].registers, source[k], pc_address)?
            });
        }
        for (k, value) in moved.into_iter().enumerate() {
            write_specifier(&mut self.streams[s].registers, dest[k], value)?;
        }
        Ok(())
    }

    /// Address of the word at the head of stream `s`, as register specifiers 128 and 129 show it:
    /// 64 bytes a word from 0 (OPEN: no page says where the emulator's streams lie).
    fn word_address(&self, s: usize) -> u64 {
        self.streams[s].pc as u64 * 64
    }

    fn tensor_load(&mut self, s: usize, pc: usize, inst: &Inst) -> Result<u64> {
        let window = self.window(s, inst)?;
        let registers = inst.slice(f::mem_2d::DATA).to_vec();
        for (k, address) in window.addresses.iter().enumerate() {
            let mut bytes = [0u8; 8];
            self.load_bytes(s, pc, *address, &mut bytes[..window.size])?;
            let raw = u64::from_le_bytes(bytes);
            let value = match window.dtype {
                Dtype::Int8 => raw as u8 as i8 as u32,
                Dtype::Int16 => raw as u16 as i16 as u32,
                _ => raw as u32,
            };
            write_specifier(&mut self.streams[s].registers, registers[k], value)?;
            if window.size == 8 {
                let high = (raw >> 32) as u32;
                write_specifier(&mut self.streams[s].registers, registers[k] + 1, high)?;
            }
        }
        Ok(self.time.from_ps(self.config.sequencer.memory_load_ps))
    }

    fn tensor_store(&mut self, s: usize, pc: usize, inst: &Inst) -> Result<()> {
        let window = self.window(s, inst)?;
        let immediate = inst.get(f::mem_2d::SRC_DATASRC) == 1;
        let data = inst.slice(f::mem_2d::DATA).to_vec();
        let pc_address = self.word_address(s);
        for (k, address) in window.addresses.iter().enumerate() {
            let value = if immediate {
                let at = k * window.size;
                let part = data.get(at..at + window.size).ok_or_else(|| {
                    Error::illegal("store_immediate_count", "more immediates than 32 bytes hold")
                })?;
                let mut bytes = [0u8; 8];
                bytes[..window.size].copy_from_slice(part);
                u64::from_le_bytes(bytes)
            } else {
                let registers = &self.streams[s].registers;
                let low = u64::from(read_specifier(registers, data[k], pc_address)?);
                let high = if window.size == 8 {
                    u64::from(read_specifier(registers, data[k].wrapping_add(1), pc_address)?)
                } else {
                    0
                };
                low | high << 32
            };
            self.store_scalar(s, pc, *address, value, window.size)?;
        }
        Ok(())
    }

    fn window(&self, s: usize, inst: &Inst) -> Result<Window> {
        use crate::isa::Addr8;
        let dtype = Dtype::from_code(inst.generation, inst.get(f::mem_2d::DTYPE) as u8)?;
        let size = dtype.size();
        let counts = inst.slice(f::mem_2d::NUM_ELEM);
        let steps = inst.slice(f::mem_2d::STEP_ELEM);
        let step = |d: usize| i64::from(i32::from_le_bytes([0, 1, 2, 3].map(|b| steps[4 * d + b])));
        let registers = &self.streams[s].registers;
        let start = match inst.addr8(f::mem_2d::START_ADDR) {
            Addr8::Imm(a) => a,
            Addr8::Reg { lo, hi } => {
                u64::from(read_register(registers, lo)?)
                    | u64::from(read_register(registers, hi)?) << 32
            }
            other => {
                return Err(Error::missing_spec(
                    format!("the layout of an address of the form {other:?} in TENSOR_LOAD/STORE"),
                    "firmware/kernels/tensorload",
                ));
            }
        };
        let total = usize::from(counts[0]) * usize::from(counts[1]);
        if total == 0 || total > 32 {
            return Err(Error::illegal(
                "mem_2d_count",
                format!("{total} elements, 1 to 32 are legal"),
            ));
        }
        let mut addresses = SmallVec::new();
        for i1 in 0..i64::from(counts[1]) {
            for i0 in 0..i64::from(counts[0]) {
                let offset = (i0 * step(0) + i1 * step(1)) * size as i64;
                addresses.push(start.wrapping_add_signed(offset));
            }
        }
        Ok(Window { dtype, size, addresses })
    }

    fn range_clear(&mut self, s: usize, pc: usize, inst: &Inst) -> Result<()> {
        let (first, last) = (inst.get(f::ctrl_er::RANGE_FIRST), inst.get(f::ctrl_er::RANGE_LAST));
        for i in first..=last {
            let ids = [SyncId::Semaphore(i as u16), SyncId::Event(i as u16)];
            for id in ids {
                if self.sync.value(id).is_ok_and(|v| v != 0) {
                    let kind = match id {
                        SyncId::Event(_) => UpdateKind::Clear,
                        SyncId::Semaphore(_) => UpdateKind::Write(Operand::Immediate(0)),
                    };
                    self.apply_now(s, pc, id, kind, 0)?;
                }
            }
        }
        Ok(())
    }

    /// Applies an update of a control instruction in its own step.
    pub(super) fn apply_now(
        &mut self,
        s: usize,
        pc: usize,
        id: SyncId,
        kind: UpdateKind,
        operand: u32,
    ) -> Result<()> {
        let by = (s as u16, self.streams[s].executed);
        let clock = Some(self.streams[s].clock.clone());
        let place = by.1 as u32;
        self.apply(Post {
            id,
            kind,
            operand,
            by,
            pc: pc as u32,
            clock,
            place,
            lane: Lane::Immediate,
        })
    }

    fn poll_sem(&mut self, s: usize, pc: usize, inst: &Inst) -> Result<u64> {
        let n = inst.get(f::ctrl_poll_sem::N_READ) as usize;
        if n == 0 || n > 16 {
            return Err(Error::illegal("poll_sem_n_read", format!("{n} reads, 1 to 16 are legal")));
        }
        let address = inst.get(f::ctrl_poll_sem::ADDR);
        let mut least = u32::MAX;
        for k in 0..n as u64 {
            let mut bytes = [0u8; 4];
            self.load_bytes(s, pc, address + 4 * k, &mut bytes)?;
            least = least.min(u32::from_le_bytes(bytes));
        }
        let back = inst.get(f::ctrl_poll_sem::RES_WRITEBACK_ADDR);
        if least != 0 && back != 0 {
            for k in 0..n as u64 {
                self.store_scalar(s, pc, back + 4 * k, u64::from(least), 4)?;
            }
        }
        let register = inst.get(f::ctrl_poll_sem::RESULT) as u8;
        write_specifier(&mut self.streams[s].registers, register, least)?;
        Ok(self.time.from_ps(self.config.sequencer.memory_load_ps))
    }

    fn test_event_sem(&mut self, s: usize, pc: usize, inst: &Inst) -> Result<()> {
        let n = inst.get(f::ctrl_test_es::NUM_EVT_SEM) as usize;
        if n == 0 || n > 16 {
            return Err(Error::illegal("test_es_count", format!("{n} ids, 1 to 16 are legal")));
        }
        let mode = inst.get(f::ctrl_test_es::MODE);
        let ids = inst.slice(f::ctrl_test_es::EVT_SEM_IDS).to_vec();
        let registers = inst.slice(f::ctrl_test_es::VALUE_REGISTERS).to_vec();
        let update = inst.get(f::ctrl_test_es::UPDATE_TYPE) as u8;
        let threshold = inst.get(f::ctrl_test_es::THRESHOLD) as u32;
        if let Some(log) = &mut self.log {
            log.polled |= mode != 2 && mode != 3;
        }
        for _ in 0..=inst.get(f::ctrl_test_es::REPEAT_COUNT) {
            for k in 0..n {
                let (i, r) = (u16::from(ids[k]), registers[k]);
                let semaphore = SyncId::Semaphore(i);
                if mode != 2 && mode != 3 {
                    let id = if mode == 1 { SyncId::Event(i) } else { semaphore };
                    self.streams[s].lap.look(Looked::Sync(id));
                }
                match mode {
                    0 => {
                        let v = self.sync.value(semaphore)?;
                        write_specifier(&mut self.streams[s].registers, r, v)?;
                    }
                    1 => {
                        let v = self.sync.value(SyncId::Event(i))?;
                        write_specifier(&mut self.streams[s].registers, r, v)?;
                    }
                    2 | 3 => self.update_from_register(s, pc, update, ids[k], r)?,
                    4 => {
                        if self.sync.value(semaphore)? >= threshold {
                            self.update_from_register(s, pc, update, ids[k], r)?;
                            let v = read_register(&self.streams[s].registers, r)?;
                            write_specifier(&mut self.streams[s].registers, r, v.wrapping_add(1))?;
                        }
                    }
                    other => {
                        return Err(Error::illegal(
                            "test_es_mode",
                            format!("mode {other} is unknown"),
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    fn update_from_register(
        &mut self,
        s: usize,
        pc: usize,
        mode: u8,
        idx: u8,
        r: u8,
    ) -> Result<()> {
        let mut sync = crate::sync::Sync::default();
        sync.add_update(self.image.generation, mode, idx, u32::from(r))?;
        for update in sync.updates {
            let operand = match update.kind {
                UpdateKind::Add(o) | UpdateKind::Sub(o) | UpdateKind::Write(o) => {
                    o.value(|r| read_register(&self.streams[s].registers, r))?
                }
                UpdateKind::Set | UpdateKind::Clear => 0,
            };
            self.apply_now(s, pc, update.id, update.kind, operand)?;
        }
        Ok(())
    }
}

struct Window {
    dtype: Dtype,
    size: usize,
    addresses: SmallVec<[u64; 32]>,
}

/// Value of a register specifier: R0..R63, or 128/129 for the low and high word of the address of
/// the current instruction. (wiki: firmware/kernels/move-dtype)
pub(super) fn read_specifier(registers: &[u32; 64], r: u8, pc_address: u64) -> Result<u32> {
    match r {
        128 => Ok(pc_address as u32),
        129 => Ok((pc_address >> 32) as u32),
        r => read_register(registers, r),
    }
}

/// Writes a register specifier; 128 and 129 drop the value.
pub(super) fn write_specifier(registers: &mut [u32; 64], r: u8, value: u32) -> Result<()> {
    match registers.get_mut(usize::from(r)) {
        Some(slot) => *slot = value,
        None if r == 128 || r == 129 => {}
        None => {
            return Err(Error::illegal("register_specifier", format!("there is no register R{r}")));
        }
    }
    Ok(())
}
