//! Files, as an argument: the world opens none by itself.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs::{self, File};
use std::io::{self, Cursor, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Something to read from any place.
pub trait ReadSeek: Read + Seek + Debug + Send {}

impl<T: Read + Seek + Debug + Send> ReadSeek for T {}

/// Where files are.
pub trait Files: Debug {
    /// Opens a file to be read.
    ///
    /// # Errors
    /// Whatever the place says.
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadSeek>>;

    /// Makes a file, with the folders above it, and replaces one of the same name.
    ///
    /// # Errors
    /// Whatever the place says.
    fn create(&self, path: &Path) -> io::Result<Box<dyn Write + Send>>;

    /// A nameless file that is gone when it is closed: for what grows too large for memory.
    ///
    /// # Errors
    /// Whatever the place says.
    fn scratch(&self) -> io::Result<Box<dyn Scratch>>;
}

/// A nameless file.
pub trait Scratch: Read + Write + Seek + Debug + Send {}

impl<T: Read + Write + Seek + Debug + Send> Scratch for T {}

/// The files of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskFiles;

impl Files for DiskFiles {
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadSeek>> {
        Ok(Box::new(File::open(path)?))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Write + Send>> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        Ok(Box::new(io::BufWriter::with_capacity(1 << 16, File::create(path)?)))
    }

    fn scratch(&self) -> io::Result<Box<dyn Scratch>> {
        let folder = std::env::temp_dir();
        for attempt in 0..10_000u32 {
            let path = folder.join(format!("recirc-{}-{attempt}", std::process::id()));
            match File::options().read(true).write(true).create_new(true).open(&path) {
                Ok(file) => {
                    // The name is not needed any more; on Unix the file lives until it is closed.
                    fs::remove_file(&path)?;
                    return Ok(Box::new(file));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("no free name for a scratch file"))
    }
}

/// Files in memory: for embedded scenarios and tests. Clones share the same files.
#[derive(Clone, Debug, Default)]
pub struct MemoryFiles {
    files: Arc<Mutex<BTreeMap<PathBuf, Arc<[u8]>>>>,
}

impl MemoryFiles {
    /// Adds or replaces a file.
    pub fn insert(&self, path: impl Into<PathBuf>, bytes: impl Into<Arc<[u8]>>) {
        self.lock().insert(path.into(), bytes.into());
    }

    /// The content of a file.
    pub fn get(&self, path: impl AsRef<Path>) -> Option<Arc<[u8]>> {
        self.lock().get(path.as_ref()).cloned()
    }

    /// All names, in order.
    pub fn names(&self) -> Vec<PathBuf> {
        self.lock().keys().cloned().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<PathBuf, Arc<[u8]>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Files for MemoryFiles {
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadSeek>> {
        match self.get(path) {
            Some(bytes) => Ok(Box::new(Cursor::new(bytes))),
            None => Err(io::Error::new(io::ErrorKind::NotFound, "no such file")),
        }
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Write + Send>> {
        self.insert(path, Vec::new());
        Ok(Box::new(MemoryWriter { files: self.clone(), path: path.to_owned(), bytes: Vec::new() }))
    }

    fn scratch(&self) -> io::Result<Box<dyn Scratch>> {
        Ok(Box::new(Cursor::new(Vec::new())))
    }
}

struct MemoryWriter {
    files: MemoryFiles,
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Write for MemoryWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.files.insert(self.path.clone(), self.bytes.as_slice());
        Ok(())
    }
}

impl Drop for MemoryWriter {
    fn drop(&mut self) {
        self.files.insert(self.path.clone(), self.bytes.as_slice());
    }
}
