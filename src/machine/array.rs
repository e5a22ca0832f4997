//! When the cells of the PE array are free: tiles that share no cell work at the same time.
//!
//! The array is seen as 4 x 4 cells (row and column groups). A weight load fills the second set of
//! weights of its cells beside the matmul that works with the first; a matmul waits for its cells
//! only. (vendor docs: nki.isa.nc_matmul, tiling mode; wiki: firmware/kernels/pe-matmul)

use super::config::CostConfig;

/// Row groups, and column groups.
const GROUPS: u32 = 4;
/// Cells.
const CELLS: usize = (GROUPS * GROUPS) as usize;

/// Cells that rows `row .. row + rows` and columns `col .. col + cols` of an array of `size` touch.
pub fn cells((row, rows): (u32, u32), (col, cols): (u32, u32), size: (u32, u32)) -> u16 {
    let groups = |first: u32, count: u32, size: u32| {
        let each = (size / GROUPS).max(1);
        let last = (first + count.max(1) - 1) / each;
        (first / each).min(GROUPS - 1)..=last.min(GROUPS - 1)
    };
    let mut mask = 0;
    for r in groups(row, rows, size.0) {
        for c in groups(col, cols, size.1) {
            mask |= 1 << (r * GROUPS + c);
        }
    }
    mask
}

/// One cell; times in ticks.
#[derive(Clone, Copy, Default, serde::Serialize, serde::Deserialize)]
struct Cell {
    /// Earliest start of the next matmul.
    free_at: u64,
    /// Earliest start of a matmul after the last weight load.
    matmul_from: u64,
    /// When the weights loaded last can be used.
    weights_ready: u64,
}

/// State of the array.
#[derive(Clone, Copy, Default, serde::Serialize, serde::Deserialize)]
pub struct PeArray {
    cells: [Cell; CELLS],
    /// Earliest start of the next weight load.
    load_free_at: u64,
    /// Earliest start of the next matmul, in whatever cells.
    matmul_free_at: u64,
}

impl PeArray {
    fn latest(&self, cells: u16, of: fn(&Cell) -> u64) -> u64 {
        let used = self.cells.iter().enumerate().filter(|(i, _)| cells & (1 << i) != 0);
        used.map(|(_, c)| of(c)).max().unwrap_or(0)
    }

    /// Earliest start of a weight load.
    pub fn load_free(&self) -> u64 {
        self.load_free_at
    }

    /// Earliest start of a matmul in `cells`.
    pub fn matmul_free(&self, cells: u16) -> u64 {
        self.latest(cells, |c| c.free_at.max(c.matmul_from)).max(self.matmul_free_at)
    }

    /// Earliest start of an instruction that needs the whole engine.
    pub fn all_free(&self) -> u64 {
        self.latest(u16::MAX, |c| c.free_at)
    }

    /// When the weights of `cells` can be used.
    pub fn weights_ready(&self, cells: u16) -> u64 {
        self.latest(cells, |c| c.weights_ready)
    }

    /// A weight load of `cells` started at `now`, its work ends at `busy_until`.
    pub fn load(
        &mut self,
        cells: u16,
        (now, busy_until): (u64, u64),
        gap: u64,
        period: u64,
        cost: &CostConfig,
    ) {
        // one set of weights waits while the cells work with another
        self.load_free_at = busy_until + gap;
        for (_, c) in self.cells.iter_mut().enumerate().filter(|(i, _)| cells & (1 << i) != 0) {
            // what a load costs beside its work is hidden behind a running matmul
            let idle = u64::from(c.free_at <= now);
            c.matmul_from = now + idle * cost.weights_start_cycles * period;
            c.weights_ready = busy_until + idle * cost.weights_ready_cycles * period;
        }
    }

    /// A matmul, or another instruction of the engine, occupies `cells` from `now` on.
    pub fn occupy(
        &mut self,
        cells: u16,
        (now, busy_until): (u64, u64),
        gap: u64,
        period: u64,
        cost: &CostConfig,
    ) {
        self.load_free_at = self.load_free_at.max(now);
        self.matmul_free_at = now + cost.matmul_interval_cycles * period;
        for (_, c) in self.cells.iter_mut().enumerate().filter(|(i, _)| cells & (1 << i) != 0) {
            c.free_at = busy_until + gap;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_touch_their_groups_only() {
        let size = (128, 128);
        assert_eq!(cells((0, 128), (0, 128), size), u16::MAX);
        assert_eq!(cells((0, 32), (0, 32), size), 1);
        assert_eq!(cells((96, 32), (64, 64), size), 0b1100 << 12);
        assert_eq!(cells((64, 64), (0, 256), (128, 256)), 0xFF00);
        assert_eq!(cells((0, 64), (0, 128), (128, 256)), 0b0011_0011);
    }
}
