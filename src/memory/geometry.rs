//! Geometry of the memories and the decode of on-chip addresses.
//!
//! An on-chip operand address has 29 bits. SBUF and PSUM are partition-major: the address is the
//! region's base, plus the partition times the stride, plus the byte in the partition. Above the
//! active bytes of a stride there is no memory. (wiki: dma/sbuf-psum-banks)

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Mask of an on-chip operand address. (wiki: dma/sbuf-psum-banks)
pub const ON_CHIP_ADDRESS_MASK: u32 = 0x1FFF_FFFF;

/// A memory of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Space {
    /// State buffer, partition-major.
    Sbuf,
    /// Partial-sum buffer, partition-major, in banks.
    Psum,
    /// Device memory, linear. One "partition".
    Hbm,
}

impl Space {
    /// All spaces, in index order.
    pub const ALL: [Space; 3] = [Space::Sbuf, Space::Psum, Space::Hbm];

    /// Lower-case name as in program text.
    pub fn name(self) -> &'static str {
        match self {
            Space::Sbuf => "sbuf",
            Space::Psum => "psum",
            Space::Hbm => "hbm",
        }
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Sizes of the memories of one generation. Read from `configs/*.toml`, table `geometry`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Partitions of SBUF.
    pub sbuf_partitions: u32,
    /// Address distance between SBUF partitions, bytes.
    pub sbuf_stride: u32,
    /// Bytes of each SBUF partition that exist.
    pub sbuf_active: u32,
    /// Partitions of PSUM.
    pub psum_partitions: u32,
    /// First PSUM address.
    pub psum_base: u32,
    /// Address distance between PSUM partitions, bytes.
    pub psum_stride: u32,
    /// Bytes of each PSUM partition that exist.
    pub psum_active: u32,
    /// Bytes of one PSUM bank in one partition.
    pub psum_bank: u32,
    /// Rows of the PE array (contraction).
    pub pe_rows: u32,
    /// Columns of the PE array (outputs).
    pub pe_cols: u32,
    /// Channels of ACT, POOL and DVE.
    pub channels: u32,
    /// Bytes of HBM the emulator maps for one core.
    pub hbm_bytes: u64,
}

/// An on-chip byte: space, partition and byte in the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// SBUF or PSUM.
    pub space: Space,
    /// Partition.
    pub partition: u32,
    /// Byte in the partition.
    pub byte: u32,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} partition {} byte {:#x}", self.space, self.partition, self.byte)
    }
}

impl Geometry {
    /// Bytes between the partitions of `space`; the whole memory for HBM.
    pub fn stride(&self, space: Space) -> u64 {
        match space {
            Space::Sbuf => u64::from(self.sbuf_stride),
            Space::Psum => u64::from(self.psum_stride),
            Space::Hbm => self.hbm_bytes,
        }
    }

    /// Existing bytes in one partition of `space`.
    pub fn active(&self, space: Space) -> u64 {
        match space {
            Space::Sbuf => u64::from(self.sbuf_active),
            Space::Psum => u64::from(self.psum_active),
            Space::Hbm => self.hbm_bytes,
        }
    }

    /// Partitions of `space`; 1 for HBM.
    pub fn partitions(&self, space: Space) -> u32 {
        match space {
            Space::Sbuf => self.sbuf_partitions,
            Space::Psum => self.psum_partitions,
            Space::Hbm => 1,
        }
    }

    /// PSUM banks in a partition.
    pub fn psum_banks(&self) -> u32 {
        self.psum_active / self.psum_bank
    }

    /// Decodes an on-chip operand address.
    ///
    /// On v5 the printed SBUF region overlaps the PSUM window; an address at or above
    /// `psum_base` counts as PSUM there too (OPEN, `docs/open-choices.md` M-1).
    /// (wiki: dma/sbuf-psum-banks)
    ///
    /// # Errors
    /// `address_in_memory` where no memory is: beyond the partitions or the active bytes.
    pub fn decode(&self, address: u32) -> Result<Location> {
        let a = address & ON_CHIP_ADDRESS_MASK;
        let (space, rel) =
            if a >= self.psum_base { (Space::Psum, a - self.psum_base) } else { (Space::Sbuf, a) };
        let stride = self.stride(space) as u32;
        let at = Location { space, partition: rel / stride, byte: rel % stride };
        if at.partition >= self.partitions(space) || u64::from(at.byte) >= self.active(space) {
            return Err(Error::illegal(
                "address_in_memory",
                format!(
                    "address {a:#x} is {at}, where no memory is ({} partitions of {:#x} bytes)",
                    self.partitions(space),
                    self.active(space)
                ),
            ));
        }
        Ok(at)
    }

    /// The location in SBUF that an on-chip address gives, whatever else has the same number.
    ///
    /// # Errors
    /// `address_in_memory` where SBUF has no byte.
    pub fn decode_sbuf(&self, address: u32) -> Result<Location> {
        let a = address & ON_CHIP_ADDRESS_MASK;
        let stride = self.stride(Space::Sbuf) as u32;
        let at = Location { space: Space::Sbuf, partition: a / stride, byte: a % stride };
        if at.partition >= self.partitions(Space::Sbuf)
            || u64::from(at.byte) >= self.active(Space::Sbuf)
        {
            return Err(Error::illegal(
                "address_in_memory",
                format!("address {a:#x} is {at}, where no memory is"),
            ));
        }
        Ok(at)
    }

    /// The on-chip address of a location; the inverse of [`Geometry::decode`].
    pub fn encode(&self, at: Location) -> u32 {
        let base = if at.space == Space::Psum { self.psum_base } else { 0 };
        base + at.partition * self.stride(at.space) as u32 + at.byte
    }
}
