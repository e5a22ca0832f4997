//! Cycle parameters and the stages at which operations read and write registers.
//!
//! An operation issued in cycle `c` reads a register at stage `use` and defines one at stage `def`.
//! Vector-side files: a consumer issues at least `def - use` cycles later, and in a later bundle.
//! AR: the consumer stalls `def - use` cycles, so it issues one more cycle later. Both readings
//! follow the worked examples of the pages (load to add: one stall; FMA to add: three cycles; vector
//! load to use: next bundle). (wiki: uarch/pipeline-timing)

/// Scoreboard indices: AR by physical number, then the vector-side files. A full byte's worth, so
/// that any index is in range.
pub const SLOTS: usize = 256;
/// First scoreboard index of `v0`.
pub const VEC: u8 = 64;
/// First scoreboard index of `vb0`.
pub const VBOOL: u8 = 96;
/// First scoreboard index of `wv0`.
pub const WVEC: u8 = 112;
/// First scoreboard index of `u0`.
pub const VALIGN: u8 = 116;
/// First scoreboard index of `pr0`.
pub const PR: u8 = 120;
/// First scoreboard index of `gr0`.
pub const GVR: u8 = 136;

/// Stage at which the scalar ALU reads and writes.
pub const ALU: u8 = 4;
/// Stage at which addresses are read and post-increments written.
pub const ADDRESS: u8 = 1;
/// Stage at which branches read.
pub const BRANCH: u8 = 3;
/// Stage at which scalar loads deliver and store data leaves.
pub const MEMORY: u8 = 5;
/// Stage at which multiplies and special-register reads deliver.
pub const MULTIPLY: u8 = 6;
/// Stage at which vector-side files are read and vector loads deliver.
pub const VECTOR: u8 = 10;
/// Stage at which valign is read and written by loads.
pub const ALIGN: u8 = 9;

/// Stage at which accumulators are written.
pub const ACCUMULATOR: u8 = 12;
/// Stage at which an operation reads the accumulator that it adds to.
pub const ACCUMULATOR_USE: u8 = 12;

/// Parameters that the pages leave open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Timing {
    /// OPEN: bubble of a taken branch, by default resolve stage 3 plus fetch latency 3.
    /// (wiki: uarch/pipeline-timing)
    pub taken_branch: u32,
    /// OPEN: extra cycles of a load over the bus.
    pub bus_load: u32,
    /// OPEN: extra cycles of a store over the bus; the write buffer hides them by default.
    pub bus_store: u32,
    /// OPEN: stage at which an integer division delivers; not stated, taken as a multiply's.
    pub divide_stage: u8,
}

impl Default for Timing {
    fn default() -> Self {
        Timing { taken_branch: 6, bus_load: 0, bus_store: 0, divide_stage: MULTIPLY }
    }
}

/// Stage at which a slot operation defines its results. (wiki: uarch/pipeline-timing;
/// wiki: uarch/vfpu-ieee; conflicts settled as in `docs/open-choices/q7-core.md`)
pub fn result_stage(mnemonic: &str) -> u8 {
    let name = mnemonic.strip_prefix("ivp_").unwrap_or(mnemonic);
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    let float = name.contains("xf16")
        || name.contains("xf32")
        || name.ends_with(".s")
        || name.ends_with(".h");
    if starts(&["recipqli"]) {
        return 13;
    }
    if starts(&[
        "recip0", "rsqrt0", "sqrt0", "nexp0", "div0", "mksadj", "mkdadj", "trunc", "utrunc", "fi",
    ]) {
        return 12;
    }
    if starts(&["float", "ufloat", "cvt"]) {
        return 13;
    }
    if float && starts(&["add", "sub", "mul", "madd", "msub", "div"]) && !starts(&["addexp"]) {
        return 13;
    }
    let two_cycles = [
        "radd", "rmax", "rmin", "rb", "sel", "shfl", "dsel", "dcmprs", "count", "sqz", "unsqz",
        "pack", "unpack", "mul", "div", "movav", "extr", "dextr", "rur", "movvpr", "randb", "rorb",
    ];
    if starts(&two_cycles) { 12 } else { 11 }
}

#[cfg(test)]
mod tests {
    use super::result_stage;

    #[test]
    fn classes_of_the_pages() {
        for (mnemonic, stage) in [
            ("ivp_addnx16", 11),
            ("ivp_minn_2xf32t", 11),
            ("ivp_sllnx16", 11),
            ("ivp_raddnx16", 12),
            ("ivp_selnx16", 12),
            ("ivp_recip0n_2xf32", 12),
            ("ivp_recipqlin_2xf32_0", 13),
            ("ivp_mulan_2xf32t", 13),
            ("ivp_addn_2xf32", 13),
            ("madd.s", 13),
            ("ivp_float16nx16", 13),
            ("ivp_sqzn", 12),
            ("rur.fcr", 12),
        ] {
            assert_eq!(result_stage(mnemonic), stage, "{mnemonic}");
        }
    }
}
