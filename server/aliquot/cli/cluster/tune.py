"""`aliquot tune`: searches better weights of the policy on the recorded history, and shows what they are worth."""

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Final

from typer import Option

from aliquot.cli.cluster.backtest import finished, kept, print_rows
from aliquot.cli.connection.output import count_text, duration, print_json, printable
from aliquot.cli.connection.server import AsJson, AtServer, InCluster, TokenFile, connected, fail, usage
from aliquot.cli.connection.tables import present
from aliquot.cli.session.options import seconds_of

if TYPE_CHECKING:
    from aliquot.client.generated.backtests import Backtest, Tuning

LOSERS_MAX: Final = 10
"""Users who wait longer that are printed."""
SINCE: Final = "28d"
TRIES: Final = 24

Since = Annotated[str, Option(metavar="DURATION", help="Use the sessions submitted in this time, like 28d.")]
Unseen = Annotated[
    str | None,
    Option(
        metavar="DURATION", help="Keep the last part for the check, like 7d. Without: a third of the recorded time."
    ),
]
Tries = Annotated[int, Option(min=1, max=200, help="How many policies to try, at most.")]
Seed = Annotated[int, Option(min=0, help="The same seed repeats the same search.")]
Auto = Annotated[
    bool,
    Option("--auto", help="Apply a better policy, and take it back if sessions start later than forecast for 6 hours."),
]
Apply = Annotated[str | None, Option("--apply", metavar="ID", help="Apply the proposal of an earlier tuning.")]

Show = Annotated[
    str | None,
    Option(metavar="ID", help="Print the result of an earlier tuning, see `backtest --list`; searches nothing."),
]


def tune(
    since: Since = SINCE,
    unseen: Unseen = None,
    tries: Tries = TRIES,
    seed: Seed = 0,
    auto: Auto = False,
    apply: Apply = None,
    show: Show = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Search better weights for the policy, and check them on later sessions that the search has not seen.

    The server runs the search in a separate process. Ctrl-C stops it. For operators.
    """
    from aliquot.client.generated.backtests import TuningInput
    from aliquot.client.generated.enums import TuneApply

    seconds, last = seconds_of(since, option="--since"), seconds_of(unseen, option="--unseen")
    assert seconds is not None, "it has a default"
    if last is not None and last >= seconds:
        usage("--unseen: give a part of the time of --since")
    searches = (since, unseen, tries, seed, auto) != (SINCE, None, TRIES, 0, False)
    if show is not None and (searches or apply is not None):
        usage("--show: give no options of another search with it")
    if apply is not None and searches:
        usage("--apply: give no options of another search with it; only a new search takes --auto")
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        if show is not None:
            found = kept(client, show, name="tuning")
        elif apply is not None:
            found = client.apply_tuning(apply)
        else:
            now = present()
            asked = TuningInput(
                since=now - timedelta(seconds=seconds),
                split=None if last is None else now - timedelta(seconds=last),
                tries=tries,
                seed=seed,
                apply=TuneApply.AUTO if auto else TuneApply.MANUAL,
            )
            found = finished(client, client.start_tuning(asked), name="tuning")
    if found.tuning is None:
        fail(f"{found.id} is a backtest; `aliquot backtest --show {found.id}` shows it", code=1)
    if as_json:
        print_json(found)
    else:
        print_tuning(found, found.tuning)


def print_tuning(found: "Backtest", tuning: "Tuning") -> None:
    """Print the evidence of a proposal, its changes and its losers."""
    print_rows(tuning.unseen)
    for line in _lines(found, tuning):
        print(line)


def _lines(found: "Backtest", tuning: "Tuning") -> Iterator[str]:
    sessions = tuning.unseen[0].sessions
    tried = f"{count_text(tuning.tries, 'policy was', 'policies were')} tried before"
    yield f"on {count_text(sessions, 'later session')} that the search has not seen; {tried}"
    for note in tuning.notes:
        yield f"note: {printable(note)}"
    for change in tuning.changes:
        yield f"  {change.name}: {change.before} -> {change.after}"
    for loser in tuning.losers[:LOSERS_MAX]:
        before, after = duration(loser.wait_before), duration(loser.wait)
        yield f"  {printable(loser.name)} waits longer: {before} -> {after}, {count_text(loser.sessions, 'session')}"
    yield printable(tuning.verdict)
    if found.applied_version is not None:
        since = f"; {printable(found.superseded)}" if found.superseded else ""
        yield f"applied as version {found.applied_version} of the policy{since}"
    elif tuning.is_better and not found.applies_itself:  # otherwise a note says why it is not applied
        yield f"to apply it: aliquot tune --apply {found.id}"
    yield f"to show it again: aliquot tune --show {found.id}"
