//! Reading with a size limit, writing whole or not at all.

use std::io::{Read, Write};
use std::path::{Component, Path, PathBuf};

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

/// Whether `name` stays in the folder it is resolved in, as far as the name itself can tell.
///
/// # Errors
/// Why not.
pub fn confined_name(name: &str) -> std::result::Result<(), String> {
    let normal = |c: Component<'_>| matches!(c, Component::Normal(_));
    if name.is_empty()
        || name.contains(['\0', '\\', ':'])
        || !Path::new(name).components().all(normal)
    {
        return Err(format!("`{}` is not a name in the program's folder", name.escape_debug()));
    }
    Ok(())
}

/// The path of `name` in `folder`; symbolic links must not lead out of it.
///
/// # Errors
/// The name or a link leads elsewhere; the folder that holds it does not exist.
pub fn confined(folder: &Path, name: &str) -> std::result::Result<PathBuf, String> {
    confined_name(name)?;
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let real = |p: &Path| p.canonicalize().map_err(|e| format!("{}: {e}", p.display()));
    let (root, path) = (real(folder)?, folder.join(name));
    let parent = real(path.parent().unwrap_or(folder))?;
    let leads_out = || Err(format!("`{name}` leads out of the program's folder"));
    if !parent.starts_with(&root) {
        return leads_out();
    }
    match path.symlink_metadata() {
        Ok(meta) if meta.is_symlink() && !real(&path)?.starts_with(&root) => leads_out(),
        _ => Ok(path),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_out_are_refused() {
        for bad in ["", "/etc/passwd", "..", "../a", "a/../../b", "./a", "a\\b", "c:a", "a\0b"] {
            assert!(confined_name(bad).is_err(), "{bad}");
        }
        for good in ["a.npy", "sub/a.npy"] {
            assert!(confined_name(good).is_ok(), "{good}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_that_lead_out_are_refused() {
        let outside = tempfile::tempdir().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(outside.path().join("secret"), b"x").unwrap();
        std::fs::write(at("inside"), b"y").unwrap();
        std::os::unix::fs::symlink(outside.path().join("secret"), at("link")).unwrap();
        std::os::unix::fs::symlink(outside.path(), at("dir")).unwrap();
        std::os::unix::fs::symlink(at("inside"), at("alias")).unwrap();
        assert!(confined(folder.path(), "link").is_err());
        assert!(confined(folder.path(), "dir/secret").is_err());
        assert!(confined(folder.path(), "dir/new").is_err());
        assert!(confined(folder.path(), "missing/new").is_err());
        assert!(confined(folder.path(), "alias").is_ok());
        assert_eq!(confined(folder.path(), "new").unwrap(), at("new"));
    }
}
