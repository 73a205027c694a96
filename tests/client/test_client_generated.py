"""The client's types, operations and documents match the schema."""

from pathlib import Path

import pytest
from graphql import build_schema, parse, validate

from aliquot.client import BlockingClient, Client
from aliquot.client.generated import fragments, mutations, queries, subscriptions
from aliquot_schema.graphql.client_codegen.__main__ import TARGET, generated
from aliquot_schema.graphql.schema import schema_text

SCHEMA = build_schema(schema_text())
ROOTS = {
    "queries": (SCHEMA.query_type, queries),
    "mutations": (SCHEMA.mutation_type, mutations),
    "subscriptions": (SCHEMA.subscription_type, subscriptions),
}


def test_the_generated_client_matches_the_schema() -> None:
    kept = {path.name: path.read_text(encoding="utf-8") for path in Path(TARGET).glob("*.py")}
    assert kept == generated(), "run: python -m aliquot_schema.graphql.client_code"


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("client", [Client, BlockingClient])
def test_both_clients_have_every_operation(client: type, root: str) -> None:
    of, _ = ROOTS[root]
    assert of is not None
    assert [name for name in of.fields if not callable(getattr(client, name, None))] == []


@pytest.mark.parametrize("root", ROOTS)
def test_every_client_document_is_valid_with_its_fragments(root: str) -> None:
    of, module = ROOTS[root]
    assert of is not None
    client = Client("http://127.0.0.1:1", "none")
    for name in of.fields:
        whole = client._whole(getattr(module, name.upper()))
        assert validate(SCHEMA, parse(whole)) == [], name


def test_every_client_fragment_belongs_to_a_schema_type() -> None:
    assert fragments.FRAGMENTS.keys() <= SCHEMA.type_map.keys()
