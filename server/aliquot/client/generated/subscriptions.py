"""Every subscription.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from collections.abc import AsyncGenerator
from typing import Final

from aliquot.client.asking import Asking
from aliquot.client.generated.queue import LogChunk, QueueUpdate

QUEUE_UPDATES: Final = """
subscription queue_updates($after: BigInt = null) { queue_updates(after: $after) {
...QueueUpdate } }"""
SESSION_LOGS: Final = """
subscription session_logs($id: ID!, $rank: Int! = 0, $attempt: Int = null, $offset:
BigInt! = 0) { session_logs(id: $id, rank: $rank, attempt: $attempt, offset: $offset) {
...LogChunk } }"""


class Subscriptions(Asking):
    """Every subscription of the server."""

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
