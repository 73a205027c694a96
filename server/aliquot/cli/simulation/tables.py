"""Reports as tables for people."""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Final

from rich.console import Console
from rich.table import Table

from aliquot.core.simulation.report import Report

GROUPS_MAX: Final = 20
"""Groups shown in a table; JSON has all of them."""


def print_tables(reports: Mapping[str, Report]) -> None:
    """One row a report, then the largest groups of each."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(_table("policy", reports.items()))
    for name, found in reports.items():
        if len(found.groups) > 1:
            console.print(_groups_table(name, found))


def _table(title: str, reports: Iterable[tuple[str, Report]]) -> Table:
    table = Table(title="Seconds", title_justify="left")
    table.add_column(title)
    for heading in ("jobs", "jct mean", "p95", "max", "wait mean", "p95", "max", "slowdown", "used %", "fairness"):
        table.add_column(heading, justify="right")
    found_reports = tuple(reports)
    has_preemptions = any(found.preemptions for _, found in found_reports)
    for heading in ("preempted", "lost GPU h") if has_preemptions else ():
        table.add_column(heading, justify="right")
    for name, found in found_reports:
        times = [_written(value) for spread in (found.jct, found.wait) for value in asdict(spread).values()]
        rates = f"{found.slowdown_mean:,.2f}", f"{found.utilization_pct:.1f}", f"{found.fairness:.2f}"
        lost = (f"{found.preemptions:,}", f"{found.lost_gpu_hours:,.1f}") if has_preemptions else ()
        table.add_row(name, f"{found.jobs:,}", *times, *rates, *lost)
    return table


def _groups_table(name: str, found: Report) -> Table:
    table = Table(title=f"{name}: the {min(len(found.groups), GROUPS_MAX)} largest groups", title_justify="left")
    table.add_column("group")
    for heading in ("jobs", "GPU hours", "jct mean", "wait mean", "slowdown"):
        table.add_column(heading, justify="right")
    for group in found.groups[:GROUPS_MAX]:
        times = _written(group.jct_mean_s), _written(group.wait_mean_s), f"{group.slowdown_mean:,.2f}"
        table.add_row(group.project, f"{group.jobs:,}", _written(group.gpu_hours), *times)
    return table


def _written(value: float) -> str:
    """With a place after the point where the number is small."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
