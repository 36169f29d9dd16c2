//! Empty: only the sources of the dependency are used.
