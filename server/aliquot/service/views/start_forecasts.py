"""Forecast views: when a session is forecast to start, and how accurate such forecasts were."""

from typing import Final

from aliquot.core.foresight.accuracy import GroupAccuracy
from aliquot.core.foresight.bands import Band
from aliquot.core.foresight.scoring import NOW_SLACK_US
from aliquot.core.foresight.shown_forecasts import ForecastOutcome, ForecastRecord, ShownForecast
from aliquot.service.state.forecast_board import NOT_YET, ForecastBoard
from aliquot.service.state.state import State
from aliquot.service.views.terms import moment, moment_or_none
from aliquot_schema.reasons import Reason
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState
from aliquot_schema.views.forecasts import (
    ForecastAccuracyView,
    ForecastGroupView,
    ForecastView,
    StartForecastView,
    TimeBandView,
)

PASSED: Final = "its band has passed, and nothing has changed in the cluster since"
NOT_STARTED: Final = "the next pass was to start it and has not; the next forecast has not been made yet"
STOPPED: Final = "scheduling is stopped"
CONDITIONS: Final = {
    Reason.HELD: "it is held, so it starts when it is released and its turn has come",
    Reason.DEPENDENCY: "it waits for sessions that it depends on",
    Reason.CLUSTER_UNAVAILABLE: "no agent is reachable",
    Reason.NO_AGENT: "no agent that could run it takes new sessions",
}
"""Reasons to wait that no forecast foresees the end of."""


def forecast_view(state: State, session: Session) -> ForecastView | None:
    """The forecasts of a session; None if it does not wait and was never told one."""
    board = state.board
    packed = board.first.get(session.id)
    first = None if packed is None else packed.record()
    if not session.is_pending:
        return None if first is None else _view(first, None, board=board, missing=None)
    newest = board.now.get(session.id)
    condition = _condition(state, session)
    missing = condition or board.missing or (NOT_YET if newest is None else None)
    now = None if condition or newest is None else newest.shown()
    return _view(first, now, board=board, missing=missing)


def hypothetical_view(state: State, shown: ShownForecast | None, *, missing: str | None) -> ForecastView:
    """The forecast of a session that is not submitted."""
    return _view(None, shown, board=state.board, missing=missing)


def _condition(state: State, session: Session) -> str | None:
    if state.orchestration.is_stopped:
        return STOPPED
    if session.state is SessionState.HELD:
        return CONDITIONS[Reason.HELD]
    verdict = state.verdicts.get(session.id)
    return None if verdict is None else CONDITIONS.get(verdict.reason)


def _view(
    first: ForecastRecord | None, now: ShownForecast | None, *, board: ForecastBoard, missing: str | None
) -> ForecastView:
    shown = now or (None if first is None else first.shown)
    is_counted = shown is not None and shown.alike > 0
    return ForecastView(
        now=None if now is None else _start_forecast(now, seen_us=board.seen_us, is_newest=True),
        at_submission=None if first is None else _start_forecast(first.shown, seen_us=board.seen_us, is_newest=False),
        came_true=None if first is None else _came_true(first),
        alike=shown.alike if shown is not None and is_counted else None,
        alike_inside=shown.alike_inside if shown is not None and is_counted else None,
        missing=missing,
    )


def _start_forecast(shown: ShownForecast, *, seen_us: int, is_newest: bool) -> StartForecastView:
    """A forecast; of the newest, what has passed is cut off, because the session waits still."""
    forecast = shown.forecast
    start_us, end_us, unknown = forecast.start_us, forecast.end_us, forecast.unknown
    is_now = forecast.starts_now and not (is_newest and seen_us - forecast.made_us > NOW_SLACK_US)
    if is_newest and start_us is not None and not is_now:
        if start_us.p90 <= seen_us:
            start_us = end_us = None
            unknown = NOT_STARTED if forecast.starts_now else PASSED
        else:
            start_us = _from(start_us, seen_us)
            end_us = None if end_us is None else _from(end_us, seen_us)
    return StartForecastView(
        made_at=moment(forecast.made_us),
        age=max(seen_us - forecast.made_us, 0) / 1e6,
        starts_now=is_now,
        start=_band(start_us),
        end=_band(end_us),
        within_hour=None if unknown else forecast.within_hour,
        runs_known=forecast.runs_known,
        unknown=unknown,
        basis=forecast.basis.value,
    )


def _from(band: Band, first_us: int) -> Band:
    return Band(*(max(value, first_us) for value in band))


def _band(band: Band | None) -> TimeBandView | None:
    return None if band is None else TimeBandView(p10=moment(band.p10), p50=moment(band.p50), p90=moment(band.p90))


def _came_true(record: ForecastRecord) -> bool | None:
    start_us = record.shown.forecast.start_us
    if record.outcome is ForecastOutcome.LATE:
        return False
    if record.outcome is not ForecastOutcome.STARTED or record.settled_us is None or start_us is None:
        return None
    return start_us.contains(record.settled_us)


def accuracy_view(board: ForecastBoard) -> ForecastAccuracyView:
    """How accurate forecasts were."""
    report = board.accuracy
    made = report.waited + report.started_now + report.unknown
    return ForecastAccuracyView(
        groups=tuple(map(_group, report.groups)),
        waited=report.waited,
        unknown=report.unknown,
        unknown_part=report.unknown / made if made else None,
        started_now=report.started_now,
        now_true=report.now_true,
        at_once=report.at_once,
        censored=report.censored,
        runs=report.runs,
        since=moment_or_none(report.since_us),
        made_at=moment_or_none(board.made_us),
        missing=board.missing,
    )


def _group(group: GroupAccuracy) -> ForecastGroupView:
    return ForecastGroupView(
        group=group.group,
        count=group.n,
        days=group.days,
        inside=group.inside,
        inside_low=group.inside_low,
        inside_high=group.inside_high,
        below=group.below,
        above=group.above,
        within_1_min=group.within_1_min,
        within_10_min=group.within_10_min,
        within_factor_2=group.within_factor_2,
        error=group.pinball_us / 1e6,
        error_of_average=None if group.baseline_pinball_us is None else group.baseline_pinball_us / 1e6,
    )
