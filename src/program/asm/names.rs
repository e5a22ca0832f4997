//! What names mean while a program is assembled.

use std::collections::HashMap;

use super::super::model::Memory;
use super::super::place::{Geometry, geometry};
use crate::isa::Generation;
use crate::isa::text::expr::{Env, Value};

/// Constants, counters, tensors, semaphores, events.
#[derive(Default)]
pub(super) struct Names {
    pub generation: Option<Generation>,
    pub constants: HashMap<String, Value>,
    /// Repetition counters, innermost last.
    pub counters: Vec<(Option<String>, u64)>,
    /// Addresses of tensors.
    pub tensors: HashMap<String, u64>,
    pub semaphores: HashMap<String, u32>,
    pub events: HashMap<String, u32>,
}

impl Names {
    fn memory(&self, memory: Memory) -> Result<Geometry, String> {
        let generation = self.generation.ok_or("`.generation` must come first")?;
        geometry(generation, memory).ok_or_else(|| "no such memory".to_owned())
    }

    /// True if `name` is taken by something an expression can name.
    pub fn taken(&self, name: &str) -> bool {
        self.constants.contains_key(name)
            || self.tensors.contains_key(name)
            || self.counters.iter().any(|c| c.0.as_deref() == Some(name))
    }

    fn place(&self, memory: Memory, partition: i128, byte: i128) -> Result<i128, String> {
        let g = self.memory(memory)?;
        let name = memory.name();
        if !(0..i128::from(g.partitions)).contains(&partition) {
            return Err(format!("{name} has partitions 0 to {}", g.partitions - 1));
        }
        if !(0..i128::from(g.active)).contains(&byte) {
            return Err(format!("a partition of {name} has bytes 0 to {}", g.active - 1));
        }
        Ok(i128::from(g.base) + partition * i128::from(g.stride) + byte)
    }
}

impl Env for Names {
    fn symbol(&self, name: &str) -> Option<Value> {
        let counter = self.counters.iter().rev().find(|c| c.0.as_deref() == Some(name));
        counter
            .map(|c| Value::Int(c.1.into()))
            .or_else(|| self.constants.get(name).copied())
            .or_else(|| self.tensors.get(name).map(|a| Value::Int((*a).into())))
            // some V1 operands are plain event or semaphore numbers
            .or_else(|| self.events.get(name).map(|n| Value::Int((*n).into())))
            .or_else(|| self.semaphores.get(name).map(|n| Value::Int((*n).into())))
    }

    fn call(&self, name: &str, arguments: &[i128]) -> Option<Result<i128, String>> {
        let wrong = |usage: &str| Some(Err(format!("usage: {usage}")));
        match (name, arguments) {
            // The distance between a place and the same place n partitions further on.
            ("part", [n]) => Some(self.memory(Memory::Sbuf).map(|g| n * i128::from(g.stride))),
            ("psum_part", [n]) => Some(self.memory(Memory::Psum).map(|g| n * i128::from(g.stride))),
            ("sbuf", [partition, byte]) => Some(self.place(Memory::Sbuf, *partition, *byte)),
            ("psum", [partition, byte]) => Some(self.place(Memory::Psum, *partition, *byte)),
            ("bank", [n]) => Some(self.memory(Memory::Psum).and_then(|g| {
                let banks = i128::from(g.active / g.bank);
                if (0..banks).contains(n) {
                    Ok(n * i128::from(g.bank))
                } else {
                    Err(format!("psum has banks 0 to {}", banks - 1))
                }
            })),
            ("min", [a, b]) => Some(Ok(*a.min(b))),
            ("max", [a, b]) => Some(Ok(*a.max(b))),
            ("part", _) => wrong("part(partitions)"),
            ("psum_part", _) => wrong("psum_part(partitions)"),
            ("sbuf", _) => wrong("sbuf(partition, byte)"),
            ("psum", _) => wrong("psum(partition, byte)"),
            ("bank", _) => wrong("bank(number)"),
            ("min", _) => wrong("min(a, b)"),
            ("max", _) => wrong("max(a, b)"),
            _ => None,
        }
        // A product of two checked numbers may leave the range that expressions keep to.
        .map(|r| {
            r.and_then(
                |n| if n.unsigned_abs() < 1 << 100 { Ok(n) } else { Err("too large".into()) },
            )
        })
    }

    fn semaphore(&self, name: &str) -> Option<u32> {
        self.semaphores.get(name).copied()
    }

    fn event(&self, name: &str) -> Option<u32> {
        self.events.get(name).copied()
    }

    fn names(&self) -> Vec<String> {
        let counters = self.counters.iter().filter_map(|c| c.0.clone());
        self.constants.keys().chain(self.tensors.keys()).cloned().chain(counters).collect()
    }
}
