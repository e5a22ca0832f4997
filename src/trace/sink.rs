//! Files behind the tables: CSV always, Parquet with the cargo feature `parquet`. A table that
//! grows beyond the wanted size goes on in another file: `Instruction.csv`, `Instruction.1.csv`.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{Error, ErrorClass, Result};

/// What the cells of a column hold; every cell may be null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 64-bit integers.
    Integer,
    /// Doubles.
    Number,
    /// Strings.
    Text,
    /// Truth values.
    Boolean,
}

impl Kind {
    /// The kind that the schema's type names stand for.
    pub fn of(name: &str) -> Kind {
        match name {
            "integer" => Kind::Integer,
            "number" => Kind::Number,
            "boolean" => Kind::Boolean,
            _ => Kind::Text,
        }
    }
}

/// A column: name and kind.
pub type Column = (String, Kind);

/// File formats of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// Text with commas.
    Csv,
    /// Apache Parquet.
    Parquet,
}

impl Container {
    /// Extension of the files, and of the directory that holds them.
    pub fn extension(self) -> &'static str {
        match self {
            Container::Csv => "csv",
            Container::Parquet => "parquet",
        }
    }

    /// # Errors
    /// [`ErrorClass::ConfigError`] if this build cannot write the container.
    pub fn available(self) -> Result<()> {
        if self == Container::Csv || cfg!(feature = "parquet") {
            return Ok(());
        }
        Err(Error::new(ErrorClass::ConfigError, "this build writes no Parquet")
            .help("build with `--features parquet`, or use .csv: the same tables as text"))
    }
}

trait Rows: Send {
    fn row(&mut self, cells: &[Value]) -> io::Result<()>;
    /// Bytes written so far.
    fn size(&self) -> u64;
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// One table on its way to disk.
pub struct Sink {
    container: Container,
    directory: PathBuf,
    name: &'static str,
    columns: Vec<Column>,
    limit: Option<u64>,
    part: usize,
    rows: u64,
    // none between a full file and the next row
    file: Option<Box<dyn Rows>>,
}

impl Sink {
    /// Starts the table `name` in `directory`; files go on in another one beyond `limit` bytes.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn new(
        container: Container,
        directory: &Path,
        name: &'static str,
        columns: Vec<Column>,
        limit: Option<u64>,
    ) -> io::Result<Sink> {
        let file = open(container, &directory.join(name), &columns, limit)?;
        Ok(Sink {
            container,
            directory: directory.to_path_buf(),
            name,
            columns,
            limit,
            part: 0,
            rows: 0,
            file: Some(file),
        })
    }

    /// Appends a row: one cell for each column.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn row(&mut self, cells: &[Value]) -> io::Result<()> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => {
                self.part += 1;
                let path = self.directory.join(format!("{}.{}", self.name, self.part));
                open(self.container, &path, &self.columns, self.limit)?
            }
        };
        file.row(cells)?;
        self.rows += 1;
        if self.limit.is_some_and(|limit| file.size() >= limit) {
            return file.finish();
        }
        self.file = Some(file);
        Ok(())
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Completes the last file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(self) -> io::Result<()> {
        self.file.map_or(Ok(()), |f| f.finish())
    }
}

fn open(
    container: Container,
    stem: &Path,
    columns: &[Column],
    limit: Option<u64>,
) -> io::Result<Box<dyn Rows>> {
    let mut path = stem.as_os_str().to_owned();
    path.push(".");
    path.push(container.extension());
    let path = PathBuf::from(path);
    match container {
        Container::Csv => Ok(Box::new(CsvRows::new(&path, columns)?)),
        #[cfg(feature = "parquet")]
        Container::Parquet => {
            Ok(Box::new(super::parquet::ParquetRows::new(&path, columns, limit)?))
        }
        #[cfg(not(feature = "parquet"))]
        Container::Parquet => {
            let _ = limit;
            Err(io::Error::new(io::ErrorKind::Unsupported, "this build writes no Parquet"))
        }
    }
}

struct CsvRows {
    file: csv::Writer<std::fs::File>,
    size: u64,
}

impl CsvRows {
    fn new(path: &Path, columns: &[Column]) -> io::Result<Self> {
        let mut file = csv::WriterBuilder::new().buffer_capacity(1 << 16).from_path(path)?;
        file.write_record(columns.iter().map(|c| &c.0))?;
        Ok(CsvRows { file, size: columns.iter().map(|c| c.0.len() as u64 + 1).sum() })
    }
}

impl Rows for CsvRows {
    fn row(&mut self, cells: &[Value]) -> io::Result<()> {
        use std::fmt::Write as _;
        let mut text = String::new();
        for cell in cells {
            let bytes = match cell {
                Value::String(s) => s.as_bytes(),
                Value::Null => b"",
                other => {
                    text.clear();
                    let _ = write!(text, "{other}");
                    text.as_bytes()
                }
            };
            self.size += bytes.len() as u64 + 1;
            self.file.write_field(bytes)?;
        }
        self.file.write_record(None::<&[u8]>)?;
        Ok(())
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(feature = "parquet")]
impl Rows for super::parquet::ParquetRows {
    fn row(&mut self, cells: &[Value]) -> io::Result<()> {
        self.push(cells)
    }

    fn size(&self) -> u64 {
        self.written()
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.close()
    }
}
