"""Documents of statements: CSV for spreadsheets, and HTML for people, without links to other places."""

import csv
import io
from collections.abc import Iterable, Iterator
from html import escape
from typing import Final

from aliquot_schema.billing import TimeKind
from aliquot_schema.resources.units import format_duration
from aliquot_schema.views.billing import StatementView

NAMES: Final = {
    TimeKind.USED: "used",
    TimeKind.IDLE: "idle",
    TimeKind.LOST_FAILURE: "lost to failures",
    TimeKind.LOST_PREEMPTION: "lost to preemption",
}
ETTR: Final = "not lost (ETTR)"
COLUMNS: Final = ("project", "month", "item", "amount", "unit")
_STYLE: Final = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a}"
    "table{border-collapse:collapse;width:100%;margin:1rem 0}"
    "th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #ccc}"
    "td.figure,th.figure{text-align:right;font-variant-numeric:tabular-nums}"
)


def csv_text(statement: StatementView) -> str:
    """One row per item; device time also exact, in thousandths of a device x milliseconds."""
    found = io.StringIO()
    writer = csv.writer(found, lineterminator="\n")
    writer.writerow(COLUMNS)
    for item, amount, unit in _items(statement):
        writer.writerow((_cell(statement.project), statement.month, item, amount, unit))
    return found.getvalue()


def _items(one: StatementView) -> Iterator[tuple[str, str, str]]:
    yield "held", f"{one.gpu_hours:.4f}", "GPU-hours"
    for line in one.lines:
        yield NAMES[line.kind], f"{line.gpu_hours:.4f}", "GPU-hours"
    yield "held", f"{one.held}", "device-milliseconds / 1000"
    for line in one.lines:
        yield NAMES[line.kind], f"{line.amount}", "device-milliseconds / 1000"
    yield ETTR, "" if one.ettr is None else f"{one.ettr:.6f}", "of the time held"
    yield "cost", f"{one.cost:.6f}", _cell(one.currency)
    yield "credited", f"{one.credited:.6f}", _cell(one.currency)
    if one.budget is not None:
        yield "budget", f"{one.budget:.6f}", _cell(one.currency)
    yield "still held", f"{one.open_gpu_hours:.4f}", "GPU-hours"
    yield "cost of what is still held", f"{one.open_cost:.6f}", _cell(one.currency)
    yield "share", f"{one.share:.6f}", "of all projects"
    yield "entitlement", f"{one.entitlement:.6f}", "of all projects"
    yield "sessions", f"{one.sessions}", ""
    yield "mean wait", "" if one.mean_wait is None else f"{one.mean_wait:.0f}", "seconds"
    yield "preemptions", f"{one.preemptions}", ""


def _cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def html_text(one: StatementView) -> str:
    """A page that can be printed or mailed."""
    title = f"Statement of project {one.project}, {one.month}"
    times = [("held", f"{one.gpu_hours:.2f}", "100.0 %")]
    times += [(NAMES[line.kind], f"{line.gpu_hours:.2f}", f"{100 * line.part:.1f} %") for line in one.lines]
    if one.ettr is not None:
        times.append((ETTR, "", f"{100 * one.ettr:.1f} %"))
    money = [("Cost", f"{one.cost:.2f} {one.currency}"), ("Credited", f"{one.credited:.2f} {one.currency}")]
    if one.budget is not None:
        money.append(("Budget", f"{one.budget:.2f} {one.currency}"))
    if one.open_gpu_hours:
        still = f"{one.open_gpu_hours:.2f} GPU-hours, {one.open_cost:.2f} {one.currency}"
        money.append(("Still held, entered at the release", still))
    wait = "" if one.mean_wait is None else format_duration(round(one.mean_wait))
    facts = [
        ("Share of what all projects held", f"{100 * one.share:.1f} %"),
        ("Entitlement", f"{100 * one.entitlement:.1f} %"),
        ("Sessions that ended", f"{one.sessions}"),
        ("Their mean wait", wait),
        ("Preemptions", f"{one.preemptions}"),
    ]
    behind = "".join(f"<li>{escape(text)}</li>" for text in one.behind)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>"
        f"{_table(('Device time', 'GPU-hours', 'Part'), times)}"
        f"{_table(('Money', ''), money)}{_table(('Share and waiting', ''), facts)}"
        f"<h2>Why was it behind?</h2><ul>{behind or '<li>Nothing was found that held it back.</li>'}</ul>"
        "<p>Months and times are UTC. The text of the event log makes the same numbers: "
        "<code>aliquot db check</code> compares them.</p></body></html>\n"
    )


def _table(names: Iterable[str], rows: Iterable[tuple[str, ...]]) -> str:
    first, *rest = names
    head = f"<th>{escape(first)}</th>" + "".join(f'<th class="figure">{escape(name)}</th>' for name in rest)
    body = "".join(
        f"<tr><th scope=row>{escape(row[0])}</th>"
        + "".join(f'<td class="figure">{escape(cell)}</td>' for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
