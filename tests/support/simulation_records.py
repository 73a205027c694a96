"""Checks of derived records against the log at the end of a run: ledger, hash chains, holdings."""

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection, select

from aliquot.service.ledger.replay import replay
from aliquot.store.audit.holdings import HOLDINGS, follow_all
from aliquot.store.integrity import verified
from aliquot.store.ledger.ledger import DatabaseLedger
from simulation_disk import Disk
from simulation_reference_model import ReferenceModel

T = TypeVar("T")


class _Direct:
    """Runs functions of a connection directly, outside of any simulated process."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    async def write(self, work: Callable[[Connection], T]) -> T:
        return self._disk.write(work)

    async def read(self, work: Callable[[Connection], T]) -> T:
        return self._disk.read(work)


async def check_records(disk: Disk, model: ReferenceModel) -> int:
    """Check that every pass in the ledger replays identically; returns their number."""
    runner = _Direct(disk)
    await runner.write(follow_all)
    disk.read(verified)
    disk.read(lambda connection: _check_holdings(connection, model))
    ledger = DatabaseLedger(runner)
    keys = await ledger.last(100_000)
    if not keys:
        return 0
    assert keys[0].has_checkpoint, f"the ledger begins with pass {keys[0].number}, which has no checkpoint"
    async for one in replay(ledger, first=keys[0].number, last=keys[-1].number):
        assert not one.differences, f"pass {one.entry.number} is decided in another way: {one.differences[0]}"
    return len(keys)


def _check_holdings(connection: Connection, model: ReferenceModel) -> None:
    """Compare the holdings table with the log."""
    columns = (HOLDINGS.c.lease_id, HOLDINGS.c.slot, HOLDINGS.c.device_id, HOLDINGS.c.amount)
    asked = select(*columns, HOLDINGS.c.from_us, HOLDINGS.c.ended_us)
    found = {tuple(row) for row in connection.execute(asked)}
    told = {
        (lease.id, slot, device_id, amount, lease.granted_us, lease.released_us)
        for lease in model.leases.values()
        for slot, amounts in lease.spec.items()
        for device_id, amount in amounts.items()
    }
    assert found == told, f"holdings differ from leases: {sorted(found ^ told, key=str)[:3]}"
