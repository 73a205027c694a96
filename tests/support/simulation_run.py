"""One run: takes a seed, and returns its outcome or the first rule that was broken."""

import asyncio
import logging
import warnings
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeVar

from aliquot.service.ports import DuplicateKey, NotLeader, StaleVersion
from aliquot.service.state.state import State
from aliquot_schema.errors import AliquotError
from aliquot_schema.ids import KernelId
from aliquot_schema.states import KernelState
from simulation_clock import WallClock
from simulation_disk import Disk
from simulation_environment import Environment, RandomStreams, Schedule
from simulation_faults import Faults
from simulation_http import numbered_requests
from simulation_loop import SeededLoop
from simulation_machine import Machine, check_ranks_run_once
from simulation_network_faults import NetworkFaults
from simulation_records import check_records
from simulation_reference_model import ReferenceModel
from simulation_requests import remove_blockers
from simulation_server import LoneServer, Server
from simulation_shared import SharedServer
from simulation_specs import different_specs
from simulation_users import SimulatedUsers

T = TypeVar("T")

STEPS_MAX = 400_000
SUBMISSIONS = 16
SECONDS = 240.0
AGREED_S_MAX = 300.0
QUIET_S_MAX = 4 * 3600.0
"""All must end within this after the faults."""
LAST_WORDS_S = 60.0
"""Until unanswered requests have succeeded or failed."""
OFF_US_MAX = 30 * 86_400 * 1_000_000
"""Clocks are often set by an hour in a run, and briefly by years."""
EXPECTED = (AliquotError, DuplicateKey, NotLeader, StaleVersion)
"""Errors of a request without a waiting caller."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A run's outcome."""

    digest: str
    """Of the log, including times."""
    events: int
    steps: int
    seconds: float
    """Virtual time."""
    faults: dict[str, int]
    kinds: dict[str, int]
    passes: int
    """Passes in the ledger, all replayed."""
    agreed: int
    """Leases that matched running kernels after the faults."""


class BrokenRun(AssertionError):
    """A rule was broken; the message has the command to repeat it."""

    def __init__(self, seed: int, error: BaseException, schedule: Schedule) -> None:
        command = f"scripts/simulate --seeds 1 --from {seed}"
        super().__init__(f"seed {seed}: {type(error).__name__}: {error}\nrepeat it with: {command}")
        self.schedule = schedule
        self.rule = _raised_at(error)
        """The line of the failed check, which identifies the rule."""


def simulate(seed: int, *, left_out: frozenset[str] = frozenset()) -> Outcome:
    """Run one seed: a single server for odd ones, two that share the database for even ones.

    Args:
        left_out: names of faults, submissions and changes that do not happen, as in `Schedule`.

    Raises:
        BrokenRun: a rule was broken, or the run did not end.
    """
    kinds = (LoneServer,) if seed % 2 else (SharedServer, SharedServer)
    schedule = Schedule(left_out)
    try:
        return on_new_loop(seed, lambda loop, streams: Run(loop, streams, kinds, schedule=schedule).outcome())
    except Exception as raised:
        raise BrokenRun(seed, _first(raised), schedule) from raised


def _raised_at(error: BaseException) -> tuple[str, str, int]:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = ("", 0) if trace is None else (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
    return type(error).__name__, *place


def on_new_loop(
    seed: int, work: Callable[[SeededLoop, RandomStreams], Coroutine[Any, Any, T]], *, steps_max: int = STEPS_MAX
) -> T:
    """Run something to its end on a new loop."""
    random_streams = RandomStreams(seed)
    loop = SeededLoop(random_streams.stream("loop"), steps_max=steps_max)
    asyncio.set_event_loop(loop)
    try:
        with _quiet(), numbered_requests():
            return loop.run_until_complete(work(loop, random_streams))
    finally:
        loop.cancel_all_tasks()
        asyncio.set_event_loop(None)
        loop.close()


def _first(error: BaseException) -> BaseException:
    """First leaf of a group of errors."""
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


class Run:
    """All parts of a run, put together."""

    def __init__(
        self, loop: SeededLoop, random_streams: RandomStreams, kinds: tuple[type[Server], ...], *, schedule: Schedule
    ) -> None:
        self._loop = loop
        wall, network_faults = WallClock(loop), NetworkFaults(loop, random_streams.stream("weather"))
        self._machines = {
            name: Machine(name, devices=devices, loop=loop, random=random_streams.stream(name), now_us=wall.now_us)
            for name, devices in (("a", 2), ("b", 2), ("c", 3))
        }
        self._truth = model = ReferenceModel(self._machines)
        disk = Disk(random_streams.stream("disk"), on_commit=self._follow)
        self._place = environment = Environment(
            loop=loop,
            random_streams=random_streams,
            wall_clock=wall,
            network_faults=network_faults,
            machines=self._machines,
            model=model,
            disk=disk,
            schedule=schedule,
        )
        for machine in self._machines.values():
            machine.on_start, machine.on_forget = self._check_start, self._check_forgotten
        self._servers = [kind(environment) for kind in kinds]
        self._is_over = False
        self._faults = Faults(environment, servers=lambda: self._servers)
        self._people = SimulatedUsers(environment, servers=lambda: self._servers)
        loop.set_exception_handler(self._complain)

    async def outcome(self) -> Outcome:
        keeping = [asyncio.create_task(self._keep_up(place)) for place in range(len(self._servers))]
        await self._people.run(submissions=SUBMISSIONS, seconds=SECONDS)
        self._faults.end()
        await asyncio.sleep(LAST_WORDS_S)
        await self._people.retry_until_done(remove_blockers)
        for machine in self._machines.values():
            machine.disconnect()
        agreed = await self._until_agreed()
        await self._until_quiet()
        await self._check_end()
        self._is_over = True
        for server in self._servers:
            await server.process.kill()
        await asyncio.gather(*keeping)
        passes = await check_records(self._place.disk, self._truth)
        self._place.disk.close()
        return Outcome(
            digest=self._digest,
            events=self._truth.revision,
            steps=self._loop.steps,
            seconds=self._loop.time(),
            faults=self._faults.counts,
            kinds=dict(self._truth.kinds),
            passes=passes,
            agreed=agreed,
        )

    async def _keep_up(self, place: int) -> None:
        """Restart the server whenever it has ended, as systemd would."""
        random = self._place.random_streams.stream(f"restarts {place}")
        while not self._is_over:
            server = self._servers[place]
            life = server.process.spawn(server.run())
            await asyncio.wait([life])
            await server.process.kill()
            if not life.cancelled() and (error := life.exception()) is not None:
                self._loop.fail(error)
            await asyncio.sleep(random.random() * 5)
            self._servers[place] = type(server)(self._place)

    async def _until_agreed(self) -> int:
        """Soon after the last fault, leases match the running kernels; returns their number."""
        end_s = self._loop.time() + AGREED_S_MAX
        while (differing := different_specs(self._truth, self._machines)) and self._loop.time() < end_s:  # noqa: ASYNC110
            await asyncio.sleep(1.0)
        assert not differing, f"long after the last fault leases and specs differ: {differing}"
        return sum(len(machine.running) for machine in self._machines.values())

    async def _until_quiet(self) -> None:
        end_s = self._loop.time() + QUIET_S_MAX
        while (left := self._left()) and self._loop.time() < end_s:  # noqa: ASYNC110  # the machines send no event
            await asyncio.sleep(5.0)
        assert not left, f"after the last fault these never came to an end: {left}, {self._words()}"

    def _left(self) -> list[str]:
        waiting = [f"{session.id} is {session.state}" for session in self._truth.live_sessions()]
        held = [f"{lease.id} is held" for lease in self._truth.held()]
        running = [f"{kernel_id} runs" for machine in self._machines.values() for kernel_id in machine.running]
        unreported = [
            f"{r.kernel_id} is still being reported"
            for machine in self._machines.values()
            for r in machine.unreported()
        ]
        files = [f"{name} has a spec" for machine in self._machines.values() for name in machine.specs_open]
        return [*waiting, *held, *running, *unreported, *files]

    def _words(self) -> list[str]:
        """Why pending sessions wait, by server."""
        words = []
        for server in self._servers:
            if server.cases is None:
                words.append(f"{server.process.name} is not up")
                continue
            state = server.cases.state
            words += [f"{a.id} is {a.state}, drained: {a.draining}, {state.reachable}" for a in state.agents.values()]
            words += [f"{name} waits: {verdict.reason}" for name, verdict in state.verdicts.items()]
        return words

    async def _check_end(self) -> None:
        model = self._truth
        model.charges.check_all_settled()
        lost = [name for name in self._people.acknowledged.values() if name not in model.sessions]
        assert not lost, f"acknowledged and lost: {lost}"
        await asyncio.sleep(LAST_WORDS_S)  # followers poll the log every few seconds
        for server in self._servers:
            assert server.cases is not None
            self._check_state(server.cases.state)
            self._check_times(server.cases.state)

    def _check_times(self, state: State) -> None:
        """No live session has times of a clock that was years off; an ended one may, if evicted meanwhile."""
        wall_us = self._place.wall_clock.now_us()
        for session in state.sessions.values():
            if session.is_ended:
                continue
            times = (session.queued_us, session.scheduled_us, session.started_us, session.ended_us)
            off = [at_us for at_us in times if at_us is not None and abs(at_us - wall_us) > OFF_US_MAX]
            assert not off, f"{session.id} is dated {off}, and it is {wall_us}"
        assert self._truth.end_of_log[0].at_us - wall_us < OFF_US_MAX, "the log ends years ahead"

    def _check_state(self, state: State) -> None:
        """A server's state equals the folded log."""
        model = self._truth
        assert state.revision == model.revision, f"the server is at {state.revision} of {model.revision}"
        differing = [name for name, session in state.sessions.items() if model.sessions[name] != session]
        differing += [name for name, kernel in state.kernels.items() if model.kernels[name] != kernel]
        assert not differing, f"the server has others than the log: {differing}"
        held = {device: amount for used in state.used.values() for device, amount in used.items() if amount}
        assert not held, f"the server has devices held: {held}"
        charged = {place: balance.charged for place, balance in state.usage.balances.items() if balance.charged}
        said = {place: account.charged for place, account in model.charges.accounts.items() if account.charged}
        assert charged == said, f"the server charges {charged} where the log says {said}"

    @property
    def _digest(self) -> str:
        return sha256(repr((self._loop.steps, self._loop.time(), self._truth.end_of_log)).encode()).hexdigest()[:16]

    def _follow(self, connection: object) -> None:
        try:
            self._truth.follow(connection)
        except Exception as error:
            self._loop.fail(error)

    def _check_start(self, kernel_id: KernelId) -> None:
        try:
            kernel = self._truth.kernels.get(kernel_id)
            has_ended = kernel is None or kernel.state is KernelState.EXITED
            assert not has_ended, f"{kernel_id} starts after its end"
            self._loop.call_soon(self._check_lives, context=self._loop.outside)
        except AssertionError as error:
            self._loop.fail(error)

    def _check_lives(self) -> None:
        try:
            check_ranks_run_once(self._machines)
        except AssertionError as error:
            self._loop.fail(error)

    def _check_forgotten(self, kernel_id: KernelId) -> None:
        kernel = self._truth.kernels.get(kernel_id)
        if kernel is not None and kernel.state is not KernelState.EXITED:
            self._loop.fail(AssertionError(f"{kernel_id} is to be forgotten, and its end is not durable"))

    def _complain(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        error = context.get("exception")
        if isinstance(error, BaseException) and not isinstance(error, EXPECTED):
            self._loop.fail(error)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the service, which warns of every fault, and GraphQL, which leaves coroutines of a killed server."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
            yield
    finally:
        logging.disable(before)
