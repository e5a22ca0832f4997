//! A whole program as text that assembles to the same program.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::lower::layout;
use super::model::{DmaSide, Program, Role, Stream, TableSource, Tensor, Update};
use crate::isa::text::lex::escape;
use crate::isa::text::{inst, sp};
use crate::isa::{Generation, Layout, e, f, op};

/// Tensors with at most this many bytes of data are written inline.
const INLINE_BYTES: usize = 4096;

/// Data too large to stand in the text: file name and bytes.
pub type DataFiles = Vec<(String, Vec<u8>)>;

/// Writes `program` as text. Large data is named as `bin("….bin")` files, which are returned.
///
/// Source lines and expected values are not written; a comment names the latter.
pub fn to_text(program: &Program) -> (String, DataFiles) {
    let mut out = String::new();
    let mut files = Vec::new();
    let _ = writeln!(out, ".generation {}", program.generation);
    if program.v1_events8 {
        out.push_str(".events8\n");
    }
    for (key, value) in &program.metadata {
        let _ = writeln!(out, ".meta {key} \"{}\"", escape(value.as_bytes()));
    }
    for (name, number) in &program.semaphores {
        let _ = writeln!(out, ".semaphore {name} = {number}");
    }
    for (name, number) in &program.events {
        let _ = writeln!(out, ".event {name} = {number}");
    }
    for (set, parts) in &program.table_sets {
        for (i, part) in parts.iter().enumerate() {
            write_tables(&mut out, *set, i, part, &mut files);
        }
    }
    for (name, set) in &program.table_names {
        let _ = writeln!(out, ".act_tables {set} named {name}");
    }
    files.extend(program.files.iter().map(|(name, bytes)| (name.clone(), bytes.clone())));
    for tensor in &program.tensors {
        write_tensor(&mut out, tensor, &mut files);
    }
    for queue in &program.queues {
        let _ = write!(out, ".queue {} engine={}", queue.name, queue.owner);
        if let Some(semaphore) = queue.semaphore {
            let _ = write!(out, " semaphore={semaphore}");
        }
        if let Some(kind) = &queue.kind {
            let _ = write!(out, " kind={kind}");
        }
        out.push('\n');
    }
    for (i, block) in program.blocks.iter().enumerate() {
        let queue = program.queues.get(block.queue).map_or("?", |q| &q.name);
        let name = block.name.clone().unwrap_or_else(|| format!("block{i}"));
        let _ = write!(out, ".block {queue} {name} id={}", block.id);
        if block.on_done.is_empty() {
            out.push_str(" none");
        }
        for update in &block.on_done {
            let _ = write!(out, " {}", update_text(update));
        }
        out.push('\n');
        for transfer in &block.transfers {
            let _ = writeln!(
                out,
                "  copy dst={} src={}",
                side_text(&transfer.dst),
                side_text(&transfer.src)
            );
        }
        out.push_str(".end\n");
    }
    for race in &program.allowed_races {
        out.push_str(".allow_race");
        if let Some(tensor) = &race.tensor {
            let _ = write!(out, " {tensor}");
        }
        if let Some((a, b)) = race.engines {
            let _ = write!(out, " {a} {b}");
        }
        if let Some([a, b]) = &race.words {
            let (a, b) = (escape(a.as_bytes()), escape(b.as_bytes()));
            let _ = write!(out, " between \"{a}\" \"{b}\"");
        }
        let _ = writeln!(out, " \"{}\"", escape(race.reason.as_bytes()));
    }
    for check in &program.checks {
        let _ = writeln!(
            out,
            "# check of {} against {} ({} values, atol={:?} rtol={:?}) is not part of a disassembly",
            check.tensor,
            check.origin.replace('\n', " "),
            check.expected.len(),
            check.atol,
            check.rtol
        );
    }
    let layout = layout(program);
    for stream in &program.streams {
        let _ = writeln!(out, "\n.stream {}", stream.engine);
        write_stream(&mut out, stream, layout);
    }
    if program.generation == Generation::V1 && !program.v1_sp.words.is_empty() {
        out.push_str("\n.stream SP\n");
        for word in &program.v1_sp.words {
            let _ = writeln!(out, "  {}", sp::print(word));
        }
    }
    (out, files)
}

fn write_tables(out: &mut String, set: u32, i: usize, part: &TableSource, files: &mut DataFiles) {
    let mut file = |kind: &str, bytes: &[u8]| {
        let name = format!("act_tables_{set}_{i}_{kind}");
        files.push((name.clone(), bytes.to_vec()));
        name
    };
    let _ = match part {
        TableSource::Profile { func, document } => {
            let name = file("profile.json", document.as_bytes());
            writeln!(out, ".act_tables {set} profile {func} \"{name}\"")
        }
        TableSource::Blobs { buckets, control, manifest } => {
            let names = [
                file("buckets.bin", buckets),
                file("control.bin", control),
                file("set.json", manifest.as_bytes()),
            ];
            let [buckets, control, manifest] = names;
            writeln!(out, ".act_tables {set} blobs \"{buckets}\" \"{control}\" \"{manifest}\"")
        }
        TableSource::Generated { name } => writeln!(out, ".act_tables {set} generated {name}"),
    };
}

fn write_tensor(out: &mut String, tensor: &Tensor, files: &mut DataFiles) {
    let shape: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
    let _ = write!(
        out,
        ".tensor {} {} {}[{}]",
        tensor.name,
        tensor.memory.name(),
        tensor.dtype,
        shape.join(",")
    );
    match tensor.role {
        Role::Internal => {}
        Role::Input => out.push_str(" input"),
        Role::Output => out.push_str(" output"),
    }
    let _ = write!(out, " at {:#x} overlap", tensor.address);
    match &tensor.init {
        None => {}
        Some(bytes) if !bytes.is_empty() && bytes.iter().all(|b| *b == 0) => {
            out.push_str(" = fill(0)");
        }
        Some(bytes) if bytes.len() <= INLINE_BYTES => {
            let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
            let _ = write!(out, " = hex(\"{hex}\")");
        }
        Some(bytes) => {
            let name = format!("{}.bin", tensor.name);
            let _ = write!(out, " = bin(\"{name}\")");
            files.push((name, bytes.clone()));
        }
    }
    out.push('\n');
}

fn update_text(update: &Update) -> String {
    match *update {
        Update::SemaphoreAdd { index, amount } => format!("$S[{index}]+={amount}"),
        Update::SemaphoreSub { index, amount } => format!("$S[{index}]-={amount}"),
        Update::SemaphoreSet { index, value } => format!("$S[{index}]={value}"),
        Update::EventSet { index } => format!("$E[{index}]=1"),
        Update::EventClear { index } => format!("$E[{index}]=0"),
    }
}

fn side_text(side: &DmaSide) -> String {
    let mut out = format!("{}@{:#x}", side.dtype, side.address);
    if !side.dims.is_empty() {
        let steps: Vec<String> = side.dims.iter().map(|d| d.0.to_string()).collect();
        let counts: Vec<String> = side.dims.iter().map(|d| d.1.to_string()).collect();
        let _ = write!(out, "[{}][{}]", steps.join(","), counts.join(","));
    }
    out
}

/// Where a branch word of `layout` holds its target.
fn branch_immediate(layout: Layout) -> Option<std::ops::Range<usize>> {
    f::ctrl_br::BR_IMMEDIATE.at(layout).map(|at| at..at + 8)
}

/// The word that a relative branch at `at` jumps to, if the text can say it with a label.
fn branch_target(layout: Layout, word: &[u8; 64], at: usize, count: usize) -> Option<usize> {
    let mode = word[f::ctrl_br::TARGET_MODE.at(layout)?];
    let immediate = &word[branch_immediate(layout)?];
    if word[0] != op::COMPARE_BRANCH
        || mode != e::br_target_mode::RELATIVE_IMMEDIATE
        || immediate[4..] != [0; 4]
    {
        return None;
    }
    let distance = i32::from_le_bytes([immediate[0], immediate[1], immediate[2], immediate[3]]);
    if distance % 64 != 0 {
        return None;
    }
    let target = at as i64 + i64::from(distance / 64);
    usize::try_from(target).ok().filter(|t| *t <= count)
}

fn write_stream(out: &mut String, stream: &Stream, layout: Layout) {
    let mut labels: BTreeMap<usize, String> = BTreeMap::new();
    let mut used: BTreeSet<&str> = BTreeSet::new();
    for (name, at) in &stream.labels {
        labels.entry(*at).or_insert_with(|| name.clone());
        used.insert(name);
    }
    let branches = !matches!(layout, Layout::V1 | Layout::V1Wide);
    let target = |word, at| {
        if branches { branch_target(layout, word, at, stream.words.len()) } else { None }
    };
    for (at, word) in stream.words.iter().enumerate() {
        if let Some(t) = target(word, at) {
            labels.entry(t).or_insert_with(|| {
                let mut name = format!("L{t}");
                while used.contains(name.as_str()) {
                    name.push('_');
                }
                name
            });
        }
    }
    for (at, word) in stream.words.iter().enumerate() {
        // Several names of one place are all kept; one of them serves branches.
        for (name, _) in stream.labels.iter().filter(|l| *l.1 == at) {
            let _ = writeln!(out, "{name}:");
        }
        if let Some(name) = labels.get(&at).filter(|n| !stream.labels.contains_key(*n)) {
            let _ = writeln!(out, "{name}:");
        }
        let text = match target(word, at).and_then(|t| labels.get(&t)) {
            Some(label) => with_label(layout, word, label),
            None => inst::print(layout, word),
        };
        let _ = writeln!(out, "  {text}");
    }
    let end = stream.words.len();
    for (name, _) in stream.labels.iter().filter(|l| *l.1 == end) {
        let _ = writeln!(out, "{name}:");
    }
    if let Some(name) = labels.get(&end).filter(|n| !stream.labels.contains_key(*n)) {
        let _ = writeln!(out, "{name}:");
    }
}

fn with_label(layout: Layout, word: &[u8; 64], label: &str) -> String {
    let mut bare = *word;
    if let Some(range) = branch_immediate(layout) {
        bare[range].fill(0);
    }
    let text = inst::print(layout, &bare);
    if text.starts_with('.') {
        inst::print(layout, word)
    } else {
        format!("{text} br_immediate={label}")
    }
}
