"""`aliquot simulate`: what the scheduler would have made of a trace."""

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from aliquot.core.policy import Policy
    from aliquot.core.simulation.report import Report
    from aliquot.core.simulation.trace import Job
    from aliquot.core.snapshot import AgentRow

GROUPS_MAX: Final = 20
"""Groups shown in a table; JSON has all of them."""
Name = TypeVar("Name", bound=StrEnum)


def simulate(
    trace: Annotated[Path, typer.Argument(help="CSV or Parquet: submit_s, duration_s, gpus; group, user, ...")],
    gpus: Annotated[int, typer.Option(min=1, help="GPUs of the cluster.")],
    policy: Annotated[list[str] | None, typer.Option(help="An order policy; several make several rows.")] = None,
    backfill: Annotated[str, typer.Option(help="none or easy.")] = "easy",
    estimates: Annotated[
        str, typer.Option(help="predicted, none, or exact: what no scheduler can know.")
    ] = "predicted",
    gpus_each: Annotated[
        int | None, typer.Option(min=1, help="GPUs of each node; one pool without nodes if it is not given.")
    ] = None,
    from_s: Annotated[int | None, typer.Option(help="Leave out jobs submitted before.")] = None,
    until_s: Annotated[int | None, typer.Option(help="Leave out jobs submitted then or later.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one object {policy: figures}.")] = False,
) -> None:
    """Run the scheduler over a trace of jobs, and report how long they would have waited."""
    from aliquot_schema.errors import AliquotError

    try:
        jobs = _jobs(trace, from_s=from_s, until_s=until_s)
        agents = _agents(gpus, gpus_each=gpus_each)
        reports = {
            name: _run(jobs, agents, _policy(name, backfill), estimates=estimates, gpus=gpus)
            for name in policy or ["fair_share"]
        }
    except AliquotError as error:
        print(f"aliquot cannot simulate this: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
    if as_json:
        print(json.dumps({name: asdict(report) for name, report in reports.items()}))
    else:
        _print_tables(reports)


def _jobs(trace: Path, *, from_s: int | None, until_s: int | None) -> tuple["Job", ...]:
    from aliquot.cli.trace_files import read_jobs
    from aliquot.core.simulation.trace import SECOND_US, numbered, window
    from aliquot_schema.errors import InvalidRequest

    jobs = read_jobs(trace)
    last_s = jobs[-1].submit_us // SECOND_US + 1
    chosen = numbered(window(jobs, from_s=from_s or 0, until_s=last_s if until_s is None else until_s))
    if not chosen:
        raise InvalidRequest(f"{trace}: no job was submitted between {from_s} and {until_s}", field="from_s")
    return chosen


def _agents(gpus: int, *, gpus_each: int | None) -> tuple["AgentRow", ...]:
    from aliquot.core.simulation.cluster import nodes, pool
    from aliquot_schema.errors import InvalidRequest

    if gpus_each is None:
        return pool(gpus)
    if gpus % gpus_each:
        raise InvalidRequest(f"{gpus} GPUs are not a number of nodes with {gpus_each} each", field="gpus_each")
    return nodes(gpus // gpus_each, gpus_each=gpus_each)


def _policy(order: str, backfill: str) -> "Policy":
    from aliquot.core.ordering import order_named
    from aliquot.core.policy import Backfill, Policy

    order_named(order)
    return Policy(order=order, backfill=_named(Backfill, backfill, field="backfill"), placement="first_fit")


def _run(
    jobs: tuple["Job", ...], agents: tuple["AgentRow", ...], policy: "Policy", *, estimates: str, gpus: int
) -> "Report":
    from aliquot.core.simulation.report import report
    from aliquot.core.simulation.run import Estimates, Settings
    from aliquot.core.simulation.run import simulate as run

    settings = Settings(policy=policy, estimates=_named(Estimates, estimates, field="estimates"))
    return report(run(jobs, agents, settings), gpus=gpus)


def _named(kind: type["Name"], name: str, *, field: str) -> "Name":
    """The member of that name.

    Raises:
        InvalidRequest: there is none; the message names those that there are.
    """
    from aliquot_schema.errors import InvalidRequest

    try:
        return kind(name)
    except ValueError:
        known = ", ".join(member.value for member in kind)
        raise InvalidRequest(f"{field}: {name[:64]!r} is none of {known}", field=field) from None


def _print_tables(reports: Mapping[str, "Report"]) -> None:
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(_table("policy", reports.items()))
    for name, found in reports.items():
        if len(found.groups) > 1:
            console.print(_groups_table(name, found))


def _table(title: str, reports: Iterable[tuple[str, "Report"]]) -> "Table":
    from rich.table import Table

    table = Table(title="Seconds", title_justify="left")
    table.add_column(title)
    for heading in ("jobs", "jct mean", "p95", "max", "wait mean", "p95", "max", "slowdown", "used %", "fairness"):
        table.add_column(heading, justify="right")
    for name, found in reports:
        times = [f"{value:,.0f}" for spread in (found.jct, found.wait) for value in asdict(spread).values()]
        rates = f"{found.slowdown_mean:,.2f}", f"{found.utilization_pct:.1f}", f"{found.fairness:.2f}"
        table.add_row(name, f"{found.jobs:,}", *times, *rates)
    return table


def _groups_table(name: str, found: "Report") -> "Table":
    from rich.table import Table

    table = Table(title=f"{name}: the {min(len(found.groups), GROUPS_MAX)} largest groups", title_justify="left")
    table.add_column("group")
    for heading in ("jobs", "GPU hours", "jct mean", "wait mean", "slowdown"):
        table.add_column(heading, justify="right")
    for group in found.groups[:GROUPS_MAX]:
        times = f"{group.jct_mean_s:,.0f}", f"{group.wait_mean_s:,.0f}", f"{group.slowdown_mean:,.2f}"
        table.add_row(group.project, f"{group.jobs:,}", f"{group.gpu_hours:,.0f}", *times)
    return table
