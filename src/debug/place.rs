//! Places in memory as the user writes them, and their contents in words.
//!
//! `sbuf:P:BYTE`, `sbuf:P-Q:BYTE` (partitions P to Q), `psum:..`, `hbm:BYTE`, `@ADDRESS` (an operand
//! address on the chip), or a tensor, with `+BYTE` behind any of them.

use std::fmt::Write as _;

use crate::machine::Machine;
use crate::machine::tensors;
use crate::memory::{ByteSet, Region, Space};
use crate::program::{ElemType, Tensor};

/// A set of bytes for which the user asked.
#[derive(Clone, Debug)]
pub struct Bytes(pub Region);

impl Bytes {
    /// Whether any byte is in `region` too.
    pub fn meets(&self, region: &Region) -> bool {
        self.0.overlaps(region)
    }
}

/// The first byte of a place, in a range of partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Memory.
    pub space: Space,
    /// First partition.
    pub first: u32,
    /// Partitions.
    pub count: u32,
    /// Byte in each.
    pub byte: u64,
}

/// Most elements that one command prints.
const MOST_ELEMENTS: u64 = 4096;

/// A whole number, decimal or hexadecimal, `_` allowed.
pub fn number(text: &str) -> Result<u64, String> {
    let plain = text.replace('_', "");
    let parsed = match plain.strip_prefix("0x").or_else(|| plain.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => plain.parse(),
    };
    parsed.map_err(|_| format!("`{text}` is not a number"))
}

fn signed(text: &str) -> Result<i64, String> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let n = i64::try_from(number(digits)?).map_err(|_| format!("`{text}` is too large"))?;
    Ok(if negative { -n } else { n })
}

impl Place {
    /// Reads a place.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(machine: &Machine, text: &str) -> Result<Place, String> {
        let (base, plus) = match text.rsplit_once('+') {
            Some((base, plus)) => (base, number(plus)?),
            None => (text, 0),
        };
        let mut place = Place::base(machine, base)?;
        place.byte = place.byte.checked_add(plus).ok_or("the byte is too large")?;
        Ok(place)
    }

    fn base(machine: &Machine, text: &str) -> Result<Place, String> {
        if let Some(tensor) = machine.program().tensor(text) {
            let region = tensors::region(tensor, machine.config()).map_err(|e| e.message)?;
            return Ok(Place {
                space: region.space,
                first: region.first,
                count: 1,
                byte: region.bytes.start(),
            });
        }
        if let Some(address) = text.strip_prefix('@') {
            let address = u32::try_from(number(address)?)
                .map_err(|_| format!("`{text}` is no on-chip address"))?;
            let at = machine.config().geometry.decode(address).map_err(|e| e.message)?;
            let byte = u64::from(at.byte);
            return Ok(Place { space: at.space, first: at.partition, count: 1, byte });
        }
        let mut parts = text.split(':');
        let space = match parts.next().map(str::to_ascii_lowercase).as_deref() {
            Some("sbuf") => Space::Sbuf,
            Some("psum") => Space::Psum,
            Some("hbm") => {
                let byte = number(parts.next().unwrap_or("0"))?;
                return Ok(Place { space: Space::Hbm, first: 0, count: 1, byte });
            }
            _ => {
                return Err(format!(
                    "`{text}` is no tensor and no place like sbuf:0:0x100, psum:0-3:0, hbm:0x40"
                ));
            }
        };
        let partitions = parts.next().unwrap_or("0");
        let (first, last) = match partitions.split_once('-') {
            Some((a, b)) => (number(a)?, number(b)?),
            None => (number(partitions)?, number(partitions)?),
        };
        let limit = u64::from(machine.config().geometry.partitions(space));
        if first > last || last >= limit {
            return Err(format!("{space} has partitions 0 to {}", limit.saturating_sub(1)));
        }
        let byte = number(parts.next().unwrap_or("0"))?;
        if parts.next().is_some() {
            return Err(format!("`{text}` has too many parts"));
        }
        Ok(Place { space, first: first as u32, count: (last - first + 1) as u32, byte })
    }

    /// `len` bytes from here in every partition, or the rest of the memory if that is less.
    ///
    /// # Errors
    /// The first byte does not exist.
    pub fn bytes(&self, machine: &Machine, len: u64) -> Result<Bytes, String> {
        let active = machine.config().geometry.active(self.space);
        if self.byte >= active || len == 0 {
            return Err(format!("{} has bytes 0 to {:#x}", self.space, active - 1));
        }
        let len = len.min(active - self.byte);
        let set = ByteSet::dense(self.byte, len);
        Ok(Bytes(Region::new(self.space, self.first, self.count, set)))
    }
}

/// The bytes of a memory range that a breakpoint names: a tensor, or a place and a length.
///
/// # Errors
/// What is wrong with it, in words.
pub fn range(machine: &Machine, place: &str, len: Option<&str>) -> Result<Bytes, String> {
    if let (Some(tensor), None) = (machine.program().tensor(place), len) {
        return tensors::region(tensor, machine.config()).map(Bytes).map_err(|e| e.message);
    }
    let len = len.map_or(Ok(1), number)?;
    Place::parse(machine, place)?.bytes(machine, len)
}

/// The element type called `name`.
///
/// # Errors
/// There is none.
pub fn dtype(name: &str) -> Result<ElemType, String> {
    ElemType::from_name(name)
        .ok_or_else(|| format!("`{name}` is no element type (fp32, bf16, int32, uint8, ...)"))
}

/// Elements of `bytes` in words; hexadecimal where the type has no numbers.
pub fn values(dtype: ElemType, bytes: &[u8]) -> Vec<String> {
    if let Some(ints) = dtype.read_ints(bytes) {
        return ints.iter().map(ToString::to_string).collect();
    }
    if let Some(floats) = dtype.read_f64(bytes) {
        return floats.iter().map(|&v| float(v)).collect();
    }
    bytes.iter().map(|b| format!("{b:#04x}")).collect()
}

/// A float with as many digits as a reader wants.
pub fn float(v: f64) -> String {
    let size = v.abs();
    if v == 0.0 || (1e-3..1e6).contains(&size) {
        let text = format!("{v:.4}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        if text == "-0" { "-0".into() } else { text.to_string() }
    } else if v.is_finite() {
        format!("{v:.3e}")
    } else {
        v.to_string()
    }
}

/// Prints elements of type `dtype` at `place`, in the pattern of `dims`: (step in elements, count),
/// innermost first.
///
/// # Errors
/// What is wrong, in words.
pub fn pattern(
    machine: &mut Machine,
    place: &Place,
    dtype: ElemType,
    dims: &[(i64, u64)],
) -> Result<String, String> {
    let size = u64::from(dtype.bits()) / 8;
    if size == 0 {
        return Err(format!("{dtype} has less than a byte; look at it as uint8"));
    }
    let total = dims.iter().try_fold(1u64, |n, d| n.checked_mul(d.1));
    if total.is_none_or(|n| n == 0 || n * u64::from(place.count) > MOST_ELEMENTS) {
        return Err(format!("a pattern has 1 to {MOST_ELEMENTS} elements"));
    }
    let inner = dims.first().map_or(1, |d| d.1);
    let outer: Vec<(i64, u64)> = dims.get(1..).unwrap_or(&[]).to_vec();
    let rows: u64 = outer.iter().map(|d| d.1).product();
    let step = dims.first().map_or(1, |d| d.0);
    let mut out = String::new();
    let memory = machine.memory();
    for partition in place.first..place.first + place.count {
        for row in 0..rows {
            let (mut rest, mut offset) = (row, 0i128);
            for &(step, count) in &outer {
                offset += i128::from(step) * i128::from(rest % count);
                rest /= count;
            }
            let at = |i: u64| -> Result<u64, String> {
                let element = offset + i128::from(step) * i128::from(i);
                u64::try_from(i128::from(place.byte) + element * i128::from(size))
                    .map_err(|_| "the pattern goes below byte 0".to_string())
            };
            let mut bytes = Vec::with_capacity((inner * size) as usize);
            for i in 0..inner {
                let element = memory.row(place.space, partition, at(i)?, size);
                bytes.extend_from_slice(element.map_err(|e| e.message)?);
            }
            for (n, line) in values(dtype, &bytes).chunks(8).enumerate() {
                let byte = at(8 * n as u64)?;
                match place.space {
                    Space::Hbm => write!(out, "hbm {byte:#x}:"),
                    space => write!(out, "{space} {partition}:{byte:#x}:"),
                }
                .ok();
                for value in line {
                    let _ = write!(out, " {value:>9}");
                }
                out.push('\n');
            }
        }
    }
    Ok(out)
}

/// Reads a pattern dimension: `COUNT` or `STEPxCOUNT`, the step in elements.
///
/// # Errors
/// What is wrong, in words.
pub fn dimension(text: &str) -> Result<(i64, u64), String> {
    match text.split_once('x') {
        Some((step, count)) if !step.is_empty() && step != "0" => {
            Ok((signed(step)?, number(count)?))
        }
        _ => Ok((1, number(text)?)),
    }
}

/// What a work still writes that meets `region`: bytes shown are those of after it.
pub fn in_flight(machine: &Machine, region: &Region) -> Option<String> {
    let now = machine.now();
    for s in 0..crate::machine::run::ENGINE_STREAMS {
        let stream = machine.stream(s)?;
        let flying = stream.in_flight.iter().filter(|f| f.end > now);
        let writes = flying.flat_map(|f| f.work.accesses.iter().map(move |a| (f.end, a)));
        let here = writes.filter(|(_, a)| a.kind.writes() && a.region.overlaps(region));
        if let Some((end, access)) = here.max_by_key(|(_, a)| a.certain) {
            let does = if access.certain { "still writes" } else { "may still write" };
            return Some(format!(
                "{} {does} here until tick {end}; shown is what it will leave",
                stream.engine
            ));
        }
    }
    None
}

/// One index of a tensor: an element or a range.
fn slices(tensor: &Tensor, text: Option<&str>) -> Result<Vec<(u64, u64)>, String> {
    let mut out: Vec<(u64, u64)> = tensor.shape.iter().map(|&d| (0, d)).collect();
    let Some(text) = text else { return Ok(out) };
    for (i, part) in text.split(',').enumerate() {
        let part = part.trim();
        let whole = out.get(i).copied().ok_or("too many indices")?.1;
        let (from, to) = match part.split_once(':') {
            Some((a, b)) => (
                if a.is_empty() { 0 } else { number(a)? },
                if b.is_empty() { whole } else { number(b)? },
            ),
            None => {
                let n = number(part)?;
                (n, n.saturating_add(1))
            }
        };
        if from >= to || to > whole {
            return Err(format!("index `{part}` of dimension {i}, which has {whole} elements"));
        }
        out[i] = (from, to);
    }
    Ok(out)
}

/// Prints (part of) a tensor: `NAME` or `NAME[i, a:b, ...]`.
///
/// # Errors
/// What is wrong, in words.
pub fn tensor(machine: &mut Machine, text: &str) -> Result<String, String> {
    let (name, index) = match text.split_once('[') {
        Some((name, rest)) => {
            let inner = rest.trim_end().strip_suffix(']').ok_or("a `]` is missing")?;
            (name.trim(), Some(inner))
        }
        None => (text.trim(), None),
    };
    let program = std::sync::Arc::clone(machine.program());
    let Some(tensor) = program.tensor(name) else {
        let names: Vec<&str> = program.tensors.iter().map(|t| t.name.as_str()).collect();
        if names.is_empty() {
            return Err("the program names no tensors; `x` prints memory by place".into());
        }
        return Err(format!("no tensor `{name}`; the program has {}", names.join(", ")));
    };
    let region = tensors::region(tensor, machine.config()).map_err(|e| e.message)?;
    let config = std::sync::Arc::clone(machine.shared_config());
    let bytes = tensors::read(tensor, &machine.memory(), &config).map_err(|e| e.message)?;
    let shape: Vec<String> = tensor.shape.iter().map(ToString::to_string).collect();
    let mut out = format!("{name}: {} [{}] at {region}\n", tensor.dtype, shape.join(", "));
    if let Some(note) = in_flight(machine, &region) {
        let _ = writeln!(out, "note: {note}");
    }
    let all = tensor.dtype.read_f64(&bytes);
    if let Some(all) = &all {
        let finite: Vec<f64> = all.iter().copied().filter(|v| v.is_finite()).collect();
        let low = finite.iter().copied().fold(f64::INFINITY, f64::min);
        let high = finite.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mean = finite.iter().sum::<f64>() / finite.len().max(1) as f64;
        let zeros = all.iter().filter(|v| **v == 0.0).count();
        if !finite.is_empty() {
            let _ = writeln!(
                out,
                "min {} max {} mean {}; {} elements, {zeros} zero, {} not finite",
                float(low),
                float(high),
                float(mean),
                all.len(),
                all.len() - finite.len()
            );
        }
    }
    let slices = slices(tensor, index)?;
    let size = (u64::from(tensor.dtype.bits()) / 8) as usize;
    if size == 0 || all.is_none() {
        for line in bytes.chunks(16).take(16) {
            let line: Vec<String> = line.iter().map(|b| format!("{b:02x}")).collect();
            let _ = writeln!(out, "  {}", line.join(" "));
        }
        return Ok(out);
    }
    let short = index.is_none();
    let (rows_shown, columns_shown) = if short { (8, 8) } else { (64, 64) };
    let (last, outer) = slices.split_last().ok_or("a tensor without dimensions")?;
    let rows: u64 = outer.iter().map(|(a, b)| b - a).product();
    for row in 0..rows.min(rows_shown) {
        let (mut rest, mut flat, mut at) = (row, 0u64, Vec::new());
        for &(a, b) in outer.iter().rev() {
            at.push(a + rest % (b - a));
            rest /= b - a;
        }
        at.reverse();
        for (i, &n) in at.iter().enumerate() {
            flat = flat * tensor.shape[i] + n;
        }
        flat *= tensor.shape.last().copied().unwrap_or(1);
        let to = last.1.min(last.0 + columns_shown);
        let part = ((flat + last.0) as usize * size, (flat + to) as usize * size);
        let shown = values(tensor.dtype, bytes.get(part.0..part.1).unwrap_or(&[]));
        let at: Vec<String> = at.iter().map(ToString::to_string).collect();
        let _ = write!(out, "  [{}]", at.join(","));
        for value in &shown {
            let _ = write!(out, " {value:>9}");
        }
        out.push_str(if to < last.1 { " ...\n" } else { "\n" });
    }
    if rows > rows_shown {
        let _ = writeln!(out, "  ... {} more rows", rows - rows_shown);
    }
    Ok(out)
}
