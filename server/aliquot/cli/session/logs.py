"""`aliquot session logs`: prints the output of a session, all of it or the last lines."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Final

from typer import Option

from aliquot.cli.connection.output import print_json
from aliquot.cli.connection.server import AsJson, AtServer, InCluster, TokenFile, connected, usage
from aliquot.cli.session.names import find_session
from aliquot.cli.session.options import SessionId

if TYPE_CHECKING:
    from aliquot.client import BlockingClient
    from aliquot.client.generated.sessions import Session


FollowOn = Annotated[
    bool, Option("--follow", "-f", help="Follow until it has ended, retries included; Ctrl-C asks what to do.")
]
Ranks = Annotated[list[int] | None, Option("--rank", help="Only this kernel; may be repeated.", show_default="all")]
Tail = Annotated[int | None, Option("--tail", metavar="LINES", min=1, help="Only the last lines.", show_default="all")]
Attempt = Annotated[int | None, Option(min=1, help="Only this attempt.", show_default="the newest")]


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
    """Print the output of a session so far. Lines of several kernels have their rank in front."""
    from aliquot.cli.session.follow import Follower, RankPrinter
    from aliquot.cli.session.submit import conclude

    if tail is not None and (follow or as_json):
        usage("--tail cannot be combined with --follow or --json")
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        session_id = find_session(client, session_id)
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
                printer.print_text(of_rank, text)
        else:
            read = client.outputs if follow else client.output_so_far
            for chunk in read(session_id, offsets=offsets, attempt=max(1, number)):
                print_json(chunk) if as_json else printer.print(chunk)
        printer.end()


def _ranks(session: "Session", given: list[int] | None) -> list[int]:
    from aliquot.cli.session.follow import RANKS_MAX

    return list(range(min(RANKS_MAX, session.cluster_size))) if given is None else list(dict.fromkeys(given))


LINE_BYTES: Final = 512
"""First estimate of the length of a line."""
BYTES_MAX: Final = 16 * 2**20
"""Bytes read from the end at most; with longer lines fewer lines are found, or only the end of one."""
GROWTH: Final = 16
"""Factor by which more is read when the lines found are too few."""


def last_lines(client: "BlockingClient", id: str, *, ranks: Iterable[int], attempt: int, most: int) -> dict[int, str]:
    """By rank, at most `most` lines of the output so far, read from the end."""
    return {rank: "\n".join(_last(client, id, rank=rank, attempt=attempt, most=most)) for rank in ranks}


def _last(client: "BlockingClient", id: str, *, rank: int, attempt: int, most: int) -> list[str]:
    back = min(BYTES_MAX, most * LINE_BYTES)
    while True:
        pieces = list(client.output_so_far(id, offsets={rank: -back}, attempt=attempt))
        lines = "".join(piece.text for piece in pieces).split("\n")
        # After the last line end comes an empty text, unless a line is incomplete.
        wanted = most if lines[-1] else most + 1
        # The first line read may be incomplete.
        if len(lines) > wanted or pieces[0].offset == 0 or back == BYTES_MAX:
            return lines[-wanted:]
        back = min(BYTES_MAX, back * GROWTH)
