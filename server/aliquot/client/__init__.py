"""Python client: GraphQL over HTTP, and subscriptions over one WebSocket each.

    with BlockingClient.at(find_place()) as client:
        session = client.submit(["python", "train.py"], slots={"cpu": 1, "cuda.shares": 0.2})
        print(client.wait(session.id).state)

    with lease(shares=0.5) as held:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(held.gpu_ids)

`Client` is the async variant. The types in `aliquot.client.generated` are generated from the schema.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from aliquot.client.blocking import BlockingClient, lease
    from aliquot.client.client import Client
    from aliquot.client.config import Place, find_place
    from aliquot.client.errors import (
        ClientFailure,
        GraphQLFault,
        LeaseLost,
        NoPlace,
        OtherVersion,
        Refused,
        ServerUnreachable,
        SubscriptionClosed,
        UnexpectedAnswer,
    )
    from aliquot.client.futures import CallFailed, MappedCalls, SessionFuture

__all__ = [
    "BlockingClient",
    "CallFailed",
    "Client",
    "ClientFailure",
    "GraphQLFault",
    "LeaseLost",
    "MappedCalls",
    "NoPlace",
    "OtherVersion",
    "Place",
    "Refused",
    "ServerUnreachable",
    "SessionFuture",
    "SubscriptionClosed",
    "UnexpectedAnswer",
    "find_place",
    "lease",
]

_MODULES: Final = {
    "BlockingClient": "blocking",
    "CallFailed": "futures",
    "Client": "client",
    "MappedCalls": "futures",
    "Place": "config",
    "SessionFuture": "futures",
    "find_place": "config",
    "lease": "blocking",
}
"""Modules of names that are not in `errors`. Each is imported when it is used: the async client takes longest."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_MODULES.get(name, 'errors')}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
