"""Blocking client: the methods of `Client` for code that is not async."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aliquot.client.client import Client
from aliquot.client.config import Place, find_place
from aliquot.client.errors import LeaseLost
from aliquot.client.generated.blocking_mutations import BlockingMutations
from aliquot.client.generated.blocking_queries import BlockingQueries
from aliquot.client.generated.blocking_subscriptions import BlockingSubscriptions
from aliquot.client.generated.external_allocations import GpusAllocated
from aliquot.client.generated.inputs import CreateSessionInput
from aliquot.client.generated.queries_types import LogChunk, QueueUpdate
from aliquot.client.generated.sessions import Session, SessionLog
from aliquot.client.task_outputs import TaskChunk, TaskPosition


class BlockingClient(BlockingQueries, BlockingMutations, BlockingSubscriptions):
    """`Client` with blocking methods. Use it as a context manager, or call `close`."""

    _client: Client

    def __init__(self, url: str, token: str, *, timeout_s: float = 30.0, ca_file: Path | None = None) -> None:
        """See `Client`."""
        client = Client(url, token, timeout_s=timeout_s, ca_file=ca_file)
        super().__init__()
        self._client = client

    @classmethod
    def at(cls, place: Place) -> Self:
        """A client of the server that `find_place` found."""
        return cls(place.url, place.token, ca_file=place.ca_file)

    def execute(self, query: str, variables: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """See `Client.execute`."""
        return self._run(self._client.execute(query, variables))

    def submit(self, command: str | Sequence[str], *, slots: Mapping[str, str | float], **options: Any) -> Session:
        """See `Client.submit`."""
        return self._run(self._client.submit(command, slots=slots, **options))

    def map(self, command: Sequence[str], parameters: Sequence[Mapping[str, object]], **options: Any) -> Session:
        """See `Client.map`."""
        return self._run(self._client.map(command, parameters, **options))

    def wait(self, id: str) -> Session:
        """See `Client.wait`."""
        return self._run(self._client.wait(id))

    def look(self, id: str) -> Session:
        """See `Client.look`."""
        return self._run(self._client.look(id))

    def course(self, id: str) -> Generator[Session, None, None]:
        """See `Client.course`."""
        return self._each(self._client.course(id))

    def logs(
        self, id: str, *, rank: int = 0, attempt: int | None = None, offset: int = 0
    ) -> Generator[LogChunk, None, None]:
        """See `Client.logs`."""
        return self._each(self._client.logs(id, rank=rank, attempt=attempt, offset=offset))

    def outputs(self, id: str, *, offsets: Mapping[int, int], attempt: int) -> Generator[LogChunk, None, None]:
        """See `Client.outputs`."""
        return self._each(self._client.outputs(id, offsets=offsets, attempt=attempt))

    def task_outputs(self, id: str, *, read: Mapping[int, TaskPosition]) -> Generator[TaskChunk, None, None]:
        """See `Client.task_outputs`."""
        return self._each(self._client.task_outputs(id, read=read))

    def output_so_far(
        self, id: str, *, offsets: Mapping[int, int], attempt: int | None = None
    ) -> Generator[SessionLog, None, None]:
        """See `Client.output_so_far`."""
        return self._each(self._client.output_so_far(id, offsets=offsets, attempt=attempt))

    def submit_once(self, wanted: CreateSessionInput) -> Session:
        """See `Client.submit_once`."""
        return self._run(self._client.submit_once(wanted))

    def events(self, *, after: int | None = None) -> Generator[QueueUpdate, None, None]:
        """See `Client.events`."""
        return self._each(self._client.events(after=after))

    @contextmanager
    def lease(self, *, shares: float, **options: Any) -> Iterator[GpusAllocated]:
        """See `Client.lease`."""
        lease = self._client.lease(shares=shares, **options)
        held = self._run(_entered(lease))
        try:
            yield held
        except BaseException:
            # The block's own error is raised; the other thread has no use for it.
            with suppress(LeaseLost):
                self._run(_left(lease))
            raise
        self._run(_left(lease))

    def close(self) -> None:
        """Close the connections and end the thread."""
        self._run(self._client.close())
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def lease(*, shares: float, **options: Any) -> Iterator[GpusAllocated]:
    """Hold GPUs on the server that `find_place` selects while the block runs; see `Client.lease`."""
    with BlockingClient.at(find_place()) as client, client.lease(shares=shares, **options) as held:
        yield held


async def _entered(lease: AbstractAsyncContextManager[GpusAllocated]) -> GpusAllocated:
    return await lease.__aenter__()


async def _left(lease: AbstractAsyncContextManager[GpusAllocated]) -> None:
    await lease.__aexit__(None, None, None)
