//! Chrome trace-event JSON, which Perfetto opens too: one track per engine and DMA queue, counter
//! tracks for semaphores and events, arrows from the update to the instruction that it released.
//!
//! Times are microseconds of simulated time. The file is written as the run goes on.

use std::collections::HashMap;
use std::io::Write;

use super::record::{InstRecord, Record, Recorder, TraceHeader};
use crate::sync::SyncId;

/// Names an instruction: (stream, word) to (name, disassembly, source line).
pub type Namer = Box<dyn Fn(u16, u32) -> (String, String, Option<String>) + Send>;

/// Writes the trace.
pub struct ChromeTrace<W: Write + Send> {
    out: W,
    header: TraceHeader,
    namer: Namer,
    first: bool,
    flows: u64,
    // where each update happened, for the arrow that may start there
    updates: HashMap<(u16, u64), u64>,
    failed: Option<std::io::Error>,
}

const PROCESS: u32 = 1;

impl<W: Write + Send> ChromeTrace<W> {
    /// Starts the file.
    pub fn new(out: W, header: TraceHeader, namer: Namer) -> Self {
        let mut trace = ChromeTrace {
            out,
            header,
            namer,
            first: true,
            flows: 0,
            updates: HashMap::new(),
            failed: None,
        };
        trace.raw("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
        let name = format!("tpbemu {}", trace.header.generation);
        trace.event(
            serde_json::json!({"ph":"M","pid":PROCESS,"name":"process_name","args":{"name":name}}),
        );
        for (tid, stream) in trace.header.streams.clone().iter().enumerate() {
            trace.event(serde_json::json!({"ph":"M","pid":PROCESS,"tid":tid,"name":"thread_name","args":{"name":stream}}));
            trace.event(serde_json::json!({"ph":"M","pid":PROCESS,"tid":tid,"name":"thread_sort_index","args":{"sort_index":tid}}));
        }
        trace
    }

    fn raw(&mut self, text: &str) {
        if self.failed.is_none() {
            if let Err(e) = self.out.write_all(text.as_bytes()) {
                self.failed = Some(e);
            }
        }
    }

    fn event(&mut self, value: serde_json::Value) {
        let separator = if self.first { "\n" } else { ",\n" };
        self.first = false;
        self.raw(&format!("{separator}{value}"));
    }

    fn us(&self, tick: u64) -> f64 {
        tick as f64 * 1e6 / self.header.tick_hz as f64
    }

    fn instruction(&mut self, i: &InstRecord) {
        let (name, text, source) = (self.namer)(i.stream, i.pc);
        let period = self.header.periods[usize::from(i.stream)].max(1);
        if i.waited.is_some() && i.granted > i.head {
            let id = i.waited.map(|w| w.0.to_string()).unwrap_or_default();
            self.event(serde_json::json!({
                "ph":"X","pid":PROCESS,"tid":i.stream,"cat":"wait","name":format!("wait {id}"),
                "ts":self.us(i.head),"dur":self.us(i.issue.max(i.granted) - i.head),
                "cname":"grey"}));
        }
        self.event(serde_json::json!({
            "ph":"X","pid":PROCESS,"tid":i.stream,"cat":if i.data_path {"data"} else {"control"},
            "name":name,"ts":self.us(i.start),"dur":self.us(i.busy_until.max(i.start) - i.start),
            "args":{"pc":i.pc,"execution":i.index,"instruction":text,"source":source,
                "start_cycle":i.start / period,"busy_cycles":(i.busy_until - i.start) / period,
                "reads_done_cycle":i.reads_done / period,"end_cycle":i.end / period,
                "bytes_read":i.bytes[0],"bytes_written":i.bytes[1],"flops":i.flops,
                "stall":i.stall.map(|s| format!("{s:?}").to_lowercase())}}));
        if let Some((_, Some(by))) = i.waited {
            if let Some(&tick) = self.updates.get(&by) {
                self.flows += 1;
                let id = self.flows;
                self.event(serde_json::json!({"ph":"s","pid":PROCESS,"tid":by.0,"id":id,
                    "cat":"sync","name":"releases","ts":self.us(tick)}));
                self.event(
                    serde_json::json!({"ph":"f","bp":"e","pid":PROCESS,"tid":i.stream,"id":id,
                    "cat":"sync","name":"releases","ts":self.us(i.start)}),
                );
            }
        }
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The first write that failed.
    pub fn finish(mut self) -> std::io::Result<W> {
        self.raw("\n]}\n");
        match self.failed.take() {
            Some(e) => Err(e),
            None => {
                self.out.flush()?;
                Ok(self.out)
            }
        }
    }
}

impl<W: Write + Send> Recorder for ChromeTrace<W> {
    fn record(&mut self, record: &Record) {
        match record {
            Record::Inst(i) => self.instruction(i),
            Record::Sync(s) => {
                let name = match s.id {
                    SyncId::Semaphore(n) => format!("S[{n}]"),
                    SyncId::Event(n) => format!("E[{n}]"),
                };
                self.updates.insert(s.by, s.tick);
                self.event(serde_json::json!({"ph":"C","pid":PROCESS,"name":name,
                    "ts":self.us(s.tick),"args":{"value":s.value}}));
            }
            Record::Transfer(t) => {
                let (name, text, source) = (self.namer)(t.stream, t.block);
                self.event(serde_json::json!({"ph":"X","pid":PROCESS,"tid":t.stream,"cat":"dma",
                    "name":name,"ts":self.us(t.start),"dur":self.us(t.end - t.start),
                    "args":{"transfer":text,"source":source,"bytes":t.bytes,"engines":t.engines,
                        "queued_us":self.us(t.queued),"load":t.load,"index":t.index}}));
            }
            Record::Note { tick, stream, pc, text } => {
                self.event(serde_json::json!({"ph":"i","s":"t","pid":PROCESS,"tid":stream,
                    "name":text,"ts":self.us(*tick),"args":{"pc":pc}}));
            }
        }
    }
}
