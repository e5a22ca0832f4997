//! Register windows: `call8`, `entry`, `retw`.
//!
//! The 64 physical registers are eight windows of 8; a frame owns one window and sees 16 registers.
//! OPEN: no page tells how the core spills. Frames that would be overwritten go to the places that
//! the windowed ABI gives them, without an exception, and come back when their callee returns:
//! a0..a3 below the callee's stack pointer, a4..a7 below the caller's saved area.

use super::{Core, Fault, Q7Bus};

impl Core {
    fn frame_register(&self, window: u32, n: u32) -> u32 {
        self.ar[((window * 8 + n) & 63) as usize]
    }

    /// `entry as, size`: rotates by CALLINC and makes the stack frame.
    pub(super) fn entry(
        &mut self,
        bus: &mut dyn Q7Bus,
        s: u32,
        size: u32,
    ) -> Result<(), Box<Fault>> {
        let increment = self.ps >> 16 & 3;
        let stack = self.a(s).wrapping_sub(size);
        // Only call0 and call8 exist, so the step is no window or one.
        let step = increment / 2;
        let window = (self.window / 8 + step) & 7;
        if step != 0 {
            let above = (window + 1) & 7;
            if self.live >> above & 1 != 0 {
                self.spill(bus, above)?;
            }
        }
        self.window = window * 8;
        self.live |= 1 << window;
        self.set_a(s, stack);
        Ok(())
    }

    /// Writes the frame of `window` to the stack. The next window is the frame it called.
    fn spill(&mut self, bus: &mut dyn Q7Bus, window: u32) -> Result<(), Box<Fault>> {
        let callee = (window + 1) & 7;
        let below = self.frame_register(callee, 1).wrapping_sub(16);
        for n in 0..4 {
            let value = self.frame_register(window, n).to_le_bytes();
            self.store(bus, below.wrapping_add(4 * n), &value)?;
        }
        // The caller's stack pointer was saved below this frame's own stack pointer.
        let own = self.frame_register(window, 1);
        let saved = self.load::<4>(bus, own.wrapping_sub(12))?;
        let upper = u32::from_le_bytes(saved).wrapping_sub(32);
        for n in 4..8 {
            let value = self.frame_register(window, n).to_le_bytes();
            self.store(bus, upper.wrapping_add(4 * (n - 4)), &value)?;
        }
        self.live &= !(1 << window);
        Ok(())
    }

    /// `retw`: the address to go to, with the window already back.
    pub(super) fn retw(&mut self, bus: &mut dyn Q7Bus) -> Result<u32, Box<Fault>> {
        let link = self.a(0);
        let step = link >> 30;
        let target = self.pc & 0xc000_0000 | link & 0x3fff_ffff;
        if step != 2 {
            return self.exception(super::Cause::Illegal, self.pc);
        }
        let callee = self.window / 8;
        let caller = (callee + 7) & 7;
        if self.live >> caller & 1 == 0 {
            let below = self.frame_register(callee, 1).wrapping_sub(16);
            for n in 0..4 {
                let value = u32::from_le_bytes(self.load::<4>(bus, below.wrapping_add(4 * n))?);
                self.ar[((caller * 8 + n) & 63) as usize] = value;
            }
            let own = self.frame_register(caller, 1);
            let saved = u32::from_le_bytes(self.load::<4>(bus, own.wrapping_sub(12))?);
            let upper = saved.wrapping_sub(32);
            for n in 4..8 {
                let value =
                    u32::from_le_bytes(self.load::<4>(bus, upper.wrapping_add(4 * (n - 4)))?);
                self.ar[((caller * 8 + n) & 63) as usize] = value;
            }
        }
        self.live &= !(1 << callee);
        self.window = caller * 8;
        self.live |= 1 << caller;
        Ok(target)
    }

    /// Writes all frames but the current one to the stack.
    pub(super) fn spill_all(&mut self, bus: &mut dyn Q7Bus) -> Result<(), Box<Fault>> {
        let current = self.window / 8;
        // Oldest first, so that each frame finds its caller's stack pointer in memory.
        for distance in (1..8).rev() {
            let window = (current + 8 - distance) & 7;
            if self.live >> window & 1 != 0 {
                self.spill(bus, window)?;
            }
        }
        Ok(())
    }
}
