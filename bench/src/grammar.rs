//! The command line as a plain value, for the completions of `headgate`.

use clap::builder::StyledStr;
use clap::{Arg, Command};
use headgate_api::grammar::{Argument, Grammar};

/// Returns that of a command, and of all below it, by this name.
#[must_use]
pub fn of(name: &str, command: &Command) -> Grammar {
    let line = |text: Option<&StyledStr>| text.map(StyledStr::to_string).unwrap_or_default();
    let argument = |argument: &Arg| Argument {
        name: argument.get_id().to_string(),
        long: argument.get_long().map(str::to_owned),
        help: line(argument.get_help()),
        takes_values: argument.get_action().takes_values(),
        values: argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect(),
    };
    let commands = command.get_subcommands().filter(|command| !command.is_hide_set());
    Grammar {
        name: name.to_owned(),
        about: line(command.get_about()),
        arguments: command.get_arguments().filter(|argument| !argument.is_hide_set()).map(argument).collect(),
        commands: commands.map(|command| of(command.get_name(), command)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Subcommand as _;

    use super::*;

    #[test]
    fn every_experiment_and_its_options_are_there() {
        let grammar = of("bench", &crate::Command::augment_subcommands(Command::new("headgate-bench")));
        let names: Vec<&str> = grammar.commands.iter().map(|command| command.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "hop",
                "workers",
                "start",
                "resilience",
                "tcp",
                "nfvnice",
                "unis",
                "scc",
                "drench",
                "neo-nsh",
                "cluster",
                "hostile",
                "observe"
            ]
        );
        let find = |command: usize, name: &str| {
            let arguments = &grammar.commands[command].arguments;
            arguments
                .iter()
                .find(|argument| argument.name == name)
                .unwrap_or_else(|| panic!("{arguments:?}"))
                .clone()
        };
        let quick = find(0, "quick");
        assert!(quick.long.as_deref() == Some("quick") && !quick.takes_values && !quick.help.is_empty());
        let experiment = find(6, "experiment");
        assert!(experiment.long.is_none() && experiment.takes_values);
        assert!(experiment.values.iter().any(|value| value == "uniform"), "{:?}", experiment.values);
    }
}
