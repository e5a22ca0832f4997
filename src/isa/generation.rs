//! Generations of the block and the engines that own an instruction stream.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorClass};

/// A hardware generation. Ordered by age (wiki: generations/codename-generation-map).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[repr(u8)]
pub enum Generation {
    /// v1 TONGA.
    V1,
    /// v2 SUNDA.
    V2,
    /// v3 CAYMAN.
    V3,
    /// v4 MARIANA.
    V4,
    /// v4+ MARIANA_PLUS: the instruction set of v4.
    V4Plus,
    /// v5 MAVERICK.
    V5,
}

impl Generation {
    /// Every generation, oldest first.
    pub const ALL: [Generation; 6] = [
        Generation::V1,
        Generation::V2,
        Generation::V3,
        Generation::V4,
        Generation::V4Plus,
        Generation::V5,
    ];

    /// Name of the generation's header tree.
    pub fn codename(self) -> &'static str {
        match self {
            Generation::V1 => "TONGA",
            Generation::V2 => "SUNDA",
            Generation::V3 => "CAYMAN",
            Generation::V4 => "MARIANA",
            Generation::V4Plus => "MARIANA_PLUS",
            Generation::V5 => "MAVERICK",
        }
    }

    /// Position in [`Generation::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Architecture id of the management core; v1 has none, v5's is INFERRED
    /// (wiki: generations/codename-generation-map).
    pub fn arch_id(self) -> Option<u8> {
        match self {
            Generation::V1 => None,
            Generation::V2 => Some(5),
            Generation::V3 => Some(12),
            Generation::V4 => Some(20),
            Generation::V4Plus => Some(28),
            Generation::V5 => Some(36),
        }
    }

    /// Core type by which firmware images are chosen; always `arch_id + 1`
    /// (wiki: generations/codename-generation-map).
    pub fn coretype(self) -> Option<u8> {
        self.arch_id().map(|id| id + 1)
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Generation::V1 => "v1",
            Generation::V2 => "v2",
            Generation::V3 => "v3",
            Generation::V4 => "v4",
            Generation::V4Plus => "v4+",
            Generation::V5 => "v5",
        })
    }
}

impl FromStr for Generation {
    type Err = Error;

    /// Accepts `v1` .. `v5`, `v4+`, `v4p`, `v4plus` and the codenames, in any case.
    fn from_str(text: &str) -> Result<Self, Error> {
        match text.to_ascii_lowercase().as_str() {
            "v4p" | "v4plus" | "v4_plus" | "mariana+" => return Ok(Generation::V4Plus),
            _ => {}
        }
        Generation::ALL
            .into_iter()
            .find(|g| {
                text.eq_ignore_ascii_case(&g.to_string()) || text.eq_ignore_ascii_case(g.codename())
            })
            .ok_or_else(|| {
                Error::new(ErrorClass::ConfigError, format!("no generation is called `{text}`"))
                    .help("generations: v1, v2, v3, v4, v4+, v5 or their codenames")
            })
    }
}

/// An engine that has its own instruction stream. The numbers are those of the queue map
/// (wiki: neuronx-runtime isa/validator-architecture).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[repr(u8)]
pub enum Engine {
    /// Matrix engine.
    Pe = 0,
    /// Activation engine.
    Act = 1,
    /// Pooling engine: from v2 on, the eight Q7 cores.
    Pool = 2,
    /// Vector engine.
    Dve = 3,
    /// Sequencer-only engine.
    Sp = 4,
}

impl Engine {
    /// Every engine, by number.
    pub const ALL: [Engine; 5] = [Engine::Pe, Engine::Act, Engine::Pool, Engine::Dve, Engine::Sp];

    /// Position in [`Engine::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Engine::Pe => "PE",
            Engine::Act => "ACT",
            Engine::Pool => "POOL",
            Engine::Dve => "DVE",
            Engine::Sp => "SP",
        })
    }
}

impl FromStr for Engine {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Engine::ALL.into_iter().find(|e| text.eq_ignore_ascii_case(&e.to_string())).ok_or_else(
            || {
                Error::new(ErrorClass::ProgramError, format!("no engine is called `{text}`"))
                    .help("engines: PE, ACT, POOL, DVE, SP")
            },
        )
    }
}

/// A set of generations.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct GenSet(pub u8);

impl GenSet {
    /// Whether `generation` is a member.
    pub const fn contains(self, generation: Generation) -> bool {
        self.0 & (1 << generation as u8) != 0
    }

    /// Members, oldest first.
    pub fn iter(self) -> impl Iterator<Item = Generation> {
        Generation::ALL.into_iter().filter(move |g| self.contains(*g))
    }
}

impl fmt::Display for GenSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members: Vec<_> = self.iter().collect();
        let contiguous = members
            .first()
            .zip(members.last())
            .is_some_and(|(a, b)| b.index() - a.index() + 1 == members.len());
        if contiguous && members.len() > 1 {
            return write!(f, "{}..{}", members[0], members[members.len() - 1]);
        }
        for (i, g) in members.iter().enumerate() {
            write!(f, "{}{g}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Debug for GenSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for g in Generation::ALL {
            assert_eq!(g.to_string().parse::<Generation>().unwrap(), g);
            assert_eq!(g.codename().to_lowercase().parse::<Generation>().unwrap(), g);
        }
        assert_eq!("v4p".parse::<Generation>().unwrap(), Generation::V4Plus);
        assert_eq!("mariana_plus".parse::<Generation>().unwrap(), Generation::V4Plus);
        assert!("v6".parse::<Generation>().is_err());
        for e in Engine::ALL {
            assert_eq!(e.to_string().parse::<Engine>().unwrap(), e);
        }
        assert!("TOP".parse::<Engine>().is_err());
    }

    #[test]
    fn sets_print_as_ranges() {
        assert_eq!(GenSet(0b111110).to_string(), "v2..v5");
        assert_eq!(GenSet(0b000010).to_string(), "v2");
        assert_eq!(GenSet(0b100010).to_string(), "v2,v5");
    }
}
