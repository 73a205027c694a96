"""Policy and pause: reads and changes the scheduling policy, and stops and starts scheduling for all servers.

Views of the policy give durations in seconds; the stored document has milliseconds.
"""

import logging
from typing import Final

from msgspec.structs import replace

from aliquot.core.policy_changes import amended
from aliquot.core.validation.fields import label
from aliquot.service.operators import OperatorCommands, check_version
from aliquot.service.ports import Clock
from aliquot.service.state.journal import Journal
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot.service.views.terms import moment
from aliquot_schema.billing import MICROS, Prices
from aliquot_schema.errors import InvalidRequest, StateConflict
from aliquot_schema.ids import PoolId, UserId, natural_key
from aliquot_schema.orchestration import OperatingMode, OrchestratorState
from aliquot_schema.policies import (
    AGE_UNIT_DEPRECATION,
    FIXED_AGE_WEIGHTS,
    VICTIMS,
    Charges,
    IdleRules,
    PolicyDocument,
    Pool,
    Weights,
)
from aliquot_schema.requests import Caller
from aliquot_schema.resources.units import format_size
from aliquot_schema.states import AgentState
from aliquot_schema.views.admin import (
    ChargesView,
    IdleRulesView,
    ModelChargeView,
    PolicyChanged,
    PolicyChanges,
    PolicyView,
    PoolView,
    PreemptionView,
    ProjectIdleView,
    RetriesView,
    WeightsView,
)
from aliquot_schema.views.billing import PricesView, PriceView

log: Final = logging.getLogger("aliquot.policy")

BY_SETTING: Final = UserId("system:settings")
"""Actor of changes that come from the initial settings."""
BY_UPGRADE: Final = UserId("system:upgrade")
"""Actor of changes to records of earlier releases."""


class SchedulingPause(OperatorCommands):
    """While stopped, nothing is placed or preempted; running sessions, the reaper and submissions continue."""

    def __init__(self, *, state: State, journal: Journal, clock: Clock, mode: OperatingMode) -> None:
        super().__init__(state=state, journal=journal, clock=clock)
        self._mode = mode

    async def stop_orchestrator(self, caller: Caller, note: str | None) -> int:
        """Stop scheduling; returns the revision. When it is stopped already, the first actor and time stay, and
        a newer note replaces the older one.

        Raises:
            Forbidden: the caller is no operator.
            InvalidRequest: the note is too long.
        """
        return await self._set_state(caller, OrchestratorState.STOPPED, note)

    async def start_orchestrator(self, caller: Caller, note: str | None) -> int:
        """Start scheduling; returns the revision. As `stop_orchestrator`.

        Raises:
            InvalidRequest: the server is in a mode that starts nothing.
        """
        if self._mode is not OperatingMode.ENFORCE:
            what = f"this server runs in the mode {self._mode}, which starts nothing"
            raise InvalidRequest(f"{what}; start it without --{self._mode} first")
        return await self._set_state(caller, OrchestratorState.RUNNING, note)

    async def _set_state(self, caller: Caller, to: OrchestratorState, note: str | None) -> int:
        words = label(note, field="note")

        def change(draft: UnitOfWork) -> None:
            move(draft, to, by=caller.user, now_us=self._clock.now_us(), note=words)

        await self._act(caller, change)
        return self._state.revision


def move(draft: UnitOfWork, to: OrchestratorState, *, by: UserId, now_us: int, note: str | None = None) -> None:
    """Record the new state of the orchestrator; when it is in that state already, only another note."""
    known = draft.orchestration()
    if known.state is to:
        if note is not None and note != known.note:
            draft.put(replace(known, note=note), _WORDS[to])
        return
    draft.put(replace(known, state=to, changed_by=by, changed_us=now_us, note=note), _WORDS[to])


async def begin_stopped(journal: Journal, clock: Clock) -> bool:
    """Stop scheduling in a cluster where it was never stopped or started; otherwise leave it as it is.

    Returns:
        Whether scheduling is stopped now.
    """

    def change(draft: UnitOfWork) -> bool:
        known = draft.orchestration()
        if known.version:
            return known.state is OrchestratorState.STOPPED
        move(draft, OrchestratorState.STOPPED, by=BY_SETTING, now_us=clock.now_us())
        return True

    return await journal.transact(change, actor=BY_SETTING)


async def stop_to_observe(journal: Journal, clock: Clock, mode: OperatingMode) -> None:
    """Stop scheduling, whatever was decided before: the server is in a mode that starts nothing."""
    note = f"the server was started in the mode {mode}"

    def change(draft: UnitOfWork) -> None:
        move(draft, OrchestratorState.STOPPED, by=BY_SETTING, now_us=clock.now_us(), note=note)

    await journal.transact(change, actor=BY_SETTING)


async def renew_weights(journal: Journal, clock: Clock) -> bool:
    """Replace the default weights of earlier releases in the stored policy by today's; weights that differ stay.

    Those weights were made for a unit of age of seven days. Under the present unit they give fair share four times the
    weight of the default.

    Returns:
        Whether they were replaced; the audit shows the change under `system:upgrade`.
    """

    def change(draft: UnitOfWork) -> bool:
        known = draft.policy()
        if known.weights != FIXED_AGE_WEIGHTS:
            return False
        draft.put(replace(known, weights=Weights(), changed_us=clock.now_us()), "changed")
        return True

    return await journal.transact(change, actor=BY_UPGRADE)


_WORDS: Final = {OrchestratorState.STOPPED: "stopped", OrchestratorState.RUNNING: "started"}


def _pool(name: PoolId, pool: Pool) -> PoolView:
    memory = pool.mem_bytes_per_gpu
    return PoolView(
        name=name,
        default_limit=_seconds(pool.default_limit_ms),
        cpu_per_gpu=pool.cpu_per_gpu,
        mem_per_gpu=None if memory is None else format_size(memory),
        idle=pool.idle,
    )


def _idle(rules: IdleRules) -> IdleRulesView:
    projects = tuple(
        ProjectIdleView(project=name, action=action)
        for name, action in sorted(rules.projects.items(), key=lambda item: natural_key(item[0]))
    )
    return IdleRulesView(
        action=rules.action,
        tell=rules.tell_ms / 1000,
        again=rules.again_ms / 1000,
        act=rules.act_ms / 1000,
        keep=rules.keep_ms / 1000,
        projects=projects,
    )


def policy_view(policy: PolicyDocument) -> PolicyView:
    """View of a policy; durations in seconds."""
    preemption, retries = policy.preemption, policy.retries
    return PolicyView(
        version=policy.version,
        order=policy.order,
        backfill=policy.backfill,
        backfill_depth=policy.backfill_depth,
        placement=policy.placement,
        allocation=policy.allocation,
        allow_fragmentation=policy.allow_fragmentation,
        numa=policy.numa,
        weights=_weights(policy.weights),
        half_life=policy.half_life_ms / 1000,
        charges=_charges(policy.charges),
        pools=tuple(_pool(name, policy.pools[name]) for name in sorted(policy.pools, key=natural_key)),
        preemption=PreemptionView(
            preempt=preemption.preempt,
            victims=VICTIMS[preemption.preempt],
            run_min=preemption.run_ms_min / 1000,
            preemptions_max=preemption.preemptions_max,
            grace=preemption.grace_ms / 1000,
            restart=preemption.restart_ms / 1000,
            idle=_idle(preemption.idle),
        ),
        retries=RetriesView(
            tries_min=retries.tries_min,
            wait_first=retries.wait_ms_first / 1000,
            wait_max=retries.wait_ms_max / 1000,
            jitter_pct=retries.jitter_pct,
        ),
        prices=prices_view(policy.prices),
        user_priority_max=policy.user_priority_max,
        changed_at=moment(policy.changed_us) if policy.changed_us else None,
    )


def prices_view(prices: Prices) -> PricesView:
    """View of prices, in units of the currency."""
    rates = (
        PriceView(
            price=rate.micros / MICROS,
            model=rate.model or None,
            pool=rate.pool or None,
            from_hour=rate.from_hour,
            until_hour=rate.until_hour,
        )
        for rate in prices.rates
    )
    return PricesView(
        rates=tuple(rates),
        currency=prices.currency,
        utc_offset_minutes=prices.utc_offset_minutes,
        at_budget=prices.at_budget,
    )


def _weights(weights: Weights) -> WeightsView:
    return WeightsView(
        age=weights.age,
        age_unit=weights.age_unit_ms / 1000,
        fair=weights.fair,
        short=weights.short,
        short_half=weights.short_half_ms / 1000,
        priority=weights.priority,
        level=weights.level_ms / 1000,
        sjf_age_pct=weights.sjf_age_pct,
        wait_bound=weights.wait_bound_ms / 1000,
    )


def _charges(charges: Charges) -> ChargesView:
    return ChargesView(
        accelerators=tuple(
            ModelChargeView(model=model, milli=milli) for model, milli in sorted(charges.accelerator_milli.items())
        ),
        cpu_milli=charges.cpu_milli,
        mem_gib_milli=charges.mem_gib_milli,
    )


def _seconds(duration_ms: int | None) -> float | None:
    return None if duration_ms is None else duration_ms / 1000


class Policies(OperatorCommands):
    """The policy document. A change takes effect in the next pass."""

    def policy(self, caller: Caller) -> PolicyView:
        """The present policy."""
        return policy_view(self._state.policy)

    async def update_policy(
        self, caller: Caller, changes: PolicyChanges, expected_version: int | None
    ) -> PolicyChanged:
        """Change fields of the policy, all or none. Values equal to the present ones are no change.

        Raises:
            Forbidden: the caller is no operator.
            VersionConflict: the policy has another version than expected.
            InvalidRequest: a value is invalid.
            StateConflict: the change removes a pool that is in use.
        """

        def change(draft: UnitOfWork) -> PolicyDocument:
            known = draft.policy()
            check_version("the policy", expected=expected_version, actual=known.version)
            news = amended(known, changes)
            if news == known:
                return known
            if news.weights.age_unit_ms != known.weights.age_unit_ms:
                log.warning("weights.age_unit: %s", AGE_UNIT_DEPRECATION)
            self._refuse_to_drop_pools(known, news)
            return draft.put(replace(news, changed_us=self._clock.now_us()), "changed")

        changed = await self._act(caller, change)
        return PolicyChanged(policy=policy_view(changed), revision=self._state.revision)

    def _refuse_to_drop_pools(self, known: PolicyDocument, news: PolicyDocument) -> None:
        for pool in known.pools:
            if pool in news.pools:
                continue
            agents = [agent.id for agent in self._state.agents.values() if agent.pool == pool]
            sessions = [
                known.id for known in self._state.sessions.values() if known.pool == pool and not known.is_ended
            ]
            users = [
                *(name for name in agents if self._state.agents[name].state is not AgentState.LEFT),
                *sessions,
            ]
            if users:
                raise StateConflict(
                    f"pools: {pool} cannot be removed; {', '.join(users[:5])} are in it", id=pool, state="in use"
                )
