"""`aliquot selftest --real`."""

import asyncio
import json
import logging
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from aliquot.cli.selftest.finding import Finding

COLOURS: Final = {"ok": "green", "unknown": "yellow", "fail": "red"}


def selftest(
    real: Annotated[bool, typer.Option("--real", help="Try this machine's GPUs, and take memory of them.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object instead of a table.")] = False,
) -> None:
    """Try on the real GPUs of this machine what is promised of them, and show what was expected beside what was seen.

    Jobs that see only their device, and two half shares of which one takes too much memory. A GPU that somebody uses
    is not shared. The exit code is 0, 1 when something is not as expected, and 2 when there is no GPU.
    """
    from aliquot.cli.selftest.course import run_selftest
    from aliquot.cli.selftest.finding import NO_GPU_CODE, exit_code
    from aliquot_schema.errors import AliquotError

    if not real:
        print("aliquot selftest needs --real: it takes memory of the GPUs of this machine", file=sys.stderr)
        print("without a GPU, `aliquot once` tries everything else", file=sys.stderr)
        raise typer.Exit(NO_GPU_CODE)
    logging.basicConfig(level=logging.ERROR)
    try:
        findings, words = asyncio.run(run_selftest())
    except AliquotError as error:
        print(f"aliquot selftest: {error.message}", file=sys.stderr)
        raise typer.Exit(1) from None
    if as_json:
        print(json.dumps({"found": words, "findings": [asdict(finding) for finding in findings]}, indent=2))
    else:
        _print(findings, words)
    raise typer.Exit(exit_code(findings))


def _print(findings: "list[Finding]", words: str) -> None:
    from rich.console import Console
    from rich.table import Table

    if not findings:
        print(f"no NVIDIA GPU to try: {words}")
        return
    print(words)
    table = Table("tried", "expected", "seen", "")
    for finding in findings:
        table.add_row(finding.name, finding.expected, finding.seen, f"[{COLOURS[finding.outcome]}]{finding.outcome}[/]")
    Console().print(table)
