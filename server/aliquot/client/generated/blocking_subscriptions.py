"""Every subscription, waited for.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from collections.abc import Generator, Sequence

from aliquot.client.blocking_calls import BlockingCalls
from aliquot.client.generated.audit import AuditChange
from aliquot.client.generated.live import DeviceUpdate, SessionUpdate
from aliquot.client.generated.queue import LogChunk, QueueUpdate
from aliquot.client.generated.subscriptions import Subscriptions


class BlockingSubscriptions(BlockingCalls):
    """Every subscription of the server, waited for."""

    _client: Subscriptions

    def session_updates(self, id: str, *, after: int | None = None) -> Generator[SessionUpdate, None, None]:
        """
        One session: first how it stands, unless `after` is given, then every committed change of it and of its kernels,
        in order, without gaps or repeats. It does not end with the session, which may be run again.
        """
        return self._each(self._client.session_updates(id, after=after))

    def device_updates(self, *, after: int | None = None) -> Generator[DeviceUpdate, None, None]:
        """
        All devices: first how they stand, then what changes: who holds what of them, and what was measured. At most
        four updates a second. Where it is not known any more what changed since `after`, as when the server was started
        again, it begins with how they stand.
        """
        return self._each(self._client.device_updates(after=after))

    def event_log(
        self, *, after: int | None = None, kinds: Sequence[str] | None = None
    ) -> Generator[AuditChange, None, None]:
        """Every event of the log, in order, without gaps or repeats, told as `audit` tells it. For operators."""
        return self._each(self._client.event_log(after=after, kinds=kinds))

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
