//! The items for a version of a program: client, multicast client, server trait, dispatcher.

use super::codec::{self, Source};
use super::names::{camel, snake};
use super::shape::{Held, Shapes};
use crate::model::{Field, Procedure, Program, Type, Version};

/// Names that generated methods use themselves, so that arguments can't have them.
const TAKEN: [&str; 2] = ["to", "call"];

/// Names that procedures' methods can't have: the client's own `new`, and the methods that each type has from
/// the prelude's `Into` and `TryInto`, which `client.into(…)` would call.
const TAKEN_METHODS: [&str; 3] = ["new", "into", "try_into"];

/// The prefix of a version's items: for example, `FilesV2` for version 2 of `FILES_PROGRAM`.
pub fn prefix(program: &Program, version: &Version) -> String {
    let name = program.name.text.as_str();
    let name = ["_PROGRAM", "_PROG"].iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
    format!("{}V{}", camel(name), version.number)
}

/// The items of a version, with the names from [`version`].
pub fn item_names(program: &Program, version: &Version) -> [String; 4] {
    let prefix = prefix(program, version);
    ["Client", "Callees", "Service", "Server"].map(|kind| format!("{prefix}{kind}"))
}

pub fn method_name(procedure: &Procedure) -> String {
    unless_taken(snake(&procedure.name.text), &TAKEN_METHODS)
}

fn unless_taken(name: String, taken: &[&str]) -> String {
    if taken.contains(&name.as_str()) { format!("{name}_") } else { name }
}

pub fn version(shapes: &Shapes<'_>, program: &Program, version: &Version) -> String {
    let [client, callees, service, server] = item_names(program, version);
    let of = format!("version {} of `{}`", version.number, program.name.text);
    let numbers = format!(
        "/// The program's number.
        pub const PROGRAM: u32 = {};
        /// The version's number.
        pub const VERSION: u32 = {};",
        program.number, version.number
    );
    let procedures = || version.procedures.iter().map(|procedure| Stub::new(shapes, procedure, &client));
    let calls: String = procedures().map(|stub| stub.call()).collect();
    let multicasts: String = procedures().map(|stub| stub.multicast()).collect();
    let methods: String = procedures().map(|stub| stub.method()).collect();
    let delegates: String = procedures().map(|stub| stub.delegate(&service)).collect();
    let null = if version.procedures.iter().any(|procedure| procedure.number == 0) {
        String::new()
    } else {
        // By convention, procedure 0 exists and does nothing (RFC 5531, section 12.3).
        "0 => stub::serve(call, reply, |_| ::std::result::Result::Ok(()),
            |()| ::std::result::Result::Ok(()), |_, _| ::std::result::Result::Ok(())),"
            .to_owned()
    };
    let arms: String = procedures().map(|stub| stub.dispatch()).collect();
    format!(
        "/// Calls {of} at one callee.
        pub struct {client} {{
            /// Leads to the callee; for one caller at a time.
            pub handle: stub::Handle,
            /// Timeout and credentials of the calls.
            pub options: stub::CallOptions,
        }}
        impl {client} {{
            {numbers}
            /// A client that calls by `handle`, with its client's options.
            pub fn new(handle: stub::Handle) -> Self {{
                Self {{ handle, options: ::std::default::Default::default() }}
            }}
            {calls}
        }}
        /// Calls {of} at several callees together.
        pub struct {callees} {{
            /// Whom to call, and how.
            pub callees: stub::Callees,
        }}
        impl {callees} {{
            {multicasts}
        }}
        /// Procedures that a callee of {of} implements. They run on service
        /// workers, side by side, and may block.
        pub trait {service}: ::std::marker::Send + ::std::marker::Sync + 'static {{
            {methods}
        }}
        /// One state behind several versions, or servers: each has an `Arc` of it.
        impl<S_: {service} + ?::std::marker::Sized> {service} for ::std::sync::Arc<S_> {{
            {delegates}
        }}
        /// A [`{service}`] as a server takes it.
        #[derive(Clone, Copy, Debug)]
        pub struct {server}<S>(pub S);
        impl<S> {server}<S> {{ {numbers} }}
        impl<S: {service}> stub::Service for {server}<S> {{
            fn call(
                &self,
                call: &stub::Request,
                reply: &mut stub::Reply,
            ) -> ::std::result::Result<(), stub::ServiceError> {{
                match call.procedure.number {{
                    {null}
                    {arms}
                    _ => ::std::result::Result::Err(stub::ServiceError::NoSuchProcedure),
                }}
            }}
        }}"
    )
}

/// One procedure's part of each item.
struct Stub<'a> {
    shapes: &'a Shapes<'a>,
    procedure: &'a Procedure,
    client: &'a str,
}

impl<'a> Stub<'a> {
    fn new(shapes: &'a Shapes<'a>, procedure: &'a Procedure, client: &'a str) -> Self {
        Self { shapes, procedure, client }
    }

    /// The client's method.
    fn call(&self) -> String {
        let result = self.result("'static");
        format!(
            "{}///
            /// # Errors
            /// The call wasn't executed, the procedure returned an error, or the outcome is
            /// unknown; or the arguments
            /// break a declared limit.
            {} pub fn {}(&mut self, {}) -> ::std::result::Result<{result}, stub::StubError> {{
                stub::call(&mut self.handle, &self.options, {}, {}, {})
            }}",
            self.documentation(),
            self.allow(),
            method_name(self.procedure),
            self.parameters(),
            self.number(),
            self.encode_arguments(),
            self.decode_result(),
        )
    }

    /// The multicast client's method.
    fn multicast(&self) -> String {
        let result = self.result("'static");
        let results = format!("::std::vec::Vec<::std::result::Result<{result}, stub::StubError>>");
        format!(
            "{}///
            /// # Errors
            /// The arguments break a declared limit; nothing was sent. Each callee's
            /// own error is in the list.
            {} pub fn {}(&self, {}) -> ::std::result::Result<{results}, xdr::EncodeError> {{
                stub::multicast(&self.callees, {}, {}, {})
            }}",
            self.documentation(),
            self.allow(),
            method_name(self.procedure),
            self.parameters(),
            self.number(),
            self.encode_arguments(),
            self.decode_result(),
        )
    }

    /// The service's method.
    fn method(&self) -> String {
        format!(
            "{}///
            /// # Errors
            /// Why there is no result.
            {} {};",
            self.documentation(),
            self.allow(),
            self.signature(),
        )
    }

    /// The method of an `Arc` of a service.
    fn delegate(&self, service: &str) -> String {
        let passed: String = self.arguments().map(|(name, _)| format!(", {name}")).collect();
        let method = method_name(self.procedure);
        // Use the full path: a plain call would call the method of the `Arc` itself. A source can have a type
        // `S`, but none is named `S_` in Rust.
        format!("{} {{ <S_ as {service}>::{method}(self, call{passed}) }}\n", self.signature())
    }

    fn signature(&self) -> String {
        let parameters: String =
            self.arguments().map(|(name, kind)| format!(", {name}: {}", self.owned(kind))).collect();
        format!(
            "fn {}(&self, call: &stub::Request{parameters}) -> ::std::result::Result<{}, stub::ServiceError>",
            method_name(self.procedure),
            self.result("'_"),
        )
    }

    /// The dispatcher's match arm.
    fn dispatch(&self) -> String {
        let count = self.procedure.arguments.len();
        let names: Vec<String> = (1..=count).map(|position| format!("argument{position}")).collect();
        let pattern = if count == 1 { names[0].clone() } else { format!("({})", names.join(", ")) };
        let decoded: Vec<String> =
            self.arguments().map(|(_, kind)| codec::decode(self.shapes, kind)).collect();
        let decode = match decoded.as_slice() {
            [] => "|_| ::std::result::Result::Ok(())".to_owned(),
            [_] => self.arguments().map(|(_, kind)| codec::decoder(self.shapes, kind)).collect(),
            several => format!("|from| ::std::result::Result::Ok(({}?))", several.join("?, ")),
        };
        let encode = match &self.procedure.result {
            None => "|(), _| ::std::result::Result::Ok(())".to_owned(),
            Some(kind) => {
                format!(
                    "|result, to| {{ {} }}",
                    codec::encode_last(self.shapes, kind, Source::Reference("result"))
                )
            }
        };
        let passed: String = names.iter().map(|name| format!(", {name}")).collect();
        format!(
            "{} => stub::serve(call, reply, {decode}, |{pattern}| self.0.{}(call{passed}), {encode}),",
            self.procedure.number,
            method_name(self.procedure),
        )
    }

    fn arguments(&self) -> impl Iterator<Item = (String, &'a Type)> {
        self.procedure
            .arguments
            .iter()
            .map(|Field { name, kind }| (unless_taken(snake(&name.text), &TAKEN), kind))
    }

    fn parameters(&self) -> String {
        self.arguments().map(|(name, kind)| format!("{name}: {},", self.borrowed(kind))).collect()
    }

    /// The type of a parameter of the client's method: numbers are passed by value, other types by reference.
    fn borrowed(&self, kind: &Type) -> String {
        let resolved = self.shapes.model.resolve(kind);
        match self.shapes.held(resolved) {
            Held::Primitive(_) if self.is_number(kind) => codec::type_name(self.shapes, kind, "'_"),
            Held::List(item, _) | Held::LongArray(item, _) | Held::Chain(item) => {
                format!("&[{}]", codec::type_name(self.shapes, item, "'_"))
            }
            _ => format!("&{}", codec::type_name(self.shapes, kind, "'_")),
        }
    }

    fn is_number(&self, kind: &Type) -> bool {
        use crate::syntax::Primitive;
        matches!(self.shapes.model.resolve(kind), Type::Primitive(primitive) if *primitive != Primitive::Quadruple)
    }

    fn owned(&self, kind: &Type) -> String {
        codec::type_name(self.shapes, kind, "'static")
    }

    fn result(&self, lifetime: &str) -> String {
        let result = self.procedure.result.as_ref();
        result.map_or("()".to_owned(), |kind| codec::type_name(self.shapes, kind, lifetime))
    }

    fn encode_arguments(&self) -> String {
        let mut code = String::new();
        for (name, kind) in self.arguments() {
            let source = if self.is_number(kind) { Source::Place(&name) } else { Source::Reference(&name) };
            code += &codec::encode(self.shapes, kind, source);
        }
        let to = if code.is_empty() { "_" } else { "to" };
        format!("|{to}| {{ {code} ::std::result::Result::Ok(()) }}")
    }

    fn decode_result(&self) -> String {
        match &self.procedure.result {
            None => "|_| ::std::result::Result::Ok(())".to_owned(),
            Some(kind) => codec::decoder(self.shapes, kind),
        }
    }

    fn number(&self) -> String {
        let client = self.client;
        format!("stub::Procedure::new({client}::PROGRAM, {client}::VERSION, {})", self.procedure.number)
    }

    fn documentation(&self) -> String {
        format!("/// `{} = {}`.\n", self.procedure.written, self.procedure.number)
    }

    /// An attribute that allows many arguments, since the interface determines their number.
    fn allow(&self) -> &'static str {
        if self.procedure.arguments.len() > 5 { "#[allow(clippy::too_many_arguments)]" } else { "" }
    }
}
