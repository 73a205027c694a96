"""`aliquot audit`: who did what, who held which device, and whether the record of it is whole."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from aliquot.cli.archives import ArchiveFolderOption, archive_path, seals_of, verified_archives, whole, words_of
from aliquot.cli.connection.options import AsJson
from aliquot.cli.connection.printing import print_json
from aliquot.cli.stopped_server import DatabaseUrl, Folder, telling, with_database

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from aliquot.service.auditing.ports import Change, Holding
    from aliquot.store.archive.verification import ArchivesVerified
    from aliquot.store.store import Database
    from aliquot.store.verification import Verified

audit: Final = typer.Typer(no_args_is_help=True, help="Who did what, and who held what.")

Moment = Annotated[str | None, typer.Option(help="ISO 8601, like 2026-03-01T12:00:00Z; without a zone it is UTC.")]


@audit.command("device")
def device(
    device_id: Annotated[str, typer.Argument(metavar="DEVICE", help="The device's id: a GPU's UUID.")],
    at: Moment = None,
    since: Moment = None,
    until: Moment = None,
    data_folder: Folder = None,
    database: DatabaseUrl = None,
    archive_folder: ArchiveFolderOption = None,
    as_json: AsJson = False,
) -> None:
    """Who held a device: at a moment, over a time, or, if none is named, now. What was archived is looked for too."""
    from aliquot.clock import SystemClock
    from aliquot.store.archive.past_holdings import archived, merged, seals_after
    from aliquot.store.audit.following import follow_all
    from aliquot.store.audit.holdings import held_between

    with telling():
        now_us = SystemClock().now_us()
        first_us = _us(at or since, otherwise=now_us)
        last_us = _us(at or until, otherwise=now_us)
        ask = partial(held_between, device_id=device_id, first_us=first_us, last_us=last_us)
        ask_past = partial(seals_after, first_us=first_us)
        found, told = with_database(_after(follow_all, ask, ask_past), data_folder=data_folder, database=database)
        if told:
            folder = archive_path(data_folder=data_folder, archive_folder=archive_folder)
            past = archived(told, folder=folder, device_id=device_id, first_us=first_us, last_us=last_us)
            found = merged(found, past)
    _show(found, as_json=as_json, line=_holding, nothing=f"nobody held {device_id}")


@audit.command("log")
def log(
    entity: Annotated[str | None, typer.Option(help="A session, lease, agent or quota, by its id.")] = None,
    actor: Annotated[str | None, typer.Option(help="A user, or system:PART.")] = None,
    kind: Annotated[str | None, typer.Option(help="session, lease, ..., or session.queued, ...")] = None,
    since: Moment = None,
    until: Moment = None,
    people: Annotated[bool, typer.Option("--people", help="Leave out what the server did by itself.")] = False,
    last: Annotated[int, typer.Option(min=1, help="So many, the newest.")] = 100,
    data_folder: Folder = None,
    database: DatabaseUrl = None,
    archive_folder: ArchiveFolderOption = None,
    as_json: AsJson = False,
) -> None:
    """Changes with actor, time, request, before and after; values of environments are not shown.

    What was archived is looked for too.
    """
    from aliquot.service.auditing.ports import AuditQuery
    from aliquot.service.ports import StoreUnavailable
    from aliquot.store.archive.past_changes import PastSearch

    with telling():
        query = AuditQuery(
            entity_id=entity,
            actor=actor,
            kind=kind,
            first_us=None if since is None else _us(since, otherwise=0),
            last_us=None if until is None else _us(until, otherwise=0),
            people_only=people,
            limit=last,
        )
        begun = partial(PastSearch, query=query)
        search = with_database(lambda opened: opened.read(begun), data_folder=data_folder, database=database)
        try:
            search.run(archive_path(data_folder=data_folder, archive_folder=archive_folder))
        except StoreUnavailable as error:
            print(error, file=sys.stderr)
    _show(search.account.changes(), as_json=as_json, line=_change, nothing="nothing of the kind happened")


@audit.command("verify")
def verify(
    data_folder: Folder = None,
    database: DatabaseUrl = None,
    archive_folder: ArchiveFolderOption = None,
    as_json: AsJson = False,
) -> None:
    """Check the hash chains of the event log and of the decision ledger, archives included, and who held what.

    The exit code is 1 when one is broken.
    """
    from aliquot.store.chain import ChainBroken

    try:
        found, seals = with_database(_verified, data_folder=data_folder, database=database)
    except ChainBroken as broken:
        _fail([str(broken)], as_json=as_json)
    with telling():
        folder = archive_path(data_folder=data_folder, archive_folder=archive_folder)
        archives = verified_archives(seals, folder=folder)
    if archives.faults:
        _fail(archives.faults, as_json=as_json)
    if as_json:
        archived = {name: count for name, count in asdict(archives).items() if name != "faults"}
        print_json({"faults": [], **asdict(found), "archives": archived})
    else:
        _tell_whole(found, archives)


async def _verified(opened: "Database") -> tuple["Verified", list["Row[Any]"]]:
    from aliquot.store.verification import verified

    return await opened.read(verified), await seals_of(opened)


def _fail(faults: Sequence[str], *, as_json: bool) -> NoReturn:
    if as_json:
        print_json({"faults": faults})
    else:
        print("\n".join(f"broken: {fault}" for fault in faults), file=sys.stderr)
    raise typer.Exit(1) from None


def _tell_whole(found: "Verified", archives: "ArchivesVerified") -> None:
    print(whole(found))
    if told := words_of(archives):
        print(f"whole: {told}")
    if found.unwritten:
        print(f"{found.unwritten} passes have events and no entry in the ledger: a server ended before it was written")


def _after(
    prepare: Callable[["Connection"], None], *asked: Callable[["Connection"], Any]
) -> Callable[["Database"], Any]:
    async def run(opened: "Database") -> Any:
        await opened.write(prepare)
        return [await opened.read(ask) for ask in asked]

    return run


def _us(text: str | None, *, otherwise: int) -> int:
    """Microseconds UTC."""
    if text is None:
        return otherwise
    moment = datetime.fromisoformat(text)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1e6)


def _show(found: Sequence[Any], *, as_json: bool, line: Callable[[Any], str], nothing: str) -> None:
    if as_json:
        print(json.dumps([asdict(one) for one in found]))
    else:
        print("\n".join(line(one) for one in found) or nothing)


def _holding(held: "Holding") -> str:
    until = "now" if held.ended_us is None else _text(held.ended_us)
    by = f"session {held.session_id}" if held.session_id is not None else held.kind
    granted = "" if held.pass_number is None else f", pass {held.pass_number}"
    if held.preempted_us is not None:
        granted += f", asked to make room {_text(held.preempted_us)} for {held.preempted_by}"
    return f"{_text(held.from_us)} .. {until}  {held.owner}  {by}  {held.amount} {held.slot}{granted}"


def _change(change: "Change") -> str:
    request = f" ({change.request_id})" if change.request_id else ""
    head = f"{change.number}  {_text(change.at_us)}  {change.actor}{request}  {change.kind}  {change.entity_id}"
    if change.before is None:
        return head
    return "\n".join([head, *(f"    {name}: {was} -> {change.after[name]}" for name, was in change.before.items())])


def _text(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1e6, tz=UTC).isoformat(timespec="milliseconds")
