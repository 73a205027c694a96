"""Plots of runs: one page, PNG or SVG. Needs matplotlib, the extra `aliquot[plots]`."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from aliquot.core.simulation.outcome import Outcome
from aliquot.core.simulation.report import Floats, Times, report
from aliquot.core.simulation.timeline import means
from aliquot_schema.errors import InvalidRequest

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SUFFIXES: Final = (".png", ".svg")
PAGE_INCHES: Final = (8.3, 11.7)
BINS: Final = 300
GROUPS_MAX: Final = 15
LEAST_S: Final = 1.0
"""Shorter times stand here on the logarithmic axis."""
UNITS: Final = (("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0))
LAYOUT: Final = "wj;uu;qq;gg"
"""Waits and completion times side by side, then use, queue and groups below each other."""


def check_target(path: Path) -> None:
    """Make sure that plots can be made, before hours are spent on what they are to show.

    Raises:
        InvalidRequest: another kind of file, or matplotlib is missing.
    """
    if path.suffix not in SUFFIXES:
        raise InvalidRequest(f"{path}: plots are saved as {' or '.join(SUFFIXES)}", field="plot")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InvalidRequest(
            "plots need matplotlib (pip install matplotlib); tables and --json do without", field="plot"
        ) from None


def save_plots(outcomes: Mapping[str, Outcome], path: Path) -> None:
    """Draw the waits, completion times, use, queue and groups of all runs on one page.

    Raises:
        InvalidRequest: it cannot be written.
    """
    # A figure of its own needs no display, and leaves the library's global state alone.
    from matplotlib.figure import Figure

    figure = Figure(figsize=PAGE_INCHES, layout="constrained")
    axes = figure.subplot_mosaic(LAYOUT)
    unit, unit_s = _unit(outcomes)
    for label, outcome in outcomes.items():
        times = Times.of(outcome)
        _draw_cdf(axes["w"], times.wait, label=label)
        _draw_cdf(axes["j"], times.jct, label=label)
        _draw_course(axes, outcome, label=label, unit_s=unit_s)
    _draw_groups(axes["g"], outcomes)
    _describe(axes, unit=unit)
    figure.legend(*axes["w"].get_legend_handles_labels(), loc="outside upper center", ncols=min(len(outcomes), 3))
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be written: {error}", field="plot") from error


def _draw_cdf(axes: "Axes", seconds: Floats, *, label: str) -> None:
    ordered = np.sort(np.maximum(seconds, LEAST_S))
    # A few thousand steps show no more than these, and make a file of megabytes.
    places = np.unique(np.linspace(0, len(ordered) - 1, min(len(ordered), 1000)).astype(np.int64))
    axes.step(ordered[places], 100 * (places + 1) / len(ordered), where="post", label=label)


def _draw_course(axes: Mapping[str, "Axes"], outcome: Outcome, *, label: str, unit_s: float) -> None:
    timeline = outcome.timeline
    at_s, held_milli = means(timeline, timeline.held_milli, bins=BINS)
    axes["u"].plot(at_s / unit_s, 100 * held_milli / max(outcome.capacity_milli, 1), label=label, linewidth=1)
    at_s, waiting = means(timeline, timeline.waiting, bins=BINS)
    axes["q"].plot(at_s / unit_s, waiting, label=label, linewidth=1)


def _draw_groups(axes: "Axes", outcomes: Mapping[str, Outcome]) -> None:
    """The largest groups side by side, each with a bar for every run."""
    found = {label: report(outcome) for label, outcome in outcomes.items()}
    names = [group.project for group in next(iter(found.values())).groups[:GROUPS_MAX]]
    places, width = np.arange(len(names)), 0.8 / len(found)
    for number, made in enumerate(found.values()):
        slowdowns = {group.project: group.slowdown_mean for group in made.groups}
        axes.bar(places + (number - (len(found) - 1) / 2) * width, [slowdowns[name] for name in names], width)
    axes.set_xticks(places, [name[:24] for name in names], rotation=30, ha="right")


def _unit(outcomes: Mapping[str, Outcome]) -> tuple[str, float]:
    """The largest unit that there are two of, or else the smallest, with its seconds."""
    span_s = max(outcome.timeline.at_us[-1] - outcome.timeline.at_us[0] for outcome in outcomes.values()) / 1e6
    return next((unit for unit in UNITS if span_s >= 2 * unit[1]), UNITS[-1])


def _describe(axes: Mapping[str, "Axes"], *, unit: str) -> None:
    texts = {
        "w": ("In the queue", f"seconds; all shorter ones stand at {LEAST_S:g}", "part of the jobs, %"),
        "j": ("From submission to end", f"seconds; all shorter ones stand at {LEAST_S:g}", "part of the jobs, %"),
        "u": ("GPUs held", f"{unit} since the first submission", "part of all, %"),
        "q": ("Queue", f"{unit} since the first submission", "jobs waiting"),
        "g": ("Slowdown by group, the largest groups first", "", "mean bounded slowdown"),
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
