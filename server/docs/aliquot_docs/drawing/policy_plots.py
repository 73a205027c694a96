"""Policy plots: waits and key figures of two simulated weeks under different policies."""

import re
from collections.abc import Callable, Mapping
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from aliquot.core.model.policy import Policy
from aliquot.core.simulation.cluster import SimulationSettings
from aliquot.core.simulation.report import Outcome, Times, report
from aliquot.core.simulation.run import simulate
from aliquot_docs.drawing.svg import PALETTE
from aliquot_docs.drawing.workload import cluster, fortnight
from aliquot_docs.markdown import code, table
from aliquot_schema.policies import Backfill

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ORDERS: Final = {
    "fcfs, no backfill": Policy(order="fcfs", backfill=Backfill.NONE),
    "fcfs": Policy(order="fcfs", backfill=Backfill.EASY),
    "sjf": Policy(order="sjf", backfill=Backfill.EASY),
    "fair_share": Policy(order="fair_share", backfill=Backfill.EASY),
}
BACKFILLS: Final = {name.value: Policy(order="fair_share", backfill=name) for name in Backfill}
INK: Final = "#010203"
"""Placeholder, replaced by the text colour of the page."""
DASHES: Final = ("--", "-.", ":", "-")
MIN_HOURS: Final = 1 / 60


def outcomes(policies: Mapping[str, Policy]) -> dict[str, Outcome]:
    """Simulate the two weeks under each policy."""
    jobs, agents = fortnight(), cluster()
    return {label: simulate(jobs, agents, SimulationSettings(policy=policy)) for label, policy in policies.items()}


def waits_plot(runs: Mapping[str, Outcome], *, title: str) -> str:
    """The share of jobs started by hours in the queue, as SVG to include in a page."""

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        for number, (label, outcome) in enumerate(runs.items()):
            _curve(axes, outcome, label=label, color=PALETTE[number], dash=DASHES[number])
        axes.set_xscale("log")
        axes.set_xlabel("hours in the queue (one minute or less at the left edge)")
        axes.set_ylabel("jobs that have started, %")
        axes.grid(alpha=0.25)
        axes.legend(framealpha=0)

    return plot(draw, title=title)


def plot(draw: Callable[["Figure"], None], *, title: str, height: float = 3.6) -> str:
    """A figure as SVG to include in a page, in the colours of the page.

    Args:
        draw: fills the figure.
        height: in inches, for a width of 7.2.
    """
    # A `Figure` without pyplot needs no display and changes no global state.
    import matplotlib
    from matplotlib.figure import Figure

    look: dict[Any, str] = {"svg.fonttype": "none", "svg.hashsalt": title, "text.color": INK, "axes.labelcolor": INK}
    look |= {"axes.edgecolor": INK, "xtick.color": INK, "ytick.color": INK, "font.family": "sans-serif"}
    with matplotlib.rc_context(look):
        figure = Figure(figsize=(7.2, height), layout="constrained")
        draw(figure)
        drawn = StringIO()
        figure.savefig(drawn, format="svg", transparent=True, metadata={"Date": None})
    return _in_page(drawn.getvalue(), title=title)


def figures_table(runs: Mapping[str, Outcome]) -> str:
    """Mean and longest wait, slowdown and utilization of each run."""
    heads = (
        "policy",
        "mean wait, h",
        "95th percentile, h",
        "longest wait, h",
        "mean slowdown",
        "utilization while jobs wait",
    )
    found = {label: report(outcome) for label, outcome in runs.items()}
    rows = (
        (
            code(label),
            f"{made.wait.mean_s / 3600:.1f}",
            f"{made.wait.p95_s / 3600:.1f}",
            f"{made.wait.max_s / 3600:.0f}",
            f"{made.slowdown_mean:.1f}",
            f"{made.utilization_pct:.0f} %",
        )
        for label, made in found.items()
    )
    return table(heads, rows)


def _curve(axes: "Axes", outcome: Outcome, *, label: str, color: str, dash: str) -> None:
    hours = np.sort(np.maximum(Times.of(outcome).wait / 3600, MIN_HOURS))
    axes.step(hours, 100 * np.arange(1, len(hours) + 1) / len(hours), dash, where="post", label=label, color=color)


def _in_page(drawn: str, *, title: str) -> str:
    svg = drawn[drawn.index("<svg") :].replace(INK, "currentColor")
    named = f'class="figure" role="img" aria-label="{escape(title)}"'
    svg = re.sub(r'width="[^"]+" height="[^"]+"', lambda _: named, svg, count=1)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    lines = "".join(f"{line.strip()}\n" for line in svg.splitlines() if line.strip())
    return f'<div class="figure-frame" title="{escape(title)}">{lines}</div>\n'
