//! Constant expressions: `a_sb + part(32) + i*256`.
//!
//! Integers are 128 bits wide inside and every operation is checked, so that a field that takes 64
//! bits can be written signed or unsigned and overflow is an error, never a wrap.

use super::lex::{Kind, Token};
use super::syntax::{Span, SyntaxError, SyntaxResult, nearest};

/// How deep parentheses and unary operators may nest.
const MAX_DEPTH: u32 = 64;

/// A number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Int(i128),
    /// A number written with a point or exponent, or computed from one.
    Float(f64),
}

impl Value {
    /// The number as a float.
    pub fn as_f64(self) -> f64 {
        match self {
            Value::Int(n) => n as f64,
            Value::Float(x) => x,
        }
    }
}

/// What names mean where an expression stands.
pub trait Env {
    /// A constant, a repetition counter, the address of a tensor.
    fn symbol(&self, name: &str) -> Option<Value>;
    /// A function of whole numbers such as `part(32)`; `None` if there is no such function.
    fn call(&self, name: &str, arguments: &[i128]) -> Option<Result<i128, String>>;
    /// The number of a named semaphore.
    fn semaphore(&self, name: &str) -> Option<u32>;
    /// The number of a named event.
    fn event(&self, name: &str) -> Option<u32>;
    /// Every name, for suggestions.
    fn names(&self) -> Vec<String>;
}

/// An [`Env`] without any name.
pub struct NoNames;

impl Env for NoNames {
    fn symbol(&self, _: &str) -> Option<Value> {
        None
    }
    fn call(&self, _: &str, _: &[i128]) -> Option<Result<i128, String>> {
        None
    }
    fn semaphore(&self, _: &str) -> Option<u32> {
        None
    }
    fn event(&self, _: &str) -> Option<u32> {
        None
    }
    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A reading position in the tokens of one statement.
#[derive(Clone)]
pub struct Cursor<'t, 'a> {
    tokens: &'t [Token<'a>],
    at: usize,
    /// Where to point when something is missing at the end.
    end: Span,
}

impl<'t, 'a> Cursor<'t, 'a> {
    /// At the first of `tokens`; `line` is the place to blame for an empty statement.
    pub fn new(tokens: &'t [Token<'a>], line: Span) -> Self {
        let end = tokens.last().map_or(line, |t| Span { start: t.span.end, ..t.span });
        Cursor { tokens, at: 0, end }
    }

    /// The next token, not consumed.
    pub fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).copied()
    }

    /// The token `n` after the next.
    pub fn peek_at(&self, n: usize) -> Option<Token<'a>> {
        self.tokens.get(self.at + n).copied()
    }

    /// Consumes and returns the next token.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<Token<'a>> {
        let token = self.peek()?;
        self.at += 1;
        Some(token)
    }

    /// True at the end of the statement.
    pub fn at_end(&self) -> bool {
        self.at >= self.tokens.len()
    }

    /// Where the next token is, or the end of the statement.
    pub fn span(&self) -> Span {
        self.peek().map_or(self.end, |t| t.span)
    }

    /// The place of the token consumed last.
    pub fn previous(&self) -> Span {
        self.at.checked_sub(1).and_then(|i| self.tokens.get(i)).map_or(self.end, |t| t.span)
    }

    /// True if the next token is the punctuation `mark`.
    pub fn is(&self, mark: &str) -> bool {
        self.peek().is_some_and(|t| t.kind == Kind::Punct && t.text == mark)
    }

    /// Consumes the punctuation `mark` if it is next.
    pub fn eat(&mut self, mark: &str) -> bool {
        let found = self.is(mark);
        self.at += usize::from(found);
        found
    }

    /// Consumes the word `word` (any case) if it is next.
    pub fn eat_word(&mut self, word: &str) -> bool {
        let found =
            self.peek().is_some_and(|t| t.kind == Kind::Ident && t.text.eq_ignore_ascii_case(word));
        self.at += usize::from(found);
        found
    }

    /// Consumes the punctuation `mark`.
    ///
    /// # Errors
    /// Something else is next.
    pub fn expect(&mut self, mark: &str) -> SyntaxResult<()> {
        if self.eat(mark) { Ok(()) } else { Err(self.wanted(&format!("`{mark}`"))) }
    }

    /// Consumes a name.
    ///
    /// # Errors
    /// Something else is next; `what` says what the name is for.
    pub fn ident(&mut self, what: &str) -> SyntaxResult<Token<'a>> {
        match self.peek() {
            Some(t) if t.kind == Kind::Ident => {
                self.at += 1;
                Ok(t)
            }
            _ => Err(self.wanted(what)),
        }
    }

    /// Consumes a string token.
    ///
    /// # Errors
    /// Something else is next.
    pub fn string(&mut self, what: &str) -> SyntaxResult<Token<'a>> {
        match self.peek() {
            Some(t) if t.kind == Kind::Str => {
                self.at += 1;
                Ok(t)
            }
            _ => Err(self.wanted(what)),
        }
    }

    /// An error that says `what` should stand here.
    pub fn wanted(&self, what: &str) -> SyntaxError {
        let found = match self.peek() {
            None => "the end of the line".to_owned(),
            Some(t) => format!("`{}`", t.text),
        };
        SyntaxError::new(self.span(), format!("expected {what}, found {found}"))
    }

    /// Nothing may follow.
    ///
    /// # Errors
    /// Something does.
    pub fn finish(&mut self) -> SyntaxResult<()> {
        self.eat(";");
        if self.at_end() { Ok(()) } else { Err(self.wanted("the end of the line")) }
    }
}

/// Reads one expression and computes it.
///
/// # Errors
/// Syntax, an unknown name, overflow, division by zero, nesting deeper than 64.
pub fn expression(cursor: &mut Cursor<'_, '_>, env: &dyn Env) -> SyntaxResult<Value> {
    binary(cursor, env, 0, 0)
}

/// Reads an expression that must be a whole number in `low..=high`.
///
/// # Errors
/// As [`expression`]; a float; a number out of range.
pub fn integer(
    cursor: &mut Cursor<'_, '_>,
    env: &dyn Env,
    low: i128,
    high: i128,
) -> SyntaxResult<i128> {
    let start = cursor.span();
    let value = expression(cursor, env)?;
    let span = start.to(cursor.previous());
    match value {
        Value::Int(n) if (low..=high).contains(&n) => Ok(n),
        Value::Int(n) => {
            Err(SyntaxError::new(span, format!("{n} is out of range, allowed is {low} to {high}")))
        }
        Value::Float(x) => {
            Err(SyntaxError::new(span, format!("expected a whole number, found {x:?}")))
        }
    }
}

const LEVELS: &[&[&str]] = &[&["|"], &["^"], &["&"], &["<<", ">>"], &["+", "-"], &["*", "/", "%"]];

fn binary(
    cursor: &mut Cursor<'_, '_>,
    env: &dyn Env,
    level: usize,
    depth: u32,
) -> SyntaxResult<Value> {
    let Some(operators) = LEVELS.get(level) else { return unary(cursor, env, depth) };
    let start = cursor.span();
    let mut left = binary(cursor, env, level + 1, depth)?;
    while let Some(token) = cursor.peek() {
        if token.kind != Kind::Punct || !operators.contains(&token.text) {
            break;
        }
        cursor.next();
        let right = binary(cursor, env, level + 1, depth)?;
        left = apply(token.text, left, right)
            .map_err(|why| SyntaxError::new(start.to(cursor.previous()), why))?;
    }
    Ok(left)
}

fn apply(operator: &str, left: Value, right: Value) -> Result<Value, String> {
    if let (Value::Int(a), Value::Int(b)) = (left, right) {
        let shift = || u32::try_from(b).ok().filter(|n| *n < 64);
        let result = match operator {
            "+" => a.checked_add(b),
            "-" => a.checked_sub(b),
            "*" => a.checked_mul(b),
            "/" | "%" if b == 0 => return Err("division by zero".to_owned()),
            "/" => a.checked_div(b),
            "%" => a.checked_rem(b),
            "|" => Some(a | b),
            "&" => Some(a & b),
            "^" => Some(a ^ b),
            "<<" => shift().and_then(|n| a.checked_mul(1 << n)),
            _ => shift().map(|n| a >> n),
        };
        // 100 bits leave room for every later step to be checked without overflowing itself.
        return result
            .filter(|n| n.unsigned_abs() < 1 << 100)
            .map(Value::Int)
            .ok_or_else(|| "the result is too large".to_owned());
    }
    let (a, b) = (left.as_f64(), right.as_f64());
    match operator {
        "+" => Ok(Value::Float(a + b)),
        "-" => Ok(Value::Float(a - b)),
        "*" => Ok(Value::Float(a * b)),
        "/" => Ok(Value::Float(a / b)),
        _ => Err(format!("`{operator}` needs whole numbers")),
    }
}

fn unary(cursor: &mut Cursor<'_, '_>, env: &dyn Env, depth: u32) -> SyntaxResult<Value> {
    if depth > MAX_DEPTH {
        return Err(SyntaxError::new(cursor.span(), "the expression nests too deeply"));
    }
    if cursor.eat("-") {
        return Ok(match unary(cursor, env, depth + 1)? {
            Value::Int(n) => Value::Int(-n),
            Value::Float(x) => Value::Float(-x),
        });
    }
    if cursor.is("~") {
        let span = cursor.span();
        cursor.next();
        return match unary(cursor, env, depth + 1)? {
            Value::Int(n) => Ok(Value::Int(!n)),
            Value::Float(_) => Err(SyntaxError::new(span, "`~` needs a whole number")),
        };
    }
    if cursor.eat("(") {
        let value = binary(cursor, env, 0, depth + 1)?;
        cursor.expect(")")?;
        return Ok(value);
    }
    let Some(token) = cursor.peek() else { return Err(cursor.wanted("a number or a name")) };
    match token.kind {
        Kind::Int(n) => {
            cursor.next();
            Ok(Value::Int(i128::from(n)))
        }
        Kind::Float(x) => {
            cursor.next();
            Ok(Value::Float(x))
        }
        Kind::Ident => {
            cursor.next();
            if cursor.is("(") { call(cursor, env, token, depth) } else { symbol(env, token) }
        }
        _ => Err(cursor.wanted("a number or a name")),
    }
}

fn call(
    cursor: &mut Cursor<'_, '_>,
    env: &dyn Env,
    name: Token<'_>,
    depth: u32,
) -> SyntaxResult<Value> {
    cursor.expect("(")?;
    let mut arguments = Vec::new();
    while !cursor.eat(")") {
        if !arguments.is_empty() {
            cursor.expect(",")?;
        }
        if arguments.len() >= 8 {
            return Err(SyntaxError::new(cursor.span(), "too many arguments"));
        }
        let start = cursor.span();
        match binary(cursor, env, 0, depth + 1)? {
            Value::Int(n) => arguments.push(n),
            Value::Float(_) => {
                let span = start.to(cursor.previous());
                return Err(SyntaxError::new(span, "expected a whole number"));
            }
        }
    }
    let span = name.span.to(cursor.previous());
    match env.call(name.text, &arguments) {
        Some(Ok(n)) => Ok(Value::Int(n)),
        Some(Err(why)) => Err(SyntaxError::new(span, why)),
        None => Err(SyntaxError::new(name.span, format!("there is no function `{}`", name.text))),
    }
}

fn symbol(env: &dyn Env, name: Token<'_>) -> SyntaxResult<Value> {
    // The IEEE names stand for numbers that have no literal.
    let special = match name.text {
        "inf" => Some(f64::INFINITY),
        "nan" => Some(f64::NAN),
        _ => None,
    };
    env.symbol(name.text).or(special.map(Value::Float)).ok_or_else(|| {
        let error = SyntaxError::new(name.span, format!("unknown name `{}`", name.text));
        let names = env.names();
        match nearest(name.text, names.iter().map(String::as_str)) {
            Some(near) => error.help(format!("did you mean `{near}`?")),
            None => error,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::lex::lex_line;
    use super::*;

    fn eval(text: &str) -> Result<Value, String> {
        let (tokens, _) = lex_line(text, 0, 0).unwrap();
        let mut cursor = Cursor::new(&tokens, Span::default());
        let value = expression(&mut cursor, &NoNames).map_err(|e| e.message)?;
        cursor.finish().map_err(|e| e.message)?;
        Ok(value)
    }

    #[test]
    fn precedence_and_checks() {
        assert_eq!(eval("1+2*3<<1"), Ok(Value::Int(14)));
        assert_eq!(eval("-(2-5)*0x10|1"), Ok(Value::Int(49)));
        assert_eq!(eval("1.5*2"), Ok(Value::Float(3.0)));
        assert_eq!(eval("7 % 0"), Err("division by zero".to_owned()));
        assert_eq!(eval("1<<63<<63"), Err("the result is too large".to_owned()));
        assert_eq!(eval("~0"), Ok(Value::Int(-1)));
        assert!(eval("1 2").is_err());
        assert!(eval(&"(".repeat(5000)).is_err());
        assert!(eval(&"-".repeat(5000)).is_err());
        assert!(eval(&format!("{}1", "~".repeat(5000))).is_err());
    }
}
