//! Compiles a file to code, for build scripts and the command.

use crate::c::{self, Output, Style};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::source::Sources;
use crate::{check, library, parse, preprocess, rust, source};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{env, fmt, fs, io};

/// The reason why there is no output.
pub enum Error {
    /// The source has errors.
    Source(Diagnostics),
    /// A file can't be read or written.
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// `OUT_DIR` isn't set, so the caller isn't a build script.
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

/// Shows the message for people, on a separate line: build scripts unwrap the error or return it from `main`,
/// and then cargo shows this form.
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

/// Compiles `foo.x` to `$OUT_DIR/foo.rs` in a build script. Tells cargo the source files, so that cargo
/// reruns the script after changes.
///
/// # Errors
/// The source has errors, or a file can't be read or written.
pub fn compile(path: impl AsRef<Path>) -> Result<(), Error> {
    Builder::default().compile(path)
}

/// The output for a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generated {
    /// The Rust code.
    pub code: String,
    /// Warnings about names that can surprise users of the code.
    pub warnings: Vec<Diagnostic>,
}

/// Options of a compilation.
#[derive(Debug, Clone, Default)]
pub struct Builder {
    include_dirs: Vec<PathBuf>,
    defined: Vec<(String, String)>,
    types: Vec<PathBuf>,
    quiet: bool,
}

impl Builder {
    /// Adds a directory to search for included files, after the including file's own directory.
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

    /// Takes types and numbers that a source uses but doesn't define from this file. The file is in the RPC
    /// language, too, for example: `typedef unsigned hyper time_t;`.
    #[must_use]
    pub fn types(mut self, path: impl Into<PathBuf>) -> Self {
        self.types.push(path.into());
        self
    }

    /// Suppresses warnings. Use it for interfaces whose names you can't change.
    #[must_use]
    pub fn quiet(mut self) -> Self {
        self.quiet = true;
        self
    }

    /// Compiles as the function [`compile`] does.
    ///
    /// # Errors
    /// The errors of [`compile`].
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

    /// Generates the Rust code for a file.
    ///
    /// # Errors
    /// The errors of [`compile`].
    pub fn generate(&self, path: impl AsRef<Path>) -> Result<Generated, Error> {
        self.file(path.as_ref()).map(|(generated, _)| generated)
    }

    /// Generates the Rust code for a text. Errors and output refer to it by `name`.
    ///
    /// # Errors
    /// The source has errors.
    pub fn generate_from(&self, name: &str, text: &str) -> Result<Generated, Error> {
        let path = PathBuf::from(name);
        source::check_size(text.len()).map_err(|why| Error::File { path: path.clone(), why })?;
        let mut sources = Sources::default();
        self.sources(&mut sources, path, text.to_owned())
    }

    /// Generates one of rpcgen's C files for a file. The C compiler checks the names.
    ///
    /// # Errors
    /// The errors of [`compile`].
    pub fn generate_c(&self, path: impl AsRef<Path>, output: Output, style: Style) -> Result<String, Error> {
        let path = path.as_ref();
        let text = source::read(path).map_err(|why| Error::File { path: path.to_path_buf(), why })?;
        self.c_from(path, text, output, style)
    }

    /// For tests: generates one of rpcgen's C files for a text. Errors and output refer to it by `name`.
    ///
    /// # Errors
    /// The source has errors.
    #[doc(hidden)]
    pub fn generate_c_from(
        &self,
        name: &str,
        text: &str,
        output: Output,
        style: Style,
    ) -> Result<String, Error> {
        let path = Path::new(name);
        source::check_size(text.len()).map_err(|why| Error::File { path: path.to_path_buf(), why })?;
        self.c_from(path, text.to_owned(), output, style)
    }

    fn c_from(&self, path: &Path, text: String, output: Output, style: Style) -> Result<String, Error> {
        let name = |part: Option<&OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
        let (title, stem) = (name(path.file_name()), name(path.file_stem()));
        let mut sources = Sources::default();
        let file = sources.add(path.to_path_buf(), text);
        let mut defined = self.defined.clone();
        defined.push((output.symbol().to_owned(), "1".to_owned()));
        let tokens = preprocess::preprocess(&mut sources, file, &self.include_dirs, &defined)
            .map_err(Diagnostics::from)?;
        let (mut definitions, lines) = parse::parse_with_lines(&sources, &tokens)?;
        library::blank_repeats(&mut definitions);
        Ok(c::generate(&sources, (&title, &stem), &definitions, &lines, (output, style))?)
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

/// Writes a file only if its content changes: a new modification time would rebuild the crates that include
/// it.
pub(crate) fn write(path: &Path, code: &str) -> Result<(), Error> {
    if fs::read(path).is_ok_and(|found| found == code.as_bytes()) {
        return Ok(());
    }
    fs::write(path, code)
        .map_err(|error: io::Error| Error::File { path: path.to_path_buf(), why: error.to_string() })
}
