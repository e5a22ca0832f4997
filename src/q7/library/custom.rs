//! Custom operations: one HEADER word (0x85) and its PAYLOAD words (0x86), v2 only.
//! (wiki: firmware/kernels/pool-compute-misc; wiki: abi/customop-marshalling)
//!
//! OPEN: how a kernel finds its arguments is not published. Here the words of the operation lie in
//! each core's data RAM just below the place of an ordinary instruction word, HEADER first, and the
//! kernel's arguments are the address of the HEADER, the number of payloads and the function number.

use crate::error::{Error, Result};
use crate::q7::core::Q7Bus;

use super::cluster::DispatchReport;
use super::entries::CUSTOM_OP;
use super::{CORES, Cluster, double, half, table, word};

/// Opcode of a PAYLOAD word.
pub const PAYLOAD: u8 = 0x86;
/// Most payloads of one operation that are accepted.
/// OPEN: no limit is stated; the words must fit below the instruction word.
pub const MAX_PAYLOADS: u16 = 256;
/// Default stack of a kernel in bytes. (wiki: abi/device-abi-reference)
pub const DEFAULT_STACK: u32 = 4196;

/// HEADER word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Header {
    /// PAYLOAD words that follow.
    pub num_payloads: u16,
    /// Which function.
    pub function_id: u8,
    /// C++ arguments.
    pub num_arguments: u8,
    /// Scratch space in SBUF: address, bytes per partition, partitions.
    pub scratch: Option<(u32, u32, u8)>,
}

impl Header {
    /// Reads and checks a HEADER.
    ///
    /// # Errors
    /// `IllegalInstruction` with the broken rule.
    pub fn decode(bytes: &[u8; 64]) -> Result<Header> {
        if bytes[0] != CUSTOM_OP {
            return Err(Error::illegal(
                "header",
                format!("opcode {:#x} is not a HEADER", bytes[0]),
            ));
        }
        let fields = (word(bytes, 20), word(bytes, 24), bytes[28]);
        let scratch = match (bytes[16], fields) {
            (0, (0, 0, 0)) => None,
            (1, (address, size, parts)) if address != 0 && size != 0 && parts != 0 => Some(fields),
            (flag, _) => {
                let text = format!("has_scratch_space {flag} does not agree with its fields");
                return Err(Error::illegal("has_scratch_space", text));
            }
        };
        let reserved = bytes[17..20].iter().chain(&bytes[29..]).any(|&b| b != 0);
        if reserved {
            return Err(Error::illegal("reserved", "reserved bytes must be 0"));
        }
        Ok(Header {
            num_payloads: half(bytes, 12),
            function_id: bytes[14],
            num_arguments: bytes[15],
            scratch,
        })
    }

    /// The 64-byte word with an empty events block.
    pub fn encode(&self) -> [u8; 64] {
        let mut out = [0; 64];
        out[0] = CUSTOM_OP;
        out[1] = 0x10;
        out[12..14].copy_from_slice(&self.num_payloads.to_le_bytes());
        out[14] = self.function_id;
        out[15] = self.num_arguments;
        if let Some((address, size, partitions)) = self.scratch {
            out[16] = 1;
            out[20..24].copy_from_slice(&address.to_le_bytes());
            out[24..28].copy_from_slice(&size.to_le_bytes());
            out[28] = partitions;
        }
        out
    }
}

/// Where a tensor argument lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// SBUF.
    Sbuf {
        /// Address in SBUF.
        address: u32,
        /// Elements.
        elements: u32,
        /// Partitions.
        partitions: u8,
        /// Elements of a block.
        block: u32,
    },
    /// HBM.
    Hbm {
        /// Device address.
        address: u64,
        /// Elements.
        elements: u32,
    },
}

/// A tensor argument (48 bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorArg {
    /// Datatype code of the instruction set.
    pub dtype: u8,
    /// Shape kind: 0 eight dimensions inline, 1 out of line, 2 four dimensions inline.
    pub shape_kind: u8,
    /// Shape bytes.
    pub shape: [u8; 16],
    /// Where it lies.
    pub storage: Storage,
}

/// An argument of a PAYLOAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A tensor.
    Tensor(TensorArg),
    /// The number of tensors that follow.
    ArrayOfTensor(u32),
}

/// Library-side datatype of an instruction datatype. (wiki: abi/device-abi-reference)
///
/// # Errors
/// `DeviceFault`: the vendor's library asserts.
pub fn scalar_type(dtype: u8) -> Result<u8> {
    Ok(match dtype {
        2 => 1,
        3 => 0,
        4 => 2,
        6 => 15,
        7 => 5,
        8 => 3,
        10 => 6,
        12 => 4,
        other => {
            return Err(Error::new(
                crate::error::ErrorClass::DeviceFault,
                format!("custom operation: datatype {other} has no scalar type"),
            )
            .rule("scalar_type"));
        }
    })
}

impl Argument {
    /// Reads a PAYLOAD word.
    ///
    /// # Errors
    /// `IllegalInstruction` with the broken rule.
    pub fn decode(bytes: &[u8; 64]) -> Result<Argument> {
        if bytes[0] != PAYLOAD {
            return Err(Error::illegal(
                "header",
                format!("opcode {:#x} is not a PAYLOAD", bytes[0]),
            ));
        }
        let arg = &bytes[16..];
        match bytes[15] {
            1 => {}
            2 => return Ok(Argument::ArrayOfTensor(word(arg, 0))),
            other => return Err(Error::illegal("arg_type", format!("arg_type is {other}"))),
        }
        let storage = match arg[0] {
            1 => Storage::Sbuf {
                address: word(arg, 24),
                elements: word(arg, 28),
                partitions: arg[32],
                block: word(arg, 36),
            },
            2 => Storage::Hbm { address: double(arg, 24), elements: word(arg, 32) },
            other => return Err(Error::illegal("location", format!("location is {other}"))),
        };
        let mut shape = [0; 16];
        shape.copy_from_slice(&arg[8..24]);
        Ok(Argument::Tensor(TensorArg { dtype: arg[2], shape_kind: arg[1], shape, storage }))
    }

    /// The 64-byte word with an empty events block.
    pub fn encode(&self) -> [u8; 64] {
        let mut out = [0; 64];
        out[0] = PAYLOAD;
        out[1] = 0x10;
        let (kind, arg) = out[15..].split_at_mut(1);
        match self {
            Argument::ArrayOfTensor(count) => {
                kind[0] = 2;
                arg[..4].copy_from_slice(&count.to_le_bytes());
            }
            Argument::Tensor(tensor) => {
                kind[0] = 1;
                arg[1] = tensor.shape_kind;
                arg[2] = tensor.dtype;
                arg[8..24].copy_from_slice(&tensor.shape);
                match tensor.storage {
                    Storage::Sbuf { address, elements, partitions, block } => {
                        arg[0] = 1;
                        arg[24..28].copy_from_slice(&address.to_le_bytes());
                        arg[28..32].copy_from_slice(&elements.to_le_bytes());
                        arg[32] = partitions;
                        arg[36..40].copy_from_slice(&block.to_le_bytes());
                    }
                    Storage::Hbm { address, elements } => {
                        arg[0] = 2;
                        arg[24..32].copy_from_slice(&address.to_le_bytes());
                        arg[32..36].copy_from_slice(&elements.to_le_bytes());
                    }
                }
            }
        }
        out
    }
}

impl Cluster {
    /// Runs a custom operation: its HEADER and PAYLOAD words, in order, on every core that has a
    /// kernel for opcode 0x85.
    ///
    /// # Errors
    /// `IllegalInstruction` for malformed words, `DeviceFault` if there is no kernel, and what a
    /// core runs into.
    pub fn custom_op(&mut self, words: &[[u8; 64]], bus: &mut dyn Q7Bus) -> Result<DispatchReport> {
        let Some((first, payloads)) = words.split_first() else {
            return Err(Error::illegal("num_payloads", "a custom operation needs a HEADER"));
        };
        let header = Header::decode(first)?;
        if header.num_payloads > MAX_PAYLOADS || usize::from(header.num_payloads) != payloads.len()
        {
            let text =
                format!("{} payloads announced, {} given", header.num_payloads, payloads.len());
            return Err(Error::illegal("num_payloads", text));
        }
        for payload in payloads {
            if let Argument::Tensor(tensor) = Argument::decode(payload)? {
                scalar_type(tensor.dtype)?;
            }
        }
        if !self.has_kernel(CUSTOM_OP, header.function_id) {
            let text = format!("no custom operation with function {}", header.function_id);
            return Err(
                Error::new(crate::error::ErrorClass::DeviceFault, text).rule("unknown_opcode")
            );
        }
        let count = words.len() as u32;
        let base = self.config.word_address.wrapping_sub(64 * (count - 1));
        let mut report = DispatchReport::default();
        for core in 0..CORES {
            let Some(function) = self.lookup(core, CUSTOM_OP, header.function_id) else { continue };
            for (i, word) in words.iter().enumerate() {
                self.put_word(core, count - 1 - i as u32, word);
            }
            let arguments = [base, u32::from(header.num_payloads), u32::from(header.function_id)];
            let before = self.cores[core].cycles();
            let stack = base.wrapping_sub(64) & !63;
            report.results[core] = self.call_on(core, function, stack, &arguments, bus)?;
            report.core_cycles[core] = self.cores[core].cycles() - before;
            report.cycles = report.cycles.max(report.core_cycles[core]);
            report.cores |= 1 << core;
        }
        Ok(report)
    }
}

/// Key of a custom operation's row. OPEN: the function number takes the place of the spec byte.
pub fn key(function_id: u8) -> u32 {
    table::key(CUSTOM_OP, function_id)
}
