"""The Python client: GraphQL over HTTP and over one socket per subscription.

    with BlockingClient.at(find_place()) as client:
        session = client.submit(["python", "train.py"], slots={"cpu": 1, "cuda.shares": 0.2})
        print(client.wait(session.id).state)

    with lease(shares=0.5) as held:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(held.gpu_ids)

`Client` does the same for async code. The types are in `aliquot.client.generated`, and come from the schema.
"""

from aliquot.client.blocking import BlockingClient, lease
from aliquot.client.client import Client
from aliquot.client.failures import (
    ClientFailure,
    GraphQLFault,
    LeaseLost,
    NoPlace,
    Refused,
    ServerUnreachable,
    SubscriptionClosed,
    UnexpectedAnswer,
)
from aliquot.client.places import Place, find_place

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
