"""Faults of a run. Each strikes between two steps of the loop, at any point of the code."""

from collections.abc import Callable

from simulation_environment import Environment
from simulation_loop import Process
from simulation_server import Server

DAY_S = 86_400.0
STEPS_BETWEEN = 450
"""On the average."""


class Faults:
    """Faults one after another, until stopped."""

    def __init__(self, environment: Environment, *, servers: Callable[[], list[Server]]) -> None:
        self.counts: dict[str, int] = {}
        self._environment = environment
        self._servers = servers
        self._kinds: tuple[Callable[[], None], ...] = (
            self.server_killed,
            self.server_paused,
            self.leader_paused_deciding,
            self.machine_cut,
            self.agent_paused,
            self.machine_booted,
            self.clock_set,
            self.clock_wrong,
            self.disk_full,
            self.database_away,
            self.statement_failed,
            self.answer_lost,
        )
        self._pauses_next_leader = False
        self._number = 0
        self._next = self._begin_next(0)
        environment.loop.on_step = self._step
        environment.on_decided = self._pause_leader

    def end(self) -> None:
        """No more faults."""
        environment = self._environment
        environment.loop.on_step = lambda step: None
        environment.network_faults.is_reliable = True
        environment.disk.is_full = environment.disk.is_away = False
        environment.disk.fails_next = None
        self._pauses_next_leader = False
        for server in self._servers():
            server.process.resume()
        for machine in environment.machines.values():
            machine.resume()

    def server_killed(self) -> None:
        """kill -9; the supervisor restarts it."""
        server = self._pick()
        environment = self._environment
        environment.loop.create_task(server.process.kill(), context=environment.loop.outside)

    def server_paused(self) -> None:
        process = self._pick().process
        if not process.is_paused:
            process.pause()
            self._environment.network_faults.call_after(self._random.choice((0.5, 12.0, 40.0)), process.resume)

    def leader_paused_deciding(self) -> None:
        """SIGSTOP between the next decision and its commit, for about the time of a failover."""
        self._pauses_next_leader = True

    def machine_cut(self) -> None:
        self._environment.machines[self._machine()].disconnect()

    def agent_paused(self) -> None:
        """The agent is stopped, as by SIGSTOP; its jobs go on."""
        machine = self._environment.machines[self._machine()]
        if not machine.is_paused:
            machine.pause(seconds=self._random.choice((2.0, 10.0, 50.0)))

    def machine_booted(self) -> None:
        machine = self._environment.machines[self._machine()]
        machine.disconnect()
        machine.boot()

    def clock_set(self) -> None:
        self._environment.wall_clock.jump(self._random.choice((-3600.0, -5.0, 5.0, 3600.0)))

    def clock_wrong(self) -> None:
        """Years off; corrected before or after servers follow it."""
        seconds = self._random.choice((-1, 1)) * 20_000 * DAY_S
        if self._environment.wall_clock.is_years_off:
            return
        self._environment.wall_clock.jump(seconds)
        self._environment.network_faults.call_after(
            self._random.choice((2.5, 40.0)), lambda: self._environment.wall_clock.jump(-seconds)
        )

    def disk_full(self) -> None:
        self._environment.disk.is_full = True
        self._environment.network_faults.call_after(self._random.random() * 20, self._empty_disk_space)

    def database_away(self) -> None:
        self._environment.disk.is_away = True
        self._environment.network_faults.call_after(self._random.random() * 10, self._restore_database)

    def statement_failed(self) -> None:
        self._environment.disk.fails_next = "within"

    def answer_lost(self) -> None:
        self._environment.disk.fails_next = "after"

    def _empty_disk_space(self) -> None:
        self._environment.disk.is_full = False

    def _restore_database(self) -> None:
        self._environment.disk.is_away = False

    def _pause_leader(self, process: Process) -> None:
        if not self._pauses_next_leader or process.is_paused:
            return
        self._pauses_next_leader = False
        process.pause()
        self._environment.network_faults.call_after(
            self._random.choice((6.0, 10.0, 20.0)) * (0.5 + self._random.random()), process.resume
        )
        for machine in self._environment.machines.values():  # the same fault may break other connections too
            if self._random.random() < 0.5:
                machine.disconnect()

    def _step(self, step: int) -> None:
        if step >= self._next:
            strike = self._random.choice(self._kinds)
            words = strike.__name__.replace("_", " ")
            if self._environment.schedule.happens(f"fault {self._number}", words, at_s=self._environment.loop.time()):
                self.counts[strike.__name__] = self.counts.get(strike.__name__, 0) + 1
                strike()
            self._next = self._begin_next(step)

    def _begin_next(self, step: int) -> int:
        """The step of the next fault; its details come from a random stream of its own."""
        self._number += 1
        self._random = self._environment.random_streams.stream(f"fault {self._number}")
        return step + 1 + round(self._random.expovariate(1 / STEPS_BETWEEN))

    def _pick(self) -> Server:
        return self._random.choice(self._servers())

    def _machine(self) -> str:
        return self._random.choice(tuple(self._environment.machines))
