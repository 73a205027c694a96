"""Server of a command: connects to it, prints failures with advice, and ends the command with an exit code.

Exit codes of commands that use a server:

 0  done
 1  the session that was waited for failed, or was canceled
 2  the command line or a file is wrong, or there is no token; no request was sent
 3  the server refused: the request is impossible, not allowed, or names something that does not exist
 4  the server cannot be reached or understood, does not accept the token, or cannot answer now
130  interrupted

The module also has the options of these commands, and reads lists page by page.
"""

import gc
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

if TYPE_CHECKING:
    from aliquot.client import BlockingClient


_REFUSALS: Final = {
    "ImpossibleRequest": "`aliquot gpus` and `aliquot agents list` show the cluster",
    "QuotaExceeded": "`aliquot quota list` shows the limits, `aliquot usage` the use",
    "QueueFull": "try again later; `aliquot queue` shows what waits",
    "UnknownDependency": "`aliquot session list --all` lists all sessions",
    "StateConflict": "check its present state, and decide again",
    "VersionConflict": "someone else changed it meanwhile; check its present state, and repeat the command",
    "IdempotencyMismatch": "use another --idempotency-key, or none",
    "NotPlaced": "`aliquot gpus` shows the holders; a session would wait in the queue instead",
    "BookingRefused": "`aliquot reservations` shows the calendar",
    "RateLimited": "wait a little, and try again",
}
_NO_SERVER: Final = "is it running? `aliquot serve` starts one; --server, --cluster or ALIQUOT_SERVER select another"
_CONNECTION_ADVICE: Final = {
    "certificate has expired": "an administrator renews it; the server loads the new files without a restart",
    "CERTIFICATE_VERIFY_FAILED": "for an authority of your own: `aliquot clusters add ... --ca-file FILE`, or "
    "ALIQUOT_CA_FILE",
    "WRONG_VERSION_NUMBER": "this port is not encrypted: its address starts with http://",
    "without sending a response": "if the server has a certificate, its address starts with https://",
}
"""Advice by a part of the message of a failed connection."""
_TOO_LARGE: Final = 413
"""The status of a proxy; a server explains a request that is too large."""
_LIST_COMMANDS: Final = {
    "agent": "agents list",
    "api_key": "key list",
    "booking": "reservations",
    "quota": "quota list",
    "secret": "secret list",
    "session": "session list --all",
    "user": "user list",
}
"""By the kind of a thing that was not found, the command that lists those that exist."""


_OPTIONS: Final = {
    "cluster_size": "--cluster-size",
    "preflight.time_limit": "--preflight-limit",
    "gpu_memory_gb": "--gpu-memory",
    "time_limit": "--time-limit",
    "estimated_duration": "--estimate",
    "max_parallel": "--max-parallel",
    "max_retries": "--retries",
    "checkpoint_signal": "--checkpoint-signal",
    "idempotency_key": "--idempotency-key",
    "run_id": "--run-id",
}
"""Options of `aliquot session create` by the field of `create_session` that they fill."""


def after_refusal(kind: str, answer: Mapping[str, Any]) -> str | None:
    """Advice about an expected error, by its GraphQL type; None where its message is sufficient."""
    if kind == "NotFound":
        command = _LIST_COMMANDS.get(str(answer.get("kind")))
        return None if command is None else f"`aliquot {command}` shows all of them"
    if kind == "NotMultipleOfQuantum" and (slot := str(answer.get("slot"))).endswith(".device"):
        return f"devices are allocated whole; request a share of one like {slot.removesuffix('device')}shares=0.5"
    return _REFUSALS.get(kind)


def in_options(message: str) -> str:
    """A refusal with the names of options instead of fields: `cluster_size` becomes `--cluster-size`."""
    message = message.removeprefix("slots: ")
    return re.sub(rf"\b({'|'.join(_OPTIONS)})\b", lambda found: _OPTIONS[found[0]], message)


def after_failure(error: Exception) -> str | None:
    """Advice about a failed request."""
    from aliquot.client.errors import ClusterUnavailable, ServerUnreachable, SubscriptionClosed, UnexpectedAnswer
    from aliquot_schema.errors import Unauthenticated

    if isinstance(error, ClusterUnavailable):
        return None
    if isinstance(error, ServerUnreachable):
        message = str(error)
        return next((advice for part, advice in _CONNECTION_ADVICE.items() if part in message), _NO_SERVER)
    if isinstance(error, Unauthenticated):
        return "give the file of a valid key with --token-file, or the cluster with --cluster"
    if isinstance(error, SubscriptionClosed):
        return "repeat the command; it continues where it stopped"
    if isinstance(error, UnexpectedAnswer) and error.status == _TOO_LARGE:
        return (
            "a proxy in front of the server limits the size of requests; an administrator can raise the limit to 16 MiB"
        )
    if isinstance(error, UnexpectedAnswer):
        return "is this the address of an Aliquot server, and of the same version?"
    return None


_VALUE: Final = re.compile(r"Variable '\$\w+' has invalid value(?: at \.?(?P<field>[^:]+))?: (?P<why>.*)", re.DOTALL)
_WHOLE_NUMBER: Final = re.compile(r"Int cannot represent non .*value: (?P<given>.*)", re.DOTALL)


def fault_text(errors: Sequence[Mapping[str, Any]]) -> str:
    """Errors of a request in words of the command line, without those of GraphQL."""
    from aliquot.client.errors import OTHER_VERSION, is_of_other_version

    if is_of_other_version(errors):
        return OTHER_VERSION
    return "; ".join(_fault_text(str(error.get("message", error))) for error in errors)


def _fault_text(message: str) -> str:
    found = _VALUE.fullmatch(message)
    if found is None:
        return message
    number = _WHOLE_NUMBER.fullmatch(found["why"])
    why = found["why"] if number is None else f"{number['given']} is not a whole number from -2^31 to 2^31 - 1"
    field = re.sub(r"\[\d+\]", "", found["field"] or "").rpartition(".")[2]
    return f"{field}: {why}" if field else why


FAILED: Final = 1
USAGE: Final = 2
REFUSED: Final = 3
UNREACHABLE: Final = 4
INTERRUPTED: Final = 130
_GC_OBJECTS: Final = 100_000


@contextmanager
def connected(*, cluster: str | None, server: str | None, token_file: Path | None) -> "Iterator[BlockingClient]":
    """A client of the selected server.

    Raises:
        typer.Exit: the server refused, or could not be asked; the failure has been printed.
    """
    with failures_shown():
        from aliquot.client import BlockingClient, find_place

        with BlockingClient.at(find_place(cluster=cluster, server=server, token_file=token_file)) as client:
            yield client


@contextmanager
def failures_shown() -> Iterator[None]:
    """Prints why the server could not be asked, or what it refused, and ends the command.

    Raises:
        typer.Exit: instead of any failure.
    """
    # Imports make objects that live as long as the command: looking for garbage among them finds none.
    gc.set_threshold(_GC_OBJECTS)
    from aliquot.client.errors import ClientFailure, GraphQLFault, NoPlace, Refused, is_unavailable
    from aliquot_schema.errors import AliquotError, NotFound, Unauthenticated

    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except Refused as error:
        fail(
            in_options(str(error.answer.get("message", error))),
            advice=after_refusal(error.kind, error.answer),
            code=REFUSED,
        )
    except NotFound as error:
        fail(error.message, advice=after_refusal("NotFound", {"kind": error.kind}), code=REFUSED)
    except Unauthenticated as error:
        fail(str(error), advice=after_failure(error), code=UNREACHABLE)
    except GraphQLFault as error:
        is_refused = not is_unavailable(error.errors)
        fail(fault_text(error.errors), code=REFUSED if is_refused else UNREACHABLE)
    except AliquotError as error:
        fail(str(error), code=REFUSED)
    except NoPlace as error:
        usage(str(error))
    except ClientFailure as error:
        fail(str(error), advice=after_failure(error), code=UNREACHABLE)


def failure_text(error: Exception) -> str:
    """Message of a failure after which the command continues; of a refusal, in the server's own words."""
    from aliquot.client.errors import Refused

    return in_options(str(error.answer.get("message", error))) if isinstance(error, Refused) else str(error)


def usage(message: str) -> NoReturn:
    """Print an error in the command line, or in a file that it names, and exit with code 2."""
    fail(message, code=USAGE)


def fail(message: str, *, advice: str | None = None, code: int) -> NoReturn:
    """Print an error and advice, and exit."""
    print(f"aliquot: {message}", file=sys.stderr)
    if advice:
        print(f"         {advice}", file=sys.stderr)
    raise typer.Exit(code) from None


def _cluster_names() -> list[str]:
    from aliquot.client.config import read_clusters
    from aliquot.client.errors import NoPlace

    try:
        return [one.name for one in read_clusters()]
    except NoPlace:
        return []


_PANEL = "Server"

InCluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        help="A cluster of `aliquot clusters`; default: $ALIQUOT_CLUSTER.",
        autocompletion=_cluster_names,
        rich_help_panel=_PANEL,
    ),
]
AtServer = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        help="The address of a server; default: $ALIQUOT_SERVER, or this machine's.",
        rich_help_panel=_PANEL,
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        help="The file of your key or token; default: $ALIQUOT_TOKEN_FILE or $ALIQUOT_TOKEN.",
        rich_help_panel=_PANEL,
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print only JSON; an answer of the server has the names of GraphQL.")
]


PAGE: Final = 100
"""Items per page, the server's maximum."""


def nodes(ask: Callable[[int, str | None], Any], *, first: int | None = None) -> Iterator[Any]:
    """The items of a list: the first ones, or all.

    Args:
        ask: returns a page, as a connection, of a number of items after a cursor.
    """
    cursor: str | None = None
    left = first
    while left is None or left > 0:
        page = ask(PAGE if left is None else min(PAGE, left), cursor)
        yield from (edge.node for edge in page.edges)
        left = None if left is None else left - len(page.edges)
        if not page.pageInfo.hasNextPage:
            return
        cursor = page.pageInfo.endCursor
