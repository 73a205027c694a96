"""Ledger entries are encoded in chunks; the stored text is the same as in one piece."""

import zlib

import pytest

from aliquot.core.model.plan import Plan
from aliquot.service.ledger.entries import Inputs
from aliquot.store.ledger.encoding import _PIECE, EntryBody, _compressed
from aliquot.store.mapping import ENCODER
from aliquot_schema.ids import SessionId
from aliquot_schema.reasons import Reason, Verdict


@pytest.mark.parametrize("count", [0, 1, _PIECE, _PIECE + 1, 3 * _PIECE])
def test_a_ledger_entry_encoded_in_pieces_equals_its_encoding_in_one_piece(count: int) -> None:
    names = [SessionId(f"ses_{number}") for number in range(count)]
    body = EntryBody(
        inputs=Inputs(estimates=tuple((name, 1) for name in names)),
        verdicts=(),
        plan=Plan(verdicts={name: Verdict(reason=Reason.INSUFFICIENT) for name in names}),
    )
    assert zlib.decompress(_compressed(body)) == ENCODER.encode(body)
