//! A program's procedures in C: rpcgen's names, with FlexRPC's handles and requests.

use super::Unit;
use super::names::{number, spaced};
use crate::MAX_NESTING;
use crate::syntax::{self, BaseKind, Body, Declaration, Definition, Shape, Value, Version};
use std::collections::{HashMap, HashSet};

/// A program of the source.
pub struct Program<'a> {
    unit: &'a Unit<'a>,
    pub name: &'a str,
    pub number: &'a Value,
    pub versions: &'a [Version],
    /// The number of each procedure's name. Versions can have different numbers for one name.
    numbers: HashMap<&'a str, String>,
}

/// A procedure of one version.
pub struct Procedure<'a> {
    unit: &'a Unit<'a>,
    of: &'a syntax::Procedure,
    version: String,
    /// The procedure's number in C: its name if the name's macro has this number, otherwise the number
    /// itself.
    pub number: String,
}

/// A value that a procedure takes or returns.
pub struct Passed {
    pub kind: String,
    pub routine: String,
    pub is_array: bool,
}

impl Passed {
    fn void() -> Self {
        Self { kind: "void *".to_owned(), routine: "xdr_void".to_owned(), is_array: false }
    }

    /// A declaration of the value.
    pub fn by_value(&self, name: &str) -> String {
        format!("{}{name}", spaced(&self.kind))
    }

    /// A declaration of the value's address, as a parameter.
    pub fn by_address(&self, name: &str) -> String {
        let star = if self.is_array { "" } else { "*" };
        format!("{}{star}{name}", spaced(&self.kind))
    }

    /// The address of a variable.
    pub fn address(&self, variable: &str) -> String {
        if self.is_array { variable.to_owned() } else { format!("&{variable}") }
    }
}

impl<'a> Program<'a> {
    pub fn new(unit: &'a Unit<'a>, definition: &'a Definition) -> Self {
        static NONE: Value = Value::Number(0, crate::source::Span { file: 0, line: 0, column: 0, length: 0 });
        let (program, versions) = match &definition.body {
            Body::Program { number, versions } => (number, versions.as_slice()),
            _ => (&NONE, [].as_slice()),
        };
        let mut numbers = HashMap::new();
        for of in versions.iter().flat_map(|version| &version.procedures) {
            numbers.entry(of.name.text.as_str()).or_insert_with(|| number(&of.number));
        }
        Self { unit, name: &definition.name.text, number: program, versions, numbers }
    }

    /// All programs of a source.
    pub fn all(unit: &'a Unit<'a>) -> impl Iterator<Item = Self> {
        let programs =
            unit.definitions.iter().filter(|definition| matches!(definition.body, Body::Program { .. }));
        programs.map(|definition| Self::new(unit, definition))
    }

    pub fn of_version(&self, version: &'a Version) -> impl Iterator<Item = Procedure<'a>> {
        version.procedures.iter().map(|of| {
            let value = number(&of.number);
            let agrees = self.numbers.get(of.name.text.as_str()) == Some(&value);
            let number = if agrees { of.name.text.clone() } else { value };
            Procedure { unit: self.unit, of, version: super::names::number(&version.number), number }
        })
    }

    pub fn each(&self) -> impl Iterator<Item = Procedure<'a>> {
        self.versions.iter().flat_map(|version| self.of_version(version))
    }

    /// The name of a version's dispatch function.
    pub fn dispatch(&self, version: &Version) -> String {
        format!("{}_{}", self.name.to_ascii_lowercase(), number(&version.number))
    }

    /// Macros and prototypes, for the header.
    pub fn prototypes(&self) -> String {
        let mut out = format!("\n#define {} {}\n", self.name, number(self.number));
        let mut defined = HashSet::new();
        for version in self.versions {
            out += &format!("\n#define {} {}\n", version.name.text, number(&version.number));
            for procedure in self.of_version(version) {
                if procedure.number == procedure.of.name.text && defined.insert(procedure.number.clone()) {
                    out += &format!("#define {} {}\n", procedure.number, number(&procedure.of.number));
                }
                out += &procedure.argument_struct();
                let [caller, callee] = procedure.prototypes();
                out += &format!("extern {caller};\nextern {callee};\n");
                procedure.multicasts().iter().for_each(|of| out += &format!("extern {of};\n"));
            }
            // Don't declare the dispatch function: rpcgen doesn't, and programs that began as rpcgen's sample
            // of a caller have a function of the same name.
            let dispatch = self.dispatch(version);
            out += &format!("extern int {dispatch}_freeresult(frpc_request *, xdrproc_t, caddr_t);\n");
        }
        out
    }
}

impl Procedure<'_> {
    pub fn function(&self) -> String {
        format!("{}_{}", self.of.name.text.to_ascii_lowercase(), self.version)
    }

    pub fn result(&self) -> Option<Passed> {
        self.of.result.as_ref().map(|result| self.passed(result))
    }

    /// The result, or a placeholder for void.
    pub fn result_or_void(&self) -> Passed {
        self.result().unwrap_or_else(Passed::void)
    }

    fn passed(&self, of: &Declaration) -> Passed {
        let (kind, routine) = self.unit.base(&of.base);
        Passed { kind, routine, is_array: self.unit.is_array(&of.base.kind, &of.shape) }
    }

    pub fn arguments(&self) -> &[Declaration] {
        &self.of.arguments
    }

    /// Whether the arguments are sent as a separate struct.
    pub fn has_struct(&self) -> bool {
        let optional = |of: &Declaration| of.shape == Shape::Optional;
        self.of.arguments.len() > 1 || self.of.arguments.iter().any(optional)
    }

    /// The value to send; `None` for void.
    pub fn argument(&self) -> Option<Passed> {
        if self.has_struct() {
            let kind = format!("{}_argument", self.function());
            return Some(Passed { routine: format!("xdr_{kind}"), kind, is_array: false });
        }
        self.of.arguments.first().map(|argument| self.passed(argument))
    }

    fn argument_struct(&self) -> String {
        if !self.has_struct() {
            return String::new();
        }
        let name = format!("{}_argument", self.function());
        let mut out = format!("\ntypedef struct {name} {{\n");
        for of in &self.of.arguments {
            out += &format!("\t{};\n", self.unit.declared(&of.base, &of.shape, &of.name.text, "\t"));
        }
        out + &format!("}} {name};\nextern bool_t xdr_{name}(XDR *, {name} *);\n\n")
    }

    /// The caller's parameters that carry arguments.
    fn parameters(&self) -> Vec<String> {
        if !self.unit.style.by_value {
            return vec![match self.argument() {
                Some(argument) => argument.by_address("argp"),
                None => "void *argp".to_owned(),
            }];
        }
        let declared = |of: &Declaration| self.unit.declared(&of.base, &of.shape, &of.name.text, "");
        self.of.arguments.iter().map(declared).collect()
    }

    /// The return type of a procedure that returns its result's address.
    fn returned(&self) -> String {
        match self.result() {
            None => "void *".to_owned(),
            Some(Passed { is_array: true, kind, .. }) => format!("{} *", self.unit.element(&kind)),
            Some(result) => format!("{}*", spaced(&result.kind)),
        }
    }

    /// The prototypes of the caller's and the callee's functions.
    pub fn prototypes(&self) -> [String; 2] {
        let head = |suffix: &str, last: &str, status: &str| {
            let (mut parameters, threads) = (self.parameters(), self.unit.style.threads);
            let result =
                self.result().map_or("void *result".to_owned(), |result| result.by_address("result"));
            parameters.extend(threads.then_some(result));
            parameters.push(last.to_owned());
            let returned = if threads { status.to_owned() } else { self.returned() };
            format!("{}{}{suffix}({})", spaced(&returned), self.function(), parameters.join(", "))
        };
        [head("", "frpc_handle *clnt", "enum frpc_stat"), head("_svc", "frpc_request *rqstp", "bool_t")]
    }

    /// The prototypes of the functions that call several callees.
    pub fn multicasts(&self) -> [String; 2] {
        ["parallel", "serial"].map(|pattern| {
            let mut parameters = self.parameters();
            parameters.extend(self.result().map(|result| format!("{}*results", spaced(&result.kind))));
            parameters.push("frpc_outcome *outcomes, frpc_handle *const *callees, size_t count".to_owned());
            format!("int {}_{pattern}({})", self.function(), parameters.join(", "))
        })
    }

    /// A caller's statements that gather the arguments in one value, and the address of that value.
    pub fn gathered(&self) -> (String, String) {
        let Some(argument) = self.argument() else {
            return (String::new(), if self.unit.style.by_value { "NULL" } else { "argp" }.to_owned());
        };
        if !self.unit.style.by_value {
            return (String::new(), "argp".to_owned());
        }
        if !self.has_struct() {
            let name = &self.of.arguments[0].name.text;
            return (String::new(), argument.address(name));
        }
        let mut out = format!("\t{} frpc_argument;\n", argument.kind);
        for of in &self.of.arguments {
            let name = &of.name.text;
            out += &if self.unit.is_array(&of.base.kind, &of.shape) {
                format!("\tmemcpy(frpc_argument.{name}, {name}, sizeof frpc_argument.{name});\n")
            } else {
                format!("\tfrpc_argument.{name} = {name};\n")
            };
        }
        (out, "&frpc_argument".to_owned())
    }

    /// The arguments that a dispatch function passes to the callee's function. `argument` is the decoded
    /// value.
    pub fn passed_to_callee(&self) -> Vec<String> {
        match self.argument() {
            None if self.unit.style.by_value => Vec::new(),
            None => vec!["NULL".to_owned()],
            Some(argument) if !self.unit.style.by_value => vec![argument.address("argument")],
            Some(_) if !self.has_struct() => vec!["argument".to_owned()],
            Some(_) => self.of.arguments.iter().map(|of| format!("argument.{}", of.name.text)).collect(),
        }
    }

    /// The names of a callee's parameters, except that for the result.
    pub fn callee_parameters(&self) -> Vec<String> {
        let names = self.of.arguments.iter().map(|of| of.name.text.clone());
        let names: Vec<String> =
            if self.unit.style.by_value { names.collect() } else { vec!["argp".to_owned()] };
        names.into_iter().chain(["rqstp".to_owned()]).collect()
    }

    /// The variables of a sample for the arguments, and the arguments that it passes.
    pub fn sample_arguments(&self) -> (String, Vec<String>) {
        let function = self.function();
        if !self.unit.style.by_value {
            return match self.argument() {
                None => (String::new(), vec!["NULL".to_owned()]),
                Some(argument) => {
                    let name = format!("{function}_arg");
                    let clear = format!("\tmemset(&{name}, 0, sizeof {name});\n");
                    let address = argument.address(&name);
                    (format!("\t{};\n\n{clear}", argument.by_value(&name)), vec![address])
                }
            };
        }
        let (mut declared, mut cleared, mut passed) = (String::new(), String::new(), Vec::new());
        for of in &self.of.arguments {
            let name = format!("{function}_{}", of.name.text);
            declared += &format!("\t{};\n", self.unit.declared(&of.base, &of.shape, &name, ""));
            cleared += &format!("\tmemset(&{name}, 0, sizeof {name});\n");
            passed.push(name);
        }
        let gap = if declared.is_empty() { "" } else { "\n" };
        (declared + gap + &cleared, passed)
    }
}

impl Unit<'_> {
    /// The type of an array type's elements.
    fn element(&self, name: &str) -> String {
        let mut name = name.to_owned();
        for _ in 0..MAX_NESTING {
            let Some(Body::Typedef(declaration)) = self.types.get(name.as_str()).map(|of| &of.body) else {
                break;
            };
            match (&declaration.shape, &declaration.base.kind) {
                (Shape::Plain, BaseKind::Named(next)) => name = next.clone(),
                _ => return self.base(&declaration.base).0,
            }
        }
        name
    }
}
