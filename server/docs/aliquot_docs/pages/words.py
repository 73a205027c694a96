"""Enumerations: states, reasons, errors, findings and exit codes, with their documentation in the code."""

import inspect
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TypeVar

from aliquot.cli.connection import server
from aliquot_docs.markdown import code, table, text
from aliquot_schema import errors
from aliquot_schema.enums import DescribedInt, DescribedStr
from aliquot_schema.errors import AliquotError

State = TypeVar("State", bound=StrEnum)


def members_table(kind: type[DescribedStr], *, head: str) -> str:
    """Every member of an enumeration, in order."""
    return table((head, "meaning"), ((code(one.value), text(one.description)) for one in kind))


def roles_table(kind: type[DescribedInt]) -> str:
    """Every role, the lowest first."""
    return table(("role", "may"), ((code(one.name.lower()), text(one.description)) for one in kind))


def moves_table(moves: Mapping[State, frozenset[State]]) -> str:
    """Allowed transitions from rows to columns."""
    states = list(moves)
    rows = ((f"**{start.value}**", *("●" if end in moves[start] else "" for end in states)) for start in states)
    return table(("from \\ to", *(state.value for state in states)), rows)


def errors_table() -> str:
    """Every expected error with its code, type, fields and meaning."""
    return table(("code", "type", "fields", "meaning"), map(_error_row, expected_errors()))


def expected_errors() -> list[type[AliquotError]]:
    """All error types in source order, without the common base class."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, AliquotError)]
    return [kind for kind in kinds if kind is not AliquotError]


def exit_codes_table() -> str:
    """Exit codes of commands that call a server."""
    lines = (line.strip().partition("  ") for line in inspect.getsource(server).splitlines())
    found = [(number, meaning) for number, _, meaning in lines if number.isdecimal()]
    assert found, "no exit codes in the docstring"
    return table(("exit code", "meaning"), ((code(number), text(meaning)) for number, meaning in found))


def _error_row(kind: type[AliquotError]) -> Iterator[str]:
    yield code(kind.code)
    yield code(kind.__name__)
    yield " ".join(code(name) for name in inspect.signature(kind).parameters if name != "message")
    yield text(inspect.getdoc(kind) or "")
