"""One registry of record kinds: missing parts of a new kind are named, and no module keeps its own list."""

import subprocess
import sys
from typing import get_args

import pytest

from aliquot.store.mapping import BY_ENTITY, MAPPINGS
from aliquot_schema.events import KIND_OF, RECORD_KINDS, Entity, Record, RecordKind, for_every_kind, registered
from aliquot_schema.quotas import Quota
from aliquot_schema.sessions import Session

NEW_KIND = """
from dataclasses import dataclass
from aliquot_schema import events

@dataclass(frozen=True, slots=True, kw_only=True)
class Booking:
    id: str
    version: int = 0

events.RECORD_KINDS += (events.RecordKind(record=Booking, entity="booking"),)
events.KIND_OF[Booking] = events.RECORD_KINDS[-1]
"""


def test_every_kind_of_record_is_registered_once() -> None:
    assert {kind.record for kind in RECORD_KINDS} == {*get_args(Record)} == {*KIND_OF}
    assert sorted(kind.entity for kind in RECORD_KINDS) == sorted(Entity)
    assert list(MAPPINGS) == [kind.record for kind in RECORD_KINDS]
    assert list(BY_ENTITY) == [kind.entity for kind in RECORD_KINDS]


def test_a_record_type_without_a_kind_is_reported() -> None:
    others = [kind for kind in RECORD_KINDS if kind.record is not Quota]
    with pytest.raises(TypeError, match=r"^Quota is in Record and has no RecordKind; add it to RECORD_KINDS$"):
        registered(*others)


def test_a_kind_for_a_type_that_is_no_record_is_reported() -> None:
    with pytest.raises(TypeError, match=r"^str has a RecordKind and is not in Record; add it to that union$"):
        registered(*RECORD_KINDS, RecordKind(record=str, entity=Entity.QUOTA))


def test_two_kinds_with_the_same_entity_are_refused() -> None:
    others = [kind for kind in RECORD_KINDS if kind.record is not Quota]
    with pytest.raises(TypeError, match=r"^2 kinds of records have Entity\.SESSION; give each kind one of its own$"):
        registered(RecordKind(record=Quota, entity=Entity.SESSION), *others)


def test_an_end_field_that_does_not_exist_is_reported() -> None:
    others = [kind for kind in RECORD_KINDS if kind.record is not Session]
    with pytest.raises(TypeError, match=r"^Session has no field over_us, which its RecordKind needs$"):
        registered(RecordKind(record=Session, entity=Entity.SESSION, end="over_us"), *others)


def test_a_part_for_a_type_without_a_kind_is_reported() -> None:
    with pytest.raises(TypeError, match=r"^str has a colour, and is no kind of record; add it to RECORD_KINDS$"):
        for_every_kind({**dict.fromkeys(KIND_OF, "red"), str: "blue"}, part="a colour")


@pytest.mark.parametrize(
    ("module", "missing"),
    [
        ("aliquot.store.mapping", "a table with a RecordMapping in aliquot.store.mapping"),
        ("aliquot.service.state.state", "a place in memory, in _IN_MEMORY of aliquot.service.state.state"),
    ],
)
def test_a_new_kind_with_a_missing_part_fails_at_import(module: str, missing: str) -> None:
    program = f"{NEW_KIND}\nimport {module}"
    done = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"TypeError: the record kind Booking needs {missing}, and has none"
