"""`aliquot session logs`: prints the output of a session, all of it or the last lines."""

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from typer import Option

from aliquot.cli.connection.output import print_json
from aliquot.cli.connection.server import AsJson, AtServer, InCluster, TokenFile, connected, nodes, usage
from aliquot.cli.session.names import find_session
from aliquot.cli.session.options import Raw, SessionId

if TYPE_CHECKING:
    from aliquot.client import BlockingClient
    from aliquot.client.generated.sessions import Session


FollowOn = Annotated[
    bool, Option("--follow", "-f", help="Follow until it has ended, retries included; Ctrl-C asks what to do.")
]
Ranks = Annotated[list[int] | None, Option("--rank", help="Only this kernel; may be repeated.", show_default="all")]
Tail = Annotated[int | None, Option("--tail", metavar="LINES", min=1, help="Only the last lines.", show_default="all")]
Task = Annotated[int | None, Option("--task", metavar="INDEX", min=0, help="Only this task of an array.")]
Attempt = Annotated[int | None, Option(min=1, help="Only this attempt.", show_default="the newest")]


def logs(
    session_id: SessionId,
    follow: FollowOn = False,
    rank: Ranks = None,
    attempt: Attempt = None,
    task: Task = None,
    tail: Tail = None,
    raw: Raw = False,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Print the output of a session so far: lines of several kernels with their rank in front, of an array with [3]."""
    from aliquot.cli.session.follow import ArrayFollower, Follower
    from aliquot.cli.session.submit import conclude

    if tail is not None and (follow or as_json):
        usage("--tail cannot be combined with --follow or --json")
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        id = find_session(client, session_id)
        id = id if task is None else f"{id}_{task}"
        session = client.get_session(id)
        asked = _OutputChoice(ranks=rank, attempt=attempt, tail=tail, raw=raw)
        if follow and attempt is None and session.tasks is None:
            conclude(client, id, Follower(client, id, raw=raw, ranks=rank, as_json=as_json).run)
        elif follow and not as_json and rank is None and attempt is None:
            conclude(client, id, ArrayFollower(client, id, raw=raw).run)
        elif session.tasks is None:
            _print(client, session, asked, follow=follow, as_json=as_json)
        elif follow:
            usage("to follow --rank, --attempt or --json of an array, choose one of its tasks with --task")
        else:
            for one in _tasks(client, session):
                _print(client, one, asked, follow=False, as_json=as_json, prefix=f"[{one.id.rpartition('_')[2]}] ")


class _OutputChoice(NamedTuple):
    """What of an output is printed, and how."""

    ranks: list[int] | None
    attempt: int | None
    tail: int | None
    raw: bool


def _tasks(client: "BlockingClient", array: "Session") -> "list[Session]":
    """The tasks that have started, in the order of their indices."""
    from aliquot.client.generated.sessions import SessionFilter

    found = nodes(
        lambda first, after: client.sessions(first=first, after=after, filter=SessionFilter(array_id=array.id))
    )
    return sorted(found, key=lambda one: int(one.id.rpartition("_")[2]))


def _print(
    client: "BlockingClient",
    session: "Session",
    wanted: _OutputChoice,
    *,
    follow: bool,
    as_json: bool,
    prefix: str = "",
) -> None:
    from aliquot.cli.session.follow import RankPrinter

    offsets = dict.fromkeys(_ranks(session, wanted.ranks), 0)
    number = wanted.attempt or session.attempt
    if number == 0:
        return
    printer = RankPrinter(names_ranks=len(offsets) > 1, raw=wanted.raw, prefix=prefix)
    if wanted.tail is not None:
        tails = last_lines(client, session.id, ranks=offsets, attempt=number, most=wanted.tail)
        for of_rank, text in tails.items():
            printer.print_text(of_rank, text)
    else:
        read = partial(client.outputs, retries_unavailable=True) if follow else client.output_so_far
        for chunk in read(session.id, offsets=offsets, attempt=number):
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
