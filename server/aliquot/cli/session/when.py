"""`aliquot when`: when a session starts, as one sentence, and how accurate such forecasts were."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from aliquot.cli.connection.output import duration, print_json, printable
from aliquot.cli.connection.server import AsJson, AtServer, InCluster, TokenFile, connected, usage
from aliquot.cli.connection.tables import Column, Table, present
from aliquot.cli.session.completion import recent_sessions
from aliquot.cli.session.names import look_up

if TYPE_CHECKING:
    from aliquot.client.generated.forecasts import Forecast, ForecastAccuracy, StartForecast, TimeBand
    from aliquot.client.generated.sessions import Session

SOON_S = 30.0
"""Forecasts this near say `within a minute`."""


def when(
    session_id: Annotated[
        str | None,
        Argument(
            metavar="SESSION",
            help="Its name, the beginning or the end of its id, or @last.",
            autocompletion=recent_sessions,
        ),
    ] = None,
    accuracy: Annotated[bool, Option("--accuracy", help="Show how accurate forecasts were, by group.")] = False,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show when a waiting session is forecast to start: the likely time, and the range for four of five sessions."""
    if (session_id is None) is not accuracy:
        usage("name one session, or give --accuracy")
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        if session_id is None:
            _show_accuracy(client.forecast_accuracy(), as_json=as_json)
        else:
            session = look_up(client, session_id)
            if as_json:
                print_json(session.forecast)
            else:
                print(forecast_sentence(session, now=present()))


def _show_accuracy(accuracy: "ForecastAccuracy", *, as_json: bool) -> None:
    if as_json:
        print_json(accuracy)
    else:
        print("\n".join(accuracy_lines(accuracy)))


def forecast_sentence(session: "Session", *, now: datetime) -> str:
    """When a session starts, in one sentence; for one that no longer waits, what was forecast at submission."""
    from aliquot.client.generated.enums import SessionState

    forecast = session.forecast
    if session.state not in (SessionState.QUEUED, SessionState.HELD):
        return _afterwards(session, now=now)
    if forecast is None or forecast.now is None:
        return f"no forecast: {printable(forecast.missing) if forecast and forecast.missing else 'none was made yet'}"
    shown = forecast.now
    if shown.starts_now:
        return "starts now: the next scheduling pass gives it devices"
    if shown.start is None:
        return f"its start cannot be forecast: {printable(shown.unknown)}"
    parts = [start_text(shown.start, now=now)]
    if shown.end is not None:
        parts.append(f"ends about {clock_text(shown.end.p50, now=now)}")
    if shown.within_hour is not None and shown.start.p90 - now > timedelta(hours=1):
        parts.append(f"starts within an hour with a probability of {100 * shown.within_hour:.0f} %")
    return "; ".join([*parts, *_basis(forecast, shown)])


def _afterwards(session: "Session", *, now: datetime) -> str:
    if session.scheduled_at is None:
        return f"not waiting: {session.state}"
    began = f"started {clock_text(session.scheduled_at, now=now)}"
    shown = None if session.forecast is None else session.forecast.at_submission
    if shown is None or shown.start is None or shown.starts_now:
        return f"{began}; no time was forecast at submission"
    return f"{began}; the forecast at submission: {start_text(shown.start, now=now)}"


def start_text(band: "TimeBand", *, now: datetime) -> str:
    """`starts about 15:40, between 15:05 and 17:20`."""
    if (band.p90 - now).total_seconds() <= SOON_S and band.p90 > now:
        return "starts within a minute"
    first = "now" if band.p10 <= now < band.p50 else clock_text(band.p10, now=now)
    return f"starts about {clock_text(band.p50, now=now)}, between {first} and {clock_text(band.p90, now=now)}"


def clock_text(at: datetime, *, now: datetime) -> str:
    """A time in this machine's zone: `15:40`, or `Nov 24 15:40` on another day."""
    local, today = at.astimezone(), now.astimezone().date()
    return f"{local:%H:%M}" if local.date() == today else f"{local:%b %d %H:%M}"


def _basis(forecast: "Forecast", shown: "StartForecast") -> list[str]:
    found = []
    if shown.basis != "simulation":
        found.append(f"from {printable(shown.basis)}, because the simulation was clearly less accurate lately")
    if forecast.alike is not None and forecast.alike_inside is not None:
        found.append(f"of {forecast.alike} like this, {100 * forecast.alike_inside:.0f} % started inside the band")
    if forecast.missing is not None:
        found.append(f"as of {duration(shown.age)} ago, because {printable(forecast.missing)}")
    return found


def accuracy_lines(accuracy: "ForecastAccuracy") -> list[str]:
    """How accurate forecasts were, by group, and what is not judged."""
    lines = [] if accuracy.missing is None else [f"no forecasts are being made now: {printable(accuracy.missing)}"]
    if accuracy.groups:
        numbers = ("inside", "by days", "before", "after", "within 10 min", "factor 2", "error", "of average")
        rows = Table(
            Column("forecasts"), Column("n", is_number=True), *(Column(name, is_number=True) for name in numbers)
        )
        for one in accuracy.groups:
            rows.add(
                printable(one.group),
                one.count,
                f"{100 * one.inside:.0f} %",
                f"{100 * one.inside_low:.0f} % to {100 * one.inside_high:.0f} %",
                *(f"{100 * part:.0f} %" for part in (one.below, one.above, one.within_10_min, one.within_factor_2)),
                duration(one.error),
                duration(one.error_of_average),
            )
        lines += rows.shown()
    else:
        lines.append("no forecast has been judged yet")
    part = "" if accuracy.unknown_part is None else f" ({100 * accuracy.unknown_part:.0f} %)"
    lines.append(f"unknown: {accuracy.unknown}{part}; left the queue before they could be judged: {accuracy.censored}")
    lines.append(
        f"forecast to start now: {accuracy.started_now}, of which {accuracy.now_true} did; "
        f"started before any forecast: {accuracy.at_once}"
    )
    lines.append(f"ended sessions that forecasts are based on: {accuracy.runs}")
    return lines
