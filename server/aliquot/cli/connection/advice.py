"""What to do about a failure, as the last line of what is printed about it."""

from collections.abc import Mapping
from typing import Any, Final

_REFUSALS: Final = {
    "ImpossibleRequest": "`aliquot gpus` and `aliquot agents list` show what there is",
    "QuotaExceeded": "`aliquot quota list` shows the limits, `aliquot usage` what was used",
    "QueueFull": "try again later; `aliquot queue` shows what waits",
    "UnknownDependency": "`aliquot session list --all` shows the sessions there are",
    "StateConflict": "look at it as it is now, and decide again",
    "VersionConflict": "somebody else changed it meanwhile; look at it again, and repeat the command",
    "IdempotencyMismatch": "take another --idempotency-key, or none",
    "Forbidden": "ask an operator of the cluster, or come with another key (--token-file)",
    "NotPlaced": "`aliquot gpus` shows who holds what; a session would wait for its turn",
    "RateLimited": "wait a little, and try again",
    "Unavailable": "try again",
    "LimitExceeded": "ask for less at a time",
}
_NOBODY_THERE: Final = (
    "does it run? `aliquot serve` starts one; another is named by --server, --cluster or ALIQUOT_SERVER"
)
_NO_WAY: Final = {
    "CERTIFICATE_VERIFY_FAILED": "where its authority is your own: `aliquot clusters add ... --ca-file FILE`, or "
    "ALIQUOT_CA_FILE",
    "WRONG_VERSION_NUMBER": "it does not encrypt there: its address begins with http://",
    "without sending a response": "where it has a certificate its address begins with https://",
}
"""By what is said of a connection that came to nothing, what helps."""
_LISTERS: Final = {
    "agent": "agents list",
    "api_key": "key list",
    "quota": "quota list",
    "secret": "secret list",
    "session": "session list --all",
    "user": "user list",
}
"""By what is not there, the command that lists those that are."""


def after_refusal(kind: str, answer: Mapping[str, Any]) -> str | None:
    """What may help against an expected error, by its GraphQL type; None where its message says it all."""
    if kind == "NotFound":
        lister = _LISTERS.get(str(answer.get("kind")))
        return None if lister is None else f"`aliquot {lister}` shows what there is"
    if kind == "NotMultipleOfQuantum" and (slot := str(answer.get("slot"))).endswith(".device"):
        return f"devices are given whole; a part of one is asked for like {slot.removesuffix('device')}shares=0.5"
    return _REFUSALS.get(kind)


def after_failure(error: Exception) -> str | None:
    """What may help when the server could not be asked."""
    from aliquot.client import ServerUnreachable, SubscriptionClosed, UnexpectedAnswer
    from aliquot_schema.errors import Unauthenticated

    if isinstance(error, ServerUnreachable):
        said = str(error)
        return next((advice for words, advice in _NO_WAY.items() if words in said), _NOBODY_THERE)
    if isinstance(error, Unauthenticated):
        return "name the file of a key that holds there with --token-file, or the cluster with --cluster"
    if isinstance(error, SubscriptionClosed):
        return "repeat the command; it goes on from what there is"
    if isinstance(error, UnexpectedAnswer):
        return "is it the address of an Aliquot server, and of its version?"
    return None
