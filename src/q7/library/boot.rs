//! Boot handshake between host and core. (wiki: uarch/boot-reset)

/// Word of a fresh image.
pub const IMAGE_MAGIC: u32 = 0x6099_cb34;
/// Word of a claimed core.
pub const CLAIMED_MAGIC: u32 = 0x502b_2da1;

/// Words of `.globstruct`, of which the first is the handshake word.
pub const GLOBSTRUCT: [u32; 18] = [
    IMAGE_MAGIC,
    0,
    0,
    0,
    0,
    0,
    0x1000,
    0x1000,
    0x1000,
    0x1000,
    0xffff_ff00,
    0xffff_ff00,
    0xffff_ff00,
    0xffff_ff00,
    0,
    0,
    0xffff_ffff,
    0xffff_ffff,
];

/// Result of the host's attempt to claim a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The core is ours; the word to write.
    Claimed(u32),
    /// Another instance has it (return code 8).
    Taken,
    /// The image does not fit (return code 8).
    Mismatch,
}

impl Claim {
    /// Return code of the host call.
    pub fn code(self) -> u32 {
        match self {
            Claim::Claimed(_) => 0,
            Claim::Taken | Claim::Mismatch => 8,
        }
    }
}

/// What follows from the word that the host reads.
pub fn claim(word: u32) -> Claim {
    match word {
        IMAGE_MAGIC => Claim::Claimed(CLAIMED_MAGIC),
        CLAIMED_MAGIC => Claim::Taken,
        _ => Claim::Mismatch,
    }
}

/// Offset of the address of core `core`'s data RAM in the SDMA alias, in units of 64 KiB.
/// (wiki: abi/multicore-spmd)
pub fn sdma_index(core: u32) -> Option<u32> {
    (core < 8).then_some(2 * core + 9)
}

/// SDMA alias of a data RAM address of core `core`, or `None` outside the 64 KiB window.
pub fn sdma_alias(base: u64, core: u32, address: u32) -> Option<u64> {
    let offset = address.checked_sub(0x8_0000).filter(|&offset| offset < 0x1_0000)?;
    Some(base.wrapping_add(u64::from(sdma_index(core)?) << 16).wrapping_add(u64::from(offset)))
}

/// First address of core `core`'s custom-operation image, 2 MiB long. (wiki: abi/lsp-elf)
pub fn custom_image_base(core: u32) -> u32 {
    0x8400_0000 + (core & 7) * 0x20_0000
}

/// Device addresses of a core's instruction and data RAM in TPB 0. (wiki: control/address/tpb-pool)
pub fn core_windows(core: u32) -> Option<(u64, u64)> {
    let base = 0x28_0310_0000 + u64::from(core) * 0x10_0000;
    (core < 8).then_some((base, base + 0x8_0000))
}
