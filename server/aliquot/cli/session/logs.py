"""`aliquot session logs`: what a session printed."""

from typing import TYPE_CHECKING, Annotated

from typer import Option

from aliquot.cli.connection.asking import connected, usage
from aliquot.cli.connection.options import AsJson, AtServer, InCluster, TokenFile
from aliquot.cli.connection.printing import print_json
from aliquot.cli.session.options import SessionId

if TYPE_CHECKING:
    from aliquot.client.generated.sessions import Session

FollowOn = Annotated[bool, Option("--follow", "-f", help="Until it has ended, over retries; Ctrl-C asks what to do.")]
Ranks = Annotated[list[int] | None, Option("--rank", help="Of this kernel; several may be given.", show_default="all")]
Tail = Annotated[int | None, Option("--tail", metavar="LINES", min=1, help="The last lines alone.", show_default="all")]
Attempt = Annotated[int | None, Option(min=1, help="Of this try.", show_default="the newest")]


def logs(
    session_id: SessionId,
    follow: FollowOn = False,
    rank: Ranks = None,
    attempt: Attempt = None,
    tail: Tail = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Print what a session has printed so far. Lines of several kernels have their rank before them."""
    from aliquot.cli.session.following import Follower, RankPrinter
    from aliquot.cli.session.log_end import last_lines
    from aliquot.cli.session.submitting import conclude

    if tail is not None and (follow or as_json):
        usage("--tail goes with neither --follow nor --json")
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        if follow and not as_json and rank is None and attempt is None:
            conclude(client, session_id, Follower(client, session_id).run)
            return
        session = client.look(session_id)
        offsets = dict.fromkeys(_ranks(session, rank), 0)
        number = attempt or session.attempt
        if number == 0 and not follow:
            return
        printer = RankPrinter(names_ranks=len(offsets) > 1)
        if tail is not None:
            for of_rank, text in last_lines(client, session_id, ranks=offsets, attempt=number, most=tail).items():
                printer.say(of_rank, text)
        else:
            take = client.outputs if follow else client.output_so_far
            for chunk in take(session_id, offsets=offsets, attempt=max(1, number)):
                print_json(chunk) if as_json else printer.print(chunk)
        printer.end()


def _ranks(session: "Session", asked: list[int] | None) -> list[int]:
    from aliquot.cli.session.following import RANKS_MAX

    return list(range(min(RANKS_MAX, session.cluster_size))) if asked is None else list(dict.fromkeys(asked))
