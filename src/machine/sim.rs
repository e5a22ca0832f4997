//! The SIM band of V1: words that only a simulator executes, for test programs that bring data in
//! and carry results out (wiki: generations/cross-gen-opcode-diff 5.3). The file words reach the
//! host through the program's own folder only: inputs were read when the program was loaded, and
//! results are handed to whoever started the run, which writes each of them whole.
//!
//! A SIM word runs when everything its stream issued is complete, and takes one control cycle of
//! simulated time (OPEN: hardware has no such words, so nothing is published about time).

use super::run::Machine;
use crate::error::{Error, Result};
use crate::isa::{Field, Generation, Inst, f, op_v1};
use crate::numeric::Dtype;
use crate::program::files::confined_name;
use crate::program::limits::DATA_BYTES;
use crate::program::{ElemType, npy};
use crate::sync::{SyncId, UpdateKind};

/// Runs of bytes that one word may touch.
const RUNS: u64 = 1 << 16;

/// One side of a SIM_DMA_COPY: two dimensions of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// Device address of the first byte.
    pub start: u64,
    /// Step in bytes, inner dimension first.
    pub step: [i32; 2],
    /// Bytes, inner dimension first.
    pub count: [u32; 2],
}

/// A decoded SIM word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SimOp {
    /// SIM_DMA_COPY 0xEB: bytes from one pattern to another, then an event (0 is none).
    DmaCopy {
        /// Where bytes come from.
        src: Side,
        /// Where they go.
        dst: Side,
        /// Event set at the end, 0 for none.
        event: u16,
    },
    /// SIM_WRFILE 0xEC and SIM_WRNPY 0xED: a file's data into device memory.
    WriteFile {
        /// Name in the program's folder.
        name: String,
        /// Device address of the first byte.
        address: u64,
        /// Whether the file has an npy head, which is left out.
        npy: bool,
    },
    /// SIM_RDNPY 0xEE: device memory into an npy file.
    ReadNpy {
        /// Name in the program's folder.
        name: String,
        /// Device address of the first byte.
        address: u64,
        /// Element type.
        dtype: ElemType,
        /// Extents, outermost first.
        shape: Vec<u64>,
    },
    /// SIM_MEMCPY 0xEF: contiguous bytes.
    Memcpy {
        /// Where bytes come from.
        src: u64,
        /// Where they go.
        dst: u64,
        /// How many.
        bytes: u64,
    },
}

impl SimOp {
    /// Decodes a word of the SIM band; `None` for any other word.
    ///
    /// # Errors
    /// Illegal instruction: a file name that leads out of the program's folder, sides of different
    /// size, an unknown type.
    pub fn decode(inst: &Inst) -> Result<Option<SimOp>> {
        if inst.generation != Generation::V1 {
            return Ok(None);
        }
        Ok(Some(match inst.opcode() {
            op_v1::SIM_DMA_COPY => {
                use f::v1_sim_dma_copy as d;
                let side = |start, step, count| Side {
                    start: inst.get(start),
                    step: words(inst, step).map(|w| w as i32),
                    count: words(inst, count),
                };
                let src = side(d::SRC_START_ADDR, d::SRC_STEP_ELEM, d::SRC_NUM_ELEM);
                let dst = side(d::DST_START_ADDR, d::DST_STEP_ELEM, d::DST_NUM_ELEM);
                let size = src.bytes()?;
                if size != dst.bytes()? {
                    return Err(Error::illegal(
                        "tensor_same_num_elements",
                        format!("{size} bytes go to {}", dst.bytes()?),
                    ));
                }
                SimOp::DmaCopy { src, dst, event: inst.get(d::QUEUE_IDX) as u16 }
            }
            op_v1::SIM_WRFILE | op_v1::SIM_WRNPY => SimOp::WriteFile {
                name: name(inst, f::v1_sim_file::SRC_FNAME)?,
                address: inst.get(f::v1_sim_file::DST_ADDR),
                npy: inst.opcode() == op_v1::SIM_WRNPY,
            },
            op_v1::SIM_RDNPY => {
                use f::v1_sim_rdnpy as r;
                let dims = inst.get(r::DST_NDIMS) as usize;
                if !(1..=4).contains(&dims) {
                    return Err(Error::illegal(
                        "sim_dimensions",
                        format!("{dims} dimensions, 1 to 4 are legal"),
                    ));
                }
                let extents: [u32; 4] = words(inst, r::DST_DIMS);
                let dtype = Dtype::from_code(inst.generation, inst.get(r::DTYPE) as u8)?;
                let dtype = ElemType::from_name(dtype.name()).ok_or_else(|| {
                    Error::illegal("is_valid_dtype", format!("no files of {}", dtype.name()))
                })?;
                let shape: Vec<u64> = extents[..dims].iter().map(|&d| u64::from(d)).collect();
                let count = shape.iter().fold(1u64, |n, d| n.saturating_mul(*d));
                bounded(dtype.bytes_of(count))?;
                SimOp::ReadNpy {
                    name: name(inst, r::DST_FNAME)?,
                    address: inst.get(r::SRC_ADDR),
                    dtype,
                    shape,
                }
            }
            op_v1::SIM_MEMCPY => SimOp::Memcpy {
                src: inst.get(f::v1_sim_memcpy::SRC_ADDRESS),
                dst: inst.get(f::v1_sim_memcpy::DST_ADDRESS),
                bytes: bounded(inst.get(f::v1_sim_memcpy::NBYTES))?,
            },
            _ => return Ok(None),
        }))
    }
}

impl Side {
    fn bytes(&self) -> Result<u64> {
        let [x, y] = self.count.map(u64::from);
        if !self.dense() && x.saturating_mul(y) > RUNS || y > RUNS {
            return Err(Error::illegal("sim_size", format!("more than {RUNS} runs of bytes")));
        }
        bounded(x.saturating_mul(y))
    }

    fn dense(&self) -> bool {
        self.step[0] == 1 || self.count[0] == 1
    }

    /// (address, bytes) of each contiguous run, in order.
    fn runs(&self) -> Vec<(u64, usize)> {
        let at = |i: u32, d: usize| i64::from(i) * i64::from(self.step[d]);
        let mut out = Vec::new();
        for y in 0..self.count[1] {
            let row = self.start.wrapping_add_signed(at(y, 1));
            if self.dense() {
                out.push((row, self.count[0] as usize));
            } else {
                out.extend((0..self.count[0]).map(|x| (row.wrapping_add_signed(at(x, 0)), 1)));
            }
        }
        out
    }
}

fn bounded(bytes: u64) -> Result<u64> {
    if bytes == 0 || bytes > DATA_BYTES {
        return Err(Error::illegal(
            "sim_size",
            format!("{bytes} bytes, 1 to {DATA_BYTES} are legal"),
        ));
    }
    Ok(bytes)
}

fn words<const N: usize>(inst: &Inst, field: Field) -> [u32; N] {
    let bytes = inst.slice(field).as_chunks::<4>().0;
    std::array::from_fn(|i| bytes.get(i).map_or(0, |b| u32::from_le_bytes(*b)))
}

fn name(inst: &Inst, field: Field) -> Result<String> {
    let bytes = inst.slice(field);
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    let name = String::from_utf8_lossy(&bytes[..end]).into_owned();
    confined_name(&name).map_err(|why| Error::illegal("sim_file_name", why))?;
    Ok(name)
}

impl Machine {
    /// Executes a SIM word.
    pub(super) fn sim(&mut self, s: usize, pc: usize, op: &SimOp) -> Result<()> {
        match op {
            SimOp::DmaCopy { src, dst, event } => {
                let mut data = Vec::new();
                for (address, bytes) in src.runs() {
                    let at = data.len();
                    data.resize(at + bytes, 0);
                    self.load_bytes(s, pc, address, &mut data[at..])?;
                }
                let mut rest = data.as_slice();
                for (address, bytes) in dst.runs() {
                    let (part, behind) = rest.split_at(bytes);
                    self.store_bytes(s, pc, address, part.to_vec())?;
                    rest = behind;
                }
                if *event != 0 {
                    self.apply_now(s, pc, SyncId::Event(*event), UpdateKind::Set, 0)?;
                }
                Ok(())
            }
            SimOp::WriteFile { name, address, npy } => {
                let bytes = self.written_files.get(name).or_else(|| self.program.files.get(name));
                let bytes = bytes.ok_or_else(|| {
                    Error::new(
                        crate::ErrorClass::Io,
                        format!("there is no file `{name}` in the program's folder"),
                    )
                })?;
                let data = if *npy {
                    let bad = |why| Error::illegal("sim_npy", format!("{name}: {why}"));
                    npy::parse(bytes).map_err(bad)?.bytes
                } else {
                    bytes.clone()
                };
                bounded(data.len() as u64)?;
                self.store_bytes(s, pc, *address, data)
            }
            SimOp::ReadNpy { name, address, dtype, shape } => {
                let count = shape.iter().product();
                let mut data = vec![0; dtype.bytes_of(count) as usize];
                self.load_bytes(s, pc, *address, &mut data)?;
                let file = npy::encode(*dtype, shape, &data).map_err(Error::internal)?;
                self.written_files.insert(name.clone(), file);
                Ok(())
            }
            SimOp::Memcpy { src, dst, bytes } => {
                let mut data = vec![0; *bytes as usize];
                self.load_bytes(s, pc, *src, &mut data)?;
                self.store_bytes(s, pc, *dst, data)
            }
        }
    }

    /// Files that the program wrote, by name in its folder. The machine itself touches no file.
    pub fn written_files(&self) -> &std::collections::BTreeMap<String, Vec<u8>> {
        &self.written_files
    }
}
