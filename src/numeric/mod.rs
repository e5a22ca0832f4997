//! Numbers: dtypes, conversions, ALU operations, activation functions, random generators.
