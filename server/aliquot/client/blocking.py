"""Blocking client: the methods of `Client` for code that is not async."""

import threading
import time
import warnings
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, overload

from aliquot.client.config import Place, find_place
from aliquot.client.errors import LeaseLost
from aliquot.client.generated.blocking_mutations import BlockingMutations
from aliquot.client.generated.blocking_queries import BlockingQueries
from aliquot.client.generated.blocking_subscriptions import BlockingSubscriptions
from aliquot.client.generated.external_allocations import GpusAllocated
from aliquot.client.generated.fragments import FRAGMENTS
from aliquot.client.generated.inputs import CreateSessionInput
from aliquot.client.generated.queries_types import LogChunk, QueueUpdate
from aliquot.client.generated.result_files import ResultFile, SessionFiles
from aliquot.client.generated.sessions import Session, SessionLog
from aliquot.client.plain_http import poster
from aliquot.client.requests import answer_data, check_address, request_body
from aliquot.client.sessions import SessionCalls, with_session_options

if TYPE_CHECKING:
    from aliquot.client.client import Client
    from aliquot.client.futures import MappedCalls, SessionFuture
    from aliquot.client.task_outputs import OnCut, TaskChunk, TaskPosition
    from aliquot_schema.cluster.workspaces import Workspace, WorkspaceUpload

T = TypeVar("T")
R = TypeVar("R")


class PlainRequests(SessionCalls):
    """Requests that block while they wait, so that their coroutines need no event loop; for `BlockingCalls._ask`."""

    _fragments: ClassVar = FRAGMENTS

    def __init__(self, url: str, token: str, *, timeout_s: float, ca_file: Path | None) -> None:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._url = url
        self._http = poster(url, headers=headers, timeout_s=timeout_s, ca_file=ca_file)

    async def execute(self, query: str, variables: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """See `Client.execute`."""
        status, content = self._http.post("/graphql", request_body(query, variables))
        return answer_data(status, content, url=self._url)

    def subscribe(self, query: str, variables: Mapping[str, Any] | None = None) -> AsyncGenerator[dict[str, Any], None]:
        """Subscriptions need an event loop: they belong to `Client`."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    async def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251 # no loop is held up


class BlockingClient(BlockingQueries, BlockingMutations, BlockingSubscriptions):
    """`Client` with blocking methods. Use it as a context manager, or call `close`."""

    _plain: PlainRequests

    def __init__(self, url: str, token: str, *, timeout_s: float = 30.0, ca_file: Path | None = None) -> None:
        """See `Client`."""
        check_address(url)
        super().__init__()
        self._url = url.rstrip("/")
        self._made: Client | None = None
        self._making = threading.Lock()
        self._arguments = (url, token, timeout_s, ca_file)
        self._plain = PlainRequests(self._url, token, timeout_s=timeout_s, ca_file=ca_file)

    @property
    def _client(self) -> "Client":
        """The async client of streams, downloads and leases; made when it is used."""
        with self._making:
            if self._made is None:
                from aliquot.client.client import Client

                url, token, timeout_s, ca_file = self._arguments
                self._made = Client(url, token, timeout_s=timeout_s, ca_file=ca_file)
            return self._made

    @classmethod
    def at(cls, place: Place) -> Self:
        """A client of the server that `find_place` found."""
        return cls(place.url, place.token, ca_file=place.ca_file)

    @property
    def url(self) -> str:
        """Address of the server, without a slash at its end."""
        return self._url

    def execute(self, query: str, variables: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """See `Client.execute`."""
        return self._ask(self._plain.execute(query, variables))

    def run(self, work: "Callable[[Client], Coroutine[Any, Any, T]]") -> T:
        """Run an async function of the `Client`."""
        return self._run(work(self._client))

    def each(self, work: "Callable[[Client], AsyncGenerator[T, None]]") -> Generator[T, None, None]:
        """Iterate over an async generator of the `Client`."""
        return self._each(work(self._client))

    @with_session_options
    def submit(
        self,
        command: str | Sequence[str],
        *,
        slots: Mapping[str, str | float],
        environment: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Session:
        """See `Client.submit`."""
        return self._ask(self._plain.submit(command, slots=slots, environment=environment, **options))

    @overload
    def map(self, call: Sequence[str], parameters: Sequence[Mapping[str, object]], **options: Any) -> Session: ...

    @overload
    def map(
        self, call: Callable[..., R], parameters: Sequence[Mapping[str, object]], **options: Any
    ) -> "BlockingCalls[R]": ...

    def map(
        self, call: Sequence[str] | Callable[..., R], parameters: Sequence[Mapping[str, object]], **options: Any
    ) -> "Session | BlockingCalls[R]":
        """See `Client.map`."""
        if callable(call):
            return BlockingCalls(self, self._run(self._client.map(call, parameters, **options)))
        return self._ask(self._plain.map(call, parameters, **options))

    def future(self, id: str) -> "BlockingFuture[str]":
        """See `Client.future`."""
        return BlockingFuture(self, self._client.future(id))

    def wait(self, id: str) -> Session:
        """See `Client.wait`."""
        return self._ask(self._plain.wait(id))

    def get_session(self, id: str) -> Session:
        """See `Client.get_session`."""
        return self._ask(self._plain.get_session(id))

    def states(self, id: str) -> Generator[Session, None, None]:
        """See `Client.states`."""
        return self._asked(self._plain.states(id))

    def course(self, id: str) -> Generator[Session, None, None]:
        """Deprecated, use `states`; release 0.3 may remove this name."""
        warnings.warn("use `states` instead of `course`", DeprecationWarning, stacklevel=2)
        return self.states(id)

    def look(self, id: str) -> Session:
        """Deprecated, use `get_session`; release 0.3 may remove this name."""
        warnings.warn("use `get_session` instead of `look`", DeprecationWarning, stacklevel=2)
        return self.get_session(id)

    def logs(
        self, id: str, *, rank: int = 0, attempt: int | None = None, offset: int = 0
    ) -> Generator[LogChunk, None, None]:
        """See `Client.logs`."""
        return self._each(self._client.logs(id, rank=rank, attempt=attempt, offset=offset))

    def outputs(
        self, id: str, *, offsets: Mapping[int, int], attempt: int, retries_unavailable: bool = False
    ) -> Generator[LogChunk, None, None]:
        """See `Client.outputs`."""
        found = self._client.outputs(id, offsets=offsets, attempt=attempt, retries_unavailable=retries_unavailable)
        return self._each(found)

    def task_outputs(
        self, id: str, *, read: "Mapping[int, TaskPosition]", on_cut: "OnCut | None" = None
    ) -> "Generator[TaskChunk, None, None]":
        """See `Client.task_outputs`; `on_cut` is called in another thread."""
        return self._each(self._client.task_outputs(id, read=read, on_cut=on_cut))

    def output_so_far(
        self, id: str, *, offsets: Mapping[int, int], attempt: int | None = None
    ) -> Generator[SessionLog, None, None]:
        """See `Client.output_so_far`."""
        return self._asked(self._plain.output_so_far(id, offsets=offsets, attempt=attempt))

    def submit_once(self, wanted: CreateSessionInput) -> Session:
        """See `Client.submit_once`."""
        return self._ask(self._plain.submit_once(wanted))

    def results(self, id: str, *, rank: int = 0) -> SessionFiles:
        """See `Client.results`."""
        return self._run(self._client.results(id, rank=rank))

    def upload(self, folder: Path) -> "WorkspaceUpload":
        """See `Client.upload`."""
        return self._run(self._client.upload(folder))

    def workspace(self, id: str) -> "Workspace | None":
        """See `Client.workspace`."""
        return self._run(self._client.workspace(id))

    def download(
        self,
        id: str,
        path: str,
        target: Path,
        *,
        rank: int = 0,
        listed: ResultFile | None = None,
        retries: bool = True,
    ) -> int:
        """See `Client.download`."""
        return self._run(self._client.download(id, path, target, rank=rank, listed=listed, retries=retries))

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
        """Close the connections and end the thread. Later calls raise `RuntimeError`, except of `close`."""
        if self._is_ended:
            return
        if self._made is not None:
            self._run(self._made.close())
        self._plain.close()
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class BlockingFuture(Generic[R]):
    """`SessionFuture` with blocking methods."""

    def __init__(self, client: BlockingClient, future: "SessionFuture[R]") -> None:
        self._client = client
        self._future = future
        self.id = future.id

    def done(self) -> bool:
        """See `SessionFuture.done`."""
        return self._client.run(lambda _: self._future.done())

    def result(self) -> R:
        """See `SessionFuture.result`."""
        return self._client.run(lambda _: self._future.result())


class BlockingCalls(Generic[R]):
    """`MappedCalls` with blocking methods; iterating gives (index, result) as the calls end."""

    def __init__(self, client: BlockingClient, calls: "MappedCalls[R]") -> None:
        self._client = client
        self._calls = calls
        self.session = calls.session
        self.futures = tuple(BlockingFuture(client, one) for one in calls.futures)

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[tuple[int, R]]:
        return self._client.each(lambda _: aiter(self._calls))

    def results(self) -> list[R]:
        """See `MappedCalls.results`."""
        return self._client.run(lambda _: self._calls.results())


@contextmanager
def lease(*, shares: float, **options: Any) -> Iterator[GpusAllocated]:
    """Hold GPUs on the server that `find_place` selects while the block runs; see `Client.lease`."""
    with BlockingClient.at(find_place()) as client, client.lease(shares=shares, **options) as held:
        yield held


async def _entered(lease: AbstractAsyncContextManager[GpusAllocated]) -> GpusAllocated:
    return await lease.__aenter__()


async def _left(lease: AbstractAsyncContextManager[GpusAllocated]) -> None:
    await lease.__aexit__(None, None, None)
