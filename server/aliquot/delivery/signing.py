"""Signatures of webhooks: `Aliquot-Signature: t=<seconds>,v1=<hex>`.

`v1` is HMAC-SHA256, with the key in the receiver's key file, of `<seconds>.<body>`: the time in seconds since 1970 UTC
as it stands behind `t=`, a full stop, and the body as it was sent, byte for byte. Whoever checks it takes the header
apart, reckons the same with his own copy of the key, compares both in constant time, and refuses what is older than
some minutes, so that nobody sends an old letter again.
"""

import hmac
from hashlib import sha256
from typing import Final

HEADER: Final = "Aliquot-Signature"


def signature(body: bytes, *, key: str, at_s: int) -> str:
    """The value of the header."""
    signed = hmac.new(key.encode(), f"{at_s}.".encode() + body, sha256).hexdigest()
    return f"t={at_s},v1={signed}"
