"""Metrics from output: numbers that a job prints, by lines `::metric loss=0.31 step=40` or by patterns of its request.

A pattern is text with `{value}` in it, and `{step}` where the line has one: `step {step}: loss {value}`. Everything
else stands for itself, a space for any blanks.
"""

import re
from math import isfinite
from typing import Final

from msgspec import Struct

METRICS_MAX: Final = 32
"""Metrics of one output."""
POINTS_MAX: Final = 400
"""Points that are kept of a metric."""
PATTERN_CHARS_MAX: Final = 200
REPORT_BYTES_MAX: Final = 2 * 1024 * 1024
PREFIX: Final = "::metric "
STEP: Final = "step"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]{0,63}", re.ASCII)
NUMBER: Final = r"[-+]?(?:\d{1,20}(?:\.\d{0,20})?|\.\d{1,20})(?:[eE][-+]?\d{1,3})?"
"""Bounded, so that a line is matched in linear time."""
_NUMBERS: Final = {"{value}": NUMBER, "{step}": r"\d{1,18}"}


class MetricPattern(Struct, frozen=True, kw_only=True):
    """Which number of a line is a metric."""

    name: str
    pattern: str


class MetricSeries(Struct, frozen=True, kw_only=True):
    """A metric of one output. Steps are those that were printed, else the number of the point, from 0."""

    name: str
    count: int
    """Points that were printed."""
    last: float
    low: float
    low_step: int
    high: float
    high_step: int
    steps: tuple[int, ...]
    """Of the points that are kept, as printed; at most `POINTS_MAX`."""
    values: tuple[float, ...]


class MetricReport(Struct, frozen=True, kw_only=True):
    """All metrics of one output, by name."""

    series: tuple[MetricSeries, ...] = ()
    is_partial: bool = False
    """Whether there is more output to read: the next request goes on."""


def patterns_fault(patterns: tuple[MetricPattern, ...]) -> str | None:
    """Message about the first invalid pattern; None = valid."""
    if len(patterns) > METRICS_MAX:
        return f"{len(patterns)} metrics are given; {METRICS_MAX} are allowed"
    for one in patterns:
        if _NAME.fullmatch(one.name) is None or one.name == STEP:
            return f"{one.name[:80]!r} is not a name: give up to 64 letters, digits and _ . / -, but not `step`"
        if not (one.pattern.isprintable() and len(one.pattern) <= PATTERN_CHARS_MAX):
            return f"the pattern of {one.name} has more than {PATTERN_CHARS_MAX} characters, or some cannot be printed"
        if one.pattern.count("{value}") != 1 or one.pattern.count("{step}") > 1:
            return f"the pattern of {one.name} needs {{value}} once and {{step}} at most once, like 'loss: {{value}}'"
        if "{value}{step}" in one.pattern or "{step}{value}" in one.pattern:
            return f"the pattern of {one.name} needs text or a blank between {{value}} and {{step}}"
    names = [one.name for one in patterns]
    return "a name is given twice" if len(set(names)) < len(names) else None


def expression(pattern: str) -> re.Pattern[str]:
    """The pattern as a regular expression for one line, with the groups `value` and `step`."""
    parts = [part for part in re.split(r"(\{value\}|\{step\}|\s+)", pattern) if part]
    return re.compile("".join(_form(part, after) for part, after in zip(parts, [*parts[1:], ""], strict=True)))


def _form(part: str, after: str) -> str:
    """The regular expression of a part of a pattern; a number is atomic, unless the text after it could be its end."""
    if part in _NUMBERS:
        kind = ":" if after and after[0] in ".eE0123456789" else ">"
        return f"(?P<{part[1:-1]}>(?{kind}{_NUMBERS[part]}))"
    return r"\s{1,20}" if part.isspace() else re.escape(part)


def is_metric_name(name: str) -> bool:
    """Whether a printed name is one of a metric."""
    return _NAME.fullmatch(name) is not None and name != STEP


def report_fault(report: MetricReport) -> str | None:
    """Message about the first invalid value of an agent's report; None = valid."""
    if len(report.series) > METRICS_MAX:
        return f"it has {len(report.series)} metrics; {METRICS_MAX} are allowed"
    for one in report.series:
        numbers = (one.last, one.low, one.high, *one.values)
        steps = (one.count, one.low_step, one.high_step, *one.steps)
        if not is_metric_name(one.name) or not 0 < len(one.steps) == len(one.values) <= POINTS_MAX:
            return f"the metric {one.name[:80]!r} is not valid"
        if not all(map(isfinite, numbers)) or not all(0 <= step < 2**63 for step in steps):
            return f"a number of {one.name} is out of range"
    return None
