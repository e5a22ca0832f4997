//! Activation tables of a program, as the engine evaluates them.

use std::collections::BTreeMap;

use super::model::{Program, TableSource};
use crate::error::{Error, ErrorClass, Result};
use crate::isa::Generation;
use crate::numeric::ActFunc;
use crate::numeric::pwl::TableSet;

/// Builds one set from its parts.
///
/// # Errors
/// [`ErrorClass::ProgramError`]: a part that does not fit its format, two whole sets in one, a
/// function without a number or a table, more records than the engine holds.
pub fn build(parts: &[TableSource], generation: Generation) -> Result<TableSet> {
    let bad = |m: String| Error::new(ErrorClass::ProgramError, m);
    let mut set = TableSet::default();
    for part in parts {
        match part {
            TableSource::Profile { func, document } => set.push_profile(*func, document)?,
            TableSource::Blobs { buckets, control, manifest } => {
                if !set.functions.is_empty() {
                    return Err(bad("blobs hold a whole set: they come first".into()));
                }
                set = TableSet::from_blobs(buckets, control, manifest)?;
            }
            TableSource::Generated { name } => {
                let func = ActFunc::from_name(name)
                    .ok_or_else(|| bad(format!("no activation function is called `{name}`")))?;
                set.push_generated(func, generation)?;
            }
        }
        set.check()?;
    }
    Ok(set)
}

impl Program {
    /// Every table set of the program, by number.
    ///
    /// # Errors
    /// As [`build`].
    pub fn activation_tables(&self) -> Result<BTreeMap<u32, TableSet>> {
        let build =
            |(n, parts): (&u32, &Vec<TableSource>)| Ok((*n, build(parts, self.generation)?));
        self.table_sets.iter().map(build).collect()
    }
}
