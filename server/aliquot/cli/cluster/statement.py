"""`aliquot statement` and `shares`: monthly statements of projects, and the fair shares of users."""

from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from aliquot.cli.connection.output import duration, moment, print_json, printable
from aliquot.cli.connection.server import AsJson, AtServer, InCluster, TokenFile, connected, usage
from aliquot.cli.connection.tables import Column, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aliquot.client.generated.billing import FairShare, Statement

Project = Annotated[str | None, Argument(metavar="[PROJECT]", help="The project; none = one line for each.")]
Month = Annotated[str | None, Option(metavar="YYYY-MM", help="The month, UTC; the present one without it.")]


def statement(
    project: Project = None,
    month: Month = None,
    as_csv: Annotated[bool, Option("--csv", help="Print it as CSV.")] = False,
    as_html: Annotated[bool, Option("--html", help="Print it as a page.")] = False,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show what projects held in a month, what became of it, and its price. Needs prices in the policy."""
    from aliquot.client.generated.enums import DocumentFormat

    if (as_csv or as_html) and project is None:
        usage("--csv and --html print the statement of one project; name it")
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        if project is None:
            _print_all(client.statements(month=month), as_json=as_json)
        elif as_csv or as_html:
            chosen = DocumentFormat.CSV if as_csv else DocumentFormat.HTML
            print(client.statement_document(project=project, format=chosen, month=month), end="")
        else:
            found = client.statement(project=project, month=month)
            print_json(found) if as_json else print("\n".join(statement_lines(found)))


def statement_lines(found: "Statement") -> "Iterator[str]":
    """A statement line by line; the reasons for waiting last."""
    unit = printable(found.currency)
    yield f"{'project':<20} {printable(found.project)}, {found.month}"
    yield f"{'held':<20} {found.gpu_hours:.2f} GPU-hours"
    for line in found.lines:
        yield f"  {line.kind.replace('lost_', 'lost to '):<18} {line.gpu_hours:.2f} ({100 * line.part:.1f} %)"
    if found.ettr is not None:
        yield f"{'ETTR':<20} {100 * found.ettr:.1f} % of the held time was not lost"
    yield f"{'cost':<20} {found.cost:.2f} {unit}"
    if found.credited:
        yield f"{'credited':<20} {found.credited:.2f} {unit}"
    if found.budget is not None:
        yield f"{'budget':<20} {found.budget:.2f} {unit}"
    if found.open_gpu_hours:
        yield f"{'still held':<20} {found.open_gpu_hours:.2f} GPU-hours, {found.open_cost:.2f} {unit}"
    yield f"{'share':<20} {100 * found.share:.1f} %, entitled to {100 * found.entitlement:.1f} %"
    if found.mean_wait is not None:
        yield f"{'sessions':<20} {found.sessions}, which waited {duration(found.mean_wait)} on average"
    for text in found.behind:
        yield f"- {printable(text)}"


def _print_all(found: "tuple[Statement, ...]", *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    if not found:
        print("there are no statements for this month; `aliquot policy set prices.rates=...` sets prices")
        return
    numbers = ("GPU-hours", "idle", "lost", "cost", "share", "entitled to")
    rows = Table(Column("project", width_min=12), *(Column(name, is_number=True) for name in numbers))
    for one in found:
        hours = {str(line.kind): line.gpu_hours for line in one.lines}
        lost = hours["lost_failure"] + hours["lost_preemption"]
        money = f"{one.cost:.2f} {one.currency}"
        figures = (f"{one.gpu_hours:.2f}", f"{hours['idle']:.2f}", f"{lost:.2f}", money)
        rows.add(one.project, *figures, f"{100 * one.share:.1f} %", f"{100 * one.entitlement:.1f} %")
    rows.show()


def shares(
    user: Annotated[str | None, Option(help="Only this user.")] = None,
    project: Annotated[str | None, Option(help="Only this project.")] = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the fair share of each user, their entitlement, and what would move them up."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = client.fair_shares(user=user, project=project)
    if as_json:
        print_json(found)
    elif not found:
        print("nothing has been used yet, and nothing waits")
    else:
        _shares_table(found)


def _shares_table(found: "tuple[FairShare, ...]") -> None:
    numbers = ("share", "entitled to", "decayed GPU-hours", "GPUs now")
    rows = Table(
        Column("project", width_min=12),
        Column("user", width_min=8),
        *(Column(name, is_number=True) for name in numbers),
        Column("at its share", importance=50),
    )
    for one in found:
        reached = "" if one.at_entitlement_at is None else moment(one.at_entitlement_at)
        figures = (
            f"{100 * one.share:.1f} %",
            f"{100 * one.entitlement:.1f} %",
            f"{one.gpu_hours_decayed:.2f}",
            f"{one.gpus_held:g}",
        )
        rows.add(one.project, one.user, *figures, reached)
    rows.show()
    for one in found:
        print(f"{printable(one.user)} in {printable(one.project)}: {printable(one.advice)}")
