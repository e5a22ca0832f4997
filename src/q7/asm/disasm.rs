//! Disassembler.

use std::collections::BTreeMap;

use crate::q7::codec::{self, Bundle, Options};

use super::assemble_one;

/// One line of a disassembly.
#[derive(Clone, Debug)]
pub struct Line {
    /// Address.
    pub address: u32,
    /// Bytes, at least one.
    pub bytes: Vec<u8>,
    /// Text: an instruction, or `.byte` with the reason.
    pub text: String,
    /// Whether the bytes decode completely.
    pub known: bool,
    /// Whether a private code is used.
    pub private: bool,
}

/// Text of an instruction such that assembling it at `pc` gives the same bytes.
///
/// A format name is put before the brace where the assembler would choose another format.
pub fn text(bundle: &Bundle, pc: u32, label: &dyn Fn(u32) -> Option<String>) -> String {
    let text = bundle.text(label);
    if bundle.frame.length < 8 {
        return text;
    }
    let plain = bundle.text(&|_| None);
    let same = assemble_one(&plain, pc, Options::OWN)
        .is_ok_and(|bytes| bundle.encode(pc).is_ok_and(|own| own.as_slice() == bytes));
    if same { text } else { format!("{} {text}", bundle.frame.format.name()) }
}

/// Disassembles `bytes` at `base`. `symbols` names addresses. Unknown bundles are printed as
/// `.byte` with their framing, so that the output still assembles to the same bytes.
///
/// A linear sweep loses its place in literal data; code is best handed over function by function.
/// (wiki: reference/flix-decoding)
pub fn disassemble(
    bytes: &[u8],
    base: u32,
    symbols: &BTreeMap<u32, String>,
    options: Options,
) -> Vec<Line> {
    let label = |address: u32| symbols.get(&address).cloned();
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let address = base.wrapping_add(at as u32);
        let line = match codec::decode(rest, address, options) {
            Ok(bundle) => Line {
                address,
                bytes: rest[..usize::from(bundle.frame.length)].to_vec(),
                text: text(&bundle, address, &label),
                known: true,
                private: bundle.is_private(),
            },
            Err(error) => {
                let frame = codec::frame(rest).ok();
                let length = frame.map_or(1, |f| usize::from(f.length)).min(rest.len());
                let list: Vec<_> = rest[..length].iter().map(|b| format!("{b:#04x}")).collect();
                let name = frame.map_or("", |f| f.format.name());
                Line {
                    address,
                    bytes: rest[..length].to_vec(),
                    text: format!(".byte {} # {name} {}", list.join(", "), error.message),
                    known: false,
                    private: false,
                }
            }
        };
        at += line.bytes.len();
        out.push(line);
    }
    out
}
