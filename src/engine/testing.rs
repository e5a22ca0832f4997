//! Runs one instruction on a small memory, for the tests of the engines.

use std::cell::Cell;

use super::{EngineState, Env, Lane, Outcome, Prepared, Scratch, ShapeRegister, Work, lookup};
use crate::error::{Error, Result};
use crate::isa::{Engine, Generation, Inst};
use crate::machine::config::MachineConfig;
use crate::memory::{Memory, Space};

/// One engine with its memory, registers and state.
pub struct Bench {
    /// Configuration; HBM is kept small.
    pub config: MachineConfig,
    /// Memory.
    pub memory: Memory,
    /// Engine state, kept from one instruction to the next.
    pub state: EngineState,
    /// Which engine's stream the instructions stand in.
    pub engine: Engine,
    /// General registers.
    pub registers: [u32; 64],
    /// Tensor-shape registers.
    pub shapes: [ShapeRegister; 4],
    scratch: Scratch,
}

impl Bench {
    /// A bench for `engine` of `generation`.
    pub fn new(generation: Generation, engine: Engine) -> Bench {
        let mut config = MachineConfig::builtin(generation);
        config.geometry.hbm_bytes = 1 << 24;
        let memory = Memory::new(&config.geometry).expect("small memory");
        let state = EngineState::new(engine.index(), generation, &config);
        Bench {
            config,
            memory,
            state,
            engine,
            registers: [0; 64],
            shapes: [ShapeRegister::default(); 4],
            scratch: Scratch::default(),
        }
    }

    /// Writes bytes before the instruction.
    pub fn put(&mut self, space: Space, partition: u32, byte: u64, bytes: &[u8]) {
        let mut lease = self.memory.exclusive();
        let row = lease.row_mut(space, partition, byte, bytes.len() as u64).expect("in memory");
        row.copy_from_slice(bytes);
    }

    /// Reads bytes after the instruction.
    pub fn get(&mut self, space: Space, partition: u32, byte: u64, len: u64) -> Vec<u8> {
        self.memory.exclusive().row(space, partition, byte, len).expect("in memory").to_vec()
    }

    /// Writes FP32 values.
    pub fn put_f32(&mut self, space: Space, partition: u32, byte: u64, values: &[f32]) {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.put(space, partition, byte, &bytes);
    }

    /// Reads FP32 values.
    pub fn get_f32(&mut self, space: Space, partition: u32, byte: u64, n: usize) -> Vec<f32> {
        let bytes = self.get(space, partition, byte, 4 * n as u64);
        bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    }

    /// Decodes the operands of `inst`.
    pub fn prepare(&self, inst: &Inst) -> Result<Prepared> {
        let def = inst.def()?;
        let op = lookup(inst.generation, def.byte, def.name)
            .ok_or_else(|| Error::unimplemented(def.name))?;
        let env = Env {
            inst,
            engine: self.engine,
            config: &self.config,
            registers: &self.registers,
            shapes: &self.shapes,
            used_registers: Cell::new(false),
        };
        match op.status {
            super::Status::Done(prepare) => prepare(&env),
            other => Err(other
                .refusal(def.name, def.byte)
                .unwrap_or_else(|| Error::internal("an opcode that executes has no refusal"))),
        }
    }

    /// Runs `inst`; a DMA request runs all its transfers in order.
    pub fn run(&mut self, inst: &Inst) -> Result<Outcome> {
        match self.prepare(inst)? {
            Prepared::Work(work) => self.run_work(&work),
            Prepared::Dma(request) => {
                for t in &request.transfers {
                    self.run_work(&t.work)?;
                }
                Outcome::none()
            }
        }
    }

    fn run_work(&mut self, work: &Work) -> Result<Outcome> {
        // SAFETY: `&mut self`: the only lease.
        let mem = unsafe { self.memory.lend(&work.accesses) };
        (work.run)(&mut Lane { mem, state: &mut self.state, scratch: &mut self.scratch })
    }
}
