"""Faults of a run. Each strikes between two steps of the loop, at any point of the code."""

from collections.abc import Callable

from simulation_loop import Process
from simulation_place import Place
from simulation_server import Server

DAY_S = 86_400.0
STEPS_BETWEEN = 450
"""On the average."""


class Faults:
    """Faults one after another, until stopped."""

    def __init__(self, place: Place, *, servers: Callable[[], list[Server]]) -> None:
        self.counts: dict[str, int] = {}
        self._place = place
        self._servers = servers
        self._kinds: tuple[Callable[[], None], ...] = (
            self.server_killed,
            self.server_frozen,
            self.leader_frozen_deciding,
            self.machine_cut,
            self.machine_frozen,
            self.machine_booted,
            self.clock_set,
            self.clock_wrong,
            self.disk_full,
            self.database_away,
            self.statement_failed,
            self.answer_lost,
        )
        self._lies_in_wait = False
        self._number = 0
        self._next = self._begin_next(0)
        place.loop.on_step = self._step
        place.on_decided = self._pounce

    def end(self) -> None:
        """No more faults."""
        place = self._place
        place.loop.on_step = lambda step: None
        place.weather.is_fair = True
        place.disk.is_full = place.disk.is_away = False
        place.disk.fails_next = None
        self._lies_in_wait = False
        for server in self._servers():
            server.process.thaw()
        for machine in place.machines.values():
            machine.thaw()

    def server_killed(self) -> None:
        """kill -9; the supervisor restarts it."""
        server = self._pick()
        place = self._place
        place.loop.create_task(server.process.kill(), context=place.loop.outside)

    def server_frozen(self) -> None:
        process = self._pick().process
        if not process.is_frozen:
            process.freeze()
            self._place.weather.after(self._random.choice((0.5, 12.0, 40.0)), process.thaw)

    def leader_frozen_deciding(self) -> None:
        """SIGSTOP between the next decision and its commit, for about the time of a failover."""
        self._lies_in_wait = True

    def machine_cut(self) -> None:
        self._place.machines[self._machine()].hang_up()

    def machine_frozen(self) -> None:
        """The agent is stopped, as by SIGSTOP; its jobs go on."""
        machine = self._place.machines[self._machine()]
        if not machine.is_frozen:
            machine.freeze(seconds=self._random.choice((2.0, 10.0, 50.0)))

    def machine_booted(self) -> None:
        machine = self._place.machines[self._machine()]
        machine.hang_up()
        machine.boot()

    def clock_set(self) -> None:
        self._place.wall.jump(self._random.choice((-3600.0, -5.0, 5.0, 3600.0)))

    def clock_wrong(self) -> None:
        """Years off; corrected before or after servers follow it."""
        seconds = self._random.choice((-1, 1)) * 20_000 * DAY_S
        if self._place.wall.is_years_off:
            return
        self._place.wall.jump(seconds)
        self._place.weather.after(self._random.choice((2.5, 40.0)), lambda: self._place.wall.jump(-seconds))

    def disk_full(self) -> None:
        self._place.disk.is_full = True
        self._place.weather.after(self._random.random() * 20, self._make_room)

    def database_away(self) -> None:
        self._place.disk.is_away = True
        self._place.weather.after(self._random.random() * 10, self._bring_back)

    def statement_failed(self) -> None:
        self._place.disk.fails_next = "within"

    def answer_lost(self) -> None:
        self._place.disk.fails_next = "after"

    def _make_room(self) -> None:
        self._place.disk.is_full = False

    def _bring_back(self) -> None:
        self._place.disk.is_away = False

    def _pounce(self, process: Process) -> None:
        if not self._lies_in_wait or process.is_frozen:
            return
        self._lies_in_wait = False
        process.freeze()
        self._place.weather.after(self._random.choice((6.0, 10.0, 20.0)) * (0.5 + self._random.random()), process.thaw)
        for machine in self._place.machines.values():  # the same fault may break other connections too
            if self._random.random() < 0.5:
                machine.hang_up()

    def _step(self, step: int) -> None:
        if step >= self._next:
            strike = self._random.choice(self._kinds)
            words = strike.__name__.replace("_", " ")
            if self._place.schedule.happens(f"fault {self._number}", words, at_s=self._place.loop.time()):
                self.counts[strike.__name__] = self.counts.get(strike.__name__, 0) + 1
                strike()
            self._next = self._begin_next(step)

    def _begin_next(self, step: int) -> int:
        """The step of the next fault; its details come from a random stream of its own."""
        self._number += 1
        self._random = self._place.chance.stream(f"fault {self._number}")
        return step + 1 + round(self._random.expovariate(1 / STEPS_BETWEEN))

    def _pick(self) -> Server:
        return self._random.choice(self._servers())

    def _machine(self) -> str:
        return self._random.choice(tuple(self._place.machines))
