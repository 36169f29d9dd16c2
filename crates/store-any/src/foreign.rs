//! Libraries behind `plugin:` and `libhdfs:`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use strait_store::foreign::Foreign;
use strait_store::{ErrorKind, Result, Scheme, StoreUri, fail};
use strait_store_abi::HdfsLibrary;
use strait_store_plugin::{CALL_PATIENCE, ForeignStore, Launch, Place, Plugin, Spec};

/// Key of `libhdfs:` in the map of libraries.
const LIBHDFS: &str = "libhdfs";
/// Variable that lists the libraries that a program's `libhdfs:` URIs can load, separated by colons.
pub const LIBRARIES: &str = "STRAIT_LIBRARIES";
/// Name of the option, for every library, that sets the time limit of a call in seconds.
const TIMEOUT: &str = "timeout";

/// The operator's choices for libraries.
#[derive(Debug, Clone, Default)]
pub struct ForeignOptions {
    /// Libraries by name: the NAME of `plugin:NAME://…`, or `libhdfs`.
    pub libraries: BTreeMap<String, Library>,
    /// The libraries that a `libhdfs:` URI can load.
    pub by_uri: ByUri,
    /// The command that runs [`serve_parent`], as a helper process. None: libraries run in this process.
    pub helper: Option<Launch>,
}

/// The libraries that a `libhdfs:` URI can load, by the path that the URI contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ByUri {
    /// These. Right where URIs can come from others than the operator.
    Listed(Vec<PathBuf>),
    /// All: the operator writes the URIs.
    Any,
}

impl Default for ByUri {
    /// None.
    fn default() -> Self {
        Self::Listed(Vec::new())
    }
}

impl ByUri {
    fn check(&self, library: &Path) -> Result<()> {
        match self {
            Self::Listed(libraries) if !libraries.iter().any(|listed| listed == library) => {
                // The URI may contain a password.
                let why = format!(
                    "{LIBRARIES} doesn't list {}, so this program doesn't load it; see docs/plugins.md",
                    library.display()
                );
                fail(ErrorKind::InvalidArgument, why)
            }
            _ => Ok(()),
        }
    }
}

/// One library.
#[derive(Debug, Clone, Default)]
pub struct Library {
    /// Path of the library. Ignored for `libhdfs:`, whose URI contains the path.
    pub path: PathBuf,
    /// Settings for the library, except `timeout`, which Strait uses itself.
    pub options: Vec<(String, String)>,
    /// Whether the library runs in this process even if there is a helper command.
    pub inside: bool,
}

/// Opens the store of a `plugin:` or `libhdfs:` URI.
pub async fn open(uri: &StoreUri, options: &ForeignOptions) -> Result<ForeignStore> {
    let Some((named, inner)) = uri.foreign() else {
        return fail(ErrorKind::InvalidArgument, "the URI names no library");
    };
    let (name, kind) = if uri.scheme() == Scheme::Libhdfs { (LIBHDFS, LIBHDFS) } else { (named, "plugin") };
    let mut library = match options.libraries.get(name) {
        Some(library) => library.clone(),
        None if kind == LIBHDFS => Library::default(),
        None => {
            let known: Vec<&str> = options.libraries.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let why = format!("no plugin {name} (known: {known}); name its library: --plugin {name}=LIBRARY");
            return fail(ErrorKind::InvalidArgument, why);
        }
    };
    if kind == LIBHDFS {
        library.path = named.into();
        options.by_uri.check(&library.path)?;
    }
    let patience = patience(&mut library.options)?;
    let apart = options.helper.clone().filter(|_| !library.inside);
    let spec = Spec {
        kind: kind.to_owned(),
        library: library.path.to_string_lossy().into_owned(),
        uri: inner.to_owned(),
        options: library.options,
    };
    strait_store_plugin::open(spec, Place { apart, patience }, opener).await
}

fn patience(options: &mut Vec<(String, String)>) -> Result<Duration> {
    let Some(at) = options.iter().position(|(key, _)| key == TIMEOUT) else { return Ok(CALL_PATIENCE) };
    let (_, seconds) = options.remove(at);
    match seconds.parse() {
        Ok(seconds @ 1..=86_400) => Ok(Duration::from_secs(seconds)),
        _ => fail(ErrorKind::InvalidArgument, format!("invalid timeout {seconds}: give 1 to 86400 seconds")),
    }
}

fn opener(spec: &Spec) -> Result<Arc<dyn Foreign>> {
    let library = Path::new(&spec.library);
    match spec.kind.as_str() {
        LIBHDFS => Ok(Arc::new(HdfsLibrary::open(library, &spec.uri, &spec.options)?)),
        _ => Ok(Arc::new(Plugin::open(library, &spec.uri, &spec.options)?)),
    }
}

/// Runs a library in this process for a parent process, whose socket is the standard input, until the
/// parent ends.
///
/// # Errors
/// Standard input isn't a parent's socket.
pub fn serve_parent() -> std::io::Result<()> {
    strait_store_plugin::serve_parent(opener)
}
