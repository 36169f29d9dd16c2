//! From a file to code: for build scripts and the command.

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::source::Sources;
use crate::{check, library, rust, source};
use std::path::{Path, PathBuf};
use std::{env, fmt, fs, io};

/// Why there is no output.
pub enum Error {
    /// The source is wrong.
    Source(Diagnostics),
    /// A file can't be read or written.
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Not within a build script.
    NoOutDir,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(diagnostics) => diagnostics.fmt(f),
            Self::File { path, why } => write!(f, "{}: {why}", path.display()),
            Self::NoOutDir => f.write_str("OUT_DIR isn't set: compile() is for build scripts"),
        }
    }
}

/// As people read it, on a line of its own: build scripts unwrap, or return the error from
/// `main`, and cargo shows what that prints.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{self}")
    }
}

impl std::error::Error for Error {}

impl From<Diagnostics> for Error {
    fn from(diagnostics: Diagnostics) -> Self {
        Self::Source(diagnostics)
    }
}

/// Compiles `foo.x` to `$OUT_DIR/foo.rs`, in a build script, and tells cargo what
/// to watch.
///
/// # Errors
/// The source is wrong, or a file can't be read or written.
pub fn compile(path: impl AsRef<Path>) -> Result<(), Error> {
    Builder::default().compile(path)
}

/// What comes of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generated {
    /// In Rust.
    pub code: String,
    /// What its users may trip over.
    pub warnings: Vec<Diagnostic>,
}

/// How to compile.
#[derive(Debug, Clone, Default)]
pub struct Builder {
    include_dirs: Vec<PathBuf>,
    defined: Vec<(String, String)>,
    types: Vec<PathBuf>,
    quiet: bool,
}

impl Builder {
    /// Looks for included files here, after the including file's own directory.
    #[must_use]
    pub fn include_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.include_dirs.push(directory.into());
        self
    }

    /// Defines a preprocessor symbol.
    #[must_use]
    pub fn define(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.defined.push((name.into(), value.into()));
        self
    }

    /// Takes the types and numbers that a source mentions and doesn't define from this file,
    /// which is in the RPC language, too: `typedef unsigned hyper time_t;`.
    #[must_use]
    pub fn types(mut self, path: impl Into<PathBuf>) -> Self {
        self.types.push(path.into());
        self
    }

    /// Gives no warnings: the names of an interface that others have set stay as they are.
    #[must_use]
    pub fn quiet(mut self) -> Self {
        self.quiet = true;
        self
    }

    /// As [`compile`].
    ///
    /// # Errors
    /// As [`compile`].
    pub fn compile(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let directory = PathBuf::from(env::var_os("OUT_DIR").ok_or(Error::NoOutDir)?);
        let (Generated { code, warnings }, read) = self.file(path)?;
        for path in read {
            println!("cargo::rerun-if-changed={}", path.display());
        }
        for warning in warnings {
            println!("cargo::warning={}", warning.head());
        }
        let output = directory.join(path.with_extension("rs").file_name().unwrap_or_default());
        write(&output, &code)
    }

    /// The Rust code for a file.
    ///
    /// # Errors
    /// As [`compile`].
    pub fn generate(&self, path: impl AsRef<Path>) -> Result<Generated, Error> {
        self.file(path.as_ref()).map(|(generated, _)| generated)
    }

    /// The Rust code for a text, called `name` in errors and in the output.
    ///
    /// # Errors
    /// The source is wrong.
    pub fn generate_from(&self, name: &str, text: &str) -> Result<Generated, Error> {
        let path = PathBuf::from(name);
        source::check_size(text.len()).map_err(|why| Error::File { path: path.clone(), why })?;
        let mut sources = Sources::default();
        self.sources(&mut sources, path, text.to_owned())
    }

    fn file(&self, path: &Path) -> Result<(Generated, Vec<PathBuf>), Error> {
        let text = source::read(path).map_err(|why| Error::File { path: path.to_path_buf(), why })?;
        let mut sources = Sources::default();
        let generated = self.sources(&mut sources, path.to_path_buf(), text)?;
        let read = sources.paths().filter(|path| path.exists()).map(Path::to_path_buf).collect();
        Ok((generated, read))
    }

    fn sources(&self, sources: &mut Sources, path: PathBuf, text: String) -> Result<Generated, Error> {
        let title = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let file = sources.add(path, text);
        let mut defined = self.defined.clone();
        defined.push(("RPC_HDR".to_owned(), "1".to_owned()));
        let places =
            library::Places { types: &self.types, include_dirs: &self.include_dirs, defined: &defined };
        let (definitions, mut warnings) = library::read(sources, file, &places)?;
        let model = check::check(sources, &definitions)?;
        let code = rust::generate(sources, &title, &model)?;
        warnings.extend(rust::warnings(sources, &model));
        if self.quiet {
            warnings.clear();
        }
        Ok(Generated { code, warnings })
    }
}

/// Leaves a file alone that is right already: a new time would rebuild what includes it.
pub(crate) fn write(path: &Path, code: &str) -> Result<(), Error> {
    if fs::read(path).is_ok_and(|found| found == code.as_bytes()) {
        return Ok(());
    }
    fs::write(path, code)
        .map_err(|error: io::Error| Error::File { path: path.to_path_buf(), why: error.to_string() })
}
