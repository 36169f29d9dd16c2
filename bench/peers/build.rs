//! The reading half of Strait's interface, for volo: the messages of
//! idl/dfs.thrift, with a service that has the calls for reading a file.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    #[cfg(feature = "volo")]
    reading::generate()?;
    Ok(())
}

#[cfg(feature = "volo")]
mod reading {
    use std::env;
    use std::error::Error;
    use std::path::PathBuf;

    const IDL: &str = "../../idl/dfs.thrift";
    const SERVICE: &str = "
service Reading {
  OpenSessionReply openSession(1: OpenSessionRequest request),
  CloseSessionReply closeSession(1: CloseSessionRequest request),
  OpenFileReply openFile(1: OpenFileRequest request),
  ReadRangeReply readRange(1: ReadRangeRequest request),
  CloseFileReply closeFile(1: CloseFileRequest request)
}
";

    pub fn generate() -> Result<(), Box<dyn Error>> {
        println!("cargo::rerun-if-changed={IDL}");
        let idl = PathBuf::from(env::var("OUT_DIR")?).join("reading.thrift");
        std::fs::write(&idl, without_services(&std::fs::read_to_string(IDL)?) + SERVICE)?;
        volo_build::Builder::thrift().add_service(&idl).write()?;
        Ok(())
    }

    /// Its services hold no braces of their own.
    fn without_services(text: &str) -> String {
        let mut pieces = text.split("\nservice ");
        let mut rest = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            rest.push_str(piece.split_once("\n}").map_or("", |(_, after)| after));
        }
        rest
    }
}
