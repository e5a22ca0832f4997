//! INDIRECT_COPY and EMBEDDING_UPDATE. (wiki: firmware/kernels/indirection-gather;
//! dma/gather-scatter-descriptors)

use std::mem::take;

use smallvec::SmallVec;

use super::common::{address, cost, dtype, require};
use crate::engine::cost::{CostQuery, Operands};
use crate::engine::dge::{ComputeOp, combine};
use crate::engine::{CostRow, Env, Lane, Operand, Outcome, Prepared, Work};
use crate::error::{Error, Result};
use crate::isa::defs::PatternKind;
use crate::isa::{Field, Pattern, e, f};
use crate::machine::address::{DeviceMap, Place};
use crate::memory::{Access, ByteSet, Region, Space};
use crate::numeric::{self, Dtype, Walk};

/// Partitions of one POOL core; they share an index list.
const CORE_PARTITIONS: u32 = 16;
/// Most indices of one INDIRECT_COPY. (wiki: firmware/kernels/indirection-gather)
const MAX_INDICES: usize = 4096;

/// INDIRECT_COPY 0xE7: `dst[i*e ..] = data[I[i]*e ..]`, e elements an index. The 16 partitions of a
/// core share the list I of 16-bit indices, which lies column by column over them: index j in
/// partition j mod 16, column j div 16.
///
/// OPEN: an index at or beyond `src_buffer_size` gives zeros.
pub fn indirect_copy(env: &Env<'_>) -> Result<Prepared> {
    use f::s4d4_ic as l;
    let channels = env.inst.get(l::NUM_ACTIVE_CHANNELS) as u32;
    let dtype = dtype(env, l::IN_DTYPE)?;
    require(
        env.inst.get(l::IN_DTYPE) == env.inst.get(l::OUT_DTYPE),
        "indirect_copy_dtype",
        || "input and output dtype of INDIRECT_COPY differ".into(),
    )?;
    require(channels.is_multiple_of(CORE_PARTITIONS), "indirect_copy_channels", || {
        format!("{channels} channels are no multiple of {CORE_PARTITIONS}")
    })?;
    let Pattern::Indirect { index, data, num } = env.inst.pattern(l::SRC)? else {
        return Err(Error::illegal(
            "indirect_copy_source",
            "the source of INDIRECT_COPY must be an indirect pattern",
        ));
    };
    let dst = Operand::new(env, l::DST, dtype, channels)?;
    let per_index = env.inst.get(l::SRC_NUM_ELEM_PER_IDX) as usize;
    require(matches!(per_index, 1 | 2 | 4 | 8 | 16 | 32), "indirect_copy_block", || {
        format!("{per_index} elements an index")
    })?;
    let count = usize::from(num);
    let indices = count / per_index;
    require(
        count == dst.len() && count % per_index == 0 && indices <= MAX_INDICES,
        "indirect_copy_count",
        || format!("{count} elements in blocks of {per_index} into {}", dst.len()),
    )?;
    let at = env.geometry().decode(address(env, index)?)?;
    let columns = indices.div_ceil(CORE_PARTITIONS as usize) as u32;
    let list = Operand::at(
        env,
        at,
        Walk::contiguous(at.byte as usize, columns, 2),
        Dtype::Uint16,
        channels,
        index.reg().is_some(),
    )?;
    let at = env.geometry().decode(address(env, data)?)?;
    let block = per_index * dtype.size();
    let rows = env.inst.get(l::SRC_BUFFER_SIZE) as usize;
    let available = (env.geometry().active(at.space) as usize).saturating_sub(at.byte as usize);
    // rows beyond the partition's end cannot be part of the buffer
    let rows = rows.min(available / block);
    let table = Operand::at(
        env,
        at,
        Walk::contiguous(at.byte as usize, (rows * per_index).max(1) as u32, dtype.size()),
        dtype,
        channels,
        data.reg().is_some(),
    )?;
    let cost = cost(env, CostRow::Gather, dst.len(), &[&list, &table], &[&dst])
        .block(per_index, dtype.size());
    let accesses = [list.read(), table.read().maybe(), dst.write()];
    let staged = dst.region().overlaps(&list.region()) || dst.region().overlaps(&table.region());
    let work = Work::new(accesses, cost, move |lane| {
        let mut column = take(&mut lane.scratch.bits[0]);
        let mut list_of_core = take(&mut lane.scratch.bits[1]);
        let (mut bits, mut all) =
            (take(&mut lane.scratch.bits[2]), take(&mut lane.scratch.bits[3]));
        let mut bytes = take(&mut lane.scratch.bytes[0]);
        all.clear();
        for c in 0..channels {
            if c % CORE_PARTITIONS == 0 {
                list_of_core.clear();
                list_of_core.resize(indices, 0);
                for p in 0..CORE_PARTITIONS {
                    list.gather_bits(lane, c + p, &mut column)?;
                    let slots = list_of_core.iter_mut().skip(p as usize);
                    for (slot, &i) in slots.step_by(CORE_PARTITIONS as usize).zip(&column) {
                        *slot = i;
                    }
                }
            }
            let (space, partition, byte, len) = table.row(c);
            let source = lane.mem.row(space, partition, byte, len)?;
            bytes.clear();
            for &i in &list_of_core {
                let at = i as usize * block;
                match source.get(at..at + block).filter(|_| (i as usize) < rows) {
                    Some(from) => bytes.extend_from_slice(from),
                    None => bytes.resize(bytes.len() + block, 0),
                }
            }
            bits.resize(count, 0);
            crate::numeric::load_bits(dtype, &bytes, &mut bits)?;
            if staged {
                all.extend_from_slice(&bits);
            } else {
                dst.scatter_bits(lane, c, &bits)?;
            }
        }
        if staged {
            for (c, row) in all.chunks_exact(count).enumerate() {
                dst.scatter_bits(lane, c as u32, row)?;
            }
        }
        lane.scratch.bits = [column, list_of_core, bits, all];
        lane.scratch.bytes[0] = bytes;
        Outcome::none()
    });
    Ok(work.into())
}

/// EMBEDDING_UPDATE 0x79: for each index in order, `row[index] = op(row[index], data row)`, so that
/// duplicates accumulate; an index at or beyond the number of entries is skipped. The operation is
/// one of the in-transfer unit and computes as in a DMA.
///
/// OPEN: no layout of the raw opcode is printed; the fields are taken from the host form 0xCA. The
/// word carries 32 bits of the table's address; they count from the start of HBM.
pub fn embedding_update(env: &Env<'_>) -> Result<Prepared> {
    use f::pseudo_embedding_update as l;
    let byte = |field: Field| env.inst.get(field);
    let generation = env.generation();
    let dtype = Dtype::from_code(generation, byte(l::EMBED_DATA_DTYPE) as u8)?;
    let op = match byte(l::CCE_OP) as u8 {
        e::cce_op::ADD => ComputeOp::Add,
        e::cce_op::MAX => ComputeOp::Max,
        e::cce_op::MIN => ComputeOp::Min,
        other => return Err(Error::illegal("cce_op", format!("CCE operation {other}"))),
    };
    let tensor = |field: Field, dims: u8, dtype: Dtype| -> Result<Operand> {
        let kind = PatternKind::Tensor(dims);
        match Pattern::decode(kind, env.inst.slice(field), env.inst.pattern_rules())? {
            Pattern::Tensor(t) => Operand::resolve(env, &t, dtype, 1),
            other => Err(Error::illegal("embedding_update_operand", format!("{other:?}"))),
        }
    };
    let indices = tensor(l::EMBED_INDEX_IN, 1, Dtype::Uint32)?;
    let data = tensor(l::EMBED_DATA_IN, 2, dtype)?;
    let dtype = data.dtype;
    let count = byte(l::SEQUENCE_LENGTH) as usize;
    let width = byte(l::ENTRY_NUM_ELEMENTS) as usize;
    require(
        count <= indices.len() && count * width <= data.len(),
        "embedding_update_count",
        || format!("{count} rows of {width} from {} indices, {} data", indices.len(), data.len()),
    )?;
    // a count that stands in an address word: the immediate, or the value of a register
    let entries = address(env, env.inst.addr4(l::TABLE_NUM_ENTRIES))?;
    let stride = byte(l::ENTRY_STRIDE_BYTES) | byte(l::STRIDE_HI) << 16;
    let map = DeviceMap::new(env.config);
    let base = map.hbm() + byte(l::TABLE_BASE);
    let row_bytes = (width * dtype.size()) as u64;
    let mut accesses: SmallVec<[Access; 4]> = SmallVec::from_iter([indices.read(), data.read()]);
    if entries > 0 && count > 0 && width > 0 {
        accesses.push(table_access(&map, base, u64::from(entries - 1) * stride + row_bytes)?);
    }
    let operands = {
        let mut o = Operands::new();
        data.cost_source(env, &mut o);
        o
    };
    let cost = CostQuery::new(CostRow::Other, (count * width) as u64, operands);
    let work = Work::new(accesses, cost, move |lane| {
        let mut list = take(&mut lane.scratch.bits[0]);
        let mut rows = take(&mut lane.scratch.bits[1]);
        indices.gather_bits(lane, 0, &mut list)?;
        data.gather_bits(lane, 0, &mut rows)?;
        for (k, &i) in list[..count].iter().enumerate().filter(|(_, i)| **i < u64::from(entries)) {
            let row = rows.get(k * width..(k + 1) * width).unwrap_or(&[]);
            update_row(lane, &map, base + i * stride, &data, op, row)?;
        }
        [lane.scratch.bits[0], lane.scratch.bits[1]] = [list, rows];
        Outcome::none()
    });
    Ok(work.into())
}

fn table_access(map: &DeviceMap, base: u64, len: u64) -> Result<Access> {
    let last = base.checked_add(len - 1).ok_or_else(|| {
        Error::illegal("device_address", format!("a table of {len} bytes from {base:#x}"))
    })?;
    let (Place::Memory(first), Place::Memory(last)) = (map.locate(base)?, map.locate(last)?) else {
        return Err(Error::illegal("device_address", "the embedding table is no memory"));
    };
    if first.space != last.space || (first.partition != last.partition && first.space != Space::Hbm)
    {
        return Err(Error::illegal(
            "device_address",
            format!("a table of {len} bytes from {base:#x} leaves its partition"),
        ));
    }
    let bytes = ByteSet::dense(first.byte, len);
    Ok(Access::accumulate(Region::new(first.space, first.partition, 1, bytes)).maybe())
}

/// Combines the row at `address` with the elements `data` of `source`.
///
/// OPEN: where rounding is stochastic, the generator of the partition of the data rounds the row.
fn update_row(
    lane: &mut Lane<'_>,
    map: &DeviceMap,
    address: u64,
    source: &Operand,
    op: ComputeOp,
    data: &[u64],
) -> Result<()> {
    let dtype = source.dtype;
    let Place::Memory(at) = map.locate(address)? else {
        return Err(Error::illegal("device_address", "an embedding row is no memory"));
    };
    let len = (data.len() * dtype.size()) as u64;
    let mut row = lane.mem.row_mut(at.space, at.partition, at.byte, len)?.to_vec();
    let mut new = vec![0u8; row.len()];
    numeric::store_bits(dtype, data, &mut new)?;
    source.rounded(lane, 0, dtype, |rounding| {
        combine(op, dtype, dtype, &new, &mut row, rounding, source.fp8())
    })?;
    lane.mem.row_mut(at.space, at.partition, at.byte, len)?.copy_from_slice(&row);
    Ok(())
}
