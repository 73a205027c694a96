"""Results of the mutants, read from the tool's files: a table by module, and the survivors."""

import json
from collections.abc import Iterable, Sequence
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

from accepted import Accepted
from mutmut.mutation.diff_apply import get_diff_for_mutant
from rich.console import Console
from rich.table import Table
from workplace import PLACE

SURVIVED, UNTESTED = 0, 33
UNDECIDED = (None, -24, 24, 36, 152, 255)
"""Exit codes of the tool: never tried, or timed out, which proves nothing on a busy machine. With any other code than
these and those above a test failed."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A surviving mutant."""

    module: str
    name: str
    was: str
    becomes: str


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A module's result."""

    module: str
    mutants: int
    untried: int
    survivors: tuple[Mutant, ...]


def outcomes(modules: Iterable[str]) -> list[Outcome]:
    """The modules' current results."""
    return [_outcome(module) for module in modules]


def print_outcomes(found: Sequence[Outcome], *, accepted: Sequence[Accepted]) -> int:
    """Print a table and the survivors; 1 when any of them is not accepted, or any mutant was never tried."""
    console = Console(soft_wrap=True, highlight=False)
    table = Table("module", "mutants", "killed", "survived", "accepted", "left")
    left: list[Mutant] = []
    for one in found:
        open_ones = [mutant for mutant in one.survivors if not _reason(mutant, accepted)]
        survived, killed = len(one.survivors), one.mutants - one.untried - len(one.survivors)
        figures = (one.mutants, killed, survived, survived - len(open_ones), len(open_ones))
        table.add_row(one.module, *map(str, figures))
        left += open_ones
    console.print(table)
    for mutant in left:
        console.print(f"{mutant.name}\n  - {mutant.was}\n  + {mutant.becomes}", markup=False)
    untried = sum(one.untried for one in found)
    mutants, survived = sum(one.mutants for one in found), sum(len(one.survivors) for one in found)
    print(f"{mutants} mutants, {survived} survived, {len(left)} of them are not accepted; {untried} are undecided")
    return 1 if left or untried else 0


def _outcome(module: str) -> Outcome:
    known = PLACE / "mutants" / "src" / "aliquot" / "core" / f"{module}.py.meta"
    codes = json.loads(known.read_text(encoding="utf-8"))["exit_code_by_key"] if known.is_file() else {}
    survivors = tuple(_mutant(module, name) for name, code in codes.items() if code in (SURVIVED, UNTESTED))
    untried = sum(code in UNDECIDED for code in codes.values())
    return Outcome(module=module, mutants=len(codes), untried=untried, survivors=survivors)


def _mutant(module: str, name: str) -> Mutant:
    with chdir(PLACE):  # The tool finds its files by the working folder.
        lines = get_diff_for_mutant(name, path=Path("src", "aliquot", "core", f"{module}.py")).splitlines()
    was, becomes = (
        " ".join(line[1:].strip() for line in lines if line.startswith(sign) and not line.startswith(sign * 3))
        for sign in "-+"
    )
    return Mutant(module=module, name=name, was=was, becomes=becomes)


def _reason(mutant: Mutant, accepted: Sequence[Accepted]) -> str | None:
    return next((one.reason for one in accepted if one.holds(mutant.module, mutant.was, mutant.becomes)), None)
