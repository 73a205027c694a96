"""`aliquot replay`: repeats past scheduling passes from the records, and reports different decisions."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aliquot.cli.connection.server import AsJson
from aliquot.cli.db import DatabaseUrl, Folder, reported_errors, with_database

if TYPE_CHECKING:
    from aliquot.core.model.policy import Policy
    from aliquot.service.ledger.replay import Replayed
    from aliquot.store.store import Database


DIFFERENCES_SHOWN = 50


def replay(
    pass_number: Annotated[int | None, typer.Argument(metavar="PASS", help="The number of one pass.")] = None,
    last: Annotated[int | None, typer.Option(min=1, help="The newest N passes of the ledger.")] = None,
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Decide by this policy, in YAML, instead of the original one.")
    ] = None,
    data_folder: Folder = None,
    database: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Repeat scheduling passes from the event log and the decision ledger, and print decisions that differ.

    The exit code is 1 when there are differences. The version of Aliquot that decided the passes finds none; another
    version may.
    """
    if (pass_number is None) == (last is None):
        print("give either the number of a pass, or --last N", file=sys.stderr)
        raise typer.Exit(2)
    with reported_errors():
        rules = _policy(policy)
        found = with_database(
            lambda opened: _replayed(opened, pass_number, last=last or 0, policy=rules),
            data_folder=data_folder,
            database=database,
        )
    differing = sum(bool(one.differences) for one in found)
    print(json.dumps([_plain(one) for one in found])) if as_json else _print(found)
    if differing:
        raise typer.Exit(1)


async def _replayed(
    opened: "Database", pass_number: int | None, *, last: int, policy: "Policy | None"
) -> list["Replayed"]:
    from aliquot.service.ledger.replay import replay as replayed
    from aliquot.store.ledger.ledger import DatabaseLedger
    from aliquot_schema.errors import NotFound

    ledger = DatabaseLedger(opened)
    keys = await ledger.last(last) if pass_number is None else ()
    if pass_number is None and not keys:
        raise NotFound("the ledger is empty", kind="pass", id="")
    first = keys[0].number if pass_number is None else pass_number
    final = keys[-1].number if pass_number is None else pass_number
    return [one async for one in replayed(ledger, first=first, last=final, policy=policy)]


def _policy(path: Path | None) -> "Policy | None":
    from aliquot.cli.simulation.rows import read_policy

    return None if path is None else read_policy(path)


def _print(found: list["Replayed"]) -> None:
    from aliquot.service.ledger.entries import code_version

    differences = [difference for one in found for difference in one.differences]
    for difference in differences[:DIFFERENCES_SHOWN]:
        print(f"pass {difference.pass_number} {difference.what} {difference.of}")
        print(f"  was {difference.was}")
        print(f"  now {difference.now}")
    if len(differences) > DIFFERENCES_SHOWN:
        print(f"and {len(differences) - DIFFERENCES_SHOWN} more")
    placed = sum(one.placements for one in found)
    print(f"{len(found)} passes, {placed} placements, {len(differences)} differences")
    older = [one.entry.code_version for one in found if one.entry.code_version != code_version()]
    if older:
        print(
            f"the code has changed: {len(older)} of these passes were decided by another version of Aliquot, "
            f"{', '.join(sorted(set(older)))}, and this is {code_version()}; differences may come from that",
            file=sys.stderr,
        )
    if lost := sum(one.entry.lost for one in found):
        print(f"{lost} passes before these are missing in the ledger", file=sys.stderr)


def _plain(one: "Replayed") -> dict[str, object]:
    return {
        "pass": one.entry.number,
        "event": one.entry.revision,
        "now_us": one.entry.now_us,
        "code_version": one.entry.code_version,
        "placements": one.placements,
        "waiting": one.waiting,
        "lost_before": one.entry.lost,
        "differences": [
            {
                "what": difference.what,
                "of": difference.of,
                "was": _jsonable(difference.was),
                "now": _jsonable(difference.now),
            }
            for difference in one.differences
        ],
    }


def _jsonable(value: object) -> object:
    """A recorded value as the database stores it."""
    from aliquot.store.mapping import ENCODER

    return json.loads(ENCODER.encode(value))
