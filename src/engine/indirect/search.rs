//! MAX8, MATCH_VALUE_LOAD, FIND_INDEX8 and MATCH_REPLACE8: the eight search values of a channel.
//! (wiki: firmware/kernels/search-cluster)
//!
//! All comparisons are in FP32 after widening; equality is the ordered one, so NaN never matches
//! and +0 equals -0. An element consumes at most one search value, the lowest-numbered one that is
//! equal and not matched yet. Since MATCH_VALUE_LOAD stores its values in reverse, that is the
//! order of walking the loaded values backwards, as hardware does (vendor: release notes of NKI).

use std::mem::take;

use super::common::{cost, crosses, dtype, require, rows};
use crate::engine::{CostRow, Env, Operand, Outcome, Prepared, Work};
use crate::error::Result;
use crate::isa::f;
use crate::numeric::{Dtype, Rounding};

/// Search values of a channel.
pub const VALUES: usize = 8;

/// Position of a search value that did not occur.
pub const NOT_FOUND: u32 = u32::MAX;

/// Most elements of a search source. (wiki: firmware/kernels/search-cluster)
const MAX_SOURCE: usize = 16384;

#[derive(Clone, Copy, serde::Serialize, serde::Deserialize)]
struct Channel {
    values: [f32; VALUES],
    /// Bit n: value n was matched.
    matched: u8,
    positions: [u32; VALUES],
}

impl Default for Channel {
    fn default() -> Self {
        Channel { values: [0.0; VALUES], matched: 0, positions: [NOT_FOUND; VALUES] }
    }
}

/// Search state of every channel. Channel c of an instruction uses entry c.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct SearchState {
    channels: Vec<Channel>,
}

impl SearchState {
    fn channel(&mut self, c: u32) -> &mut Channel {
        let c = c as usize;
        if c >= self.channels.len() {
            self.channels.resize(c + 1, Channel::default());
        }
        &mut self.channels[c]
    }

    /// Positions at which the last MATCH_REPLACE8 matched the search values of channel `c`, in the
    /// order of the search values; all ones where a value did not occur. What DVE_READ_INDICES
    /// reads. (wiki: firmware/kernels/dve-read-state)
    pub fn match_positions(&self, c: u32) -> [u32; VALUES] {
        self.channels.get(c as usize).map_or([NOT_FOUND; VALUES], |ch| ch.positions)
    }
}

impl Channel {
    /// Matches the elements of `row` in order; calls `hit(position, value number)` for each match.
    fn search(&mut self, row: &[f32], mut hit: impl FnMut(usize, usize)) {
        for (i, &e) in row.iter().enumerate() {
            let mut equal = 0u8;
            for (n, v) in self.values.iter().enumerate() {
                equal |= u8::from(e == *v) << n;
            }
            let free = equal & !self.matched;
            if free != 0 {
                let n = free.trailing_zeros() as usize;
                self.matched |= 1 << n;
                hit(i, n);
            }
        }
    }
}

/// MATCH_VALUE_LOAD 0x6D: value 7-k of each channel becomes source element k, none is matched.
pub fn match_value_load(env: &Env<'_>) -> Result<Prepared> {
    use f::s2_bn as l;
    let channels = env.inst.get(l::NUM_ACTIVE_CHANNELS) as u32;
    let src = Operand::new(env, l::SRC, dtype(env, l::DTYPE)?, channels)?;
    require(src.len() == VALUES, "match_value_count", || {
        format!("{} search values, exactly 8 are legal", src.len())
    })?;
    let cost = cost(env, CostRow::StateLoad, src.len(), &[&src], &[]);
    let work = Work::new([src.read()], cost, move |lane| {
        let mut row = take(&mut lane.scratch.f32[0]);
        for c in 0..src.channels {
            src.gather_f32(lane, c, &mut row)?;
            let channel = lane.state.indirect.search.channel(c);
            for (value, loaded) in channel.values.iter_mut().rev().zip(&row) {
                *value = *loaded;
            }
            channel.matched = 0;
        }
        lane.scratch.f32[0] = row;
        Outcome::none()
    });
    Ok(work.into())
}

/// MAX8 0x6C: the eight largest elements, duplicates kept, smallest first.
///
/// OPEN: NaN elements are ignored, and -inf fills up where fewer than eight numbers are left.
pub fn max8(env: &Env<'_>) -> Result<Prepared> {
    let (src, dst) = operands(env)?;
    let staged = crosses(&src, &dst);
    let cost = cost(env, CostRow::Search, src.len(), &[&src], &[&dst]);
    let work = Work::new([src.read(), dst.write()], cost, move |lane| {
        let mut input = take(&mut lane.scratch.f32[0]);
        let (mut row, mut all) = (take(&mut lane.scratch.f32[1]), take(&mut lane.scratch.f32[2]));
        rows(
            lane,
            src.channels,
            staged,
            [&mut row, &mut all],
            |lane, c, row| {
                src.gather_f32(lane, c, &mut input)?;
                row.clear();
                row.extend(largest(&input).iter().rev());
                Ok(())
            },
            |lane, c, row| dst.scatter_f32(lane, c, row, Rounding::NearestEven),
        )?;
        [lane.scratch.f32[0], lane.scratch.f32[1], lane.scratch.f32[2]] = [input, row, all];
        Outcome::none()
    });
    Ok(work.into())
}

/// The eight largest, largest first; an earlier element stays before a later equal one.
fn largest(row: &[f32]) -> [f32; VALUES] {
    let mut top = [f32::NEG_INFINITY; VALUES];
    for &e in row {
        // false for NaN
        if e > top[VALUES - 1] {
            let at = top.iter().position(|t| e > *t).unwrap_or(VALUES - 1);
            top.copy_within(at..VALUES - 1, at + 1);
            top[at] = e;
        }
    }
    top
}

/// FIND_INDEX8 0x6E: the position of the first free element equal to each search value, or all
/// ones. Values that an earlier instruction matched are not searched again.
pub fn find_index8(env: &Env<'_>) -> Result<Prepared> {
    let (src, dst) = operands(env)?;
    require(matches!(dst.dtype, Dtype::Uint16 | Dtype::Uint32), "find_index_dtype", || {
        format!("positions are stored as uint16 or uint32, not {}", dst.dtype)
    })?;
    let staged = crosses(&src, &dst);
    let cost = cost(env, CostRow::Search, src.len(), &[&src], &[&dst]);
    let work = Work::new([src.read(), dst.write()], cost, move |lane| {
        let mut input = take(&mut lane.scratch.f32[0]);
        let (mut row, mut all) = (take(&mut lane.scratch.bits[0]), take(&mut lane.scratch.bits[1]));
        rows(
            lane,
            src.channels,
            staged,
            [&mut row, &mut all],
            |lane, c, row| {
                src.gather_f32(lane, c, &mut input)?;
                row.clear();
                row.resize(VALUES, u64::from(NOT_FOUND));
                let channel = lane.state.indirect.search.channel(c);
                channel.search(&input, |i, n| row[n] = i as u64);
                Ok(())
            },
            |lane, c, row| dst.scatter_bits(lane, c, row),
        )?;
        lane.scratch.f32[0] = input;
        [lane.scratch.bits[0], lane.scratch.bits[1]] = [row, all];
        Outcome::none()
    });
    Ok(work.into())
}

/// MATCH_REPLACE8 0x6F: copies the source and puts the immediate where an element matches a free
/// search value; keeps the positions for DVE_READ_INDICES.
pub fn match_replace8(env: &Env<'_>) -> Result<Prepared> {
    use f::s4d4_mr as l;
    let channels = env.inst.get(l::NUM_ACTIVE_CHANNELS) as u32;
    let src = Operand::new(env, l::SRC, dtype(env, l::IN_DTYPE)?, channels)?;
    let dst = Operand::new(env, l::DST, dtype(env, l::OUT_DTYPE)?, channels)?;
    require(src.len() == dst.len() && src.len() <= MAX_SOURCE, "match_replace_count", || {
        format!("{} source and {} destination elements", src.len(), dst.len())
    })?;
    let immediate = env.inst.get_f32(l::IMMEDIATE);
    let staged = crosses(&src, &dst);
    let cost = cost(env, CostRow::Search, src.len(), &[&src], &[&dst]);
    let work = Work::new([src.read(), dst.write()], cost, move |lane| {
        let (mut row, mut all) = (take(&mut lane.scratch.f32[0]), take(&mut lane.scratch.f32[1]));
        rows(
            lane,
            src.channels,
            staged,
            [&mut row, &mut all],
            |lane, c, row| {
                src.gather_f32(lane, c, row)?;
                let channel = lane.state.indirect.search.channel(c);
                let mut positions = [NOT_FOUND; VALUES];
                channel.search(row, |i, n| positions[n] = i as u32);
                for &p in positions.iter().filter(|p| **p != NOT_FOUND) {
                    row[p as usize] = immediate;
                }
                channel.positions = positions;
                Ok(())
            },
            |lane, c, row| dst.scatter_f32(lane, c, row, Rounding::NearestEven),
        )?;
        [lane.scratch.f32[0], lane.scratch.f32[1]] = [row, all];
        Outcome::none()
    });
    Ok(work.into())
}

/// Source and destination of MAX8 and FIND_INDEX8.
fn operands(env: &Env<'_>) -> Result<(Operand, Operand)> {
    use f::s4d2_bn as l;
    let channels = env.inst.get(l::NUM_ACTIVE_CHANNELS) as u32;
    let src = Operand::new(env, l::SRC, dtype(env, l::IN_DTYPE)?, channels)?;
    let dst = Operand::new(env, l::DST, dtype(env, l::OUT_DTYPE)?, channels)?;
    require((VALUES..=MAX_SOURCE).contains(&src.len()), "search_source_count", || {
        format!("{} source elements, 8 to {MAX_SOURCE} are legal", src.len())
    })?;
    require(dst.len() == VALUES, "search_destination_count", || {
        format!("{} destination elements, exactly 8 are legal", dst.len())
    })?;
    Ok((src, dst))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_keeps_duplicates_and_ignores_nan() {
        let inf = f32::NEG_INFINITY;
        assert_eq!(largest(&[1.0, f32::NAN, 3.0, 3.0]), [3.0, 3.0, 1.0, inf, inf, inf, inf, inf]);
        let row: Vec<f32> = (0..20).map(|i| (i * 7 % 20) as f32).collect();
        assert_eq!(largest(&row), [19.0, 18.0, 17.0, 16.0, 15.0, 14.0, 13.0, 12.0]);
    }

    #[test]
    fn an_element_takes_one_value() {
        let mut channel = Channel { values: [8.0; VALUES], matched: 0b1, ..Channel::default() };
        let mut hits = Vec::new();
        channel.search(&[1.0, 8.0, 8.0], |i, n| hits.push((i, n)));
        assert_eq!(hits, [(1, 1), (2, 2)]);
        assert_eq!(channel.matched, 0b111);
        channel.values[7] = f32::NAN;
        channel.matched = 0x7F;
        channel.search(&[f32::NAN], |i, n| hits.push((i, n)));
        assert_eq!(hits.len(), 2, "NaN never matches");
    }
}
