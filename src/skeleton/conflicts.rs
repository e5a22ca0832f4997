//! Pairs of works that touch the same bytes.

use super::{ENGINES, Pair, Skeleton, SkeletonWork};
use crate::memory::AccessKind;

/// How the accesses of `earlier` clash with those of `later`: whether some write of the earlier one
/// is concerned, whether only a read of it; `(false, false)` if they do not meet.
pub fn clash(earlier: &SkeletonWork, later: &SkeletonWork) -> (bool, bool) {
    let (mut write, mut read) = (false, false);
    for a in earlier.work.touched() {
        for b in later.work.touched() {
            if !(a.kind.writes() || b.kind.writes()) {
                continue;
            }
            let new = if a.kind.writes() { !write } else { !read };
            if new && a.region.hull_overlaps(&b.region) && a.region.overlaps(&b.region) {
                if a.kind.writes() { write = true } else { read = true }
            }
        }
    }
    (write, read)
}

/// Whether the order of two works must come from synchronisation: they belong to different streams,
/// or to the sequencer and the data path of one.
pub fn apart(a: &SkeletonWork, b: &SkeletonWork) -> bool {
    a.stream != b.stream || (a.control != b.control && usize::from(a.stream) < ENGINES)
}

/// Where a work is done in order: its stream, split into sequencer and data path.
fn line(w: &SkeletonWork) -> usize {
    usize::from(w.stream) * 2 + usize::from(w.control)
}

/// Fills [`SkeletonWork::after`]: for each work and each line of works, the last earlier one that
/// writes and the last earlier one that reads what clashes with it. Works of a line are done in
/// order, so the older ones need no pair.
pub fn fill(skeleton: &mut Skeleton) {
    let mut by_order: Vec<u32> = (0..skeleton.works.len() as u32).collect();
    by_order.sort_unstable_by_key(|w| skeleton.works[*w as usize].order);
    let mut lines: Vec<Vec<u32>> = vec![Vec::new(); skeleton.streams() * 2];
    let mut pairs = Vec::new();
    for b in by_order {
        let later = &skeleton.works[b as usize];
        let first = pairs.len() as u32;
        for list in lines.iter().filter(|_| later.work.judged) {
            let (mut write, mut read) = (false, false);
            for a in list.iter().rev() {
                let earlier = &skeleton.works[*a as usize];
                if !apart(earlier, later) || (write && read) {
                    break;
                }
                let (w, r) = clash(earlier, later);
                if w && !write {
                    pairs.push(Pair { earlier: *a, writes: true });
                }
                if r && !read {
                    pairs.push(Pair { earlier: *a, writes: false });
                }
                // results come after reads: a write that is done covers the reads before it
                write |= w;
                read |= r || w;
            }
        }
        if later.work.judged {
            lines[line(later)].push(b);
        }
        skeleton.works[b as usize].after = first..pairs.len() as u32;
    }
    skeleton.pairs = pairs;
}

/// Fills [`SkeletonWork::reads_of`] of the works of one data path, given in order.
pub fn links(skeleton: &mut Skeleton, data_path: &[u32], window: usize) {
    for (k, &b) in data_path.iter().enumerate() {
        let first = skeleton.links.len() as u32;
        for &a in data_path[k.saturating_sub(window)..k].iter().rev() {
            let (old, new) = (&skeleton.works[a as usize], &skeleton.works[b as usize]);
            let reads_result = new.work.accesses.iter().any(|r| {
                r.kind == AccessKind::Read
                    && old
                        .work
                        .accesses
                        .iter()
                        .any(|w| w.kind.writes() && w.region.overlaps(&r.region))
            });
            if reads_result {
                skeleton.links.push(a);
            }
        }
        skeleton.works[b as usize].reads_of = first..skeleton.links.len() as u32;
    }
}
