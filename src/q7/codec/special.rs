//! Names of special and user registers. (wiki: isa/ref/b27-xt-system; wiki: isa/ref/b29-xt-system2)

/// Numbers of the special registers that the core model itself uses.
pub mod sr {
    /// Loop begin.
    pub const LBEG: u8 = 0x00;
    /// Loop end.
    pub const LEND: u8 = 0x01;
    /// Loop count.
    pub const LCOUNT: u8 = 0x02;
    /// Shift amount.
    pub const SAR: u8 = 0x03;
    /// Boolean registers as one word.
    pub const BR: u8 = 0x04;
    /// Window base.
    pub const WB: u8 = 0x48;
    /// Exception program counter.
    pub const EPC1: u8 = 0xb1;
    /// Coprocessor enables; bit 1 is Vision.
    pub const CPENABLE: u8 = 0xe0;
    /// Processor state.
    pub const PS: u8 = 0xe6;
    /// Base of the vectors.
    pub const VECBASE: u8 = 0xe7;
    /// Cause of the last exception.
    pub const EXCCAUSE: u8 = 0xe8;
    /// Cycle counter.
    pub const CCOUNT: u8 = 0xea;
    /// Core number.
    pub const PRID: u8 = 0xeb;
    /// Faulting address.
    pub const EXCVADDR: u8 = 0xee;
}

/// Numbers of the user registers.
pub mod ur {
    /// Thread pointer.
    pub const THREADPTR: u8 = 0xe7;
    /// Floating-point control.
    pub const FCR: u8 = 0xe8;
    /// Floating-point status.
    pub const FSR: u8 = 0xe9;
}

const SPECIAL: [(u8, &str); 46] = [
    (0x00, "lbeg"),
    (0x01, "lend"),
    (0x02, "lcount"),
    (0x03, "sar"),
    (0x04, "br"),
    (0x28, "prefctl"),
    (0x48, "wb"),
    (0x59, "mmid"),
    (0x5a, "mpuenb"),
    (0x5c, "mpucfg"),
    (0x5f, "eraccess"),
    (0x61, "memctl"),
    (0x62, "cacheadrdis"),
    (0x63, "atomctl"),
    (0x68, "ddr"),
    (0x69, "iram0cfg"),
    (0x6a, "dram0cfg"),
    (0x72, "ieextern"),
    (0x74, "ievec"),
    (0x80, "ibreaka0"),
    (0x81, "ibreaka1"),
    (0x90, "dbreaka0"),
    (0x91, "dbreaka1"),
    (0xa0, "dbreakc0"),
    (0xa1, "dbreakc1"),
    (0xb0, "configid0"),
    (0xb1, "epc1"),
    (0xc0, "ibreakc0"),
    (0xc1, "ibreakc1"),
    (0xd0, "configid1"),
    (0xe0, "cpenable"),
    (0xe5, "ms"),
    (0xe6, "ps"),
    (0xe7, "vecbase"),
    (0xe8, "exccause"),
    (0xea, "ccount"),
    (0xeb, "prid"),
    (0xec, "isb"),
    (0xee, "excvaddr"),
    (0xf0, "ccompare0"),
    (0xf1, "ccompare1"),
    (0xf2, "ccompare2"),
    (0xf4, "misc0"),
    (0xf5, "misc1"),
    (0xf8, "isl"),
    (0xf9, "ksl"),
];

const USER: [(u8, &str); 3] = [(0xe7, "threadptr"), (0xe8, "fcr"), (0xe9, "fsr")];

/// Name of a special register, if the core has it.
pub fn special_name(number: u8) -> Option<&'static str> {
    SPECIAL.iter().find(|(n, _)| *n == number).map(|(_, name)| *name)
}

/// Number of a special register.
pub fn special_number(name: &str) -> Option<u8> {
    SPECIAL.iter().find(|(_, n)| *n == name).map(|(n, _)| *n)
}

/// Name of a user register, if the core has it.
pub fn user_name(number: u8) -> Option<&'static str> {
    USER.iter().find(|(n, _)| *n == number).map(|(_, name)| *name)
}

/// Number of a user register.
pub fn user_number(name: &str) -> Option<u8> {
    USER.iter().find(|(_, n)| *n == name).map(|(n, _)| *n)
}
