"""Every subscription.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import Final

from aliquot.client.asking import Asking
from aliquot.client.generated.audit import AuditChange
from aliquot.client.generated.live import DeviceUpdate, SessionUpdate
from aliquot.client.generated.queue import LogChunk, QueueUpdate

SESSION_UPDATES: Final = """
subscription session_updates($id: ID!, $after: BigInt = null) { session_updates(id: $id,
after: $after) { ...SessionUpdate } }"""
DEVICE_UPDATES: Final = """
subscription device_updates($after: BigInt = null) { device_updates(after: $after) {
...DeviceUpdate } }"""
EVENTS: Final = """
subscription events($after: BigInt = null, $kinds: [String!] = null) { events(after:
$after, kinds: $kinds) { ...AuditChange } }"""
QUEUE_UPDATES: Final = """
subscription queue_updates($after: BigInt = null) { queue_updates(after: $after) {
...QueueUpdate } }"""
SESSION_LOGS: Final = """
subscription session_logs($id: ID!, $rank: Int! = 0, $attempt: Int = null, $offset:
BigInt! = 0) { session_logs(id: $id, rank: $rank, attempt: $attempt, offset: $offset) {
...LogChunk } }"""


class Subscriptions(Asking):
    """Every subscription of the server."""

    def session_updates(self, id: str, *, after: int | None = None) -> AsyncGenerator[SessionUpdate, None]:
        """
        One session: first how it stands, unless `after` is given, then every committed change of it and of its kernels,
        in order, without gaps or repeats. It does not end with the session, which may be run again.
        """
        return self._follow(SESSION_UPDATES, {"id": id, "after": after}, SessionUpdate)

    def device_updates(self, *, after: int | None = None) -> AsyncGenerator[DeviceUpdate, None]:
        """
        All devices: first how they stand, then what changes: who holds what of them, and what was measured. At most
        four updates a second. Where it is not known any more what changed since `after`, as when the server was started
        again, it begins with how they stand.
        """
        return self._follow(DEVICE_UPDATES, {"after": after}, DeviceUpdate)

    def event_log(
        self, *, after: int | None = None, kinds: Sequence[str] | None = None
    ) -> AsyncGenerator[AuditChange, None]:
        """Every event of the log, in order, without gaps or repeats, told as `audit` tells it. For operators."""
        return self._follow(EVENTS, {"after": after, "kinds": kinds}, AuditChange)

    def queue_updates(self, *, after: int | None = None) -> AsyncGenerator[QueueUpdate, None]:
        """
        Every committed change of a session, in order, without gaps or repeats: the deltas of the queue. Read `queue` at
        its `revision` and follow from there; whoever keeps each session while it is queued or held, and drops it when
        it is not, has what `queue` has at the same revision. Places in line are of the last pass; ask for them.
        """
        return self._follow(QUEUE_UPDATES, {"after": after}, QueueUpdate)

    def session_logs(
        self, id: str, *, rank: int = 0, attempt: int | None = None, offset: int = 0
    ) -> AsyncGenerator[LogChunk, None]:
        """The output of one rank, followed until its end. A session that waits is waited for."""
        return self._follow(SESSION_LOGS, {"id": id, "rank": rank, "attempt": attempt, "offset": offset}, LogChunk)
