"""`aliquot report`: who uses which GPU now, and the GPU-hours of a week by person; as text or HTML."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from typer import Option

from aliquot.cli.connection.output import cells, print_json, printable, show_table, table
from aliquot.cli.connection.server import AsJson, AtServer, InCluster, TokenFile, connected, usage
from aliquot_schema.resources.units import percent_text

if TYPE_CHECKING:
    from aliquot.client.generated.observation import ObservedGpu, ObservedWeek

STYLE: Final = """body{font:15px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #ccc}
td.n{text-align:right}.bar{background:#dde3ee;height:.7rem}.bar i{display:block;height:100%;background:#3563b8}"""


def report(
    week: Annotated[str | None, Option(metavar="WEEK", help="An ISO week like 2026-W48; default: this week.")] = None,
    html: Annotated[Path | None, Option(metavar="FILE", help="Write the report as one HTML page.")] = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show who uses which GPU now, and the GPU-hours of a week by person, whoever started the processes.

    A server in the mode observe or advise records the hours (`aliquot serve --observe`).
    """
    if html is not None and as_json:
        usage("give either --html or --json")
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        gpus, found = client.observed_gpus(), client.observed_week(week=week)
    if html is not None:
        try:
            html.write_text(page(gpus, found), encoding="utf-8")
        except OSError as error:
            usage(f"{html}: {error.strerror}")
        print(f"wrote {html}")
    elif as_json:
        print_json({"gpus": gpus, "week": found})
    else:
        _print(gpus, found, asked=week)


def _print(gpus: "Sequence[ObservedGpu]", week: "ObservedWeek | None", *, asked: str | None) -> None:
    rows = table("node", "gpu", "model", "use", "who")
    for one in gpus:
        rows.add_row(*cells(one.hostname, one.name, one.model, _use(one), _who(one)))
    show_table(rows)
    if week is None:
        which = "this week are recorded yet" if asked is None else f"week {asked} were recorded"
        print(f"no hours of {which}; `aliquot serve --observe` records them from its start on")
        return
    taken = f"{week.used_hours:.1f} of {week.gpu_hours:.1f} GPU-hours taken"
    print(f"\nweek {week.week}: {taken}, {week.idle_hours:.1f} unused")
    people = table("user", "gpu-hours", "unused", "equal part")
    for person in week.people:
        hours = (f"{hours:.1f}" for hours in (person.gpu_hours, person.idle_hours, person.fair_hours))
        people.add_row(*cells(person.user, *hours))
    show_table(people)
    if week.would_lose:
        print(f"would lose their unused GPUs: {', '.join(week.would_lose)}")


def _use(gpu: "ObservedGpu") -> str:
    return "-" if gpu.utilization_pct is None else percent_text(gpu.utilization_pct)


def _who(gpu: "ObservedGpu") -> str:
    found = [
        f"{printable(one.user)} ({one.processes} {'process' if one.processes == 1 else 'processes'})"
        if one.processes
        else printable(one.user)
        for one in gpu.people
    ]
    return ", ".join(found) or "free"


def page(gpus: "Sequence[ObservedGpu]", week: "ObservedWeek | None") -> str:
    """The report as one HTML page without scripts and without anything loaded from elsewhere."""
    parts = [f"<!doctype html><html lang=en><meta charset=utf-8><title>GPU report</title><style>{STYLE}</style>"]
    if week is not None:
        parts += [f"<h1>GPUs in week {escape(week.week)}</h1>", _summary(week), _people(week)]
        if week.would_lose:
            parts.append(f"<p>Would lose their unused GPUs: {escape(', '.join(week.would_lose))}.</p>")
    parts.append("<h2>Now</h2><table><tr><th>Node<th>GPU<th>Model<th>Use<th>Who</tr>")
    for one in gpus:
        values = (one.hostname, one.name, one.model, _use(one), _who(one))
        parts.append(f"<tr>{''.join(f'<td>{escape(value)}' for value in values)}</tr>")
    return "\n".join([*parts, "</table></html>", ""])


def _summary(week: "ObservedWeek") -> str:
    taken = 100 * week.used_hours / week.gpu_hours if week.gpu_hours else 0
    idle = 100 * week.idle_hours / week.used_hours if week.used_hours else 0
    return (
        f"<p>{week.used_hours:.1f} of {week.gpu_hours:.1f} GPU-hours were taken ({percent_text(taken)}). "
        f"{week.idle_hours:.1f} of them ({percent_text(idle)}) were not used. The server counts while it runs.</p>"
    )


def _people(week: "ObservedWeek") -> str:
    most = max((one.gpu_hours for one in week.people), default=1) or 1
    rows = [
        f"<tr><td>{escape(one.user)}<td class=n>{one.gpu_hours:.1f}<td class=n>{one.idle_hours:.1f}"
        f"<td class=n>{one.fair_hours:.1f}<td style='width:30%'><div class=bar>"
        f"<i style='width:{100 * one.gpu_hours / most:.0f}%'></i></div></tr>"
        for one in week.people
    ]
    head = "<tr><th>Who<th>GPU-hours<th>Unused<th>Equal part<th></tr>"
    return f"<table>{head}{''.join(rows)}</table>"
