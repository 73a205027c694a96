"""The page on forecasts: replaces its tables and plots of accuracy."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from forecast_scores import AT_ONCE, SECOND_US, STRATUM_MIN, UNKNOWN, Scores
from page import with_section

from aliquot.core.foresight.accuracy import ALL, GroupAccuracy
from aliquot.core.foresight.forecast import HOUR_US

DOCS: Final = Path(__file__).parents[2] / "server" / "docs"
sys.path.append(str(DOCS))

from aliquot_docs.drawing.policy_plots import plot  # noqa: E402 # the path is set above
from aliquot_docs.drawing.svg import PALETTE  # noqa: E402

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Runs = Mapping[tuple[str, str], Scores]
"""By log and the prefix of the policy."""
LOGS: Final = {"philly": "Philly", "kth": "KTH"}
POLICIES: Final = {"": "`fair_share`", "easy_": "`fcfs`"}
POINTS_MAX: Final = 400
MINUTE_US: Final = 60 * SECOND_US
ROWS: Final = (
    ("told to start now", AT_ONCE),
    ("of them, did", "forecast_now_true"),
    ("unknown", UNKNOWN),
    ("told to wait: started inside the band", "forecast_cover_80"),
    ("the same, worst group of 200 and more", "forecast_cover_worst"),
    ("told to wait: P50 within a factor 2 (+ 5 min)", "forecast_factor2"),
    ("told less than 10 min: right within 10 min", "forecast_soon_10min"),
    ("quantile loss / moving average of waits", "forecast_pinball_vs_ema"),
    ("quantile loss / average by size class", "forecast_pinball_vs_class"),
    ("quantile loss / plan by time limits", "forecast_pinball_vs_limits"),
)


def with_forecasts(page: Path, runs: Runs) -> str:
    """The page with these figures; the plots are written beside it."""
    (page.parent / "forecasts-told.svg").write_text(
        plot(lambda figure: _told(figure, runs), title="P50 when submitted, and the wait", height=6), encoding="utf-8"
    )
    (page.parent / "forecasts-groups.svg").write_text(
        plot(lambda figure: _groups(figure, runs), title="Started inside the band, by group", height=6),
        encoding="utf-8",
    )
    text = with_section(page.read_text(encoding="utf-8"), "figures", "\n".join(["", *_table(runs), ""]))
    return with_section(text, "groups", "\n".join(["", *_group_table(runs), ""]))


def _table(runs: Runs) -> list[str]:
    names = [f"{LOGS[log]}, {POLICIES[prefix]}" for log, prefix in runs]
    found = [f"| | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    found.append(f"| forecasts | {' | '.join(f'{len(one.shown):,}' for one in runs.values())} |")
    for what, key in ROWS:
        cells = [f"{one.figures[key]:.3f}" if key in one.figures else "-" for one in runs.values()]
        found.append(f"| {what} | {' | '.join(cells)} |")
    intervals = [f"{one.groups[0].inside_low:.3f} to {one.groups[0].inside_high:.3f}" for one in runs.values()]
    found.append(f"| 80 % interval of the part inside, by days | {' | '.join(intervals)} |")
    ends = [_ends_inside(one) for one in runs.values()]
    return [*found, f"| end inside its band | {' | '.join(f'{inside:.3f}' for inside in ends)} |"]


def _ends_inside(scores: Scores) -> float:
    known = [one for one in scores.shown if one.forecast.end_us is not None]
    inside = [one.forecast.end_us is not None and one.forecast.end_us.contains(one.told.ended_us) for one in known]
    return sum(inside) / len(inside)


def _group_table(runs: Runs) -> list[str]:
    found = ["| log, policy | group | n | days | inside | below | above | within 10 min |", "|---" * 8 + "|"]
    for (log, prefix), scores in runs.items():
        for group in _shown_groups(scores):
            cells = (
                f"{LOGS[log]}, {POLICIES[prefix]}",
                group.group.replace("<", "&lt;").replace(">", "&gt;"),
                f"{group.n:,}",
                str(group.days),
                f"{group.inside:.2f} ({group.inside_low:.2f} to {group.inside_high:.2f})",
                f"{group.below:.2f}",
                f"{group.above:.2f}",
                f"{group.within_10_min:.2f}",
            )
            found.append(f"| {' | '.join(cells)} |")
    return found


def _shown_groups(scores: Scores) -> list[GroupAccuracy]:
    """Groups that can be judged, except for mixtures of two and the policy's version."""
    found = (group for group in scores.groups if ", told" not in group.group and "policy" not in group.group)
    return [group for group in found if group.n >= STRATUM_MIN // 4]


def _told(figure: "Figure", runs: Runs) -> None:
    grid = figure.subplots(2, len(runs) // 2, sharex=True, sharey=True)
    for axes, ((log, prefix), scores), color in zip(grid.flat, runs.items(), PALETTE, strict=False):
        waiting = [one for one in scores.shown if one.forecast.start_us and not one.forecast.starts_now]
        points = waiting[:: len(waiting) // POINTS_MAX + 1]
        told_h = [max(one.band.p50, MINUTE_US) / HOUR_US for one in points]
        was_h = [max(one.wait_us, MINUTE_US) / HOUR_US for one in points]
        axes.plot(told_h, was_h, ".", color=color, alpha=0.5, markersize=3)
        axes.plot([1 / 60, 168], [1 / 60, 168], "-", color="gray", linewidth=0.8)
        _log_hours(axes)
        axes.set_title(f"{LOGS[log]}, {POLICIES[prefix].strip('`')}", fontsize=10)
    figure.supxlabel("P50 of the wait when submitted, hours", fontsize=10)
    figure.supylabel("wait, hours", fontsize=10)


def _log_hours(axes: "Axes") -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.grid(alpha=0.25)


def _groups(figure: "Figure", runs: Runs) -> None:
    axes = figure.subplots()
    names = list(dict.fromkeys(group.group for one in runs.values() for group in _shown_groups(one)))
    names.sort(key=lambda name: (name != ALL, name), reverse=True)
    for number, ((log, prefix), scores) in enumerate(runs.items()):
        groups = _shown_groups(scores)
        places = [names.index(group.group) + 0.15 * (1.5 - number) for group in groups]
        inside = [group.inside for group in groups]
        low = [max(group.inside - group.inside_low, 0) for group in groups]
        high = [max(group.inside_high - group.inside, 0) for group in groups]
        label = f"{LOGS[log]}, {POLICIES[prefix].strip('`')}"
        axes.errorbar(inside, places, xerr=[low, high], fmt="o", markersize=4, color=PALETTE[number], label=label)
    axes.axvline(0.8, color="gray", linewidth=0.8)
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("part that started inside the band, with its 80 % interval by days")
    axes.grid(alpha=0.25, axis="x")
    axes.legend(framealpha=0, fontsize=8)
