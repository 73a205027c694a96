"""Options of `aliquot session list`: which sessions, and in which order."""

from typing import Annotated, Final

from typer import Option

from aliquot.cli.session.completion import pool_names, project_names

_WHOSE: Final = "Whose, and what they are"
_WHERE: Final = "Where they are or were"
_WHEN: Final = "When: like 2026-03-01T12:00 (UTC), or so long ago, like 90m or 7d"
_HOW: Final = "How they ended"

States = Annotated[
    list[str] | None, Option("--state", help="In this state; may be given several times.", rich_help_panel=_WHOSE)
]
Owners = Annotated[list[str] | None, Option("--owner", help="Submitted by this user.", rich_help_panel=_WHOSE)]
Mine = Annotated[bool, Option("--mine", help="Submitted by whoever asks.", rich_help_panel=_WHOSE)]
Projects = Annotated[
    list[str] | None,
    Option("--project", help="Charged to this project.", rich_help_panel=_WHOSE, autocompletion=project_names),
]
Priorities = Annotated[
    list[str] | None, Option("--priority", help="low, normal, high or critical.", rich_help_panel=_WHOSE)
]
Name = Annotated[str | None, Option(help="With exactly this name.", rich_help_panel=_WHOSE)]
Search = Annotated[str | None, Option(help="With this in their name or id.", rich_help_panel=_WHOSE)]
ArrayId = Annotated[
    str | None, Option("--array", metavar="SESSION", help="Tasks of this job array.", rich_help_panel=_WHOSE)
]
Pools = Annotated[
    list[str] | None,
    Option("--pool", help="For this pool of agents.", rich_help_panel=_WHERE, autocompletion=pool_names),
]
Agents = Annotated[list[str] | None, Option("--agent", help="On this agent.", rich_help_panel=_WHERE)]
Nodes = Annotated[list[str] | None, Option("--node", help="On this node.", rich_help_panel=_WHERE)]
Devices = Annotated[list[str] | None, Option("--device", help="On this device: a GPU's UUID.", rich_help_panel=_WHERE)]
QueuedSince = Annotated[str | None, Option(metavar="TIME", help="Submitted then or later.", rich_help_panel=_WHEN)]
QueuedUntil = Annotated[str | None, Option(metavar="TIME", help="Submitted then or before.", rich_help_panel=_WHEN)]
StartedSince = Annotated[str | None, Option(metavar="TIME", help="Started then or later.", rich_help_panel=_WHEN)]
StartedUntil = Annotated[str | None, Option(metavar="TIME", help="Started then or before.", rich_help_panel=_WHEN)]
EndedSince = Annotated[str | None, Option(metavar="TIME", help="Ended then or later.", rich_help_panel=_WHEN)]
EndedUntil = Annotated[str | None, Option(metavar="TIME", help="Ended then or before.", rich_help_panel=_WHEN)]
ExitCodes = Annotated[list[int] | None, Option("--exit-code", help="With this exit code.", rich_help_panel=_HOW)]
Failures = Annotated[
    list[str] | None,
    Option("--failure", metavar="CODE", help="Failed for this reason, like time_limit, signal or exit_code.",
           rich_help_panel=_HOW),
]  # fmt: skip
Order = Annotated[
    str, Option(help="newest, oldest; or priority, started, ended, gpus, name with _desc or _asc behind it.")
]
All = Annotated[bool, Option("--all", help="Ended ones too.")]
Last = Annotated[int, Option("--last", "-n", min=1, help="So many: the first ones in that order.")]
