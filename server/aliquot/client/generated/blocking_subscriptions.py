"""All subscriptions, blocking.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from abc import abstractmethod
from collections.abc import Generator, Sequence

from aliquot.client.blocking_calls import BlockingCalls
from aliquot.client.generated.audit import AuditChange
from aliquot.client.generated.queries_types import LogChunk, QueueUpdate
from aliquot.client.generated.subscriptions import Subscriptions
from aliquot.client.generated.subscriptions_types import DeviceUpdate, SessionUpdate


class BlockingSubscriptions(BlockingCalls):
    """All subscriptions of the server, blocking."""

    @property
    @abstractmethod
    def _client(self) -> Subscriptions: ...

    def session_updates(self, id: str, *, after: int | None = None) -> Generator[SessionUpdate, None, None]:
        """
        Follow one session: a snapshot unless `after` is given, then every change of it and of its kernels, in order,
        without gaps or repeats. The stream does not end with the session, because it may be retried.
        """
        return self._each(self._client.session_updates(id, after=after))

    def device_updates(self, *, after: int | None = None) -> Generator[DeviceUpdate, None, None]:
        """
        Follow all devices: a snapshot, then changes of holders, health and readings, at most four updates a second.
        With `after`, begins with the changes since then, or with a snapshot if these are unknown, for example after a
        restart of the server.
        """
        return self._each(self._client.device_updates(after=after))

    def event_log(
        self, *, after: int | None = None, kinds: Sequence[str] | None = None
    ) -> Generator[AuditChange, None, None]:
        """
        Follow the event log: every event, in order, without gaps or repeats, in the form of `audit`. For operators.
        """
        return self._each(self._client.event_log(after=after, kinds=kinds))

    def queue_updates(self, *, after: int | None = None) -> Generator[QueueUpdate, None, None]:
        """
        Follow the queue: every change of any session, in order, without gaps or repeats. To mirror the queue, read
        `queue`, subscribe after its `revision`, keep each session while it is queued or held, and drop it otherwise.
        Positions are those of the last scheduling pass; query `queue` for current ones.
        """
        return self._each(self._client.queue_updates(after=after))

    def session_logs(
        self, id: str, *, rank: int = 0, attempt: int | None = None, offset: int = 0
    ) -> Generator[LogChunk, None, None]:
        """Follow the output of one rank until it is complete. Waits for a session that has not started."""
        return self._each(self._client.session_logs(id, rank=rank, attempt=attempt, offset=offset))
