"""JSON of the REST face: times as RFC 3339 in UTC, enumerations by their text."""

from typing import Any, Final

import msgspec

_ENCODER: Final = msgspec.json.Encoder()


def encoded(value: Any) -> bytes:
    """Encode structs, read models and plain values."""
    return _ENCODER.encode(value)
