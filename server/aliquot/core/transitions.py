"""Transitions: moves of sessions, kernels, leases, agents and job arrays, as functions from record to record.

The tables of moves in `states` say which are allowed. The store sets a record's next version when it writes it; nothing
here changes `version`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from zlib import crc32

from msgspec.structs import replace

from aliquot.core.saved_work import acknowledges, saved_since_preempted, without_checkpoint
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.cluster.launching import IMAGE_FAILED, KernelReport
from aliquot_schema.ids import AgentId, UserId
from aliquot_schema.intervals import Intervals
from aliquot_schema.policies import Retries
from aliquot_schema.resources.leases import EndEvidence, Kernel, Lease
from aliquot_schema.sessions import CHECKPOINT_EXIT_CODE, ArrayTasks, Failure, PreemptionReceipt, Session
from aliquot_schema.states import AGENT_MOVES, KERNEL_MOVES, SESSION_MOVES, AgentState, KernelState, SessionState

USUAL: Final = Retries()
NAMED_CHARS_MAX: Final = 200
"""Length of the list of failed indices in a message."""


def can_move(session: Session, to: SessionState) -> bool:
    """Whether the table of moves allows a session to enter a state."""
    return to in SESSION_MOVES[session.state]


def schedule(session: Session, *, now_us: int) -> Session:
    """Devices were granted: a new attempt begins."""
    moved = _session(session, SessionState.SCHEDULED)
    return replace(moved, attempt=session.attempt + 1, scheduled_us=now_us, not_before_us=None)


def send(session: Session) -> Session:
    """Launch orders are sent to the agents."""
    return _session(session, SessionState.ALLOCATING)


def start(session: Session, *, now_us: int) -> Session:
    """All kernels were reported as started."""
    return replace(_session(session, SessionState.RUNNING), started_us=now_us)


def hold_external_allocation(session: Session, *, now_us: int) -> Session:
    """An external allocation holds its devices; nothing is started for it."""
    held = _session(session, SessionState.RUNNING)
    return replace(held, attempt=session.attempt + 1, scheduled_us=now_us, started_us=now_us)


def end_external_allocation(session: Session, failure: Failure | None, *, now_us: int) -> Session:
    """An external allocation was released, or its time was over (`failure`)."""
    if failure is not None:
        return fail(session, failure, now_us=now_us)
    return replace(_session(session, SessionState.COMPLETED), ended_us=now_us)


def cancel(session: Session, *, now_us: int) -> Session:
    """Cancel it; kernels of its attempt may still be stopping."""
    return replace(_session(session, SessionState.CANCELED), ended_us=now_us, not_before_us=None, held_by=None)


def fail(session: Session, failure: Failure, *, now_us: int) -> Session:
    """End it with a failure."""
    return replace(
        _session(session, SessionState.FAILED), ended_us=now_us, failure=failure, not_before_us=None, held_by=None
    )


def hold(session: Session, by: UserId) -> Session:
    """Hold it back from being scheduled."""
    return replace(_session(session, SessionState.HELD), held_by=by)


def release_hold(session: Session) -> Session:
    """Release it from a hold; it keeps its place in the queue."""
    return replace(_session(session, SessionState.QUEUED), held_by=None)


def requeue(
    session: Session, *, now_us: int, failure: Failure, retries: Retries = USUAL, without: AgentId | None = None
) -> Session:
    """Queue it again after a failure of the system, to be retried later, or end it if no retry is left.

    A refusal by an agent that cannot run it (`without`) uses no retry; that agent is excluded instead.
    """
    if without is not None:
        excluded = tuple(dict.fromkeys((*session.excluded_agents, without)))
        again = _session(session, SessionState.QUEUED)
        return replace(again, excluded_agents=excluded, scheduled_us=None, started_us=None)
    if session.retries >= max(session.spec.max_retries, retries.tries_min):
        return fail(session, failure, now_us=now_us)
    return _later(session, retries, now_us=now_us)


def requeue_until(session: Session, *, until_us: int) -> Session:
    """Queue it again without using a retry; it does not start before."""
    again = replace(_session(session, SessionState.QUEUED), not_before_us=until_us)
    return replace(again, scheduled_us=None, started_us=None)


def run_again(session: Session, *, now_us: int, from_checkpoint: bool = False) -> Session:
    """Queue an ended session again, as if submitted now, with all its retries.

    The only move out of an end state. None of its kernels may be left.

    Args:
        from_checkpoint: whether its next attempt is to start from its last acknowledged checkpoint, wherever that is.
    """
    assert session.is_ended, f"{session.id} is {session.state}"
    return replace(
        session,
        state=SessionState.QUEUED,
        queued_us=now_us,
        retries=0,
        excluded_agents=(),
        not_before_us=None,
        scheduled_us=None,
        started_us=None,
        ended_us=None,
        exit_code=None,
        signal=None,
        failure=None,
        held_by=None,
        fallback_level=0,
        preemptions=0,
        preemption=None,
        preflight=None,
        pull=None,
        work=session.work if from_checkpoint else without_checkpoint(session.work),
    )


CONTAINER_FAILED: Final = 125
"""Exit code of Podman and Docker when a container cannot be made: no such image, no credentials, a full disk."""


def finish(session: Session, kernels: Sequence[Kernel], *, now_us: int, retries: Retries = USUAL) -> Session:
    """End it after all of its kernels have ended; the first rank that failed sets the exit code.

    If that rank was lost, or its owner asked for it, the session is retried instead while retries are left.
    """
    failed = first_failed(kernels)
    if failed is None:
        return replace(_session(session, SessionState.COMPLETED), ended_us=now_us, exit_code=0)
    if session.retries < _tries(session, failed, retries):
        return _later(session, retries, now_us=now_us)
    ended = replace(session, exit_code=failed.exit_code, signal=failed.signal)
    why = _failure_of(failed)
    if session.spec.image is not None and failed.exit_code == CONTAINER_FAILED and failed.message is None:
        text = f"the image {session.spec.image} could not be fetched or started; its output says why"
        why = Failure(code=IMAGE_FAILED, message=f"rank {failed.rank} on {failed.agent_id}: {text}")
    return fail(ended, why, now_us=now_us)


def is_lost(kernel: Kernel) -> bool:
    """Whether a kernel ended through no act of its own: its node rebooted, its shim died, or it never started.

    A signal with a message was not seen by the shim: the agent killed the remaining processes.
    """
    has_own_end = kernel.exit_code is not None or (kernel.signal is not None and kernel.message is None)
    return not has_own_end and not kernel.timed_out


def backoff_ms(session: Session, retries: Retries) -> int:
    """Wait before the next retry: doubled per retry, with a jitter that is the same in every replay."""
    wait_ms = min(retries.wait_ms_first << min(session.retries, 40), retries.wait_ms_max)
    thousandths = crc32(f"{session.id}/{session.retries}".encode()) % 2001 - 1000
    return wait_ms + wait_ms * retries.jitter_pct * thousandths // 100_000


def first_failed(kernels: Sequence[Kernel]) -> Kernel | None:
    """The first kernel to end other than with exit code 0."""
    failed = [kernel for kernel in kernels if kernel.state is KernelState.EXITED and kernel.exit_code != 0]
    return min(failed, key=lambda kernel: (kernel.ended_us or 0, kernel.rank)) if failed else None


def _failure_of(kernel: Kernel) -> Failure:
    where = f"rank {kernel.rank} on {kernel.agent_id}"
    if kernel.timed_out:
        return Failure(code="time_limit", message=f"{where} was stopped at the session's time limit")
    if kernel.message is not None:
        return Failure(code="kernel_lost" if kernel.exit_code is None else "exec_failed", message=kernel.message)
    if kernel.signal is not None:
        return Failure(code="signal", message=f"{where} was ended by signal {kernel.signal}")
    if kernel.exit_code is None:
        return Failure(code="kernel_lost", message=f"{where} was lost without an exit code")
    return Failure(code="exit_code", message=f"{where} exited with code {kernel.exit_code}")


def move_kernel(kernel: Kernel, to: KernelState) -> Kernel:
    """Change the state of a kernel alone."""
    assert to in KERNEL_MOVES[kernel.state], f"{kernel.id}: {kernel.state} -> {to}"
    return replace(kernel, state=to)


def start_kernel(kernel: Kernel, report: KernelReport, *, now_us: int) -> Kernel:
    """Its agent reported that it runs. The first report sets the start, limited by the server's clock."""
    began_us = max(kernel.granted_us, min(report.at_us, now_us)) if kernel.started_us is None else kernel.started_us
    running = move_kernel(kernel, KernelState.RUNNING)
    return replace(running, started_us=began_us, takes_limit=report.takes_limit)


def end_kernel(kernel: Kernel, report: KernelReport, *, now_us: int) -> Kernel:
    """Its end was reported."""
    return replace(
        move_kernel(kernel, KernelState.EXITED),
        ended_us=now_us,
        exit_code=report.exit_code,
        signal=report.signal,
        timed_out=report.timed_out,
        message=report.message,
        host_use=report.host_use,
    )


def release(lease: Lease, evidence: EndEvidence, *, now_us: int) -> Lease:
    """Release the devices of a lease."""
    assert lease.released_us is None, f"{lease.id} was released before"
    return replace(lease, released_us=now_us, evidence=evidence)


def move_agent(agent: Agent, to: AgentState, *, now_us: int) -> Agent:
    """Change the state of an agent; the same state again changes nothing."""
    if agent.state is to:
        return agent
    assert to in AGENT_MOVES[agent.state], f"{agent.id}: {agent.state} -> {to}"
    return replace(agent, state=to, state_changed_us=now_us)


def _tries(session: Session, failed: Kernel, retries: Retries) -> int:
    if is_lost(failed):
        return max(session.spec.max_retries, retries.tries_min)
    return session.spec.max_retries if session.spec.retries_own_failures else 0


def _later(session: Session, retries: Retries, *, now_us: int) -> Session:
    later_us = now_us + backoff_ms(session, retries) * 1000
    again = replace(_session(session, SessionState.QUEUED), retries=session.retries + 1, not_before_us=later_us)
    return replace(again, scheduled_us=None, started_us=None)


def _session(session: Session, to: SessionState) -> Session:
    assert can_move(session, to), f"{session.id}: {session.state} -> {to}"
    return replace(session, state=to)


def place_of(session: Session) -> str:
    """Name of the array's set that holds a task's index: `active` until it ends, then its end state."""
    return str(session.state) if session.is_ended else "active"


def with_task(array: Session, index: int, *, place: str) -> Session:
    """The array with one index moved to a set: `waiting`, `active`, `completed`, `failed` or `canceled`."""
    tasks = array.tasks
    assert tasks is not None, f"{array.id} is no array"
    sets: dict[str, Intervals] = {name: indices.without(index) for name, indices in _sets(tasks).items()}
    sets[place] = sets[place].with_number(index)
    return _with(array, tasks, sets)


def with_tasks(array: Session, indices: Intervals, *, place: str) -> Session:
    """As `with_task`, for many indices."""
    tasks = array.tasks
    assert tasks is not None, f"{array.id} is no array"
    moved = frozenset(indices)
    sets = {name: Intervals.of(index for index in known if index not in moved) for name, known in _sets(tasks).items()}
    sets[place] = Intervals.joined((*sets[place].spans, *indices.spans))
    return _with(array, tasks, sets)


def start_task(array: Session, index: int, *, now_us: int) -> Session:
    """The array after one of its tasks got devices; an array has started with its first task."""
    first_us = now_us if array.started_us is None else array.started_us
    begun = replace(with_task(array, index, place="active"), scheduled_us=first_us, started_us=first_us)
    return settled(begun, now_us=now_us)


def _with(array: Session, tasks: ArrayTasks, sets: Mapping[str, Intervals]) -> Session:
    return replace(array, tasks=ArrayTasks(max_parallel=tasks.max_parallel, **sets))


def settled(array: Session, *, now_us: int) -> Session:
    """The array in the state that follows from its tasks: running once none waits, ended with the last of them."""
    tasks = array.tasks
    assert tasks is not None, f"{array.id} is no array"
    if array.is_ended or tasks.waiting:
        return array
    if tasks.active:
        return _running(array, now_us=now_us)
    if tasks.failed:
        return fail(array, _failure(tasks), now_us=now_us)
    if tasks.canceled:
        return cancel(array, now_us=now_us)
    return finish(array, (), now_us=now_us)


def _running(array: Session, *, now_us: int) -> Session:
    if array.state is SessionState.RUNNING:
        return array
    free = release_hold(array) if array.state is SessionState.HELD else array
    first_us = now_us if array.started_us is None else array.started_us
    return replace(start(free, now_us=first_us), scheduled_us=first_us)


def _failure(tasks: ArrayTasks) -> Failure:
    which = str(tasks.failed)
    named = which if len(which) <= NAMED_CHARS_MAX else f"{which[:NAMED_CHARS_MAX]}..."
    total = sum(len(indices) for indices in _sets(tasks).values())
    return Failure(code="tasks_failed", message=f"{len(tasks.failed)} of {total} tasks failed: {named}")


def _sets(tasks: ArrayTasks) -> dict[str, Intervals]:
    return {
        "waiting": tasks.waiting,
        "active": tasks.active,
        "completed": tasks.completed,
        "failed": tasks.failed,
        "canceled": tasks.canceled,
    }


def preempt(session: Session, receipt: PreemptionReceipt) -> Session:
    """Preempt it: it runs on until it ends or its grace is over."""
    assert can_move(session, SessionState.PREEMPTING), f"{session.id} is {session.state}"
    return replace(
        session, state=SessionState.PREEMPTING, preemption=replace(receipt, kept_ms=kept_ms(session, receipt))
    )


def kept_ms(session: Session, receipt: PreemptionReceipt) -> int:
    """Run time whose work a session keeps in a preemption: that of its last acknowledged checkpoint; if it neither
    promised nor acknowledged one, all of it with a checkpoint signal, else none."""
    if acknowledges(session):
        return 0 if session.work is None else session.work.kept_ms
    if session.spec.checkpoint_signal is None:
        return 0
    before_ms = 0 if session.preemption is None else session.preemption.kept_ms
    ran_ms = 0 if session.started_us is None else max(receipt.at_us - session.started_us, 0) // 1000
    return before_ms + ran_ms


def requeue_preempted(session: Session, *, lost: int) -> Session:
    """Queue a preempted session again in its old place, without using a retry.

    Args:
        lost: milli of a device x milliseconds that its attempt used since its last acknowledged checkpoint.
    """
    assert session.state is SessionState.PREEMPTING, f"{session.id} is {session.state}"
    assert session.preemption is not None, f"{session.id} was not preempted"
    receipt = replace(session.preemption, lost_ms=lost)
    if acknowledges(session):
        receipt = replace(receipt, kept_ms=kept_ms(session, receipt))
    return replace(
        session,
        state=SessionState.QUEUED,
        preemptions=session.preemptions + 1,
        preemption=receipt,
        scheduled_us=None,
        started_us=None,
    )


def ended_by_itself(session: Session, kernels: Sequence[Kernel]) -> bool:
    """Whether a preempted session ended on its own instead of by the preemption.

    It did if it succeeded, reached its time limit, or exited before the stop. The stop is at the end of the grace with
    a checkpoint signal, and at the preemption without one. An end by a signal counts as the preemption's, and so does
    any end with an exit code other than 0 once it has acknowledged a checkpoint since.

    Args:
        kernels: of its attempt, all exited.
    """
    failed = first_failed(kernels)
    if failed is None or failed.timed_out:
        return True
    assert session.preemption is not None, f"{session.id} was not preempted"
    if failed.exit_code == CHECKPOINT_EXIT_CODE or saved_since_preempted(session):
        return False
    stop_us = session.preemption.until_us if session.spec.checkpoint_signal is not None else session.preemption.at_us
    was_stopped = failed.ended_us is None or failed.ended_us >= stop_us
    return failed.exit_code is not None and not was_stopped


def is_overdue(session: Session, *, now_us: int) -> bool:
    """Whether the grace of a preempted session is over."""
    leaves = session.state is SessionState.PREEMPTING and session.preemption is not None
    return leaves and session.preemption is not None and session.preemption.until_us <= now_us


def unstopped(kernels: Iterable[Kernel]) -> list[Kernel]:
    """Kernels that have not been ordered to stop."""
    return [kernel for kernel in kernels if kernel.state not in (KernelState.EXITED, KernelState.STOPPING)]
