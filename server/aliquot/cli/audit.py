"""`aliquot audit`: the history of changes and of device holdings, and the verification of both."""

import json
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, NoReturn

import typer
from msgspec import to_builtins
from msgspec.structs import asdict

from aliquot.cli.archives import (
    ArchiveFolderOption,
    archive_path,
    archives_text,
    integrity_text,
    seals_of,
    verified_archives,
)
from aliquot.cli.connection.output import amount_text, print_json, printable
from aliquot.cli.connection.server import (
    REFUSED,
    AsJson,
    AtServer,
    InCluster,
    TokenFile,
    connected,
    fail,
    nodes,
    usage,
)
from aliquot.cli.db import DatabaseUrl, Folder, reported_errors, with_database

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from aliquot.client import BlockingClient
    from aliquot.client.generated.audit import AuditChange, DeviceHolding, RecordCheck
    from aliquot.service.audit.audit import Change, Holding
    from aliquot.store.integrity import VerifiedCounts
    from aliquot.store.store import Database


audit: Final = typer.Typer(no_args_is_help=True, help="Show past changes and device holdings, and verify the record.")

Moment = Annotated[
    str | None, typer.Option(metavar="TIME", help="ISO 8601, like 2026-03-01T12:00:00Z; UTC unless a zone is given.")
]


@audit.command("device")
def device(
    device_id: Annotated[str, typer.Argument(metavar="DEVICE", help="A GPU's UUID; NODE/GPU if a server answers.")],
    at: Moment = None,
    since: Moment = None,
    until: Moment = None,
    data_folder: Folder = None,
    database: DatabaseUrl = None,
    archive_folder: ArchiveFolderOption = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """List the holders of a device: at a moment, in a period, or now by default.

    Asks the running server. With --data-folder or --database, or if none runs, it reads the database. Archives are
    searched, too.
    """
    if at is not None and (since is not None or until is not None):
        usage("--at asks for one time, --since and --until for a period; give one of them")
    if _asks_server((cluster, server, token_file), data_folder=data_folder, database=database):
        period = None if since is None and until is None else (since, until)
        _device_of_server(device_id, at=at, period=period, place=(cluster, server, token_file), as_json=as_json)
        return
    from aliquot.clock import SystemClock
    from aliquot.store.archive.search import archived, merged, seals_after
    from aliquot.store.audit.holdings import follow_all, held_over

    with reported_errors():
        now_us = SystemClock().now_us()
        first_us = _us(at or since, option="--at" if at else "--since", otherwise=now_us if until is None else 0)
        last_us = _us(at or until, option="--at" if at else "--until", otherwise=now_us)
        query = partial(held_over, device_ids=[device_id], first_us=first_us, last_us=last_us)
        seals_query = partial(seals_after, first_us=first_us)
        work = _after(follow_all, query, seals_query)
        found, seals = with_database(work, data_folder=data_folder, database=database)
        if seals:
            folder = archive_path(data_folder=data_folder, archive_folder=archive_folder)
            past = archived(seals, folder=folder, device_id=device_id, first_us=first_us, last_us=last_us)
            found = merged(found, past)
    only_id = "; without a server, give the device's id" if "/" in device_id else ""
    _print(found, as_json=as_json, line=_holding, nothing=_not_held(device_id, at or since or until) + only_id)


@audit.command("log")
def log(
    entity: Annotated[
        str | None, typer.Option(metavar="ID", help="The id of a session, lease, agent or quota.")
    ] = None,
    actor: Annotated[str | None, typer.Option(help="A user, or system:PART.")] = None,
    kind: Annotated[str | None, typer.Option(help="Like session, lease, session.queued.")] = None,
    since: Moment = None,
    until: Moment = None,
    people: Annotated[bool, typer.Option("--people", help="Leave out changes made by the server itself.")] = False,
    last: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 100,
    data_folder: Folder = None,
    database: DatabaseUrl = None,
    archive_folder: ArchiveFolderOption = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """List changes with actor, time, request, and values before and after.

    Asks the running server. With --data-folder or --database, or if none runs, it reads the database, and searches
    archives too. Values of environment variables are not shown.
    """
    if _asks_server((cluster, server, token_file), data_folder=data_folder, database=database):
        wanted = _ChangeFilter(entity=entity, actor=actor, kind=kind, since=since, until=until, people=people)
        _log_of_server(wanted, last=last, place=(cluster, server, token_file), as_json=as_json)
        return
    from aliquot.service.audit.audit import AuditQuery
    from aliquot.service.ports import StoreUnavailable
    from aliquot.store.archive.search import PastSearch

    with reported_errors():
        query = AuditQuery(
            entity_id=entity,
            actor=actor,
            kind=kind,
            first_us=None if since is None else _us(since, option="--since", otherwise=0),
            last_us=None if until is None else _us(until, option="--until", otherwise=0),
            people_only=people,
            limit=last,
        )
        begun = partial(PastSearch, query=query)
        search = with_database(lambda opened: opened.read(begun), data_folder=data_folder, database=database)
        try:
            search.run(archive_path(data_folder=data_folder, archive_folder=archive_folder))
        except StoreUnavailable as error:
            print(error, file=sys.stderr)
    _print(search.account.changes(), as_json=as_json, line=_change, nothing="no change matches")


@audit.command("verify")
def verify(
    data_folder: Folder = None,
    database: DatabaseUrl = None,
    archive_folder: ArchiveFolderOption = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Verify the hash chains of the event log and the decision ledger, the archives, and the table of holdings.

    The exit code is 1 when something is broken. Asks the running server. With --data-folder or --database, or if none
    runs, it reads the database: a SQLite database while its server does not run, or a copy made by `aliquot db copy`.
    """
    if _asks_server((cluster, server, token_file), data_folder=data_folder, database=database):
        _verified_by_server((cluster, server, token_file), as_json=as_json)
        return
    from aliquot.store.hash_chain import ChainBroken

    try:
        found, seals = with_database(_verified, data_folder=data_folder, database=database)
    except ChainBroken as broken:
        _fail([str(broken)], as_json=as_json)
    with reported_errors():
        folder = archive_path(data_folder=data_folder, archive_folder=archive_folder)
        archives = verified_archives(seals, folder=folder)
    if archives.faults:
        _fail(archives.faults, as_json=as_json)
    if as_json:
        archived = {name: count for name, count in asdict(archives).items() if name != "faults"}
        print_json({"faults": [], **asdict(found), "archives": archived})
    else:
        links = {"rows": archives.rows, "links": archives.links}
        _print_intact(found, archives_text(files=archives.files, gone=archives.gone, **links))


class _ChangeFilter(NamedTuple):
    """A filter of changes, as written on the command line."""

    entity: str | None
    actor: str | None
    kind: str | None
    since: str | None
    until: str | None
    people: bool


Place = tuple[str | None, str | None, Path | None]
"""The options --cluster, --server and --token-file."""


def _asks_server(place: Place, *, data_folder: Path | None, database: str | None) -> bool:
    """Whether a server answers the question: one that is named, or else one that runs and accepts the token. One that
    does not accept it says so where there is no database here that could be read instead."""
    from aliquot.client import BlockingClient, ClientFailure, find_place
    from aliquot_schema.errors import Unauthenticated

    if data_folder is not None or database is not None:
        return False
    if any(option is not None for option in place):
        return True
    try:
        with BlockingClient.at(find_place()) as client:
            client.me()
    except Unauthenticated:
        return not _is_database_here()
    except ClientFailure:
        return False
    return True


def _is_database_here() -> bool:
    from aliquot.settings import read_settings
    from aliquot.store.open import sqlite_path

    with reported_errors():
        settings = read_settings()
        path = sqlite_path(settings.database or "", data_folder=settings.data_folder)
        return path is None or path.exists()
    raise AssertionError("reported_errors() swallowed an exception")


def _log_of_server(wanted: _ChangeFilter, *, last: int, place: Place, as_json: bool) -> None:
    from aliquot.client.generated.audit import AuditFilterInput

    query = AuditFilterInput(
        entity_id=wanted.entity,
        actor=wanted.actor,
        kind=wanted.kind,
        since=_moment(wanted.since, option="--since"),
        until=_moment(wanted.until, option="--until"),
        people_only=wanted.people,
    )
    cluster, server, token_file = place
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = list(nodes(lambda first, after: client.audit(filter=query, first=first, after=after), first=last))
    if as_json:
        print_json(found)
    else:
        print("\n".join(map(_told_change, found)) or "no change matches")


def _not_held(device_id: str, past: object) -> str:
    name = printable(device_id)
    return f"{name} was not held then" if past else f"{name} is not held now; --at and --since show past holders"


def _device_of_server(
    device_id: str, *, at: str | None, period: tuple[str | None, str | None] | None, place: Place, as_json: bool
) -> None:
    from aliquot.clock import SystemClock

    moment = _moment(at, option="--at") or datetime.fromtimestamp(SystemClock().now_us() / 1e6, UTC)
    since, until = period or (None, None)
    first, last = _moment(since, option="--since"), _moment(until, option="--until")
    cluster, server, token_file = place
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        known = _named_device(client, device_id)
        if period is None:
            found = list(client.held_by(known or device_id, at=moment))
        else:
            asked = partial(client.device_holdings, known or device_id, since=first, until=last)
            found = list(nodes(lambda size, after: asked(first=size, after=after)))[::-1]
    if not found and known is None:
        message = f"no agent has the device {printable(device_id)}, and no record has this id"
        fail(message, advice="give a device's id, or NODE/GPU like node1/cuda0", code=REFUSED)
    if as_json:
        print_json(found)
    else:
        print("\n".join(map(_told_holding, found)) or _not_held(device_id, at or period))


def _named_device(client: "BlockingClient", name: str) -> str | None:
    """The id of a device of an agent, from its id or `AGENT/DEVICE`; None if no agent has it."""
    for agent in nodes(lambda size, after: client.agents(first=size, after=after)):
        for device in agent.devices:
            if name in (device.id, f"{agent.id}/{device.name}", f"{agent.hostname}/{device.name}"):
                return str(device.id)
    return None


def _verified_by_server(place: Place, *, as_json: bool) -> None:
    cluster, server, token_file = place
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = client.record_check()
        while found.ended_at is None:
            found = client.record_check(since=found.started_at)
    if found.faults:
        _fail(found.faults, as_json=as_json)
    if as_json:
        print_json(found)
        return
    _print_intact(found, archives_text(files=found.archives, rows=found.archived_rows, gone=found.removed_rows))


def _moment(text: str | None, *, option: str) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        usage(f"{option} {text}: give a time like 2026-03-01T12:00:00Z")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _told_change(change: "AuditChange") -> str:
    actor = _actor(change.actor, change.api_key)
    fields = [f"{one.name}: {one.before} -> {one.after}" for one in change.fields if one.before is not None]
    facts = [one.after for one in change.fields if one.name == "facts" and change.kind.startswith("action.")]
    return _change_lines(change, at=_iso(change.at), actor=actor, details=[*fields, *facts])


def _change(change: "Change") -> str:
    actor = _actor(change.actor, change.key_id)
    fields = [f"{name}: {was} -> {change.after[name]}" for name, was in (change.before or {}).items()]
    facts = [json.dumps(change.after.get("facts"))] if change.kind.startswith("action.") else []
    return _change_lines(change, at=_text(change.at_us), actor=actor, details=[*fields, *facts])


def _change_lines(change: "AuditChange | Change", *, at: str, actor: str, details: Sequence[object]) -> str:
    request = f" ({change.request_id})" if change.request_id else ""
    head = f"{change.number}  {at}  {actor}{request}  {change.kind}  {change.entity_id}"
    return "\n".join(map(printable, (head, *(f"    {detail}" for detail in details))))


def _actor(name: str, key: str | None) -> str:
    return name if key is None else f"{name} via key {key}"


def _told_holding(held: "DeviceHolding") -> str:
    preempted = None if held.preempted_at is None else _iso(held.preempted_at)
    until = "now" if held.until is None else _iso(held.until)
    amount = amount_text(held.slot, held.amount)
    return _holding_line(held, period=(_iso(held.since), until), user=held.user, amount=amount, preempted=preempted)


def _holding(held: "Holding") -> str:
    from aliquot_schema.resources.slots import format_amount

    preempted = None if held.preempted_us is None else _text(held.preempted_us)
    until = "now" if held.ended_us is None else _text(held.ended_us)
    amount = amount_text(held.slot, format_amount(held.slot, held.amount))
    return _holding_line(held, period=(_text(held.from_us), until), user=held.owner, amount=amount, preempted=preempted)


def _holding_line(
    held: "DeviceHolding | Holding", *, period: tuple[str, str], user: str, amount: str, preempted: str | None
) -> str:
    by = f"session {held.session_id}" if held.session_id is not None else held.kind
    granted = "" if held.pass_number is None else f", pass {held.pass_number}"
    if preempted is not None:
        granted += f", preempted {preempted} for {held.preempted_by}"
    return printable(f"{' .. '.join(period)}  {user}  {by}  {amount}{granted}")


async def _verified(opened: "Database") -> tuple["VerifiedCounts", list["Row[Any]"]]:
    from aliquot.store.integrity import verified

    return await opened.read(verified), await seals_of(opened)


def _fail(faults: Sequence[str], *, as_json: bool) -> NoReturn:
    if as_json:
        print_json({"faults": faults})
    else:
        print("\n".join(f"broken: {fault}" for fault in faults), file=sys.stderr)
    raise typer.Exit(1) from None


def _print_intact(found: "VerifiedCounts | RecordCheck", archives: str) -> None:
    print(integrity_text(found))
    if archives:
        print(f"intact: {archives}")
    if found.unwritten:
        print(f"{found.unwritten} passes have events but no ledger entry: a server ended before it wrote them")


def _after(
    prepare: Callable[["Connection"], None], *queries: Callable[["Connection"], Any]
) -> Callable[["Database"], Any]:
    async def run(opened: "Database") -> Any:
        await opened.write(prepare)
        return [await opened.read(query) for query in queries]

    return run


def _us(text: str | None, *, option: str, otherwise: int) -> int:
    """Microseconds since the epoch."""
    moment = _moment(text, option=option)
    return otherwise if moment is None else round(moment.timestamp() * 1e6)


def _print(found: Sequence[Any], *, as_json: bool, line: Callable[[Any], str], nothing: str) -> None:
    if as_json:
        print(json.dumps([to_builtins(one) for one in found]))
    else:
        print("\n".join(line(one) for one in found) or nothing)


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds")


def _text(at_us: int) -> str:
    return _iso(datetime.fromtimestamp(at_us / 1e6, tz=UTC))
