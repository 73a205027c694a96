"""All subscriptions.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import Final

from aliquot.client.generated.audit import AuditChange
from aliquot.client.generated.queries_types import LogChunk, QueueUpdate
from aliquot.client.generated.subscriptions_types import DeviceUpdate, SessionUpdate
from aliquot.client.requests import Requests

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


class Subscriptions(Requests):
    """All subscriptions of the server."""

    def session_updates(self, id: str, *, after: int | None = None) -> AsyncGenerator[SessionUpdate, None]:
        """
        Follow one session: a snapshot unless `after` is given, then every change of it and of its kernels, in order,
        without gaps or repeats. The stream does not end with the session, because it may be retried.
        """
        return self._follow(SESSION_UPDATES, {"id": id, "after": after}, SessionUpdate)

    def device_updates(self, *, after: int | None = None) -> AsyncGenerator[DeviceUpdate, None]:
        """
        Follow all devices: a snapshot, then changes of holders, health and readings, at most four updates a second.
        With `after`, begins with the changes since then, or with a snapshot if these are unknown, for example after a
        restart of the server.
        """
        return self._follow(DEVICE_UPDATES, {"after": after}, DeviceUpdate)

    def event_log(
        self, *, after: int | None = None, kinds: Sequence[str] | None = None
    ) -> AsyncGenerator[AuditChange, None]:
        """
        Follow the event log: every event, in order, without gaps or repeats, in the form of `audit`. For operators.
        """
        return self._follow(EVENTS, {"after": after, "kinds": kinds}, AuditChange)

    def queue_updates(self, *, after: int | None = None) -> AsyncGenerator[QueueUpdate, None]:
        """
        Follow the queue: every change of any session, in order, without gaps or repeats. To mirror the queue, read
        `queue`, subscribe after its `revision`, keep each session while it is queued or held, and drop it otherwise.
        Positions are those of the last scheduling pass; query `queue` for current ones.
        """
        return self._follow(QUEUE_UPDATES, {"after": after}, QueueUpdate)

    def session_logs(
        self, id: str, *, rank: int = 0, attempt: int | None = None, offset: int = 0
    ) -> AsyncGenerator[LogChunk, None]:
        """Follow the output of one rank until it is complete. Waits for a session that has not started."""
        return self._follow(SESSION_LOGS, {"id": id, "rank": rank, "attempt": attempt, "offset": offset}, LogChunk)
