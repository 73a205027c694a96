"""Users of a run: they submit, make changes, and remember what was acknowledged."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from msgspec.structs import fields

from aliquot.service.ports import StoreUnavailable
from aliquot.service.use_cases import UseCases
from aliquot_schema.errors import AliquotError, Unavailable
from aliquot_schema.ids import UserId
from aliquot_schema.requests import Caller, NewSession, Role
from simulation_environment import Environment
from simulation_http import OWNER
from simulation_requests import new_session, random_change
from simulation_server import Server

PATIENCE_S = 20.0
USERS = ("ann", "bob", "cem")


class SimulatedUsers:
    """They send requests to any running server, and retry without an answer."""

    def __init__(self, environment: Environment, *, servers: Callable[[], list[Server]]) -> None:
        self._environment = environment
        self._servers = servers
        self.acknowledged: dict[tuple[str, str], str] = {}
        """The session's id by its owner and idempotency key."""

    async def run(self, *, submissions: int, seconds: float) -> None:
        """Submit a number of sessions within some time, and change others."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(submissions):
                tasks.create_task(self._submit(f"key-{number}", within_s=seconds))
            for number in range(submissions):
                tasks.create_task(self._change_session(f"change {number}", within_s=seconds * 1.3))

    async def retry_until_done(self, end: Callable[[UseCases, Caller], Awaitable[Any]]) -> None:
        """Retry an action until it succeeds."""
        random = self._environment.random_streams.stream("settling")
        is_done = False
        while not is_done:
            is_done, _ = await self._ask(random, lambda cases: end(cases, _caller("ann")))
            await asyncio.sleep(1.0)

    async def _submit(self, key: str, *, within_s: float) -> None:
        random = self._environment.random_streams.stream(f"submission {key}")
        await asyncio.sleep(random.random() * within_s)
        owner = random.choice(USERS)
        request = new_session(random, key=key, known=tuple(self.acknowledged.values()))
        if not self._happens(f"submission {key}", f"{owner} submits {_description(request)}"):
            return
        while True:
            is_done, answer = await self._ask_server(random, lambda server: _create(server, owner, request))
            if is_done and not isinstance(answer, Exception):
                self._check_acknowledged(owner, key, answer)
                if random.random() > 0.1:
                    return
            elif is_done:
                return
            await asyncio.sleep(random.random() * 5)

    def _check_acknowledged(self, owner: str, key: str, session_id: str) -> None:
        known = self.acknowledged.setdefault((owner, key), session_id)
        assert known == session_id, f"{key} was {known}, and is {session_id} now"
        assert session_id in self._environment.model.sessions, f"{session_id} was acknowledged, and is not in the log"

    async def _change_session(self, name: str, *, within_s: float) -> None:
        random = self._environment.random_streams.stream(name)
        await asyncio.sleep(random.random() * within_s)
        if self.acknowledged:
            session_id = random.choice(tuple(self.acknowledged.values()))
            machine = random.choice(tuple(self._environment.machines))
            words, act = random_change(random, session_id=session_id, machine=machine)
            if self._happens(name, f"ann: {words}"):
                await self._ask(random, lambda cases: act(cases, _caller("ann")))

    def _happens(self, name: str, words: str) -> bool:
        return self._environment.schedule.happens(name, words, at_s=self._environment.loop.time())

    async def _ask(self, random: Random, question: Callable[[UseCases], Awaitable[Any]]) -> tuple[bool, Any]:
        """As `_ask_server`, without HTTP."""

        async def ask(server: Server) -> Any:
            assert server.cases is not None
            return await question(server.cases)

        return await self._ask_server(random, ask)

    async def _ask_server(self, random: Random, question: Callable[[Server], Awaitable[Any]]) -> tuple[bool, Any]:
        """Whether an answer came, and the answer; a refusal is an answer."""
        up = [server for server in self._servers() if server.is_up]
        if not up:
            return False, None
        server = random.choice(up)

        async def handle() -> Any:
            return await question(server)

        task = server.process.spawn(handle())
        await asyncio.wait([task], timeout=random.choice((0.01, 0.1, PATIENCE_S, PATIENCE_S)))
        if not task.done():
            task.cancel()
            return False, None
        if task.cancelled():
            return False, None
        error = task.exception()
        if error is None:
            return True, task.result()
        if isinstance(error, Unavailable | StoreUnavailable):
            return False, None
        if not isinstance(error, AliquotError):
            raise error
        return True, error


async def _create(server: Server, owner: str, request: NewSession) -> str:
    """The new session's id. One user uses HTTP, and also runs the dashboard's queries."""
    if owner == OWNER:
        session_id = await server.http.submit(request)
        await server.http.read()
        return session_id
    assert server.cases is not None
    return str((await server.cases.sessions.create_session(_caller(owner), request)).session.id)


def _description(request: NewSession) -> str:
    """Non-default fields."""
    plain = NewSession(argv=(), shell=None, slots=())
    said = {each.name: getattr(request, each.name) for each in fields(request)}
    return ", ".join(f"{name}={value}" for name, value in said.items() if value != getattr(plain, name))


def _caller(name: str) -> Caller:
    return Caller(user=UserId(name), request_id=f"req_{name}", role=Role.ADMIN)
