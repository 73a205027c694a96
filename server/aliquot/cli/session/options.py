"""Options and arguments of session commands, and the readers of their values."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from typer import Argument, Option

from aliquot.cli.connection.server import usage
from aliquot.cli.session.completion import pool_names, project_names, recent_sessions
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.resources.units import format_duration, parse_duration

if TYPE_CHECKING:
    from aliquot.client.generated.enums import SandboxProfile
    from aliquot.client.generated.inputs import AppInput, DependencyInput, NameValueInput, SlotAmountInput


_WHAT: Final = "Resources"
_WHERE: Final = "Place and environment"
_WHEN: Final = "Time and order"
_NAMES: Final = "Names"

_SESSION: Final = "its name, the beginning or the end of its id, @last, or ARRAY_3 for a task."
SessionId = Annotated[str, Argument(metavar="SESSION", help=_SESSION, autocompletion=recent_sessions)]
SessionIds = Annotated[
    list[str], Argument(metavar="SESSION...", help=f"For each {_SESSION}", autocompletion=recent_sessions)
]
Command = Annotated[
    list[str] | None,
    Argument(metavar="SCRIPT [ARGS]... | -- COMMAND...", help="A script with directives, or any command after --."),
]
Resources = Annotated[
    list[str] | None,
    Option("-r", "--resources", metavar="SLOT=AMOUNT", show_default="cpu=1", rich_help_panel=_WHAT,
           help="Per kernel: gpu, cpu, mem or another slot, like gpu=2 or gpu=0.5; repeat it for each."),
]  # fmt: skip
Gpus = Annotated[
    str | None, Option("--gpus", metavar="N", help="GPUs per kernel, like 2 or 0.5; short for -r gpu=N.",
                       rich_help_panel=_WHAT),
]  # fmt: skip
ClusterSize = Annotated[
    int, Option(min=1, help="Number of kernels; all start together or none.", rich_help_panel=_WHAT)
]
ClusterSizeMin = Annotated[
    int | None, Option(min=1, help="Start with fewer kernels, at least this many.", rich_help_panel=_WHAT)
]
GpuMemory = Annotated[
    str | None, Option(metavar="GB", help="Minimum memory per GPU, in 10^9 bytes.", rich_help_panel=_WHAT)
]
Models = Annotated[
    list[str] | None,
    Option("--model", metavar="PATTERN", help="Only GPUs of this model, like '*H100*'.", rich_help_panel=_WHAT),
]
Name = Annotated[str | None, Option(help="A name of your choice.", rich_help_panel=_NAMES)]
RunId = Annotated[str | None, Option(help="An id of your own for it.", rich_help_panel=_NAMES)]
Tags = Annotated[list[str] | None, Option("--tag", metavar="NAME=VALUE", help="A tag on it.", rich_help_panel=_NAMES)]
IdempotencyKey = Annotated[
    str | None, Option(help="Commands with the same key submit only one session.", rich_help_panel=_NAMES)
]
Project = Annotated[
    str | None, Option(help="The project to charge.", rich_help_panel=_WHERE, autocompletion=project_names)
]
Pool = Annotated[str | None, Option(help="The pool to run in.", rich_help_panel=_WHERE, autocompletion=pool_names)]
Labels = Annotated[
    list[str] | None,
    Option("--label", metavar="NAME=VALUE", help="Only on agents with this label.", rich_help_panel=_WHERE),
]
Topology = Annotated[
    Literal["prefer", "require"],
    Option(help="Kernels on the fewest switches, or all on one or not at all.", rich_help_panel=_WHERE),
]
WorkingDirectory = Annotated[
    Path | None,
    Option(
        "--chdir",
        "-C",
        metavar="FOLDER",
        help="The working directory, a path on the node.",
        show_default="an empty folder",
        rich_help_panel=_WHERE,
    ),
]
Environment = Annotated[
    list[str] | None,
    Option("-e", "--env", metavar="NAME=VALUE", help="An environment variable.", rich_help_panel=_WHERE),
]
Environments = Annotated[
    list[str] | None,
    Option(
        "-e",
        "--env",
        metavar="NAME=VALUE|ENVIRONMENT",
        help="An environment variable; or an environment to activate: uv, venv, conda, or a path.",
        rich_help_panel=_WHERE,
    ),
]
Workspace = Annotated[
    str | None,
    Option("--workspace", metavar="ID", help="Use the files of an earlier --sync again.", rich_help_panel=_WHERE),
]
Image = Annotated[
    str | None,
    Option("--image", metavar="IMAGE", help="Run it in a container of this image.", rich_help_panel=_WHERE),
]
Preflight = Annotated[
    str | None,
    Option(
        "--preflight",
        metavar="COMMAND",
        help="Check the granted devices of every rank with this first; `default` = a bandwidth test.",
        rich_help_panel=_WHERE,
    ),
]
PreflightLimit = Annotated[
    str | None,
    Option(
        "--preflight-limit", metavar="DURATION", help="Time limit of the check; 1m by default.", rich_help_panel=_WHERE
    ),
]
Shared = Annotated[
    bool,
    Option("--shared", help="Let members of its project open its terminals and web services.", rich_help_panel=_WHERE),
]
Sync = Annotated[
    Path | None,
    Option(
        "--sync",
        metavar="FOLDER",
        help="Upload this folder as the working directory, without what .gitignore leaves out.",
        exists=True,
        file_okay=False,
        rich_help_panel=_WHERE,
    ),
]
Secrets = Annotated[
    list[str] | None,
    Option("--secret", metavar="NAME[=VARIABLE]", help="One of your secrets, as a variable.", rich_help_panel=_WHERE),
]
SecretFiles = Annotated[
    list[str] | None,
    Option("--secret-file", metavar="NAME[=FILE]", help="One of your secrets, as a file in $ALIQUOT_SECRETS_DIR.",
           rich_help_panel=_WHERE),
]  # fmt: skip
Sandbox = Annotated[bool, Option("--sandbox", help="Run it in a sandbox, on nodes that can.", rich_help_panel=_WHERE)]
Processes = Annotated[int | None, Option("--max-processes", help="Maximum number of processes.", rich_help_panel=_WHAT)]
OpenFiles = Annotated[
    int | None, Option("--max-open-files", help="Maximum open files per process.", rich_help_panel=_WHAT)
]
Priority = Annotated[
    str, Option(help="low, normal, high or critical, or 1 (low) to 4 (critical).", rich_help_panel=_WHEN)
]
TimeLimit = Annotated[
    str | None,
    Option("--time-limit", "-t", metavar="DURATION", help="Stop it after this, like 2h30m; a number is seconds.",
           rich_help_panel=_WHEN),
]  # fmt: skip
Estimate = Annotated[
    str | None, Option(metavar="DURATION", help="Your estimate of its run time, like 45m.", rich_help_panel=_WHEN)
]
Array = Annotated[
    str | None,
    Option("--array", "-a", metavar="INDICES", help="One task per index, like 0-99,105, or as in Slurm: 0-99:2%4.",
           rich_help_panel=_WHEN),
]  # fmt: skip
MaxParallel = Annotated[int | None, Option(min=1, help="Tasks running at one time.", rich_help_panel=_WHEN)]
After = Annotated[
    list[str] | None, Option("--after", metavar="SESSION", help="Start after it completed.", rich_help_panel=_WHEN)
]
AfterAny = Annotated[
    list[str] | None, Option("--after-any", metavar="SESSION", help="Start after it ended.", rich_help_panel=_WHEN)
]
AfterFailed = Annotated[
    list[str] | None, Option("--after-failed", metavar="SESSION", help="Start after it failed.", rich_help_panel=_WHEN)
]
Retries = Annotated[int, Option(min=0, help="Further attempts after a failure of the cluster.", rich_help_panel=_WHEN)]
RetriesOwn = Annotated[
    bool, Option("--retry-own-failures", help="Retry failures of the command itself, too.", rich_help_panel=_WHEN)
]
Preemptible = Annotated[
    bool, Option("--preemptible", help="Allow preemption by other sessions.", rich_help_panel=_WHEN)
]
CheckpointSignal = Annotated[
    str | None, Option(help="Sent to save its work, also before preemption, like SIGUSR1.", rich_help_panel=_WHEN)
]
CheckpointEvery = Annotated[
    str | None, Option(metavar="DURATION", help="How often it saves its work, like 10m.", rich_help_panel=_WHEN)
]
Grace = Annotated[
    str | None, Option(metavar="DURATION", help="From that signal to SIGKILL, like 2m.", rich_help_panel=_WHEN)
]
Booking = Annotated[
    str | None, Option("--booking", metavar="NAME", help="Run in this booking, on its GPUs.", rich_help_panel=_WHEN)
]
Apps = Annotated[
    list[str] | None,
    Option("--app", metavar="NAME[=PORT]", help="A web service of it to open in the browser, like lab=8888.",
           rich_help_panel=_WHERE),
]  # fmt: skip
Metrics = Annotated[
    list[str] | None,
    Option("--metric", metavar="NAME=PATTERN", help="A number in its output, like loss='loss: {value}'.",
           rich_help_panel=_NAMES),
]  # fmt: skip
Hold = Annotated[bool, Option("--hold", help="Do not start before `aliquot session release`.", rich_help_panel=_WHEN)]
Wait = Annotated[bool, Option("--wait", "-w", help="Wait until it has ended.")]
Follow = Annotated[bool, Option("--follow", "-f", help="Print its output until it has ended.")]
Raw = Annotated[
    bool, Option("--raw", help="Print the job's control sequences as they are, on a terminal too; be sure of the job.")
]
Preview = Annotated[bool, Option("--preview", help="Submit nothing; show whether and where it would start now.")]


DEFAULT_SLOTS: Final = ("cpu=1",)
MEMORY_BYTES_MIN: Final = 2**20
"""A smaller amount is a number whose unit was forgotten: no program starts with it."""


def sandbox_of(wanted: bool) -> "SandboxProfile | None":
    """The sandbox profile; there is only one."""
    from aliquot.client.generated.enums import SandboxProfile

    return SandboxProfile.STANDARD if wanted else None


def slots_of(resources: Sequence[str] | None, *, gpus: str | None = None) -> "list[SlotAmountInput]":
    """Read --gpus, and `cpu=1`, `mem=2g`, ... of -r; the last amount of a slot wins. Exits when one is wrong."""
    from aliquot.client.generated.inputs import SlotAmountInput

    given = resources or (DEFAULT_SLOTS if gpus is None else ())
    found = dict(_pair(text, option="-r", example="cpu=1") for text in given)
    if gpus is not None:
        if not gpus.replace(".", "", 1).isdecimal():
            usage(f"--gpus {gpus}: write a number, like 2 or 0.5")
        if found.get("gpu", gpus) != gpus:
            usage(f"--gpus {gpus} and -r gpu={found['gpu']}: give one of them")
        found["gpu"] = gpus
    memory = found.get("mem", "")
    if memory.isdecimal() and 0 < int(memory) < MEMORY_BYTES_MIN:
        usage(f"-r mem={memory}: that is {memory} bytes; write a unit, like mem=64g")
    return [SlotAmountInput(slot=slot, amount=amount) for slot, amount in found.items()]


def apps_of(texts: Sequence[str] | None) -> "list[AppInput] | None":
    """Read `NAME` and `NAME=PORT`; None when there are none. Exits when one is wrong."""
    from aliquot.client.generated.inputs import AppInput

    found = []
    for text in texts or ():
        name, _, port = text.partition("=")
        if not name or (port and not port.isdecimal()):
            usage(f"--app {text}: write it like lab=8888, or lab for a port that is chosen")
        found.append(AppInput(name=name, port=int(port or 0)))
    return found or None


def pairs_of(texts: Sequence[str] | None, *, option: str) -> "list[NameValueInput] | None":
    """Read `NAME=VALUE`; the last value of a name wins; None when there are none. Exits when one is wrong."""
    from aliquot.client.generated.inputs import NameValueInput

    found = dict(_pair(text, option=option, example="NAME=VALUE") for text in texts or ())
    return [NameValueInput(name=name, value=value) for name, value in found.items()] or None


def dependencies_of(
    *, ok: Sequence[str] | None, ended: Sequence[str] | None, failed: Sequence[str] | None
) -> "list[DependencyInput] | None":
    """The dependencies, by required outcome; None when there are none."""
    from aliquot.client.generated.enums import DependencyCondition as Condition
    from aliquot.client.generated.inputs import DependencyInput

    given = ((Condition.AFTER_OK, ok), (Condition.AFTER_ANY, ended), (Condition.AFTER_FAIL, failed))
    return [DependencyInput(session_id=id, condition=condition) for condition, ids in given for id in ids or ()] or None


def priority_of(text: str) -> str:
    """The name of a priority that is given by name or number. Exits when it is none."""
    from aliquot_schema.sessions import PRIORITIES, PRIORITY_FORM

    found = PRIORITIES.get(text.strip().lower())
    if found is None:
        usage(f"--priority {text}: give {PRIORITY_FORM}")
    return found.name.lower()


def seconds_of(text: str | None, *, option: str) -> float | None:
    """Read a duration, see `parse_duration`. Exits when it is not one."""
    if text is None:
        return None
    try:
        return parse_duration(text, field=option)
    except InvalidRequest as error:
        usage(error.message)


def echo_durations(
    *, time_limit: str | None, estimate: str | None, grace: str | None, checkpoint_every: str | None
) -> None:
    """Print on stderr how the durations of a submission, which are valid, were understood."""
    given = {"time limit": time_limit, "estimate": estimate, "grace": grace, "checkpoint every": checkpoint_every}
    for name, text in given.items():
        if text is None:
            continue
        seconds = parse_duration(text)
        words = format_duration(seconds)
        if text.strip().isdecimal():
            number = f"{text.strip()} s"
            words = number if words == number else f"{number} ({words})"
            if name == "time limit":
                words += f". Slurm reads -t {text.strip()} as minutes; for minutes write -t {text.strip()}m"
        print(f"aliquot: {name} {words}", file=sys.stderr)


def _pair(text: str, *, option: str, example: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not name or not found:
        usage(f"{option} {text}: write it like {example}")
    return name, value
