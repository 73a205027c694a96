"""Python client: GraphQL over HTTP, and subscriptions over one WebSocket each.

    with BlockingClient.at(find_place()) as client:
        session = client.submit(["python", "train.py"], slots={"cpu": 1, "cuda.shares": 0.2})
        print(client.wait(session.id).state)

    with lease(shares=0.5) as held:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(held.gpu_ids)

`Client` is the async variant. The types in `aliquot.client.generated` are generated from the schema.
"""

from aliquot.client.blocking import BlockingClient, lease
from aliquot.client.client import Client
from aliquot.client.config import Place, find_place
from aliquot.client.errors import (
    ClientFailure,
    GraphQLFault,
    LeaseLost,
    NoPlace,
    Refused,
    ServerUnreachable,
    SubscriptionClosed,
    UnexpectedAnswer,
)

__all__ = [
    "BlockingClient",
    "Client",
    "ClientFailure",
    "GraphQLFault",
    "LeaseLost",
    "NoPlace",
    "Place",
    "Refused",
    "ServerUnreachable",
    "SubscriptionClosed",
    "UnexpectedAnswer",
    "find_place",
    "lease",
]
