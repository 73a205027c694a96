"""Troubleshooting page: every message of an expected error, as written in the source, under its code."""

import ast
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from aliquot_docs.markdown import code, text
from aliquot_docs.pages.words import expected_errors
from aliquot_schema import errors
from aliquot_schema.errors import AliquotError

TO_DO: Final[Mapping[type[AliquotError], str]] = {
    errors.InvalidRequest: "Correct the value that the message names, and send the request again.",
    errors.InvalidAmount: "Give a decimal number that is not negative, like `2`, `0.25` or `32g`.",
    errors.NotMultipleOfQuantum: "Round the amount to the step that the message names; shares go in steps of 0.01.",
    errors.LimitExceeded: "Ask for less, or split the request. `limit` and `actual` say by how much.",
    errors.UnsupportedField: "Leave the field out.",
    errors.UnknownSlot: "`aliquot agents list` shows the slots that there are. A slot appears when an agent with such "
    "devices joins for the first time.",
    errors.ImpossibleRequest: "Ask for at most what the largest agent has (`limit`), or for several kernels with "
    "`--cluster-size`.",
    errors.QuotaExceeded: "Ask for less, use another project, or ask an operator to raise the quota "
    "(`aliquot quota set`).",
    errors.QueueFull: "Wait `retry_after` seconds; an array counts each of its tasks.",
    errors.RateLimited: "Wait `retry_after` seconds, and send many sessions as one batch or one array.",
    errors.NotPlaced: "Try again when the holders that the message names have ended, or submit a session.",
    errors.BookingRefused: "Choose another window or fewer GPUs; `aliquot reservations` shows what is booked.",
    errors.UnknownDependency: "Check the id; sessions past their retention cannot be depended on.",
    errors.NotFound: "Check the name with the matching `list` command. What you may not see is not found either.",
    errors.StateConflict: "Look at the present state (`aliquot session show`); it says what is possible.",
    errors.VersionConflict: "Read the object again, repeat the change on it, and send its new version.",
    errors.IdempotencyMismatch: "Use a new key for a new request; the old key belongs to the session that is named.",
    errors.Unauthenticated: "Sign in again, or check the token: `ALIQUOT_TOKEN_FILE`, `aliquot clusters list`.",
    errors.Forbidden: "Use a key with the scope that the message names, or ask an operator or admin.",
    errors.AllocationRefused: "Ask for another amount; nothing was changed.",
    errors.InsufficientResource: "Ask for less, or wait: sessions queue until it is free.",
    errors.FractionalResourceFragmented: "Ask for a smaller share, or allow splitting (`allow_fragmentation`).",
    errors.InvalidResourceCombination: "Ask for whole GPUs or for shares of a kind, not for both.",
    errors.UnsupportedResource: "Start the agent's plugin for this slot, or leave the slot out.",
    errors.Unavailable: "Try again in a few seconds; `aliquot doctor` and `/readyz` say what is missing.",
}
"""What to do about an error, by type; tests check that none is missing."""

_NAMED: Final = {kind.__name__: kind for kind in expected_errors()}
_CALLED: Final = re.compile(rf"\b(?:{'|'.join(_NAMED)})\(")
_HOLE: Final = "…"
_WORD: Final = re.compile(r"[A-Za-z_]+")


def troubleshooting_sections(root: Path) -> str:
    """A section per error code, with its meaning, what to do, and the messages in the sources below `root`."""
    found = messages(root)
    return "\n".join(_section(kind, found.get(kind, ())) for kind in expected_errors())


def messages(root: Path) -> dict[type[AliquotError], list[str]]:
    """The messages of each error, with … in place of values; those that are put together elsewhere are missing."""
    found: dict[type[AliquotError], set[str]] = defaultdict(set)
    for folder in (root / "server" / "aliquot", root / "schema" / "aliquot_schema"):
        for path in sorted(folder.rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            if "generated" not in path.parts and _CALLED.search(source):
                for kind, message in _raised(ast.parse(source)):
                    found[kind].add(message)
    return {kind: sorted(said) for kind, said in found.items()}


def _section(kind: type[AliquotError], said: "list[str] | tuple[str, ...]") -> str:
    meaning = text((inspect.getdoc(kind) or "").partition("\n\n")[0])
    lines = [f"### {code(kind.code)}", "", meaning, "", f"**What to do.** {TO_DO[kind]}", ""]
    lines += [f"- {text(message)}" for message in said]
    return "\n".join([*lines, ""])


def _raised(tree: ast.Module) -> Iterator[tuple[type[AliquotError], str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute) and node.args:
            name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            message = _written(node.args[0])
            if name in _NAMED and message:
                yield _NAMED[name], message


def _written(node: ast.expr) -> str:
    """A text with … in place of its values; empty for any other expression, and for one of fewer than three words."""
    match node:
        case ast.Constant(value=str() as words):
            return words
        case ast.JoinedStr(values=parts):
            words = "".join(_written(part) if isinstance(part, ast.Constant) else _HOLE for part in parts)
            return words if len(_WORD.findall(words)) >= 3 else ""
    return ""
