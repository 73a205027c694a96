"""Records as JSON text: amounts are integers in base units, unlimited is the word, enums are their values."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from aliquot_schema.slots import UNLIMITED, UNLIMITED_TEXT, SlotAmounts


def encoder() -> msgspec.json.Encoder:
    """An encoder for records and everything in them."""
    return msgspec.json.Encoder(enc_hook=_to_builtins)


def decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """A decoder for one record type, or the type of one of its fields. Fields it does not know are skipped."""
    return msgspec.json.Decoder(kind, dec_hook=_from_builtins)


def _to_builtins(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(f"{type(value).__name__} has no form in JSON")


def _from_builtins(kind: type, value: Any) -> object:
    if issubclass(kind, SlotAmounts):
        return _amounts(kind, tuple(value.items()))
    raise NotImplementedError(f"{kind.__name__} has no form in JSON")


@lru_cache(maxsize=4096)
def _amounts(kind: type[SlotAmounts], items: tuple[tuple[str, Any], ...]) -> SlotAmounts:
    """Most sessions ask for what many others ask for: they share it."""
    return kind({slot: UNLIMITED if amount == UNLIMITED_TEXT else amount for slot, amount in items})


ENCODER: Final = encoder()
