//! The summary's figures under the names of the vendor's profiler (vendor docs: neuron-explorer
//! profile schema reference, schema 7.4.0). A figure that an emulator cannot know is left out.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::facts::Facts;
use super::summary::{Summary, TransferTotals};
use crate::isa::Engine;
use crate::program::Role;

/// Version of the schema whose names are used.
pub const SCHEMA_VERSION: &str = "7.4.0";

/// Names of the engines in the schema's field names, in the order of the streams.
pub const ENGINE_FIELDS: [&str; 5] = ["tensor", "scalar", "gpsimd", "vector", "sync"];

/// Names of the engines in the schema's `engine` columns, in the order of the streams.
pub const ENGINE_NAMES: [&str; 5] = ["Tensor", "Scalar", "GpSimd", "Vector", "Sync"];

/// How a DMA queue gets its descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueKind {
    /// From the program, before the run.
    Static,
    /// From hardware, asked by an instruction.
    Hardware,
    /// From POOL's cores, asked by an instruction.
    Software,
}

impl QueueKind {
    /// The kind of the queue with the stream number `stream`: those of the program, then one for
    /// the DMA instructions of each engine. (wiki: dma/descriptor-generation; POOL's descriptors
    /// are made by its cores)
    pub fn of(facts: &Facts, stream: u16) -> QueueKind {
        let queue = usize::from(stream).saturating_sub(facts.engine_hz.len());
        match queue.checked_sub(facts.queues.len()) {
            None => QueueKind::Static,
            Some(engine) if engine == Engine::Pool.index() => QueueKind::Software,
            Some(_) => QueueKind::Hardware,
        }
    }

    /// As the tables say it.
    pub fn name(self) -> &'static str {
        match self {
            QueueKind::Static => "static",
            QueueKind::Hardware => "hardware_dynamic",
            QueueKind::Software => "software_dynamic",
        }
    }
}

/// The Summary table: field to value.
pub fn summary(s: &Summary) -> BTreeMap<String, Value> {
    let mut out = BTreeMap::new();
    let mut set = |name: &str, value: Value| {
        out.insert(name.to_string(), value);
    };
    let total = s.seconds(s.total_ticks);
    let percent = |ticks: u64| 100.0 * ticks as f64 / s.total_ticks.max(1) as f64;
    let period = s.periods.first().copied().unwrap_or(1).max(1);
    let flops: u64 = s.streams.first().map_or(0, |pe| pe.flops);
    set("total_time", json!(total));
    set("total_exec_time", json!(total));
    set("neuroncore_cycle_count", json!(s.total_ticks / period));
    set("hardware_flops", json!(flops));
    set("hfu_estimated_percent", json!(100.0 * s.pe_utilisation()));
    set("event_count", json!(s.records));
    set("trace_count", json!(s.streams.iter().map(|x| x.instructions).sum::<u64>()));
    set("dma_active_time", json!(s.seconds(s.transfers.active_ticks)));
    set("dma_active_time_percent", json!(percent(s.transfers.active_ticks)));
    set("dma_transfer_time", json!(s.seconds(s.transfers.transfer_ticks)));
    set("dma_transfer_count", json!(s.transfers.count));
    set("dma_transfer_total_bytes", json!(s.transfers.bytes));
    let average = s.transfers.bytes as f64 / s.transfers.count.max(1) as f64;
    set("dma_transfer_average_bytes", json!(average));
    set("dma_queue_count", json!(s.facts.queues.len()));
    set("dma_active_cycles", json!(s.transfers.active_ticks / period));
    set("dma_packet_time", json!(s.seconds(s.transfers.transfer_ticks)));
    let part = |part: u64, all: u64| 100.0 * part as f64 / all.max(1) as f64;
    let [fixed, hardware, software] = &s.by_kind;
    let mut kinds = |prefix: &str, t: &TransferTotals| {
        let mut set = |name: &str, value: Value| set(&format!("{prefix}_{name}"), value);
        set("dma_active_time", json!(s.seconds(t.active_ticks)));
        set("dma_active_time_percent", json!(percent(t.active_ticks)));
        set("dma_packet_count", json!(t.count));
        set("dma_size", json!(t.bytes));
        set("dma_packet_percent", json!(part(t.count, s.transfers.count)));
        set("dma_size_percent", json!(part(t.bytes, s.transfers.bytes)));
    };
    kinds("static", fixed);
    kinds("hardware_dynamic", hardware);
    kinds("software_dynamic", software);
    let count = hardware.count + software.count;
    set("dynamic_dma_packet_percent", json!(part(count, s.transfers.count)));
    let bytes = hardware.bytes + software.bytes;
    set("dynamic_dma_size_percent", json!(part(bytes, s.transfers.bytes)));
    set("dynamic_dma_active_time_percent", json!(percent(s.dynamic_active_ticks)));
    let sum = |roles: &[Role]| -> u64 {
        s.facts.tensors.iter().filter(|t| roles.contains(&t.role)).map(|t| t.bytes).sum()
    };
    set("inputs_and_weights_size_bytes", json!(sum(&[Role::Input])));
    set("inputs_outputs_weights_size_bytes", json!(sum(&[Role::Input, Role::Output])));
    set("psum_read_sbuf_write_count", json!(s.psum_to_sbuf[0]));
    set("psum_read_sbuf_write_bytes", json!(s.psum_to_sbuf[1]));
    set("total_active_time", json!(s.seconds(s.active_ticks)));
    set("total_active_time_percent", json!(percent(s.active_ticks)));
    for (memory, bytes) in &s.memory {
        set(&format!("{memory}_read_bytes"), json!(bytes.read));
        set(&format!("{memory}_write_bytes"), json!(bytes.written));
    }
    let traffic = s.memory.get("hbm").map_or(0, |m| m.read + m.written);
    if traffic > 0 {
        let intensity = flops as f64 / traffic as f64;
        set("mm_arithmetic_intensity", json!(intensity));
        let ratio = s.facts.pe_flops_per_second() / (s.facts.hbm_bytes_per_second.max(1)) as f64;
        set("peak_flops_bandwidth_ratio", json!(ratio));
        let mbu = traffic as f64 / (total * s.facts.hbm_bytes_per_second as f64).max(1e-30);
        set("mbu_estimated_percent", json!(100.0 * mbu));
    }
    for (name, x) in ENGINE_FIELDS.iter().zip(&s.streams) {
        set(&format!("{name}_engine_instruction_time"), json!(s.seconds(x.instruction_ticks)));
        set(&format!("{name}_engine_active_time"), json!(s.seconds(x.busy_ticks)));
        set(&format!("{name}_engine_active_time_percent"), json!(percent(x.busy_ticks)));
        set(&format!("{name}_engine_instruction_count"), json!(x.instructions));
    }
    let by_name = |wanted: &str| {
        s.words()
            .filter(|w| s.mnemonic(w).starts_with(wanted))
            .fold((0, 0), |(n, t), w| (n + w.count, t + w.instruction_ticks))
    };
    set("matmul_instruction_count", json!(by_name("MATMUL").0));
    let (n, ticks) = by_name("ACTIVATE");
    set("activate_instruction_count", json!(n));
    set("activate_instruction_time", json!(s.seconds(ticks)));
    out
}
