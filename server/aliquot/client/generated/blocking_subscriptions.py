"""Every subscription, waited for.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from collections.abc import Generator

from aliquot.client.blocking_calls import BlockingCalls
from aliquot.client.generated.queue import LogChunk, QueueUpdate
from aliquot.client.generated.subscriptions import Subscriptions


class BlockingSubscriptions(BlockingCalls):
    """Every subscription of the server, waited for."""

    _client: Subscriptions

    def queue_updates(self, *, after: int | None = None) -> Generator[QueueUpdate, None, None]:
        """
        Every committed change of a session, in order, without gaps or repeats: the deltas of the queue. Read `queue` at
        its `revision` and follow from there; whoever keeps each session while it is queued or held, and drops it when
        it is not, has what `queue` has at the same revision. Places in line are of the last pass; ask for them.
        """
        return self._each(self._client.queue_updates(after=after))

    def session_logs(
        self, id: str, *, rank: int = 0, attempt: int | None = None, offset: int = 0
    ) -> Generator[LogChunk, None, None]:
        """The output of one rank, followed until its end. A session that waits is waited for."""
        return self._each(self._client.session_logs(id, rank=rank, attempt=attempt, offset=offset))
