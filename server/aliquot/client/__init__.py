"""The Python client: GraphQL over HTTP and over one socket per subscription."""

from aliquot.client.client import Client
from aliquot.client.failures import (
    ClientFailure,
    GraphQLFault,
    Refused,
    ServerUnreachable,
    SubscriptionClosed,
    UnexpectedAnswer,
)

__all__ = [
    "Client",
    "ClientFailure",
    "GraphQLFault",
    "Refused",
    "ServerUnreachable",
    "SubscriptionClosed",
    "UnexpectedAnswer",
]
