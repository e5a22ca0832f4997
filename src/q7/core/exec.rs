//! The instruction loop.

use super::predecode::{Insn, UNLINKED};
use super::scalar::ScalarOp as S;
use super::{Cause, Core, Fault, Q7Bus, RETURN_ADDRESS, Stop, timing};

/// Where to go after an instruction.
pub(super) enum Flow {
    /// To the next one.
    Next,
    /// To the branch target of the instruction.
    Taken,
    /// To an address that is only known now.
    To(u32),
}

impl Core {
    /// Runs up to `limit` instructions.
    pub fn run(&mut self, bus: &mut dyn Q7Bus, limit: u64) -> Stop {
        let mut code = std::mem::take(&mut self.code);
        let stop = self.run_in(&mut code, bus, limit);
        self.code = code;
        if self.code_stale {
            self.invalidate_code();
        }
        stop
    }

    /// Executes one instruction.
    pub fn step(&mut self, bus: &mut dyn Q7Bus) -> Stop {
        self.run(bus, 1)
    }

    fn run_in(
        &mut self,
        code: &mut super::predecode::Code,
        bus: &mut dyn Q7Bus,
        limit: u64,
    ) -> Stop {
        if self.pc == RETURN_ADDRESS {
            return Stop::Returned;
        }
        if limit == 0 {
            return Stop::Limit;
        }
        let mut index = match code.at(self, bus, self.pc) {
            Ok(index) => index,
            Err(fault) => return Stop::Fault(*fault),
        };
        let taken_branch = i64::from(self.config.timing.taken_branch);
        let mut left = limit;
        // The clock lives in a register while the loop runs; whatever leaves the fast path
        // carries it to `self.now` and back.
        let mut now = self.now;
        let stop = loop {
            let insn = code.insns[index as usize];
            left -= 1;
            let flow = match insn.op {
                S::Single => self.single(&code.singles[insn.imm as usize], &insn, &mut now),
                S::Bundle => {
                    self.now = now;
                    let end = self.execute_bundle(&code.bundles[insn.imm as usize], insn.pc, bus);
                    now = self.now;
                    end.map(|()| Flow::Next).map_err(End::Fault)
                }
                _ => self.scalar(&insn, bus, &mut now),
            };
            let flow = match flow {
                Ok(flow) => flow,
                Err(end) => break self.ended(code, &insn, end),
            };
            let mut next = match flow {
                Flow::Next => {
                    if insn.next_pc == self.lend && self.lcount != 0 && self.ps & 0x10 == 0 {
                        self.lcount -= 1;
                        // The loop's first instruction is linked through the target of its end.
                        if insn.target_pc == self.lbeg
                            && insn.target != UNLINKED
                            && !is_branch(insn.op)
                        {
                            insn.target
                        } else {
                            self.pc = self.lbeg;
                            UNLINKED
                        }
                    } else {
                        if insn.next == UNLINKED {
                            self.pc = insn.next_pc;
                        }
                        insn.next
                    }
                }
                Flow::Taken => {
                    now += taken_branch;
                    if insn.target == UNLINKED {
                        self.pc = insn.target_pc;
                    }
                    insn.target
                }
                Flow::To(pc) => {
                    now += taken_branch;
                    self.pc = pc;
                    UNLINKED
                }
            };
            if next == UNLINKED || self.code_stale {
                if next != UNLINKED {
                    self.pc = code.insns[next as usize].pc;
                }
                next = match self.link(code, bus, index, &insn) {
                    Ok(next) => next,
                    Err(stop) => break stop,
                };
            }
            if left == 0 {
                self.pc = code.insns[next as usize].pc;
                break Stop::Limit;
            }
            index = next;
        };
        self.now = now;
        self.instructions += limit - left;
        stop
    }

    /// Finds the instruction at `self.pc` and remembers it in `insn` at `index`.
    #[cold]
    #[inline(never)]
    fn link(
        &mut self,
        code: &mut super::predecode::Code,
        bus: &mut dyn Q7Bus,
        index: u32,
        insn: &Insn,
    ) -> Result<u32, Stop> {
        if self.pc == RETURN_ADDRESS {
            return Err(Stop::Returned);
        }
        let stale = std::mem::take(&mut self.code_stale);
        if stale {
            *code = super::predecode::Code::default();
        }
        let next = code.at(self, bus, self.pc).map_err(|fault| Stop::Fault(*fault))?;
        if !stale {
            let place = &mut code.insns[index as usize];
            if is_branch(insn.op) && self.pc == insn.target_pc {
                place.target = next;
            } else if self.pc == insn.next_pc {
                place.next = next;
            } else if !is_branch(insn.op) && self.pc == self.lbeg {
                place.target_pc = self.pc;
                place.target = next;
            }
        }
        Ok(next)
    }

    #[cold]
    #[inline(never)]
    fn ended(&mut self, code: &super::predecode::Code, insn: &Insn, end: End) -> Stop {
        self.pc = insn.pc;
        match end {
            End::Fault(fault) => Stop::Fault(*fault),
            End::Stop(stop) => {
                self.pc = insn.next_pc;
                stop
            }
            End::Error(at) => {
                let error = code.errors[at].clone();
                if error.class == crate::error::ErrorClass::IllegalInstruction {
                    self.raise(Cause::Illegal, insn.pc, insn.pc);
                }
                Stop::Fault(Fault::Error { pc: insn.pc, error: Box::new(error) })
            }
        }
    }

    /// Waits for `as` and `at`, takes the issue cycle and returns it.
    #[inline(always)]
    fn issue(&mut self, insn: &Insn, now: &mut i64) -> i64 {
        let s = ((self.window + u32::from(insn.s)) & 63) as usize;
        let t = ((self.window + u32::from(insn.t)) & 63) as usize;
        let s_at = self.ready[s] - i64::from(insn.use_s);
        let t_at = self.ready[t] - i64::from(insn.use_t);
        let cycle = (*now).max(s_at).max(t_at);
        *now = cycle + 1;
        cycle
    }

    #[inline(always)]
    fn put(&mut self, n: u8, value: u32, cycle: i64, stage: u8) {
        let at = ((self.window + u32::from(n)) & 63) as usize;
        self.ar[at] = value;
        self.ready[at] = cycle + 1 + i64::from(stage);
    }

    #[inline(always)]
    fn scalar(&mut self, insn: &Insn, bus: &mut dyn Q7Bus, now: &mut i64) -> Result<Flow, End> {
        use timing::{ALU, MEMORY, MULTIPLY};
        let cycle = self.issue(insn, now);
        let s = self.a(u32::from(insn.s));
        let t = self.a(u32::from(insn.t));
        let imm = insn.imm;
        macro_rules! alu {
            ($value:expr) => {{
                self.put(insn.r, $value, cycle, ALU);
                Flow::Next
            }};
        }
        macro_rules! alu_t {
            ($value:expr, $stage:expr) => {{
                self.put(insn.t, $value, cycle, $stage);
                Flow::Next
            }};
        }
        macro_rules! mul {
            ($value:expr) => {{
                self.put(insn.r, $value, cycle, MULTIPLY);
                Flow::Next
            }};
        }
        macro_rules! branch {
            ($condition:expr) => {
                if $condition { Flow::Taken } else { Flow::Next }
            };
        }
        macro_rules! guard {
            ($condition:expr) => {{
                if $condition {
                    self.put(insn.r, s, cycle, ALU);
                }
                Flow::Next
            }};
        }
        Ok(match insn.op {
            S::Nop => Flow::Next,
            S::And => alu!(s & t),
            S::Or => alu!(s | t),
            S::Xor => alu!(s ^ t),
            S::Add => alu!(s.wrapping_add(t)),
            S::Addx2 => alu!((s << 1).wrapping_add(t)),
            S::Addx4 => alu!((s << 2).wrapping_add(t)),
            S::Addx8 => alu!((s << 3).wrapping_add(t)),
            S::Sub => alu!(s.wrapping_sub(t)),
            S::Subx2 => alu!((s << 1).wrapping_sub(t)),
            S::Subx4 => alu!((s << 2).wrapping_sub(t)),
            S::Subx8 => alu!((s << 3).wrapping_sub(t)),
            S::Neg => alu!(t.wrapping_neg()),
            S::Abs => alu!((t as i32).unsigned_abs()),
            S::Addi => alu_t!(s.wrapping_add(imm as u32), ALU),
            S::Movi => alu_t!(imm as u32, 1),
            S::Const16 => alu_t!(t << 16 | imm as u32, ALU),
            S::L32r => {
                let bytes = self.scalar_load::<4>(bus, insn, imm as u32, now)?;
                alu_t!(u32::from_le_bytes(bytes), MEMORY)
            }
            // A shift of 32 is undefined by the architecture and does nothing in its models.
            S::Slli => alu!(s << (imm & 31)),
            S::Srai => alu!(((t as i32) >> (imm & 31)) as u32),
            S::Srli => alu!(t >> (imm & 31)),
            S::Src => {
                let pair = u64::from(s) << 32 | u64::from(t);
                alu!((pair >> (self.sar & 63)) as u32)
            }
            S::Srl => alu!((u64::from(t) >> (self.sar & 63)) as u32),
            S::Sll => alu!(((u64::from(s) << 32) >> (self.sar & 63)) as u32),
            S::Sra => alu!((i64::from(t as i32) >> (self.sar & 63)) as u32),
            S::Ssr => {
                self.sar = s & 31;
                Flow::Next
            }
            S::Ssl => {
                self.sar = 32 - (s & 31);
                Flow::Next
            }
            S::Ssa8l => {
                self.sar = (s & 3) * 8;
                Flow::Next
            }
            S::Ssa8b => {
                self.sar = 32 - (s & 3) * 8;
                Flow::Next
            }
            S::Ssai => {
                self.sar = imm as u32 & 31;
                Flow::Next
            }
            S::Extui => {
                let mask = ((1u64 << (insn.extra & 31)) - 1) as u32;
                alu!(t >> (imm & 31) & mask)
            }
            S::Moveqz => guard!(t == 0),
            S::Movnez => guard!(t != 0),
            S::Movltz => guard!((t as i32) < 0),
            S::Movgez => guard!((t as i32) >= 0),
            S::Movf => guard!(!self.b(insn.t)),
            S::Movt => guard!(self.b(insn.t)),
            S::Saltu => alu!(u32::from(s < t)),
            S::Salt => alu!(u32::from((s as i32) < t as i32)),
            S::Mul16u => mul!((s & 0xffff) * (t & 0xffff)),
            S::Mul16s => mul!((i32::from(s as i16) * i32::from(t as i16)) as u32),
            S::Mull => mul!(s.wrapping_mul(t)),
            S::Muluh => mul!(((u64::from(s) * u64::from(t)) >> 32) as u32),
            S::Mulsh => mul!(((i64::from(s as i32) * i64::from(t as i32)) >> 32) as u32),
            S::Quou | S::Quos | S::Remu | S::Rems => {
                let value = self.divide(insn, s, t)?;
                let stage = self.config.timing.divide_stage;
                self.put(insn.r, value, cycle, stage);
                Flow::Next
            }
            S::Min => alu!((s as i32).min(t as i32) as u32),
            S::Max => alu!((s as i32).max(t as i32) as u32),
            S::Minu => alu!(s.min(t)),
            S::Maxu => alu!(s.max(t)),
            S::Clamps => {
                let high = (1i64 << (imm & 31)) - 1;
                alu!(i64::from(s as i32).clamp(-high - 1, high) as u32)
            }
            S::Andb => self.set_b(insn.r, self.b(insn.s) & self.b(insn.t)),
            S::Andbc => self.set_b(insn.r, self.b(insn.s) & !self.b(insn.t)),
            S::Orb => self.set_b(insn.r, self.b(insn.s) | self.b(insn.t)),
            S::Orbc => self.set_b(insn.r, self.b(insn.s) | !self.b(insn.t)),
            S::Xorb => self.set_b(insn.r, self.b(insn.s) ^ self.b(insn.t)),
            S::Any4 => self.set_b(insn.t, self.br >> (insn.s & 12) & 15 != 0),
            S::All4 => self.set_b(insn.t, self.br >> (insn.s & 12) & 15 == 15),
            S::Any8 => self.set_b(insn.t, self.br >> (insn.s & 8) & 255 != 0),
            S::All8 => self.set_b(insn.t, self.br >> (insn.s & 8) & 255 == 255),
            S::L8ui => {
                let [byte] = self.scalar_load::<1>(bus, insn, s.wrapping_add(imm as u32), now)?;
                alu_t!(u32::from(byte), MEMORY)
            }
            S::L16ui => {
                let bytes = self.scalar_load::<2>(bus, insn, s.wrapping_add(imm as u32), now)?;
                alu_t!(u32::from(u16::from_le_bytes(bytes)), MEMORY)
            }
            S::L16si => {
                let bytes = self.scalar_load::<2>(bus, insn, s.wrapping_add(imm as u32), now)?;
                alu_t!(i32::from(i16::from_le_bytes(bytes)) as u32, MEMORY)
            }
            S::L32i => {
                let bytes = self.scalar_load::<4>(bus, insn, s.wrapping_add(imm as u32), now)?;
                alu_t!(u32::from_le_bytes(bytes), MEMORY)
            }
            S::S8i => {
                self.scalar_store(bus, insn, s.wrapping_add(imm as u32), [t as u8], now)?;
                Flow::Next
            }
            S::S16i => {
                let bytes = (t as u16).to_le_bytes();
                self.scalar_store(bus, insn, s.wrapping_add(imm as u32), bytes, now)?;
                Flow::Next
            }
            S::S32i => {
                self.scalar_store(bus, insn, s.wrapping_add(imm as u32), t.to_le_bytes(), now)?;
                Flow::Next
            }
            S::Bnone => branch!(s & t == 0),
            S::Beq => branch!(s == t),
            S::Blt => branch!((s as i32) < t as i32),
            S::Bltu => branch!(s < t),
            S::Ball => branch!(!s & t == 0),
            S::Bbc => branch!(s >> (t & 31) & 1 == 0),
            S::Bany => branch!(s & t != 0),
            S::Bne => branch!(s != t),
            S::Bge => branch!((s as i32) >= t as i32),
            S::Bgeu => branch!(s >= t),
            S::Bnall => branch!(!s & t != 0),
            S::Bbs => branch!(s >> (t & 31) & 1 != 0),
            S::Bbci => branch!(s >> (imm & 31) & 1 == 0),
            S::Bbsi => branch!(s >> (imm & 31) & 1 != 0),
            S::J => Flow::Taken,
            S::Jx => Flow::To(s),
            S::Beqz => branch!(s == 0),
            S::Bnez => branch!(s != 0),
            S::Bltz => branch!((s as i32) < 0),
            S::Bgez => branch!((s as i32) >= 0),
            S::Beqi => branch!(s == imm as u32),
            S::Bnei => branch!(s != imm as u32),
            S::Blti => branch!((s as i32) < imm),
            S::Bgei => branch!((s as i32) >= imm),
            S::Bltui => branch!(s < imm as u32),
            S::Bgeui => branch!(s >= imm as u32),
            S::Bf => branch!(!self.b(insn.s)),
            S::Bt => branch!(self.b(insn.s)),
            S::Loop | S::Loopnez | S::Loopgtz => {
                self.lbeg = insn.next_pc;
                self.lend = insn.target_pc;
                self.lcount = s.wrapping_sub(1);
                let skip =
                    insn.op == S::Loopnez && s == 0 || insn.op == S::Loopgtz && (s as i32) <= 0;
                branch!(skip)
            }
            S::Call0 => {
                self.put(0, insn.next_pc, cycle, ALU);
                Flow::Taken
            }
            S::Callx0 => {
                self.put(0, insn.next_pc, cycle, ALU);
                Flow::To(s)
            }
            S::Call8 | S::Callx8 => {
                self.put(8, insn.next_pc & 0x3fff_ffff | 2 << 30, cycle, ALU);
                self.ps = self.ps & !(3 << 16) | 2 << 16;
                if insn.op == S::Call8 { Flow::Taken } else { Flow::To(s) }
            }
            S::Mov => alu_t!(s, ALU),
            _ => {
                self.now = *now;
                let flow = self.rare(insn, bus, cycle, s, t);
                *now = self.now;
                return flow;
            }
        })
    }

    /// Operations that run seldom.
    #[inline(never)]
    fn rare(
        &mut self,
        insn: &Insn,
        bus: &mut dyn Q7Bus,
        cycle: i64,
        s: u32,
        t: u32,
    ) -> Result<Flow, End> {
        use timing::{ALU, MULTIPLY};
        self.pc = insn.pc;
        Ok(match insn.op {
            S::Ret => Flow::To(self.a(0)),
            S::Retw => Flow::To(self.retw(bus).map_err(End::Fault)?),
            S::Entry => {
                self.entry(bus, u32::from(insn.s), insn.imm as u32).map_err(End::Fault)?;
                Flow::Next
            }
            S::Movsp => {
                // Frames refill from the places below the stack pointer, so they move along.
                self.spill_all(bus).map_err(End::Fault)?;
                let old = self.a(u32::from(insn.t));
                for n in 0..4u32 {
                    let at = old.wrapping_sub(16).wrapping_add(4 * n);
                    let word = self.load::<4>(bus, at).map_err(End::Fault)?;
                    let at = s.wrapping_sub(16).wrapping_add(4 * n);
                    self.store(bus, at, &word).map_err(End::Fault)?;
                }
                self.put(insn.t, s, cycle, ALU);
                Flow::Next
            }
            S::Rotw => {
                self.window = self.window.wrapping_add((insn.imm * 8) as u32) & 63;
                Flow::Next
            }
            S::Spillw => {
                self.spill_all(bus).map_err(End::Fault)?;
                Flow::Next
            }
            S::Rsr => {
                let value = self.read_special(insn.imm as u8);
                self.put(insn.t, value, cycle, MULTIPLY);
                Flow::Next
            }
            S::Wsr => {
                self.write_special(insn.imm as u8, t);
                Flow::Next
            }
            S::Xsr => {
                let value = self.read_special(insn.imm as u8);
                self.write_special(insn.imm as u8, t);
                self.put(insn.t, value, cycle, MULTIPLY);
                Flow::Next
            }
            S::Rur => {
                let value = self.read_user(insn.imm as u8);
                self.put(insn.r, value, cycle, MULTIPLY);
                Flow::Next
            }
            S::Wur => {
                self.write_user(insn.imm as u8, t);
                Flow::Next
            }
            S::Syscall => return self.exception(Cause::Syscall, 0).map_err(End::Fault),
            S::Ill => return self.exception(Cause::Illegal, insn.pc).map_err(End::Fault),
            S::Simcall | S::Exit | S::Halt => return Err(End::Stop(Stop::Halted)),
            S::Break => return Err(End::Stop(Stop::Break)),
            S::Fail => return Err(End::Error(insn.imm as usize)),
            _ => Flow::Next,
        })
    }

    #[inline(always)]
    fn b(&self, n: u8) -> bool {
        self.br >> (n & 15) & 1 != 0
    }

    #[inline(always)]
    fn set_b(&mut self, n: u8, value: bool) -> Flow {
        self.br = self.br & !(1 << (n & 15)) | u16::from(value) << (n & 15);
        Flow::Next
    }

    #[inline(always)]
    fn scalar_load<const N: usize>(
        &mut self,
        bus: &mut dyn Q7Bus,
        insn: &Insn,
        address: u32,
        now: &mut i64,
    ) -> Result<[u8; N], End> {
        if !(address as usize).is_multiple_of(N) {
            return self.misaligned(insn, address);
        }
        let mut out = [0; N];
        if let Some(bytes) = self.local(address, N) {
            out.copy_from_slice(bytes);
            return Ok(out);
        }
        self.now = *now;
        let read = self.bus_read(bus, address, &mut out);
        *now = self.now;
        match read {
            Ok(()) => Ok(out),
            Err(fault) => Err(self.at(insn, fault)),
        }
    }

    #[inline(always)]
    fn scalar_store<const N: usize>(
        &mut self,
        bus: &mut dyn Q7Bus,
        insn: &Insn,
        address: u32,
        bytes: [u8; N],
        now: &mut i64,
    ) -> Result<(), End> {
        if !(address as usize).is_multiple_of(N) {
            return self.misaligned(insn, address);
        }
        let at = address.wrapping_sub(super::DRAM_BASE) as usize;
        if let Some(place) = self.dram.get_mut(at..at + N) {
            place.copy_from_slice(&bytes);
            return Ok(());
        }
        self.now = *now;
        let write = self.store_far(bus, address, &bytes);
        *now = self.now;
        match write {
            Ok(()) => Ok(()),
            Err(fault) => Err(self.at(insn, fault)),
        }
    }

    #[cold]
    fn misaligned<T>(&mut self, insn: &Insn, address: u32) -> Result<T, End> {
        self.pc = insn.pc;
        self.exception(Cause::Alignment, address).map_err(End::Fault)
    }

    /// Gives a fault of the memory path the address of its instruction.
    #[cold]
    fn at(&mut self, insn: &Insn, mut fault: Box<Fault>) -> End {
        match &mut *fault {
            Fault::Exception { cause, pc, address } => {
                *pc = insn.pc;
                self.raise(*cause, insn.pc, *address);
            }
            Fault::Error { pc, .. } => *pc = insn.pc,
        }
        End::Fault(fault)
    }

    #[inline(never)]
    fn divide(&mut self, insn: &Insn, s: u32, t: u32) -> Result<u32, End> {
        if t == 0 {
            self.pc = insn.pc;
            return self.exception(Cause::DivideByZero, insn.pc).map_err(End::Fault);
        }
        Ok(match insn.op {
            S::Quou => s / t,
            S::Remu => s % t,
            S::Quos => (s as i32).wrapping_div(t as i32) as u32,
            _ => (s as i32).wrapping_rem(t as i32) as u32,
        })
    }
}

/// Why the loop ends.
pub(super) enum End {
    Fault(Box<Fault>),
    Stop(Stop),
    Error(usize),
}

fn is_branch(op: S) -> bool {
    (op as u8) >= S::Bnone as u8 && (op as u8) <= S::Callx8 as u8
}
