//! Variables of the environment that represent flags. An empty one counts as unset.

use clap::builder::{OsStr, Resettable};
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Arg, Command};

/// The command without the variables whose values are empty.
pub fn without_empty(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        let is_empty = arg.get_env().is_some_and(|name| std::env::var_os(name).is_some_and(|v| v.is_empty()));
        if is_empty { arg.env(Resettable::<OsStr>::Reset) } else { arg }
    });
    command.mut_subcommands(without_empty)
}

/// Makes the error name the environment variable that caused it. Leaves other errors unchanged.
pub fn naming_the_variable(error: Error, command: &mut Command) -> Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => texts.first().cloned(),
        _ => None,
    };
    let Some(shown) = text(ContextKind::InvalidArg) else { return error };
    let by_flag = |flag: &str| variable_of(command, |arg| arg.get_long() == Some(flag));
    let told = match error.kind() {
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => {
            let why = std::error::Error::source(&error).map(|why| format!(": {why}")).unwrap_or_default();
            let given = text(ContextKind::InvalidValue).unwrap_or_default();
            let set =
                variable_of(command, |arg| arg.to_string() == shown).filter(|(_, value)| *value == given);
            set.map(|(name, value)| format!("the variable {name} has the invalid value '{value}'{why}"))
        }
        ErrorKind::MissingRequiredArgument if shown.starts_with("--client-key ") => by_flag("client-cert")
            .map(|(name, _)| {
                format!("the variable {name} needs its key: give STRAIT_CLIENT_KEY or --client-key")
            }),
        ErrorKind::MissingRequiredArgument if shown.starts_with("--client-cert ") => by_flag("client-key")
            .map(|(name, _)| {
                format!("the variable {name} needs its certificate: give STRAIT_CLIENT_CERT or --client-cert")
            }),
        _ => None,
    };
    match told {
        Some(told) => command.error(error.kind(), told),
        None => error,
    }
}

/// The variable behind this argument, and its value, if it has one and the flag isn't on the
/// command line.
fn variable_of(command: &Command, is_it: impl Fn(&Arg) -> bool) -> Option<(String, String)> {
    let arg = arguments(command).into_iter().find(|arg| is_it(arg))?;
    let flag = format!("--{}", arg.get_long()?);
    let is_given = std::env::args_os().any(|given| {
        let given = given.to_string_lossy();
        given.strip_prefix(&flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    });
    let name = arg.get_env().filter(|_| !is_given)?.to_str()?;
    let value = std::env::var_os(name).filter(|value| !value.is_empty())?;
    Some((name.to_owned(), value.to_string_lossy().into_owned()))
}

/// The arguments of a command and of the commands below it.
fn arguments(command: &Command) -> Vec<&Arg> {
    command.get_arguments().chain(command.get_subcommands().flat_map(arguments)).collect()
}
