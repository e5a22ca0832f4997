//! Tables as Parquet files: plain columns, every one optional, Snappy, row groups of bounded size.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use serde_json::Value;

use super::sink::{Column, Kind};

/// Rows held in memory before they go to disk.
const GROUP: usize = 1 << 14;

enum Values {
    Integer(Vec<i64>),
    Number(Vec<f64>),
    Text(Vec<ByteArray>),
    Boolean(Vec<bool>),
}

/// A column of a row group: the values that are there, and for each row whether it has one.
struct Held {
    values: Values,
    defined: Vec<i16>,
}

impl Held {
    fn new(kind: Kind) -> Self {
        let values = match kind {
            Kind::Integer => Values::Integer(Vec::new()),
            Kind::Number => Values::Number(Vec::new()),
            Kind::Text => Values::Text(Vec::new()),
            Kind::Boolean => Values::Boolean(Vec::new()),
        };
        Held { values, defined: Vec::new() }
    }

    // the bytes that the cell takes; a value of another kind than the column's is a null
    fn push(&mut self, cell: &Value) -> u64 {
        let there = match &mut self.values {
            Values::Integer(v) => cell
                .as_i64()
                .or_else(|| cell.as_u64().map(|n| i64::try_from(n).unwrap_or(i64::MAX)))
                .map(|n| v.push(n)),
            Values::Number(v) => cell.as_f64().map(|x| v.push(x)),
            Values::Boolean(v) => cell.as_bool().map(|b| v.push(b)),
            Values::Text(v) => match cell {
                Value::Null => None,
                Value::String(s) => Some(v.push(ByteArray::from(s.as_str()))),
                other => Some(v.push(ByteArray::from(other.to_string().into_bytes()))),
            },
        };
        self.defined.push(i16::from(there.is_some()));
        match (there, cell) {
            (None, _) => 0,
            (_, Value::String(s)) => s.len() as u64,
            _ => 8,
        }
    }
}

/// A file that is being written.
pub struct ParquetRows {
    writer: SerializedFileWriter<File>,
    held: Vec<Held>,
    kinds: Vec<Kind>,
    rows: usize,
    bytes: u64,
    limit: u64,
}

fn bad(e: parquet::errors::ParquetError) -> io::Error {
    io::Error::other(e)
}

impl ParquetRows {
    /// Creates the file. Row groups are written early if `limit` bytes ask for smaller files.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn new(path: &Path, columns: &[Column], limit: Option<u64>) -> io::Result<Self> {
        let mut fields = Vec::new();
        for (name, kind) in columns {
            let (physical, logical) = match kind {
                Kind::Integer => (Physical::INT64, None),
                Kind::Number => (Physical::DOUBLE, None),
                Kind::Boolean => (Physical::BOOLEAN, None),
                Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            };
            let field = Type::primitive_type_builder(name, physical)
                .with_repetition(Repetition::OPTIONAL)
                .with_logical_type(logical)
                .build()
                .map_err(bad)?;
            fields.push(Arc::new(field));
        }
        let schema = Type::group_type_builder("schema").with_fields(fields).build().map_err(bad)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(concat!("tpbemu ", env!("CARGO_PKG_VERSION")).to_string())
            .build();
        let file = File::create(path)?;
        let writer =
            SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties)).map_err(bad)?;
        let kinds: Vec<Kind> = columns.iter().map(|c| c.1).collect();
        Ok(ParquetRows {
            writer,
            held: kinds.iter().map(|k| Held::new(*k)).collect(),
            kinds,
            rows: 0,
            bytes: 0,
            limit: limit.unwrap_or(u64::MAX),
        })
    }

    /// Appends a row.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn push(&mut self, cells: &[Value]) -> io::Result<()> {
        for (column, cell) in self.held.iter_mut().zip(cells) {
            self.bytes += column.push(cell);
        }
        self.rows += 1;
        if self.rows >= GROUP || self.bytes >= self.limit { self.group() } else { Ok(()) }
    }

    /// Bytes in the file.
    pub fn written(&self) -> u64 {
        self.writer.bytes_written() as u64
    }

    fn group(&mut self) -> io::Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.writer.next_row_group().map_err(bad)?;
        for (held, kind) in self.held.iter_mut().zip(&self.kinds) {
            let Held { values, defined } = std::mem::replace(held, Held::new(*kind));
            let Some(mut column) = group.next_column().map_err(bad)? else { break };
            let defined = Some(defined.as_slice());
            match values {
                Values::Integer(v) => column.typed::<Int64Type>().write_batch(&v, defined, None),
                Values::Number(v) => column.typed::<DoubleType>().write_batch(&v, defined, None),
                Values::Text(v) => column.typed::<ByteArrayType>().write_batch(&v, defined, None),
                Values::Boolean(v) => column.typed::<BoolType>().write_batch(&v, defined, None),
            }
            .map_err(bad)?;
            column.close().map_err(bad)?;
        }
        group.close().map_err(bad)?;
        (self.rows, self.bytes) = (0, 0);
        Ok(())
    }

    /// Completes the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn close(mut self) -> io::Result<()> {
        self.group()?;
        self.writer.close().map_err(bad)?;
        Ok(())
    }
}
