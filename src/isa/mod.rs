//! Instruction set as data: generations, opcode table, struct codec, validators, text syntax.
