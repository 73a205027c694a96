"""Every value of an enumeration in GraphQL says what it means."""

from typing import Final

import pytest

from aliquot_schema.alerts import Severity
from aliquot_schema.enums import DescribedStr
from aliquot_schema.graphql.enums import DESCRIPTIONS
from aliquot_schema.graphql.schema import schema_text
from aliquot_schema.states import SessionState

TEXT: Final = schema_text()


@pytest.mark.parametrize("kind", DESCRIPTIONS, ids=lambda kind: kind.__name__)
def test_every_value_is_described_by_its_member(kind: type[DescribedStr]) -> None:
    shown = TEXT.partition(f"enum {kind.__name__} {{")[2].partition("\n}")[0]
    for member in kind:
        assert member.description.endswith(".")
        assert " ".join(member.description.split()) in " ".join(shown.split())


def test_a_described_member_is_its_value() -> None:
    assert SessionState.QUEUED == "queued"
    assert SessionState("queued") is SessionState.QUEUED
    assert f"{SessionState.QUEUED}" == "queued"
    assert Severity.INFO < Severity.CRITICAL == 3
