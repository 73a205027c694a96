"""`aliquot policy test`: runs policy tests, which are scenarios in YAML."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import to_builtins
from typer import Argument, Option

from aliquot.cli.cluster.policy import change, show

if TYPE_CHECKING:
    from aliquot.core.policy_tests.outcome import ExpectationMismatch
    from aliquot.core.policy_tests.scenario import Scenario


Files = Annotated[list[Path], Argument(help="YAML files of scenarios: given, when, then; --- separates scenarios.")]
AsJson = Annotated[bool, Option("--json", help="Print a JSON list with one object per scenario.")]

policy = typer.Typer(no_args_is_help=True, help="Show, change and test the scheduling policy.")
policy.command("show")(show)
policy.command("set")(change)


@policy.callback()
def describe() -> None:
    """Show, change and test the scheduling policy."""


@policy.command("test")
def run(files: Files, as_json: AsJson = False) -> None:
    """Run the scenarios of some files. The exit code is 1 when one fails, and 2 when a file is wrong."""
    from aliquot_schema.errors import AliquotError

    try:
        outcomes = [outcome for file in files for outcome in _outcomes(file)]
    except AliquotError as error:
        print(error.message, file=sys.stderr)
        raise typer.Exit(2) from None
    if as_json:
        print(json.dumps([_plain(scenario, found) for scenario, found in outcomes]))
    else:
        _print(outcomes)
    if any(found for _, found in outcomes):
        raise typer.Exit(1)


def _outcomes(file: Path) -> list[tuple["Scenario", tuple["ExpectationMismatch", ...]]]:
    from aliquot.core.policy_tests.loader import scenarios
    from aliquot.core.policy_tests.outcome import differences

    return [(scenario, differences(scenario)) for scenario in scenarios(_text(file), file=str(file))]


def _text(file: Path) -> str:
    from aliquot_schema.errors import InvalidRequest

    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidRequest(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidRequest(f"{file} is not UTF-8 text") from None


def _plain(scenario: "Scenario", found: tuple["ExpectationMismatch", ...]) -> dict[str, object]:
    return {
        "file": scenario.file,
        "line": scenario.line,
        "name": scenario.name,
        "passed": not found,
        "differences": [to_builtins(difference) for difference in found],
    }


def _print(outcomes: list[tuple["Scenario", tuple["ExpectationMismatch", ...]]]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    for scenario, found in outcomes:
        console.print(f"{'FAIL' if found else 'ok':<4} {scenario.file}:{scenario.line} {scenario.name}", markup=False)
        if found:
            table = Table("", "expected", "found", box=None, padding=(0, 2))
            for difference in found:
                table.add_row(difference.what, difference.expected, difference.found)
            console.print(table)
    failed = sum(bool(found) for _, found in outcomes)
    console.print(f"{len(outcomes) - failed} passed, {failed} failed", markup=False)
