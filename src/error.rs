//! The one error type of the emulator: every way a run, a load or a conversion can end badly.
//!
//! An [`Error`] says whose fault it is ([`ErrorClass`]), which rule was broken, and, as far as the
//! layer that raises or forwards it knows, where: generation, engine, program counter, cycle,
//! disassembly and source line ([`Location`]). Text is made in one place, [`Error`]'s `Display`.

use std::borrow::Cow;
use std::fmt;

/// Whose fault an error is. The process exit code follows the class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum ErrorClass {
    /// A validator rule or decode rule of the selected generation rejects the instruction.
    IllegalInstruction,
    /// The program relies on something the hardware does not define: race, uninitialised read, overlap.
    UndefinedBehaviour,
    /// What the hardware itself would report, with its fault code.
    DeviceFault,
    /// Nothing can progress any more and a stream is not at its end.
    Deadlock,
    /// Branch loops run forever and nothing that can still happen ends them.
    Livelock,
    /// The public sources do not say what happens here.
    MissingSpecification,
    /// Known, specified, not written yet.
    Unimplemented,
    /// The assembler or a container rejects the program file.
    ProgramError,
    /// A configuration file or option is wrong.
    ConfigError,
    /// Output tensors differ from the values they were checked against.
    CheckFailed,
    /// A limit given by the user was reached (cycles, memory, trace size), or the run was interrupted.
    LimitReached,
    /// A file could not be read or written.
    Io,
    /// A bug of the emulator.
    Internal,
}

impl ErrorClass {
    /// Process exit code of the class. 0 is success, 2 is left to the argument parser.
    pub fn exit_code(self) -> u8 {
        match self {
            ErrorClass::CheckFailed => 1,
            ErrorClass::ProgramError => 3,
            ErrorClass::ConfigError => 4,
            ErrorClass::Io => 5,
            ErrorClass::IllegalInstruction => 10,
            ErrorClass::UndefinedBehaviour => 11,
            ErrorClass::DeviceFault => 12,
            ErrorClass::Deadlock => 13,
            ErrorClass::MissingSpecification => 14,
            ErrorClass::Unimplemented => 15,
            ErrorClass::LimitReached => 16,
            ErrorClass::Livelock => 17,
            ErrorClass::Internal => 70,
        }
    }

    /// Name as printed, in words.
    pub fn name(self) -> &'static str {
        match self {
            ErrorClass::IllegalInstruction => "illegal instruction",
            ErrorClass::UndefinedBehaviour => "undefined behaviour",
            ErrorClass::DeviceFault => "device fault",
            ErrorClass::Deadlock => "deadlock",
            ErrorClass::Livelock => "livelock",
            ErrorClass::MissingSpecification => "missing specification",
            ErrorClass::Unimplemented => "unimplemented",
            ErrorClass::ProgramError => "program error",
            ErrorClass::ConfigError => "configuration error",
            ErrorClass::CheckFailed => "check failed",
            ErrorClass::LimitReached => "limit reached",
            ErrorClass::Io => "input/output error",
            ErrorClass::Internal => "internal error (a bug of tpbemu)",
        }
    }
}

/// Where an error happened, as far as it is known. Filled in layer by layer.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Location {
    /// Generation name, for instance `v3`.
    pub generation: Option<String>,
    /// Stream name: `PE`, `ACT`, `POOL`, `DVE`, `SP` or a DMA queue.
    pub stream: Option<String>,
    /// Index of the instruction in its stream.
    pub pc: Option<u64>,
    /// Simulated cycle of the engine's own clock.
    pub cycle: Option<u64>,
    /// The instruction in assembly syntax.
    pub disassembly: Option<String>,
    /// `file:line` of the program source.
    pub source: Option<String>,
}

/// An error of any class, with the broken rule, a message, advice, and its place.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Error {
    /// Whose fault it is.
    pub class: ErrorClass,
    /// Name of the validator rule or fault, if it has one.
    pub rule: Option<Cow<'static, str>>,
    /// What is wrong, one or more lines.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// Where it happened.
    pub at: Box<Location>,
}

/// Result with the emulator's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `class` that says `message`.
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Error { class, rule: None, message: message.into(), help: None, at: Box::default() }
    }

    /// [`ErrorClass::IllegalInstruction`] by the validator rule `rule`.
    pub fn illegal(rule: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Error::new(ErrorClass::IllegalInstruction, message).rule(rule)
    }

    /// [`ErrorClass::UndefinedBehaviour`] named `rule`.
    pub fn undefined(rule: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Error::new(ErrorClass::UndefinedBehaviour, message).rule(rule)
    }

    /// [`ErrorClass::Unimplemented`].
    pub fn unimplemented(what: impl Into<String>) -> Self {
        Error::new(ErrorClass::Unimplemented, what)
    }

    /// [`ErrorClass::MissingSpecification`]: `fact` is what no source says, `page` where one would look.
    pub fn missing_spec(fact: impl Into<String>, page: &str) -> Self {
        Error::new(
            ErrorClass::MissingSpecification,
            format!("{} (not stated by {page})", fact.into()),
        )
    }

    /// [`ErrorClass::Internal`].
    pub fn internal(message: impl Into<String>) -> Self {
        Error::new(ErrorClass::Internal, message)
    }

    /// An [`ErrorClass::Io`] error about `path`.
    pub fn io(path: &std::path::Path, error: &std::io::Error) -> Self {
        Error::new(ErrorClass::Io, format!("{}: {error}", path.display()))
    }

    /// Names the broken rule.
    pub fn rule(mut self, rule: impl Into<Cow<'static, str>>) -> Self {
        self.rule = Some(rule.into());
        self
    }

    /// Adds advice.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds a line to the advice.
    pub fn more_help(mut self, line: &str) -> Self {
        self.help = Some(match self.help {
            Some(help) => format!("{help}\n  {line}"),
            None => line.to_string(),
        });
        self
    }

    /// Fills in the parts of the place that are not known yet.
    pub fn or_at(mut self, at: &Location) -> Self {
        let have = &mut *self.at;
        let fill = |slot: &mut Option<String>, from: &Option<String>| {
            if slot.is_none() {
                slot.clone_from(from);
            }
        };
        fill(&mut have.generation, &at.generation);
        fill(&mut have.stream, &at.stream);
        fill(&mut have.disassembly, &at.disassembly);
        fill(&mut have.source, &at.source);
        have.pc = have.pc.or(at.pc);
        have.cycle = have.cycle.or(at.cycle);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.class.name())?;
        if let Some(rule) = &self.rule {
            write!(f, " [{rule}]")?;
        }
        write!(f, ": {}", self.message)?;
        let at = &*self.at;
        if at.stream.is_some() || at.pc.is_some() {
            write!(f, "\n  at ")?;
            if let Some(generation) = &at.generation {
                write!(f, "{generation} ")?;
            }
            write!(f, "{}", at.stream.as_deref().unwrap_or("?"))?;
            if let Some(pc) = at.pc {
                write!(f, " pc {pc}")?;
            }
            if let Some(cycle) = at.cycle {
                write!(f, ", cycle {cycle}")?;
            }
            if let Some(source) = &at.source {
                write!(f, ", {source}")?;
            }
        }
        if let Some(text) = &at.disassembly {
            write!(f, "\n  {text}")?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}
