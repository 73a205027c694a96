"""What people do with sessions, from one or several operations: submit, wait, follow, and one task per parameter."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from aliquot.client.array_command import array_command
from aliquot.client.failures import ServerUnreachable, SubscriptionClosed
from aliquot.client.generated.enums import SessionState
from aliquot.client.generated.inputs import CommandInput, CreateSessionInput, NameValueInput, SlotAmountInput
from aliquot.client.generated.mutations import Mutations
from aliquot.client.generated.queries import Queries
from aliquot.client.generated.queue import LogChunk, QueueUpdate
from aliquot.client.generated.session_log import SessionLog
from aliquot.client.generated.sessions import Session
from aliquot.client.generated.subscriptions import Subscriptions
from aliquot.client.merging import merged
from aliquot.client.patience import Patience
from aliquot_schema.errors import NotFound

T = TypeVar("T")

ENDED: Final = frozenset({SessionState.COMPLETED, SessionState.FAILED, SessionState.CANCELED})
PIECE_BYTES: Final = 256 * 1024
"""Of what was printed so far, in one answer."""
LOOK_S_MIN: Final = 0.05
LOOK_S_MAX: Final = 1.0
"""Between two looks at a session that is waited for: a short one's end is seen soon, a long one costs little."""


class SessionCalls(Queries, Mutations, Subscriptions):
    """Goes on over restarts of the server, until one minute has passed in vain."""

    async def submit(
        self,
        command: str | Sequence[str],
        *,
        slots: Mapping[str, str | float],
        environment: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Session:
        """Submit a session. It is submitted once, even where the answer is lost and it has to be asked for again.

        Args:
            command: program and arguments, or a text for /bin/sh.
            slots: what each kernel needs, like `{"cpu": 1, "mem": "2g", "cuda.shares": 0.2}`.
            environment: variables to add.
            options: fields of `CreateSessionInput`, like `name`, `cluster_size` or `time_limit`.
        Raises:
            Refused: the server does not take it; nothing was submitted.
            TypeError: an option is no field of a session.
        """
        wanted = CreateSessionInput(
            command=CommandInput(shell=command) if isinstance(command, str) else CommandInput(argv=tuple(command)),
            slots=[SlotAmountInput(slot=slot, amount=_amount(amount)) for slot, amount in slots.items()],
            environment=[NameValueInput(name=name, value=value) for name, value in (environment or {}).items()],
            **options,
        )
        return await self.submit_once(wanted)

    async def submit_once(self, wanted: CreateSessionInput) -> Session:
        """Submit what is written out already, as `submit` does."""
        if wanted.idempotency_key is None:
            wanted = msgspec.structs.replace(wanted, idempotency_key=uuid.uuid4().hex)
        return (await self._again(lambda: self.create_session(wanted))).session

    async def map(self, command: Sequence[str], parameters: Sequence[Mapping[str, object]], **options: Any) -> Session:
        """Submit a job array with one task per set of parameters.

        Args:
            command: program and arguments; `{name}` in an argument is that parameter of the task.
            parameters: one mapping per task.
            options: as for `submit`; `slots` is needed, `max_parallel` may be useful.
        Raises:
            ValueError: a parameter is missing, or all commands together are too long.
        """
        return await self.submit(array_command(command, parameters), array=f"0-{len(parameters) - 1}", **options)

    async def wait(self, id: str) -> Session:
        """Wait until a session, or all tasks of a job array, have ended, and return it as it ended.

        Raises:
            NotFound: there is no such session.
        """
        async with aclosing(self.course(id)) as looks:
            found = await anext(looks)
            async for look in looks:
                found = look
        return found

    async def course(self, id: str) -> AsyncGenerator[Session, None]:
        """A session as it is now, then again and again until it has ended; an array, until all of its tasks have.

        Raises:
            NotFound: there is no such session.
        """
        pause_s = LOOK_S_MIN
        while (found := await self._again(lambda: self.look(id))).state not in ENDED:
            yield found
            await asyncio.sleep(pause_s)
            pause_s = min(LOOK_S_MAX, pause_s * 1.5)
        yield found

    async def look(self, id: str) -> Session:
        """A session as it is now. A server that is away is not waited for.

        Raises:
            NotFound: there is none of this id.
        """
        found = await self.session(id)
        if found is None:
            raise NotFound(f"there is no session {id}", kind="session", id=id)
        return found

    async def logs(
        self, id: str, *, rank: int = 0, attempt: int | None = None, offset: int = 0
    ) -> AsyncGenerator[LogChunk, None]:
        """The output of one rank until its end, without gaps or repeats."""
        patience = Patience()
        while True:
            try:
                chunks = self.session_logs(id, rank=rank, attempt=attempt, offset=offset)
                async with aclosing(chunks):
                    async for chunk in chunks:
                        offset = chunk.next_offset
                        patience.renew()
                        yield chunk
                return
            except (ServerUnreachable, SubscriptionClosed) as error:
                await patience.pause(error)

    def outputs(self, id: str, *, offsets: Mapping[int, int], attempt: int) -> AsyncGenerator[LogChunk, None]:
        """The outputs of several ranks of an attempt until all have ended, each from its own offset; see `logs`."""
        return merged([self.logs(id, rank=rank, attempt=attempt, offset=at) for rank, at in offsets.items()])

    async def output_so_far(
        self, id: str, *, offsets: Mapping[int, int], attempt: int | None = None
    ) -> AsyncGenerator[SessionLog, None]:
        """What several ranks of an attempt have printed so far, one after the other, each from its own offset; of each
        up to where its output ended when it was first asked for.

        Args:
            offsets: by rank; a negative one counts from the end.
            attempt: without it, the newest that was begun.
        """
        for rank, offset in offsets.items():
            has_more, end = True, None
            while has_more:
                ask = partial(self.session_log, id, rank=rank, attempt=attempt, offset=offset, bytes_max=PIECE_BYTES)
                piece = await self._again(ask)
                yield piece
                end = piece.length if end is None else end
                offset, has_more = piece.next_offset, piece.has_more and piece.next_offset < end

    async def events(self, *, after: int | None = None) -> AsyncGenerator[QueueUpdate, None]:
        """Every change of a session without gaps or repeats, over restarts of the server too; it does not end.

        Args:
            after: the number of the last event known; without it, from now on.
        """
        last = after if after is not None else (await self._again(lambda: self.sessions(first=1))).revision
        patience = Patience()
        while True:
            try:
                async with aclosing(self.queue_updates(after=last)) as updates:
                    async for update in updates:
                        last = update.event_number
                        patience.renew()
                        yield update
                return
            except (ServerUnreachable, SubscriptionClosed) as error:
                await patience.pause(error)

    async def _again(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until there is an answer; only for what may be asked twice."""
        patience = Patience()
        while True:
            try:
                return await ask()
            except ServerUnreachable as error:
                await patience.pause(error)


def _amount(amount: str | float) -> str:
    """As slots are written: never as 1e-05."""
    return (
        amount if isinstance(amount, str) else f"{amount:f}".rstrip("0").rstrip(".") if amount % 1 else f"{amount:.0f}"
    )
