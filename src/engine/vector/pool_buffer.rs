//! POOL's gather buffer: POOL_BUFFER_LOAD 0x67 (wiki: firmware/kernels/pool-compute-misc) and
//! GATHER 0x68 (wiki: firmware/kernels/indirection-gather, dma/gather-scatter-descriptors).

use std::mem::take;

use super::common::*;
use super::rows::store_where;
use crate::engine::cost::CostRow;
use crate::engine::{Env, Outcome, Prepared};
use crate::error::{Error, Result};
use crate::isa::f::{s4_pb as pb, s4d4_gt as gt};
use crate::isa::{Generation, e};
use crate::memory::Space;

/// Elements of a channel's buffer.
const CAPACITY: usize = 512;

/// A window of a table: which indices it holds, and the raw elements of each channel.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct PoolBuffer {
    start: u32,
    mask: u32,
    rows: Vec<Vec<u64>>,
}

/// 0x67: loads up to 512 raw elements per channel and the window of indices they stand for.
pub(super) fn pool_buffer_load(env: &Env<'_>) -> Result<Prepared> {
    let n = channels(env, pb::NUM_ACTIVE_CHANNELS);
    let src = sbuf_operand(env, pb::SRC, dtype(env, pb::IN_DTYPE)?, n)?;
    if src.space != Space::Sbuf {
        return Err(Error::illegal("sbuf_only", "the gather buffer is loaded from SBUF"));
    }
    if src.len() > CAPACITY {
        return Err(Error::illegal(
            "src_element_count",
            format!("{} elements; the buffer holds {CAPACITY}", src.len()),
        ));
    }
    let (start, mask) = (env.inst.get(pb::START_INDEX) as u32, env.inst.get(pb::MASK) as u32);
    Plan::new(env).source(&src)?.work(CostRow::StateLoad, src.len(), move |lane| {
        let mut rows = lane.state.vector.pool_buffer.take().map_or_else(Vec::new, |b| b.rows);
        rows.resize_with(n as usize, Vec::new);
        for (c, row) in (0..n).zip(&mut rows) {
            src.gather_bits(lane, c, row)?;
        }
        lane.state.vector.pool_buffer = Some(Box::new(PoolBuffer { start, mask, rows }));
        Outcome::none()
    })
}

/// 0x68: dst = the buffer's element under the masked index; an index outside the window gets the
/// immediate or leaves the destination unchanged. Without a loaded buffer every index misses
/// (OPEN), and so does one beyond the elements that were loaded (OPEN).
pub(super) fn gather(env: &Env<'_>) -> Result<Prepared> {
    let n = channels(env, gt::NUM_ACTIVE_CHANNELS);
    // on v5 both lie in SBUF
    let place = if env.generation() >= Generation::V5 { sbuf_operand } else { operand };
    let index = place(env, gt::SRC, dtype(env, gt::IN_DTYPE)?, n)?;
    require_int(index.dtype)?;
    let dst = place(env, gt::DST, dtype(env, gt::OUT_DTYPE)?, n)?;
    same_count(&index, &dst)?;
    if env.generation() >= Generation::V5 && dst.space != Space::Sbuf {
        return Err(Error::illegal("sbuf_only", "from v5 on GATHER works on SBUF"));
    }
    use e::index_miss_behavior as miss;
    let fill = match env.inst.get(gt::INDEX_MISS_BEHAVIOR) as u8 {
        miss::IMMEDIATE_WRITE => Some(env.inst.get(gt::IMMEDIATE)),
        miss::SKIP_WRITE => None,
        other => return Err(Error::illegal("is_valid_enum", format!("miss behaviour {other}"))),
    };
    let free = env.inst.get(gt::FREE_POOL_BUFFER) != 0;
    let plan = Plan::new(env).source(&index)?.dest_maybe(&dst)?;
    let order = plan.order(n)?;
    plan.work(CostRow::Gather, dst.len(), move |lane| {
        let mut b = take(&mut lane.scratch.bits);
        let buffer = lane.state.vector.pool_buffer.take();
        let [indices, values, hits, _] = &mut b;
        for c in order.iter() {
            index.gather_bits(lane, c, indices)?;
            values.clear();
            hits.clear();
            for &i in &*indices {
                let i = i as u32;
                let hit = buffer
                    .as_ref()
                    .filter(|b| i & !b.mask == b.start)
                    .and_then(|b| b.rows.get(c as usize)?.get((i & b.mask) as usize).copied());
                values.push(hit.or(fill).unwrap_or_default());
                hits.push(u64::from(hit.or(fill).is_some()));
            }
            store_where(&dst, lane, c, values, |k| hits[k] != 0)?;
        }
        if !free {
            lane.state.vector.pool_buffer = buffer;
        }
        lane.scratch.bits = b;
        Outcome::none()
    })
}
