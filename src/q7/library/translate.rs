//! From device addresses to a core's 32-bit windows. (wiki: abi/neuron-translate-windows)

/// Window masks.
pub mod mask {
    /// 16 MiB windows.
    pub const DYNAMIC: u64 = 0xffff_ffff_ff00_0000;
    /// 64 MiB windows.
    pub const PINNED: u64 = 0xffff_ffff_fc00_0000;
}

/// First addresses of the dynamic windows.
pub const DYNAMIC_WINDOWS: [u32; 3] = [0x0700_0000, 0x0900_0000, 0x0a00_0000];
/// Registers of the dynamic windows, offsets from 0x100000.
pub const DYNAMIC_REGISTERS: [u32; 3] = [0x218, 0x228, 0x230];
/// First addresses of the pinned windows: SBUF, HBM scratch.
pub const PINNED_WINDOWS: [u32; 2] = [0x8000_0000, 0x8400_0000];

#[derive(Clone, Copy, Debug)]
struct Record {
    tag: Option<u64>,
    window: u32,
    mask: u64,
}

/// Translation state of a core: three windows replaced in turn, two fixed.
#[derive(Clone, Debug)]
pub struct Translation {
    records: [Record; 5],
    next: usize,
}

impl Translation {
    /// Fixed windows at these device addresses.
    pub fn new(sbuf: u64, scratch: u64) -> Translation {
        let dynamic =
            |at: usize| Record { tag: None, window: DYNAMIC_WINDOWS[at], mask: mask::DYNAMIC };
        let pinned = |at: usize, address: u64| Record {
            tag: Some(address & mask::PINNED),
            window: PINNED_WINDOWS[at],
            mask: mask::PINNED,
        };
        Translation {
            records: [dynamic(0), dynamic(1), dynamic(2), pinned(0, sbuf), pinned(1, scratch)],
            next: 0,
        }
    }

    /// The address in a window that is set already.
    pub fn look_up(&self, address: u64) -> Option<u32> {
        self.records
            .iter()
            .find(|r| r.tag == Some(address & r.mask))
            .map(|r| r.window.wrapping_add((address & !r.mask) as u32))
    }

    /// The address, moving the next dynamic window if none covers it.
    pub fn translate(&mut self, address: u64) -> u32 {
        if let Some(found) = self.look_up(address) {
            return found;
        }
        let record = &mut self.records[self.next];
        record.tag = Some(address & record.mask);
        self.next = (self.next + 1) % DYNAMIC_WINDOWS.len();
        record.window.wrapping_add((address & !record.mask) as u32)
    }

    /// Device address behind a window address, for the machine's bus.
    pub fn device_address(&self, address: u32) -> Option<u64> {
        self.records.iter().find_map(|r| {
            let offset = address.checked_sub(r.window)?;
            let tag = r.tag?;
            (u64::from(offset) & r.mask == 0).then_some(tag + u64::from(offset))
        })
    }
}
