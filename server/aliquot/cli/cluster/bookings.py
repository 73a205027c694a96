"""`aliquot reserve` and `aliquot reservations`: GPUs booked for a window of time, and nodes for maintenance."""

import os
import re
import time
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer import Argument, Option

from aliquot.cli.cluster.agents import all_agents, closed_for
from aliquot.cli.cluster.booking_texts import described, local_text, what
from aliquot.cli.connection.output import cells, print_json, print_result, printable, show_table, table
from aliquot.cli.connection.server import AsJson, AtServer, InCluster, TokenFile, connected, usage
from aliquot.cli.session.options import Pool, Project, seconds_of

if TYPE_CHECKING:
    from aliquot.client import BlockingClient
    from aliquot.client.generated.bookings import Booking

_CLOCK: Final = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
DAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
TIMES: Final = "now, 14:00, +2h, 2026-12-24, '2026-12-24 09:00' or with a zone"


def moment_of(text: str, *, option: str, now: datetime, after: datetime | None = None) -> datetime:
    """A time as people write it, aware; without a zone it is local.

    Args:
        after: a time of day without a date is the next one after this; None = after `now`.
    Raises:
        typer.Exit: it is no time.
    """
    if text == "now":
        return now
    if text.startswith("+"):
        return (after or now) + timedelta(seconds=seconds_of(text[1:], option=option) or 0)
    if (clock := _CLOCK.fullmatch(text)) is not None:
        since = (after or now).astimezone().replace(tzinfo=None)  # clocks may change until then
        found = since.replace(hour=int(clock[1]), minute=int(clock[2]), second=0, microsecond=0)
        return (found if found > since else found + timedelta(days=1)).astimezone()
    try:
        found = datetime.fromisoformat(text)
        return found if found.tzinfo is not None else found.astimezone()
    except (ValueError, OverflowError):
        usage(f"{option} {text}: write it like {TIMES}")


BookingName = Annotated[str, Argument(metavar="NAME", help="The booking's name or id.")]
NewName = Annotated[str, Argument(metavar="NAME", help="A name; sessions are submitted into the booking by it.")]
From = Annotated[str, Option("--from", metavar="TIME", help=f"Start: {TIMES}.")]
To = Annotated[str | None, Option("--to", metavar="TIME", help="End, as --from; a time of day is the next one.")]
For = Annotated[str | None, Option("--for", metavar="DURATION", help="Length instead of an end, like 3h or 2d.")]
Gpus = Annotated[int | None, Option(min=1, help="Number of whole GPUs; default: 1, or as many as are named.")]
Models = Annotated[
    list[str] | None, Option("--model", metavar="PATTERN", help="Only GPUs of this model, like '*H100*'.")
]
Devices = Annotated[list[str] | None, Option("--device", metavar="NODE/GPU", help="This GPU, like node1/cuda0.")]
Nodes = Annotated[list[str] | None, Option("--node", metavar="NODE", help="Maintenance of this node; for operators.")]
Every = Annotated[
    str | None, Option(metavar="day|week|DAYS", help="Repeat it each day, each week, or on days like mon,wed,fri.")
]
Until = Annotated[str | None, Option("--until", metavar="DATE", help="Last day of a repeated one, like 2027-03-01.")]
NoShow = Annotated[str | None, Option(metavar="DURATION", help="Released if no session uses it by then; default: 30m.")]


def reserve(
    name: NewName,
    starts: From = "now",
    ends: To = None,
    lasts: For = None,
    gpus: Gpus = None,
    model: Models = None,
    device: Devices = None,
    node: Nodes = None,
    every: Every = None,
    until: Until = None,
    no_show_after: NoShow = None,
    project: Project = None,
    pool: Pool = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Book GPUs for a window of time, or nodes for maintenance. They are kept free, or the booking is refused.

    Submit sessions into it with `aliquot session create --booking NAME`.
    """
    from aliquot.client.generated.bookings import ReserveInput

    if (ends is None) == (lasts is None):
        usage("give the end of the window with --to, or its length with --for")
    now = _now()
    starts_at = moment_of(starts, option="--from", now=now)
    end = ends if ends is not None else f"+{lasts}"
    wanted = ReserveInput(
        name=name,
        starts_at=starts_at,
        ends_at=moment_of(end, option="--to" if ends else "--for", now=now, after=starts_at),
        gpus=gpus,
        models=model,
        devices=device,
        nodes=node,
        project=project,
        pool=pool,
        no_show_after=seconds_of(no_show_after, option="--no-show-after"),
        repeats=rule_of(every, until),
        time_zone=local_zone(),
    )
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        done = client.reserve(wanted)
    found = sorted((done.booking, *done.others), key=lambda one: one.starts_at)
    lines = [
        f"refused {printable(one.name)}: {printable(one.refusal)}" if one.refusal else f"booked {described(one)}"
        for one in found
    ]
    print_result(done, text="\n".join(lines), as_json=as_json)


reservations: Final = typer.Typer(invoke_without_command=True, help="Show, extend and give back bookings.")


@reservations.callback()
def list_bookings(
    ctx: typer.Context,
    ended: Annotated[bool, Option("--all", help="Also those that are over or were refused.")] = False,
    owner: Annotated[str | None, Option("--user", help="Only bookings of this user.")] = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Without a command: list the bookings, the earliest first."""
    if ctx.invoked_subcommand is not None:
        return
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = client.reservations(owner=owner, ended=ended)
        agents = [] if as_json or not found else all_agents(client)
    if as_json:
        print_json(found)
    elif not found:
        kind = "bookings" if ended else "open bookings"
        none = f"there are no {kind}" if owner is None else f"{printable(owner)} has no {kind}"
        print(f"{none}; `aliquot reserve NAME --from 14:00 --for 2h --gpus 2` makes one")
    else:
        rows = table("name", "user", "from", "to", "what", "state", "sessions")
        for one in found:
            state = "active" if one.is_active else str(one.state).replace("_", " ")
            if (closed := closed_for(one, agents)) is not None:
                state = f"{state}; {closed}"
            times = local_text(one.starts_at), local_text(one.ends_at)
            rows.add_row(*cells(one.name, one.owner, *times, what(one), state, ", ".join(one.sessions)))
        show_table(rows)


@reservations.command("extend")
def extend(
    name: BookingName,
    end: Annotated[str, Argument(metavar="TIME", help=f"New end: {TIMES}; +2h counts from the present end.")],
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Move the end of a booking. A later end is granted if its GPUs are free until then."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        present, now = _present(client, name), _now()
        after = None
        if present is not None:
            after = present.ends_at if end.startswith("+") else max(present.starts_at, now)
        done = client.extend_reservation(name, ends_at=moment_of(end, option="TIME", now=now, after=after))
    print_result(done, text=f"booked {described(done.booking)}", as_json=as_json)


def _present(client: "BlockingClient", name: str) -> "Booking | None":
    """The booking of this id, else the caller's own of this name, else the only one of this name."""
    found = [one for one in client.reservations() if name in (one.name, one.id)]
    caller = client.me().name
    ranked = sorted(found, key=lambda one: (one.id != name, one.owner != caller))
    is_clear = len(found) == 1 or (ranked and (ranked[0].id == name or ranked[0].owner == caller))
    return ranked[0] if is_clear else None


@reservations.command("give-back")
def give_back(
    name: BookingName,
    series: Annotated[bool, Option("--series", help="Also all later ones of the same repeated booking.")] = False,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Cancel a booking, or give back the rest of one that has begun."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        done = client.give_back_reservation(name, series=series)
    lines = [f"{printable(one.name)}: {str(one.state).replace('_', ' ')}" for one in (done.booking, *done.others)]
    print_result(done, text="\n".join(lines), as_json=as_json)


@reservations.command("import")
def import_file(
    file: Annotated[Path, Argument(metavar="FILE", help="A spreadsheet (.csv, .tsv, .xlsx) or a calendar (.ics).")],
    dry_run: Annotated[bool, Option("--dry-run", help="Only show what would become of each row.")] = False,
    project: Project = None,
    pool: Pool = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Book the rows of a spreadsheet or a calendar. Rows that cannot be booked are listed with the reason.

    The first line of a spreadsheet names the columns: start and end, and if you like date, name, user, gpus, model,
    device, project and pool. A row that is booked already is left alone. Exits with 1 if a row is wrong or refused.
    """
    from aliquot.client.generated.bookings import ImportReservationsInput

    try:
        content = b64encode(file.read_bytes()).decode()
    except OSError as error:
        usage(f"{file}: {error.strerror}")
    asked = ImportReservationsInput(
        file_name=file.name, content=content, time_zone=local_zone(), project=project, pool=pool, dry_run=dry_run
    )
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        done = client.import_reservations(asked)
    bad = sum(one.state in ("wrong", "refused") for one in done.rows)
    if as_json:
        print_json(done)
    else:
        rows = table("row", "user", "name", "from", "to", "gpus", "result")
        for one in done.rows:
            times = ("-" if at is None else local_text(at) for at in (one.starts_at, one.ends_at))
            result = f"{one.state}: {one.message}" if one.message else str(one.state)
            rows.add_row(*cells(str(one.row), one.owner or "-", one.name or "-", *times, str(one.gpus or "-"), result))
        show_table(rows)
        good = len(done.rows) - bad
        print(f"{good} of {len(done.rows)} rows {'can be' if dry_run else 'are'} booked", flush=True)
    if bad:
        raise typer.Exit(1)


def rule_of(every: str | None, until: str | None) -> str | None:
    """The recurrence rule of `--every` and `--until`; None without them.

    Raises:
        typer.Exit: one is wrong, or only one is given.
    """
    if every is None and until is None:
        return None
    if every is None or until is None:
        usage("give --every and --until together")
    last = until.replace("-", "")
    if re.fullmatch(r"\d{8}", last) is None:
        usage(f"--until {until}: write it like 2027-03-01")
    if every in ("day", "week"):
        return f"FREQ={'DAILY' if every == 'day' else 'WEEKLY'};UNTIL={last}"
    days = [name.strip()[:2].upper() for name in every.split(",")]
    if not all(name in DAYS for name in days):
        usage(f"--every {every}: write day, week, or days like mon,wed,fri")
    return f"FREQ=WEEKLY;BYDAY={','.join(days)};UNTIL={last}"


def local_zone() -> str | None:
    """The name of the machine's time zone; None if it cannot be told, which means UTC."""
    name = os.environ.get("TZ", "").lstrip(":")
    if not name or name.startswith("/"):
        name = os.path.realpath(name or "/etc/localtime").partition("/zoneinfo/")[2]
    return name or None


def _now() -> datetime:
    return datetime.fromtimestamp(time.time(), UTC).astimezone()
