"""A machine: its disk and processes, independent of connections, and the invariants of its agent."""

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

from aliquot.core.allocation.occupancy import occupancy_on
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.cluster.launching import (
    AgentMessage,
    Inventory,
    KernelChanged,
    KernelPhase,
    KernelReport,
    LaunchOrder,
    SpecOnDisk,
)
from aliquot_schema.errors import NotFound, StateConflict
from aliquot_schema.ids import AgentId, KernelId, NodeId, SessionId, kernel_parts
from aliquot_schema.resources.devices import ResourceSpec
from aliquot_schema.resources.leases import EndEvidence
from aliquot_schema.resources.slots import SlotType
from service_bench import gpus
from simulation_loop import SeededLoop

NOT_CLAIMED = "not_claimed"
SILENT_S = 6.0
"""The connection times out after this."""


class Machine:
    """Orders, ends and the epoch are on disk; processes survive the agent, only the disk survives a boot."""

    def __init__(self, name: str, *, devices: int, loop: SeededLoop, random: Random, now_us: Callable[[], int]) -> None:
        self.id = AgentId(name)
        self.devices = gpus(devices, agent=name)
        self.boots = 1
        self.running: dict[KernelId, LaunchOrder] = {}
        self.send: Callable[[AgentMessage], None] = lambda message: None
        """To the connected server, if any."""
        self.disconnect: Callable[[], None] = lambda: None
        """Close the connection, if any."""
        self.on_start: Callable[[KernelId], None] = lambda kernel_id: None
        self.on_forget: Callable[[KernelId], None] = lambda kernel_id: None
        self.is_paused = False
        self.pauses = 0
        self._queued_requests: list[Callable[[], object]] = []
        self._queued_messages: list[AgentMessage] = []
        self._orders: dict[KernelId, LaunchOrder] = {}
        self._ends: dict[KernelId, KernelReport] = {}
        self._forgotten: set[KernelId] = set()
        self._began_us: dict[KernelId, int] = {}
        self._resumed: dict[KernelId, int] = {}
        self._saved: dict[KernelId, int] = {}
        self._kept: dict[SessionId, int] = {}
        """Milliseconds of work in the checkpoint of a session's folder."""
        self._epoch = 0
        self._loop = loop
        self._random = random
        self._now_us = now_us

    def inventory(self) -> Inventory:
        alive = [self._report(kernel_id, KernelPhase.STARTED) for kernel_id in self.running]
        lost = [
            self._report(kernel_id, KernelPhase.UNCERTAIN, code=NOT_CLAIMED)
            for kernel_id in self._orders
            if kernel_id not in self.running and kernel_id not in self._ends
        ]
        specs = [SpecOnDisk(kernel_id=k, spec=o.spec, ended=k in self._ends) for k, o in self._orders.items()]
        return Inventory(agent=self._description(), kernels=(*alive, *lost, *self.unreported()), specs=tuple(specs))

    def unreported(self) -> list[KernelReport]:
        """Ends not yet acknowledged by a server."""
        return [report for kernel_id, report in self._ends.items() if kernel_id not in self._forgotten]

    def check_epoch(self, epoch: int) -> None:
        """Refuse former leaders."""
        self._epoch = max(self._epoch, epoch)
        if epoch < self._epoch:
            raise StateConflict(f"epoch {epoch} is over", id=self.id, state=f"epoch {self._epoch}")

    def launch(self, orders: Sequence[LaunchOrder], *, crashes: bool = False) -> None:
        """Take orders; with `crashes` they are written, and the agent dies before any start."""
        for order in orders:
            kernel_id = order.kernel_id
            if kernel_id in self._ends:
                self._send_report(self._ends[kernel_id])
            elif kernel_id in self.running:
                self._send_report(self._report(kernel_id, KernelPhase.STARTED))
            elif order.epoch < self._epoch:
                self._end(kernel_id, phase=KernelPhase.REFUSED, evidence=EndEvidence.REFUSED, code="stale_epoch")
            else:
                self._epoch = order.epoch
                self._orders[kernel_id] = order
                if not crashes:
                    self._start(order)

    def stop(self, kernel_id: KernelId, *, epoch: int, grace_ms: int) -> None:
        """As `Executor.stop`; some exit on the signal, some are killed after the grace."""
        self.check_epoch(epoch)
        if kernel_id in self._ends:
            self._send_report(self._ends[kernel_id])
        elif kernel_id not in self.running:
            self._end(kernel_id, evidence=EndEvidence.TOMBSTONE)
        else:
            grace_s = grace_ms / 1000
            after_s = grace_s if self._random.random() < 0.3 else self._random.random() * grace_s
            self._loop.call_outside(after_s, lambda: self._exit(kernel_id, signal=15))

    def signal(self, kernel_id: KernelId, *, epoch: int) -> None:
        """A signal before the end: the process may exit on it."""
        self.check_epoch(epoch)
        if kernel_id not in self.running:
            raise NotFound("it does not run", kind="kernel", id=kernel_id)
        act = (lambda: self._save(kernel_id)) if self._random.random() < 0.5 else lambda: self._exit(kernel_id, code=0)
        self._loop.call_outside(self._random.random() * 20, act)

    def forget(self, kernel_ids: Sequence[KernelId]) -> None:
        for kernel_id in kernel_ids:
            if kernel_id in self._ends:
                self.on_forget(kernel_id)
                self._forgotten.add(kernel_id)

    def drop_forgotten(self) -> None:
        """Delete the files of kernels whose end is committed at the server."""
        for kernel_id in self._forgotten:
            for kept in (self._orders, self._ends, self._began_us, self._resumed, self._saved):
                kept.pop(kernel_id, None)
            self._kept.pop(kernel_parts(kernel_id)[0], None)
        self._forgotten.clear()

    @property
    def specs_open(self) -> dict[KernelId, ResourceSpec]:
        """Specs of unended kernels, from the agent's files."""
        return {kernel_id: order.spec for kernel_id, order in self._orders.items() if kernel_id not in self._ends}

    def pause(self, *, seconds: float) -> None:
        """The agent is paused: its connections time out, its jobs continue."""
        self.is_paused = True
        stops = self.pauses = self.pauses + 1
        self._loop.call_outside(SILENT_S, lambda: self._is_missed(stops))
        self._loop.call_outside(seconds, lambda: self.resume() if self.pauses == stops else None)

    def resume(self) -> None:
        """It continues: handles the requests received meanwhile, however old, and reports."""
        self.is_paused = False
        heard, self._queued_requests = self._queued_requests, []
        for work in heard:
            work()
        said, self._queued_messages = self._queued_messages, []
        for message in said:
            self.send(message)

    def queue_request(self, work: Callable[[], object]) -> None:
        """Queue a request that arrives while the agent is paused."""
        self._queued_requests.append(work)

    def boot(self) -> None:
        """Power loss and reboot."""
        self._queued_requests.clear()
        self._queued_messages.clear()
        self.resume()
        self.boots += 1
        for kernel_id in list(self.running):
            del self.running[kernel_id]
            self._end(kernel_id, evidence=EndEvidence.BOOT_ID)

    def _start(self, order: LaunchOrder) -> None:
        self.on_start(order.kernel_id)
        self.running[order.kernel_id] = order
        used = Counter(occupancy_on((other.spec for other in self.running.values()), {d.id: d for d in self.devices}))
        over = [device.id for device in self.devices if used[device.id] > device.budget]
        assert not over, f"processes on {self.id} use more of {over} than there is, since {order.kernel_id} was started"
        seconds = self._random.choice((0.2, 3.0, 20.0, 60.0)) * (0.5 + self._random.random())
        code = 0 if self._random.random() < 0.85 else 1
        self._loop.call_outside(seconds, lambda: self._exit(order.kernel_id, code=code))
        self._began_us[order.kernel_id] = self._now_us()
        self._resumed[order.kernel_id] = self._kept.get(kernel_parts(order.kernel_id)[0], 0)
        if self._random.random() < 0.5:
            self._loop.call_outside(seconds * self._random.random(), lambda: self._save(order.kernel_id))
        self._send_report(self._report(order.kernel_id, KernelPhase.STARTED))

    def _save(self, kernel_id: KernelId) -> None:
        """The job acknowledges a checkpoint."""
        if kernel_id in self.running:
            ran_ms = max(self._now_us() - self._began_us[kernel_id], 0) // 1000
            self._saved[kernel_id] = self._kept[kernel_parts(kernel_id)[0]] = self._resumed[kernel_id] + ran_ms
            self._send_report(self._report(kernel_id, KernelPhase.STARTED))

    def _exit(self, kernel_id: KernelId, *, code: int | None = None, signal: int | None = None) -> None:
        if self.running.pop(kernel_id, None) is not None:
            self._end(kernel_id, evidence=EndEvidence.EXIT_FILE, exit_code=code, signal=signal)

    def _end(
        self, kernel_id: KernelId, *, evidence: EndEvidence, phase: KernelPhase = KernelPhase.EXITED, **more: object
    ) -> None:
        self._ends[kernel_id] = self._report(kernel_id, phase, evidence=evidence, **more)
        self._send_report(self._ends[kernel_id])

    def _is_missed(self, stops: int) -> None:
        if self.is_paused and self.pauses == stops:
            self.disconnect()

    def _send_report(self, report: KernelReport) -> None:
        message = KernelChanged(agent_id=self.id, report=report)
        if self.is_paused:
            self._queued_messages.append(message)
        else:
            self.send(message)

    def _report(self, kernel_id: KernelId, phase: KernelPhase, **more: object) -> KernelReport:
        more |= {"saved_ms": self._saved.get(kernel_id), "resumed_ms": self._resumed.get(kernel_id)}
        return KernelReport(kernel_id=kernel_id, phase=phase, at_us=self._now_us(), **more)  # type: ignore[arg-type]  # by name

    def _description(self) -> Agent:
        return Agent(
            id=self.id,
            version=0,
            node_id=NodeId(f"node-{self.id}"),
            hostname=str(self.id),
            devices=self.devices,
            slot_types={slot: SlotType.COUNT for device in self.devices for slot in device.costs},
            boot_id=f"boot-{self.boots}",
            registered_us=0,
            state_changed_us=0,
        )


def check_ranks_run_once(machines: dict[str, Machine]) -> None:
    """No rank of a session runs twice, even in different attempts."""
    alive = Counter((kernel_parts(k)[0], kernel_parts(k)[2]) for machine in machines.values() for k in machine.running)
    twice = [rank for rank, count in alive.items() if count > 1]
    assert not twice, f"{twice} run twice at a time"
