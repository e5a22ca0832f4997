//! Reading with a size limit, writing whole or not at all.

use std::io::{Read, Write};
use std::path::Path;

use crate::error::{Error, ErrorClass, Result};

/// Reads at most `limit` bytes of a file.
///
/// # Errors
/// The file cannot be read or is larger.
pub fn read_limited(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let file = std::fs::File::open(path).map_err(|e| Error::io(path, &e))?;
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(|e| Error::io(path, &e))?;
    if bytes.len() as u64 > limit {
        let message = format!("{}: larger than {limit} bytes", path.display());
        return Err(Error::new(ErrorClass::ProgramError, message));
    }
    Ok(bytes)
}

/// Writes a file whole or not at all: a reader never sees half of it.
///
/// # Errors
/// The file cannot be written.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let fail = |e: &std::io::Error| Error::io(path, e);
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        // Temporary files are private by default; the umask still applies to this mode.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut file = builder.tempfile_in(directory).map_err(|e| fail(&e))?;
    file.write_all(bytes).map_err(|e| fail(&e))?;
    file.persist(path).map_err(|e| fail(&e.error))?;
    Ok(())
}
