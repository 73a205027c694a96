"""Groups of commands that answer an unknown word with the command that does what it means in other tools.

A similar spelling is suggested only where it cannot be the opposite: `undrain` contains `drain`, and `delete` is
spelled like `release`.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

from typer.core import TyperGroup

SIMILARITY_MIN: Final = 0.75
"""Of `difflib.SequenceMatcher.ratio`; `delete` and `release` have 0.62, `cancle` and `cancel` 0.83."""
_OF_SESSIONS: Final = {
    **dict.fromkeys(("delete", "kill", "stop", "remove", "rm", "terminate", "abort", "end", "scancel"), "cancel"),
    **dict.fromkeys(("ls", "ps", "squeue", "jobs"), "list"),
    **dict.fromkeys(("status", "get", "info", "describe", "inspect"), "show"),
    **dict.fromkeys(("submit", "run", "new", "add", "launch", "sbatch", "srun"), "create"),
    **dict.fromkeys(("log", "output", "tail", "attach"), "logs"),
    **dict.fromkeys(("suspend", "pause"), "hold"),
    **dict.fromkeys(("unhold", "resume", "unsuspend", "unpause"), "release"),
    **dict.fromkeys(("rerun", "restart", "requeue", "repeat", "resubmit"), "retry"),
    **dict.fromkeys(("explain", "reason"), "why"),
    **dict.fromkeys(("seff", "efficiency", "usage"), "stats"),
    **dict.fromkeys(("modify", "update", "edit", "alter", "set"), "change"),
}
_OTHERS: Final = frozenset({"stop", "add", "new", "usage", "set"})
"""Words that mean something else without `session`."""
EQUIVALENTS: Final[Mapping[str, Mapping[str, str]]] = {
    "": {
        **{word: f"session {command}" for word, command in _OF_SESSIONS.items() if word not in _OTHERS},
        **{word: f"session {word}"
           for word in ("cancel", "change", "hold", "release", "retry", "logs", "wait", "create")},
        "list": "session list",
        "show": "session show",
        "login": "open",
        "dashboard": "open",
        "sinfo": "gpus",
        "nvidia-smi": "gpus",
        "squeue": "queue",
        "sacct": "session list --all",
        "status": "gpus",
        "nodes": "agents list",
        **{word: f"{word.removesuffix('s')} list" for word in ("users", "keys", "quotas", "secrets", "sessions")},
    },
    "session": _OF_SESSIONS,
    "agents": {"undrain": "resume", "uncordon": "resume", "cordon": "drain", "ls": "list", "labels": "label"},
    "user": {"enable": "set NAME --enable", "delete": "disable", "remove": "disable", "rm": "disable",
             "new": "add", "create": "add", "ls": "list", "change": "set"},
    "key": {"delete": "revoke", "remove": "revoke", "rm": "revoke", "disable": "revoke", "add": "new",
            "create": "new", "ls": "list"},
    "quota": {"delete": "remove", "rm": "remove", "add": "set", "ls": "list", "show": "list"},
    "project": {"remove": "delete", "rm": "delete", "add": "create", "new": "create"},
    "secret": {"remove": "delete", "rm": "delete", "add": "set", "create": "set", "ls": "list"},
    "clusters": {"delete": "remove", "rm": "remove", "ls": "list", "set": "use", "default": "use"},
    "notices": {"ls": "list"},
}  # fmt: skip
"""By group, the command of that group (of the root: of any group) for a word of another tool."""


class SuggestingGroup(TyperGroup):
    """A group that names the command for a word of another tool, and never one that does the opposite."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "suggest_commands": False})

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command, or fail with the one that is meant."""
        word = args[0] if args else ""
        is_known = not word or word.startswith("-") or self.get_command(ctx, word) is not None
        if not (is_known or ctx.resilient_parsing):
            group = "" if ctx.parent is None else self.name or ""
            meant = suggestion(word, group=group, commands=self.list_commands(ctx))
            ctx.fail(f"There is no command {word!r}." + (f" Did you mean `{_path(ctx, meant)}`?" if meant else ""))
        return super().resolve_command(ctx, args)


def suggestion(word: str, *, group: str, commands: list[str]) -> str | None:
    """The command that an unknown word means; None where it is not clear."""
    written = word.lower()
    known = EQUIVALENTS.get(group, {}).get(written)
    if known is not None:
        return known if known.split()[0] in commands else None
    close = get_close_matches(written, [one for one in commands if one not in written], cutoff=SIMILARITY_MIN)
    return close[0] if close else None


def _path(ctx: Any, command: str) -> str:
    words = ctx.command_path.split()
    return " ".join(["aliquot", *words[1:], command])
