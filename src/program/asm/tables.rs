//! `.act_tables 3 profile 36 "silu.json"`, `.act_tables 3 blobs "bkt.bin" "ctl.bin" "set.json"`,
//! `.act_tables 3 generated Silu, Gelu`, `.act_tables 3 named silu_set`.

use super::super::limits;
use super::super::model::TableSource;
use super::Assembler;
use crate::isa::text::expr::{Cursor, integer};
use crate::isa::text::lex::Token;
use crate::isa::text::syntax::{SyntaxError, SyntaxResult, nearest};
use crate::numeric::ActFunc;
use crate::program::tables;

impl Assembler<'_> {
    /// Adds parts to an activation table set.
    pub(super) fn act_tables(&mut self, cursor: &mut Cursor<'_, '_>) -> SyntaxResult<()> {
        let start = cursor.span();
        let generation = self.generation(start)?;
        let set = integer(cursor, &self.names, 0, u32::MAX.into())? as u32;
        let form = cursor.ident("`profile`, `blobs`, `generated` or `named`")?;
        let mut parts = Vec::new();
        match form.text {
            "profile" => {
                let func = integer(cursor, &self.names, 0, 255)? as u8;
                let document = self.document(cursor)?;
                parts.push(TableSource::Profile { func, document });
            }
            "blobs" => {
                let buckets = cursor.string("the file of the bucket records, in quotes")?;
                let buckets = self.table_file(buckets)?;
                let control = cursor.string("the file of the control records, in quotes")?;
                let control = self.table_file(control)?;
                let manifest = self.document(cursor)?;
                parts.push(TableSource::Blobs { buckets, control, manifest });
            }
            "generated" => loop {
                let name = cursor.ident("the name of a function such as Gelu")?;
                let Some(func) = ActFunc::from_name(name.text) else {
                    let message = format!("no function is called `{}`", name.text);
                    let error = SyntaxError::new(name.span, message);
                    let names = ActFunc::ALL.iter().map(|f| f.name());
                    return Err(match nearest(name.text, names) {
                        Some(near) => error.help(format!("did you mean `{near}`?")),
                        None => error,
                    });
                };
                parts.push(TableSource::Generated { name: func.name().to_owned() });
                if !cursor.eat(",") {
                    break;
                }
            },
            "named" => {
                let name = cursor.ident("a name of at most 31 letters")?;
                if name.text.len() > 31 || self.program.table_names.contains_key(name.text) {
                    let message = "the name is too long or taken";
                    return Err(SyntaxError::new(name.span, message));
                }
                self.program.table_names.insert(name.text.to_owned(), set);
            }
            _ => {
                let message = "expected `profile`, `blobs`, `generated` or `named`";
                return Err(SyntaxError::new(form.span, message));
            }
        }
        cursor.finish()?;
        let span = start.to(cursor.previous());
        if self.program.table_sets.len() >= limits::DECLARATIONS {
            return Err(SyntaxError::new(span, "too many table sets"));
        }
        let all = self.program.table_sets.entry(set).or_default();
        all.extend(parts);
        tables::build(all, generation).map_err(|e| SyntaxError::new(span, e.message))?;
        Ok(())
    }

    fn table_file(&self, token: Token<'_>) -> SyntaxResult<Vec<u8>> {
        let path = self.path(token)?;
        self.read(&path, limits::SOURCE_BYTES, token.span)
    }

    fn document(&self, cursor: &mut Cursor<'_, '_>) -> SyntaxResult<String> {
        let token = cursor.string("a JSON file in quotes")?;
        String::from_utf8(self.table_file(token)?)
            .map_err(|_| SyntaxError::new(token.span, "the file is not UTF-8 text"))
    }
}
