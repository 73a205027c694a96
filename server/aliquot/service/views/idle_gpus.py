"""Idle GPUs behind quotas: free GPUs that waiting sessions would fit, if quotas did not hold these sessions back."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from aliquot.service.state.state import State
from aliquot.service.views.gpus import GpuKey, GpuPlace, counted, gpu_places, held_milli
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.ids import PoolId
from aliquot_schema.reasons import Reason
from aliquot_schema.resources.devices import DeviceHealth
from aliquot_schema.resources.slots import MILLI, amount_text, format_milli, is_accelerator, is_size, scale_of
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState
from aliquot_schema.views.statistics import IdleBehindQuotasView

PoolKind = tuple[PoolId, str]
"""A pool, and a kind of accelerator like `cuda`."""


def idle_behind_quotas(state: State) -> IdleBehindQuotasView | None:
    """What is idle behind quotas; None if no waiting session would fit the free GPUs. O(waiting sessions + devices).

    A session counts as held back if its reason is `quota` and it requests accelerators. GPUs count as idle if they are
    free, and one of these sessions would fit on the free ones of its pool and kind.
    """
    if not state.quotas or state.orchestration.is_stopped:
        return None
    waiting = [one for one in map(state.sessions.__getitem__, state.pending) if one.state is SessionState.QUEUED]
    held_back = [session for session in waiting if _is_held_back(state, session)]
    if not held_back:
        return None
    free = _free(state)
    fitting = {kind for session in held_back for kind in _kinds_for(session, free)}
    idle = {key: milli for kind in sorted(fitting) for key, milli in free[kind].items()}
    if not idle:
        return None
    names = {key: kind for pool, kind in sorted(fitting) for key in free[pool, kind]}
    return IdleBehindQuotasView(
        gpus_free=sum(idle.values()) / MILLI,
        sessions_held_back=len(held_back),
        sessions_waiting=len(waiting),
        message=f"{_amounts(idle, names)} free; {len(held_back)} of {len(waiting)} waiting sessions "
        f"{'is' if len(held_back) == 1 else 'are'} held back by quotas",
    )


def _is_held_back(state: State, session: Session) -> bool:
    verdict = state.verdicts.get(session.id)
    return verdict is not None and verdict.reason is Reason.QUOTA and any(map(is_accelerator, session.slots))


def _free(state: State) -> dict[PoolKind, dict[GpuKey, int]]:
    """Free milli of each GPU that has some and may be allocated, by pool and kind. Pools may share a GPU."""
    pools: dict[PoolId, list[Agent]] = defaultdict(list)
    for agent in state.agents.values():
        pools[agent.pool].append(agent)
    found: dict[PoolKind, dict[GpuKey, int]] = defaultdict(dict)
    for pool, agents in pools.items():
        places = gpu_places(state, agents)
        for key in counted(places):
            milli = MILLI - held_milli(state, key, places[key].device)
            if milli > 0 and _is_usable(places[key]):
                found[pool, places[key].device.kind][key] = milli
    return found


def _is_usable(place: GpuPlace) -> bool:
    return place.available and place.device.health is DeviceHealth.HEALTHY


def _kinds_for(session: Session, free: dict[PoolKind, dict[GpuKey, int]]) -> Iterable[PoolKind]:
    """The pool and kind of each accelerator slot of a session, if its kernels would fit on what is free there."""
    for slot, amount in session.slots.finite:
        kind = session.pool, slot.partition(".")[0]
        if amount and is_accelerator(slot) and not is_size(slot) and kind in free:
            is_share = scale_of(slot) == MILLI
            available = sum(milli for milli in free[kind].values() if is_share or milli == MILLI)
            if amount * (MILLI // scale_of(slot)) * session.request.cluster_size <= available:
                yield kind


def _amounts(idle: dict[GpuKey, int], kinds: dict[GpuKey, str]) -> str:
    """`4 GPUs are`, `0.5 GPU is`; with several kinds, each by its name."""
    sums = Counter[str]()
    for key, milli in idle.items():
        sums[kinds[key]] += milli
    texts = [_amount(kind, milli) + (f" ({kind})" if len(sums) > 1 else "") for kind, milli in sorted(sums.items())]
    is_single = len(sums) == 1 and sums.total() <= MILLI
    return f"{' and '.join(texts)} {'is' if is_single else 'are'}"


def _amount(kind: str, milli: int) -> str:
    return amount_text(f"{kind}.shares", format_milli(milli))
