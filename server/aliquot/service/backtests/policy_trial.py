"""Policy trial: weights that a tuning applied by itself, watched by the leader, and taken back if waits get too long.

Forecasts tell a band for the start of each waiting session under the present policy; one session in ten starts after
its P90. While more than `ABOVE_MAX` of the sessions that were told a wait under the policy on trial start after theirs,
live waits are outside the band. When they stay outside for `LEFT_US`, the weights of before are put back. The trial is
a record in the event log, so that it survives a restart and a failover, and each of its steps is in the audit.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from aliquot.core.foresight.accuracy import SHOWN_MIN
from aliquot.core.policy_changes import amended
from aliquot.service.operators import check_version
from aliquot.service.ports import Clock, NotLeader, StoreUnavailable
from aliquot.service.state.journal import Journal
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot.service.views.terms import moment
from aliquot_schema.errors import StateConflict
from aliquot_schema.ids import UserId
from aliquot_schema.orchestration import Action
from aliquot_schema.views.backtests import BacktestView, TuningReport

BY_TUNING: Final = UserId("system:tuning")
"""Actor of what tunings and trials do by themselves."""
TRIAL_ID: Final = "policy_trial"
ABOVE_MAX: Final = 0.25
"""Of the sessions that were told a wait, those that started after their P90; 0.1 are expected."""
LEFT_H: Final = 6
LEFT_US: Final = LEFT_H * 3_600_000_000
TRIAL_US: Final = 14 * 86_400_000_000
"""A policy that is not taken back within this time stays."""
EVERY_S: Final = 600.0
OPEN: Final = "on trial"
TAKEN_BACK: Final = "taken back"
log: Final = logging.getLogger("aliquot.policy")


def apply_proposal(draft: UnitOfWork, name: str, tuning: TuningReport, *, now_us: int) -> int:
    """Change the policy to the proposal of a tuning; returns the new version.

    Raises:
        VersionConflict: the policy has changed since the tuning began.
    """
    known = draft.policy()
    check_version("the policy", expected=tuning.base_version, actual=known.version, advice="tune again")
    weights = {change.field: change.value for change in tuning.changes}
    news = draft.put(replace(amended(known, {"weights": weights}), changed_us=now_us), "changed")
    words = ", ".join(f"{change.name}={change.after}" for change in tuning.changes)
    facts = {"tuning": name, "changes": words, "verdict": tuning.verdict, "version": str(news.version)}
    draft.put(Action(id="tuning_applied", facts=facts), "tuning_applied")
    return news.version


def apply_on_trial(draft: UnitOfWork, name: str, tuning: TuningReport, *, now_us: int) -> int:
    """As `apply_proposal`, and record that this version of the policy is on trial, with the weights of before. No
    effect if that is recorded already: the database may hold a commit that it could not confirm."""
    trial = draft.action(TRIAL_ID)
    if trial is not None and trial.facts["tuning"] == name:
        return int(trial.facts["version"])
    before = msgspec.json.encode(draft.policy().weights).decode()
    version = apply_proposal(draft, name, tuning, now_us=now_us)
    facts = {"state": OPEN, "tuning": name, "version": str(version), "since_us": str(now_us), "before": before}
    draft.put(Action(id=TRIAL_ID, facts=facts), "policy_trial_begun")
    return version


def check_no_trial(state: State) -> None:
    """Check that no policy is on trial, so that another one may be.

    Raises:
        StateConflict: one is.
    """
    trial = state.actions.get(TRIAL_ID)
    facts = {} if trial is None else trial.facts
    version = str(state.policy.version)
    if facts.get("state") == OPEN and facts["version"] == version:
        until = moment(int(facts["since_us"]) + TRIAL_US)
        text = f"version {version} of the policy, from {facts['tuning']}, is on trial until {until:%Y-%m-%d %H:%M} UTC"
        advice = "tune without a trial (`manual`; no `--auto`), or end this one by a change of the policy"
        raise StateConflict(f"{text}; {advice}", id=facts["tuning"], state=OPEN)


def with_outcome(view: BacktestView, state: State) -> BacktestView:
    """A tuning with the reason why the policy is no longer the one that it made, if so."""
    version, trial = view.applied_version, state.actions.get(TRIAL_ID)
    if version is None or version == state.policy.version:
        return view
    facts = {} if trial is None else trial.facts
    if facts.get("tuning") == view.id and facts.get("state") == TAKEN_BACK:
        return replace(view, superseded=f"it was taken back: {facts['reason']}")
    return replace(view, superseded=f"the policy was changed since; it has version {state.policy.version} now")


class PolicyTrial:
    """Watches the trial, if there is one. Runs on the leader."""

    def __init__(self, *, state: State, journal: Journal, clock: Clock) -> None:
        self._state = state
        self._journal = journal
        self._clock = clock

    async def run(self) -> None:
        """Look every ten minutes until canceled."""
        while True:
            await self._clock.sleep(EVERY_S)
            try:
                await self.run_once()
            except (NotLeader, StoreUnavailable):
                raise
            except Exception:
                log.exception("the policy on trial could not be examined; next attempt in %g s", EVERY_S)

    async def run_once(self) -> str | None:
        """Look once; returns the kind of event that was written, if any."""
        trial = self._state.actions.get(TRIAL_ID)
        if trial is None or trial.facts.get("state") != OPEN:
            return None
        what, facts = self._next(trial.facts)
        if what is None:
            return None

        def change(draft: UnitOfWork) -> str | None:
            known = draft.action(TRIAL_ID)
            if known is None or known.facts != trial.facts:
                return None
            if what == "policy_trial_taken_back":
                policy = draft.policy()
                if str(policy.version) != trial.facts["version"]:
                    return None
                weights: dict[str, Any] = msgspec.json.decode(trial.facts["before"])
                news = amended(policy, {"weights": weights})
                draft.put(replace(news, changed_us=self._clock.now_us()), "changed")
            draft.put(Action(id=TRIAL_ID, facts=facts), what)
            return what

        written = await self._journal.persist(change, actor=BY_TUNING)
        if written == "policy_trial_taken_back":
            log.warning("the tuned policy was taken back: %s", facts["reason"])
        return written

    def _next(self, facts: Mapping[str, str]) -> tuple[str | None, dict[str, str]]:
        """The next event of a trial, and its facts then."""
        now_us, known = self._clock.now_us(), dict(facts)
        left_us = known.pop("left_us", None)
        if str(self._state.policy.version) != facts["version"]:
            return "policy_trial_ended", known | {"state": "ended", "reason": "the policy was changed"}
        above = self._above(facts["version"])
        is_out = above is not None and above > ABOVE_MAX
        if above is not None and is_out and left_us is not None and now_us - int(left_us) >= LEFT_US:
            what = f"{100 * above:.0f} % of the sessions started after the P90 they were told"
            return "policy_trial_taken_back", known | {"state": TAKEN_BACK, "reason": f"{what}, for {LEFT_H} h"}
        if now_us - int(facts["since_us"]) >= TRIAL_US:
            return "policy_trial_ended", known | {"state": "kept", "reason": _kept(above)}
        if above is None or is_out == (left_us is not None):
            return None, known
        if is_out:
            return "policy_trial_left_band", known | {"left_us": str(now_us)}
        return "policy_trial_in_band", known

    def _above(self, version: str) -> float | None:
        """Part of the sessions told a wait under a version of the policy that started after their P90; None = too few
        are known."""
        groups = self._state.board.accuracy.groups
        return next((one.above for one in groups if one.group == f"policy: {version}" and one.n >= SHOWN_MIN), None)


def _kept(above: float | None) -> str:
    """Why a policy stays at the end of its trial, by the part of the sessions that started after their P90."""
    if above is None:
        return f"fewer than {SHOWN_MIN} forecasts of waits could be compared with the starts"
    if above <= ABOVE_MAX:
        return "waits stayed inside the forecasts' band"
    return f"waits have been outside the forecasts' band for less than {LEFT_H} h"
