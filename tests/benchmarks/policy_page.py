"""The page that compares policies on public logs: figures, and waits by width, run time and user."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
from page import with_section

from aliquot.core.simulation.report import Floats, Outcome, Times, report
from aliquot_schema.resources.slots import MILLI

DOCS: Final = Path(__file__).parents[2] / "server" / "docs"
sys.path.append(str(DOCS))

from aliquot_docs.drawing.policy_plots import plot  # noqa: E402 # the path is set above
from aliquot_docs.drawing.svg import PALETTE  # noqa: E402

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Runs = Mapping[tuple[str, str], Outcome]
"""By log and policy."""
LOGS: Final = {"philly_vc": "Philly", "kth_sp2": "KTH"}
MARKS: Final = ("o-", "s-", "^-", "D-", "v--", "x--")
COLORS: Final = (*PALETTE, "gray", "gray")
DAY_S: Final = 86_400
WIDTHS: Final = {"1": 1, "2-3": 2, "4-7": 4, "8-15": 8, "16+": 16}
"""Smallest number of GPUs of a group."""
LENGTHS: Final = {"< 10 min": 0, "< 1 h": 600, "< 8 h": 3600, "8 h +": 28_800}
"""Smallest run time of a group, in seconds."""
USER_GROUPS: Final = ("least use", "2", "3", "4", "most use")
"""Fifths of the users by the GPU-hours of their jobs."""


def with_policies(page: Path, runs: Runs) -> str:
    """The page with these figures; the plots are written beside it."""
    for name, title, groups in (
        ("width", "Mean wait by width", by_width),
        ("length", "Mean wait by run time", by_length),
        ("user", "Mean wait by user", by_user),
    ):
        drawn = plot(lambda figure, groups=groups: _draw(figure, runs, groups), title=title, height=3.4)  # type: ignore[misc]
        (page.parent / f"policies-{name}.svg").write_text(drawn, encoding="utf-8")
    return with_section(page.read_text(encoding="utf-8"), "policies", "\n".join(["", *_table(runs), ""]))


def by_width(outcome: Outcome) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    """Groups of jobs by their GPUs: their names, and [jobs] the index of each job's group."""
    gpus = np.array([job.milli for job in outcome.jobs]) / MILLI
    return tuple(WIDTHS), np.searchsorted(list(WIDTHS.values()), gpus, side="right").clip(1) - 1


def by_length(outcome: Outcome) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    """Groups of jobs by run time; see `by_width`."""
    return tuple(LENGTHS), np.searchsorted(list(LENGTHS.values()), Times.of(outcome).run, side="right") - 1


def by_user(outcome: Outcome) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    """Groups of jobs by their user's GPU-hours; see `by_width`."""
    used: dict[str, float] = {}
    for job in outcome.jobs:
        used[job.user] = used.get(job.user, 0.0) + job.milli * job.duration_ms
    ranked = sorted(used, key=lambda user: (used[user], user))
    group = {user: number * len(USER_GROUPS) // len(ranked) for number, user in enumerate(ranked)}
    return USER_GROUPS, np.array([group[job.user] for job in outcome.jobs])


def group_waits(
    outcome: Outcome, groups: Callable[[Outcome], tuple[tuple[str, ...], npt.NDArray[np.int64]]]
) -> Mapping[str, float]:
    """Mean wait in seconds of each group that has a job."""
    names, group = groups(outcome)
    waits: Floats = Times.of(outcome).wait
    return {name: float(waits[group == number].mean()) for number, name in enumerate(names) if (group == number).any()}


def _table(runs: Runs) -> list[str]:
    head = "| log | policy | completion time, mean | 95th percentile | wait, mean | longest wait | bounded slowdown |"
    found = [head, "|---" * 7 + "|"]
    for (log, policy), outcome in runs.items():
        made = report(outcome)
        cells = (
            LOGS[log],
            policy,
            f"{made.jct.mean_s:,.0f} s",
            f"{made.jct.p95_s:,.0f} s",
            f"{made.wait.mean_s:,.0f} s",
            f"{made.wait.max_s / DAY_S:.1f} days",
            f"{made.slowdown_mean:.1f}",
        )
        found.append(f"| {' | '.join(cells)} |")
    return found


def _draw(
    figure: "Figure", runs: Runs, groups: Callable[[Outcome], tuple[tuple[str, ...], npt.NDArray[np.int64]]]
) -> None:
    logs = list(dict.fromkeys(log for log, _ in runs))
    grid: list[Axes] = list(figure.subplots(1, len(logs), sharey=True, squeeze=False).flat)
    for axes, log in zip(grid, logs, strict=True):
        own = [(policy, outcome) for (name, policy), outcome in runs.items() if name == log]
        for (policy, outcome), mark, color in zip(own, MARKS, COLORS, strict=False):
            hours = {name: max(wait_s, 60) / 3600 for name, wait_s in group_waits(outcome, groups).items()}
            axes.plot(list(hours), list(hours.values()), mark, color=color, markersize=4, linewidth=1, label=policy)
        axes.set_yscale("log")
        axes.set_title(LOGS[log], fontsize=10)
        axes.tick_params(labelsize=8)
        axes.grid(alpha=0.25)
    grid[0].set_ylabel("mean wait, hours", fontsize=10)
    grid[-1].legend(framealpha=0, fontsize=7)
