//! Where an on-chip address points, per generation (wiki: dma/sbuf-psum-banks;
//! generations/arch-isa-header-diff; v1: generations/cross-gen-opcode-diff 5.1).

use super::generation::Generation;

/// Start of the PSUM window from v2 on.
pub const PSUM_BASE: u32 = 0x0200_0000;

/// On-chip geometry as far as addresses and operand limits need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// SBUF partitions.
    pub sbuf_partitions: u32,
    /// Bytes from one SBUF partition to the next.
    pub sbuf_stride: u32,
    /// Bytes of an SBUF partition that hold data.
    pub sbuf_active: u32,
    /// PSUM partitions.
    pub psum_partitions: u32,
    /// Bytes from one PSUM partition to the next.
    pub psum_stride: u32,
    /// Bytes of a PSUM partition that hold data.
    pub psum_active: u32,
    /// Bytes of a PSUM bank, as the matmul rules count them.
    pub psum_bank: u32,
    /// First PSUM address. V1's is not published (OPEN: that of the later generations).
    pub psum_base: u32,
    /// Rows of the PE array.
    pub pe_rows: u32,
    /// Columns of the PE array.
    pub pe_cols: u32,
    /// Channels of the vector engines.
    pub channels: u32,
}

impl Geometry {
    /// Geometry of `generation`.
    pub const fn of(generation: Generation) -> Geometry {
        let v2 = Geometry {
            sbuf_partitions: 128,
            sbuf_stride: 256 << 10,
            sbuf_active: 192 << 10,
            psum_partitions: 128,
            psum_stride: 32 << 10,
            psum_active: 16 << 10,
            psum_bank: 2048,
            psum_base: PSUM_BASE,
            pe_rows: 128,
            pe_cols: 128,
            channels: 128,
        };
        match generation {
            Generation::V1 => Geometry {
                sbuf_stride: 128 << 10,
                sbuf_active: 96 << 10,
                psum_partitions: 64,
                psum_stride: 16 << 10,
                psum_active: 8 << 10,
                pe_cols: 64,
                channels: 64,
                ..v2
            },
            Generation::V2 => v2,
            Generation::V3 => Geometry { sbuf_active: 224 << 10, ..v2 },
            Generation::V4 | Generation::V4Plus => Geometry { sbuf_active: 256 << 10, ..v2 },
            Generation::V5 => {
                Geometry { sbuf_stride: 1024 << 10, sbuf_active: 512 << 10, pe_cols: 256, ..v2 }
            }
        }
    }

    /// End of the SBUF region.
    pub const fn sbuf_end(&self) -> u32 {
        self.sbuf_partitions * self.sbuf_stride
    }

    /// Whether `addr` lies in the SBUF region. On v5 the regions overlap as numbers; which one is
    /// meant follows from the operand (OPEN).
    pub const fn in_sbuf(&self, addr: u32) -> bool {
        addr < self.sbuf_end()
    }

    /// Whether `addr` lies in the PSUM window.
    pub const fn in_psum(&self, addr: u32) -> bool {
        addr >= self.psum_base && addr - self.psum_base < self.psum_partitions * self.psum_stride
    }

    /// Partition and byte of an SBUF address.
    pub const fn sbuf_place(&self, addr: u32) -> (u32, u32) {
        (addr / self.sbuf_stride, addr % self.sbuf_stride)
    }

    /// Partition and byte of a PSUM address.
    pub const fn psum_place(&self, addr: u32) -> (u32, u32) {
        let offset = addr.wrapping_sub(self.psum_base);
        (offset / self.psum_stride, offset % self.psum_stride)
    }

    /// Quadrant (32 partitions) of an SBUF address.
    pub const fn sbuf_quadrant(&self, addr: u32) -> u32 {
        self.sbuf_place(addr).0 / 32
    }
}

/// Start partition, most columns (or rows) and v2 crossbar selector of a PE column (or row) group
/// mask; `None` for a mask that is no group. A selector of `None` makes the mask illegal as a
/// column group (wiki: firmware/kernels/pe-matmul).
pub fn pe_group(mask: u8) -> Option<(u32, u32, Option<u8>)> {
    Some(match mask {
        0xF => (0, 128, Some(0x10)),
        0x3 => (0, 64, Some(0x01)),
        0xC => (64, 64, Some(0x04)),
        0x1 => (0, 32, Some(0x01)),
        0x2 => (32, 32, Some(0x02)),
        0x4 => (64, 32, Some(0x04)),
        0x8 => (96, 32, None),
        _ => return None,
    })
}

/// Storage bytes of one element of a dtype code; types below a byte count as one. `None` for codes
/// that are no element type (wiki: generations/arch-isa-header-diff 3).
pub const fn dtype_bytes(code: u8) -> Option<u32> {
    Some(match code {
        0x01 | 0x0C => 8,
        0x08..=0x0B => 4,
        0x04..=0x07 => 2,
        0x02 | 0x03 | 0x0D..=0x16 | 0x19..=0x1F => 1,
        _ => return None,
    })
}

/// Whether a dtype code is one of the compressed CPTC types; its low three bits are the bits per
/// element (wiki: generations/arch-isa-header-diff 3).
pub const fn is_cptc(code: u8) -> bool {
    code & 0xF8 == 0x18 && code & 7 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let g = Geometry::of(Generation::V3);
        assert_eq!(g.sbuf_place(32 * 0x4_0000 + 5), (32, 5));
        assert_eq!(g.psum_place(0x0200_8010), (1, 0x10));
        assert!(g.in_psum(0x023F_FFFF) && !g.in_psum(0x0240_0000) && !g.in_sbuf(0x0200_0000));
        assert!(Geometry::of(Generation::V5).in_sbuf(0x07FF_FFFF));
        assert!(is_cptc(0x19) && !is_cptc(0x18) && !is_cptc(0x20));
    }
}
