"""Options and arguments of the commands on sessions."""

from pathlib import Path
from typing import Annotated, Final

from typer import Argument, Option

from aliquot.cli.session.completion import pool_names, project_names, recent_sessions

_WHAT: Final = "What it needs"
_WHERE: Final = "Where it runs"
_WHEN: Final = "When it runs, and how long"
_TOLD: Final = "What it is called"

SessionId = Annotated[str, Argument(metavar="SESSION", help="Its id, `ses_...`.", autocompletion=recent_sessions)]
SessionIds = Annotated[
    list[str], Argument(metavar="SESSION...", help="Their ids, `ses_...`.", autocompletion=recent_sessions)
]
Command = Annotated[
    list[str] | None,
    Argument(metavar="SCRIPT [ARGS]... | -- COMMAND...", help="A script with directives, or after -- any command."),
]
Resources = Annotated[
    list[str] | None,
    Option("-r", "--resources", metavar="SLOT=AMOUNT", show_default="cpu=1", rich_help_panel=_WHAT,
           help="What each kernel needs: cuda.device, cuda.shares, cpu, mem. Like cuda.shares=0.2; again for each."),
]  # fmt: skip
ClusterSize = Annotated[int, Option(min=1, help="How many kernels; all start or none.", rich_help_panel=_WHAT)]
GpuMemory = Annotated[
    str | None, Option(metavar="GB", help="The least memory per GPU, in 10^9 bytes.", rich_help_panel=_WHAT)
]
Models = Annotated[
    list[str] | None,
    Option("--model", metavar="PATTERN", help="GPUs of this model, like '*H100*'.", rich_help_panel=_WHAT),
]
Name = Annotated[str | None, Option(help="What you call it.", rich_help_panel=_TOLD)]
RunId = Annotated[str | None, Option(help="Your own id for it.", rich_help_panel=_TOLD)]
Tags = Annotated[
    list[str] | None, Option("--tag", metavar="NAME=VALUE", help="Your label on it.", rich_help_panel=_TOLD)
]
IdempotencyKey = Annotated[
    str | None, Option(help="Submit once, however often this is called with it.", rich_help_panel=_TOLD)
]
Project = Annotated[
    str | None, Option(help="The project to charge.", rich_help_panel=_WHERE, autocompletion=project_names)
]
Pool = Annotated[str | None, Option(help="The pool of agents.", rich_help_panel=_WHERE, autocompletion=pool_names)]
Labels = Annotated[
    list[str] | None,
    Option("--label", metavar="NAME=VALUE", help="Only on agents with this label.", rich_help_panel=_WHERE),
]
WorkingDirectory = Annotated[
    Path | None,
    Option(
        "--chdir",
        "-C",
        help="The folder that it starts in, on the node as here.",
        show_default="an empty one of its own",
        rich_help_panel=_WHERE,
    ),
]
Environment = Annotated[
    list[str] | None, Option("-e", "--env", metavar="NAME=VALUE", help="A variable to set.", rich_help_panel=_WHERE)
]
Secrets = Annotated[
    list[str] | None,
    Option("--secret", metavar="NAME[=VARIABLE]", help="A secret of yours, as a variable.", rich_help_panel=_WHERE),
]
SecretFiles = Annotated[
    list[str] | None,
    Option("--secret-file", metavar="NAME[=FILE]", help="The same, as a file in $ALIQUOT_SECRETS_DIR.",
           rich_help_panel=_WHERE),
]  # fmt: skip
Sandbox = Annotated[bool, Option("--sandbox", help="Only where it can be put into a sandbox.", rich_help_panel=_WHERE)]
Processes = Annotated[int | None, Option("--max-processes", help="So many processes at most.", rich_help_panel=_WHAT)]
OpenFiles = Annotated[
    int | None, Option("--max-open-files", help="So many open files in each process.", rich_help_panel=_WHAT)
]
Priority = Annotated[str, Option(help="low, normal, high or critical.", rich_help_panel=_WHEN)]
TimeLimit = Annotated[
    str | None, Option("--time-limit", "-t", help="Stop it after this, like 2h30m.", rich_help_panel=_WHEN)
]
Estimate = Annotated[str | None, Option(help="How long you think it runs, like 45m.", rich_help_panel=_WHEN)]
Array = Annotated[str | None, Option("--array", "-a", help="One task per index, like 0-99,105.", rich_help_panel=_WHEN)]
MaxParallel = Annotated[int | None, Option(min=1, help="So many tasks at one time.", rich_help_panel=_WHEN)]
After = Annotated[
    list[str] | None, Option("--after", metavar="SESSION", help="Once this one completed.", rich_help_panel=_WHEN)
]
AfterAny = Annotated[
    list[str] | None, Option("--after-any", metavar="SESSION", help="Once this one ended.", rich_help_panel=_WHEN)
]
AfterFailed = Annotated[
    list[str] | None, Option("--after-failed", metavar="SESSION", help="Once it failed.", rich_help_panel=_WHEN)
]
Retries = Annotated[int, Option(min=0, help="So often it may be run again at most.", rich_help_panel=_WHEN)]
RetriesOwn = Annotated[
    bool, Option("--retry-own-failures", help="Run it again when the command itself fails, too.", rich_help_panel=_WHEN)
]
Preemptible = Annotated[
    bool, Option("--preemptible", help="It may be asked to make room for others.", rich_help_panel=_WHEN)
]
CheckpointSignal = Annotated[
    str | None, Option(help="Sent when it is to make room, like SIGUSR1.", rich_help_panel=_WHEN)
]
Grace = Annotated[str | None, Option(help="From that signal to its stop, like 2m.", rich_help_panel=_WHEN)]
Hold = Annotated[bool, Option("--hold", help="Not before `aliquot session release`.", rich_help_panel=_WHEN)]
Wait = Annotated[bool, Option("--wait", "-w", help="Return when it has ended.")]
Follow = Annotated[bool, Option("--follow", "-f", help="Show what it prints, until it has ended.")]
Preview = Annotated[bool, Option("--preview", help="Submit nothing; show what would become of it now.")]
