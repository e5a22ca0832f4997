//! The `tpbemu` binary. Everything is in the library.

/// Programs and traces are many small pieces and a few large ones: this allocator takes memory from
/// the system less often, and so faults in fewer pages.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    tpbemu::cli::main()
}
