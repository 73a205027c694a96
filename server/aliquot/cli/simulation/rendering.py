"""Output of simulations: tables, a page of plots as PNG or SVG, and a progress bar on stderr.

Plots need matplotlib, the extra `aliquot[plots]`.
"""

import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
from msgspec.structs import asdict
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from aliquot.core.simulation.report import Floats, Outcome, Report, Times, means, report
from aliquot_schema.errors import InvalidRequest

if TYPE_CHECKING:
    from matplotlib.axes import Axes


SUFFIXES: Final = (".png", ".svg")
PAGE_INCHES: Final = (8.3, 11.7)
BINS: Final = 300
PLOT_GROUPS_MAX: Final = 15
LEAST_S: Final = 1.0
"""Left end of the logarithmic axis; shorter times are drawn there."""
UNITS: Final = (("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0))
LAYOUT: Final = "wj;uu;qq;gg"
"""Waiting and completion times side by side; below them utilization, queue and groups."""


def check_target(path: Path) -> None:
    """Check that plots can be made, before hours of simulation.

    Raises:
        InvalidRequest: another kind of file, or matplotlib is missing.
    """
    if path.suffix not in SUFFIXES:
        raise InvalidRequest(f"{path}: plots are saved as {' or '.join(SUFFIXES)}", field="plot")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InvalidRequest(
            "plots need matplotlib (pip install matplotlib); tables and --json do not", field="plot"
        ) from None


def save_plots(outcomes: Mapping[str, Outcome], path: Path) -> None:
    """Draw waiting times, completion times, utilization, queue and groups of all runs on one page.

    Raises:
        InvalidRequest: the file cannot be written.
    """
    # A Figure of its own needs no display, and does not change matplotlib's global state.
    from matplotlib.figure import Figure

    figure = Figure(figsize=PAGE_INCHES, layout="constrained")
    axes = figure.subplot_mosaic(LAYOUT)
    unit, unit_s = _unit(outcomes)
    for label, outcome in outcomes.items():
        times = Times.of(outcome)
        _draw_cdf(axes["w"], times.wait, label=label)
        _draw_cdf(axes["j"], times.jct, label=label)
        _draw_timeline(axes, outcome, label=label, unit_s=unit_s)
    _draw_groups(axes["g"], outcomes)
    _describe(axes, unit=unit)
    figure.legend(*axes["w"].get_legend_handles_labels(), loc="outside upper center", ncols=min(len(outcomes), 3))
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be written: {error.strerror or error}", field="plot") from error


def _draw_cdf(axes: "Axes", seconds: Floats, *, label: str) -> None:
    ordered = np.sort(np.maximum(seconds, LEAST_S))
    # More than 1,000 steps look the same, in a file of megabytes.
    places = np.unique(np.linspace(0, len(ordered) - 1, min(len(ordered), 1000)).astype(np.int64))
    axes.step(ordered[places], 100 * (places + 1) / len(ordered), where="post", label=label)


def _draw_timeline(axes: Mapping[str, "Axes"], outcome: Outcome, *, label: str, unit_s: float) -> None:
    timeline = outcome.timeline
    at_s, held_milli = means(timeline, timeline.held_milli, bins=BINS)
    axes["u"].plot(at_s / unit_s, 100 * held_milli / max(outcome.capacity_milli, 1), label=label, linewidth=1)
    at_s, waiting = means(timeline, timeline.waiting, bins=BINS)
    axes["q"].plot(at_s / unit_s, waiting, label=label, linewidth=1)


def _draw_groups(axes: "Axes", outcomes: Mapping[str, Outcome]) -> None:
    """The largest groups side by side, each with one bar per run."""
    found = {label: report(outcome) for label, outcome in outcomes.items()}
    names = [group.project for group in next(iter(found.values())).groups[:PLOT_GROUPS_MAX]]
    places, width = np.arange(len(names)), 0.8 / len(found)
    for number, made in enumerate(found.values()):
        slowdowns = {group.project: group.slowdown_mean for group in made.groups}
        axes.bar(places + (number - (len(found) - 1) / 2) * width, [slowdowns[name] for name in names], width)
    axes.set_xticks(places, [name[:24] for name in names], rotation=30, ha="right")


def _unit(outcomes: Mapping[str, Outcome]) -> tuple[str, float]:
    """The largest unit that fits twice into the longest run, else the smallest; with its seconds."""
    span_s = max(outcome.timeline.at_us[-1] - outcome.timeline.at_us[0] for outcome in outcomes.values()) / 1e6
    return next((unit for unit in UNITS if span_s >= 2 * unit[1]), UNITS[-1])


def _describe(axes: Mapping[str, "Axes"], *, unit: str) -> None:
    texts = {
        "w": ("Waiting time", f"seconds; shorter ones are drawn at {LEAST_S:g}", "share of jobs, %"),
        "j": ("Completion time", f"seconds; shorter ones are drawn at {LEAST_S:g}", "share of jobs, %"),
        "u": ("GPUs in use", f"{unit} since the first submission", "share of all, %"),
        "q": ("Queue", f"{unit} since the first submission", "pending jobs"),
        "g": ("Slowdown by group, largest groups first", "", "mean bounded slowdown"),
    }
    for name, (title, across, up) in texts.items():
        axes[name].set_title(title, fontsize="medium")
        axes[name].set_xlabel(across)
        axes[name].set_ylabel(up)
        axes[name].grid(alpha=0.3)
        axes[name].set_ylim(bottom=0)
    for name in "wj":
        axes[name].set_xscale("log")
    axes["g"].set_yscale("log")
    axes["g"].set_ylim(bottom=0.9)


TABLE_GROUPS_MAX: Final = 20
"""Maximum number of groups in a table; JSON has all of them."""


def print_tables(reports: Mapping[str, Report]) -> None:
    """Print a table with one row per report, then one with the largest groups of each."""
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
    table = Table(title=f"{name}: the {min(len(found.groups), TABLE_GROUPS_MAX)} largest groups", title_justify="left")
    table.add_column("group")
    for heading in ("jobs", "GPU hours", "jct mean", "wait mean", "slowdown"):
        table.add_column(heading, justify="right")
    for group in found.groups[:TABLE_GROUPS_MAX]:
        times = _written(group.jct_mean_s), _written(group.wait_mean_s), f"{group.slowdown_mean:,.2f}"
        table.add_row(group.project, f"{group.jobs:,}", _written(group.gpu_hours), *times)
    return table


def _written(value: float) -> str:
    """One decimal place below 100, none above."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


REFRESH_S: Final = 0.2
"""Updating the bar takes longer than a scheduling pass of a small cluster."""


class OnProgress(Protocol):
    """Reports progress."""

    def __call__(self, done: int, of: int | None = None, /) -> None:
        """`done` items of `of`; the total may be given here when it was unknown at the start."""


@contextmanager
def bar(label: str, *, total: int | None) -> Iterator[OnProgress]:
    """Show a progress bar, where stderr is a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(label, total=total)
        updated_at = 0.0

        def update(done: int, of: int | None = None, /) -> None:
            nonlocal updated_at
            now = time.monotonic()
            if now - updated_at >= REFRESH_S:
                updated_at = now
                progress.update(task, completed=done, total=of)

        yield update
