"""Alert conditions on what running sessions make of their GPUs and of their time, by readings and predictions."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from aliquot.core.use_trend import FORGET_US, behind_twins
from aliquot.service.alerts.message_texts import NAMED_MAX, SECOND_US, duration
from aliquot.service.alerts.rules import AlertCondition
from aliquot.service.state.idle_devices import HeldDevice
from aliquot.service.state.state import State
from aliquot_schema.alerts import NoticeRule
from aliquot_schema.ids import SessionId
from aliquot_schema.states import SessionState
from aliquot_schema.views.session_parts import session_label


def gpu_idle(state: State, rule: NoticeRule, _now_us: int) -> Iterator[AlertCondition]:
    """Sessions that hold GPUs without use for longer than the threshold, each with its owner."""
    idle: dict[SessionId, list[HeldDevice]] = defaultdict(list)
    for held in state.readings.idle_devices.idle(rule.threshold * SECOND_US):
        for session_id in held.sessions & state.sessions.keys():
            idle[session_id].append(held)
    for session_id, devices in sorted(idle.items()):
        session = state.sessions[session_id]
        names = ", ".join(sorted(held.device.name for held in devices[:NAMED_MAX]))
        more = f" and {len(devices) - NAMED_MAX} more" if len(devices) > NAMED_MAX else ""
        idle_s = min(held.use.idle_us for held in devices) // SECOND_US
        since = "" if any(held.use.was_used for held in devices) else ", nor at any time since it started"
        yield AlertCondition(
            subject=session_id,
            words=f"{session_label(session)} of {session.owner} holds {names}{more} and has not used "
            f"{'it' if len(devices) == 1 else 'them'} for {duration(idle_s)}{since}",
            owners=(session.owner,),
        )


def session_overlong(state: State, rule: NoticeRule, now_us: int) -> Iterator[AlertCondition]:
    """Sessions that run far longer than similar ones did, each with its owner and both times."""
    for row in state.running_rows.rows():
        session, known = state.sessions.get(row.session_id), state.forecasts.of(row.session_id)
        if session is None or known is None or session.started_us is None or session.is_external_allocation:
            continue
        ran_ms = row.kept_ms + (now_us - session.started_us) // 1000
        if not row.is_leaving and known.is_exceeded(ran_ms, pct=rule.threshold, runs_min=rule.floor):
            words = f"{session_label(session)} of {session.owner} has run for {duration(ran_ms // 1000)}; "
            yield AlertCondition(subject=session.id, words=words + known.sentence(), owners=(session.owner,))


def use_dropped(state: State, rule: NoticeRule, _now_us: int) -> Iterator[AlertCondition]:
    """Sessions that used a GPU steadily and now use it almost not at all, each with its owner."""
    dropped: dict[SessionId, HeldDevice] = {}
    for held in state.readings.idle_devices.all():
        if held.trend.is_dropped(rule.threshold * SECOND_US):
            for session_id in held.sessions & state.sessions.keys():
                dropped.setdefault(session_id, held)
    for session_id, held in sorted(dropped.items()):
        session, steady_pct = state.sessions[session_id], held.trend.steady_pct or 0.0
        words = (
            f"{session_label(session)} of {session.owner} used {held.device.name} by {steady_pct:.0f} % and has used "
            f"it almost not at all for {duration(held.trend.low_us // SECOND_US)}, though it still runs"
        )
        yield AlertCondition(subject=session_id, words=words, owners=(session.owner,))


def slow_twin(state: State, rule: NoticeRule, _now_us: int) -> Iterator[AlertCondition]:
    """Tasks of an array that use their GPUs far less than the others do, and sessions with a GPU that is used far less
    than its others. GPUs that several sessions share are left out: their use cannot be told apart."""
    used, behind = _recent_use(state), dict[SessionId, str]()
    arrays: dict[SessionId, dict[SessionId, float]] = defaultdict(dict)
    for session_id, gpus in used.items():
        array_id = state.sessions[session_id].array_id
        if array_id is not None:
            arrays[array_id][session_id] = sum(gpus.values()) / len(gpus)
        for name, median_pct in behind_twins(gpus, pct=rule.threshold, twins_min=rule.floor).items():
            behind.setdefault(session_id, f"uses {name} by {gpus[name]:.0f} %, its other GPUs by {median_pct:.0f} %")
    for array_id, tasks in arrays.items():
        for session_id, median_pct in behind_twins(tasks, pct=rule.threshold, twins_min=rule.floor).items():
            others = f"other tasks of {array_id} theirs by {median_pct:.0f} %"
            behind[session_id] = f"uses its GPUs by {tasks[session_id]:.0f} %, {others}"
    for session_id, words in sorted(behind.items()):
        session = state.sessions[session_id]
        yield AlertCondition(
            subject=session_id,
            words=f"{session_label(session)} of {session.owner} {words}, measured over half an hour",
            owners=(session.owner,),
        )


def _recent_use(state: State) -> Mapping[SessionId, Mapping[str, float]]:
    """Mean utilization over half an hour of the GPUs that a running session holds alone, by GPU; only of sessions whose
    GPUs are all measured, now."""
    held: dict[SessionId, list[HeldDevice]] = defaultdict(list)
    for one in state.readings.idle_devices.all():
        if len(one.leases) == len(one.sessions) == 1:
            held[next(iter(one.sessions))].append(one)
    newest_us = max((one.trend.last_us or 0 for gpus in held.values() for one in gpus), default=0)
    found = {}
    for session_id, gpus in held.items():
        session = state.sessions.get(session_id)
        known = {
            f"{one.device.name} ({one.device.id})": one.trend.recent_pct
            for one in gpus
            if newest_us - (one.trend.last_us or 0) <= FORGET_US
        }
        measured = {name: value for name, value in known.items() if value is not None}
        if session is not None and session.state is SessionState.RUNNING and len(measured) == len(gpus):
            found[session_id] = measured
    return found
