//! The `tpbemu` binary. Everything is in the library.

fn main() -> std::process::ExitCode {
    tpbemu::cli::main()
}
