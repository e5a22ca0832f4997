//! Special and user registers.

use crate::q7::codec::special::{sr, ur};

use super::{Cause, Core};

impl Core {
    /// Values after the boot code. (wiki: uarch/boot-reset)
    pub(super) fn reset_special(&mut self) {
        let mut set = |number: u8, value: u32| self.plain[usize::from(number)] = value;
        set(0xec, 0x0008_fed0); // isb
        set(0x61, 0xffff_ff08 | 9); // memctl
        set(0x28, 0x3044); // prefctl
        set(sr::WB, 0x4000_0000);
        // OPEN: no page says who enables the vector unit; a library may use it.
        set(sr::CPENABLE, 0xff);
    }

    pub(super) fn raise(&mut self, cause: Cause, pc: u32, address: u32) {
        self.plain[usize::from(sr::EPC1)] = pc;
        self.plain[usize::from(sr::EXCCAUSE)] = cause.number();
        if matches!(cause, Cause::LoadStore | Cause::Alignment | Cause::Fetch) {
            self.plain[usize::from(sr::EXCVADDR)] = address;
        }
    }

    /// Reads special register `number`.
    pub fn read_special(&self, number: u8) -> u32 {
        match number {
            sr::LBEG => self.lbeg,
            sr::LEND => self.lend,
            sr::LCOUNT => self.lcount,
            sr::SAR => self.sar,
            sr::BR => u32::from(self.br),
            sr::PS => self.ps,
            sr::PRID => self.prid,
            sr::CCOUNT => (self.now as u32).wrapping_add(self.ccount_offset),
            // OPEN: the low bits hold the window number, the rest is what was written.
            sr::WB => (self.plain[usize::from(sr::WB)] & !7) | (self.window / 8),
            _ => self.plain[usize::from(number)],
        }
    }

    /// Writes special register `number`. PRID keeps its value.
    pub fn write_special(&mut self, number: u8, value: u32) {
        match number {
            sr::LBEG => self.lbeg = value,
            sr::LEND => self.lend = value,
            sr::LCOUNT => self.lcount = value,
            sr::SAR => self.sar = value & 63,
            sr::BR => self.br = value as u16,
            sr::PS => self.ps = value,
            sr::PRID => {}
            sr::CCOUNT => self.ccount_offset = value.wrapping_sub(self.now as u32),
            sr::WB => {
                self.plain[usize::from(sr::WB)] = value & !7;
                self.window = value % 8 * 8;
                self.live |= 1 << (value % 8);
            }
            _ => self.plain[usize::from(number)] = value,
        }
    }

    /// Reads user register `number`; unlisted ones read 0.
    pub fn read_user(&self, number: u8) -> u32 {
        match number {
            ur::THREADPTR => self.threadptr,
            ur::FCR => self.regs.fcr,
            ur::FSR => self.regs.fsr,
            _ => 0,
        }
    }

    /// Writes user register `number`.
    pub fn write_user(&mut self, number: u8, value: u32) {
        match number {
            ur::THREADPTR => self.threadptr = value,
            ur::FCR => self.regs.fcr = value & crate::q7::regs::fcr::MASK,
            ur::FSR => self.regs.fsr = value & crate::q7::regs::fcr::FLAGS,
            _ => {}
        }
    }
}
