"""The cookie of a browser: `<end>.<signature>`, or `<end>.<key id>.<signature>` for who came by a key.

It is signed with the server's token, which all servers share, so that it outlives a restart and dies with the token. It
holds no secret: whether the key still holds is looked up with every request.
"""

import hmac
from collections.abc import Callable
from hashlib import sha256
from typing import Final

from aliquot_schema.ids import KeyId

COOKIE: Final = "aliquot_session"
COOKIE_S: Final = 30 * 86_400


class Cookies:
    """Signs and reads.

    Args:
        secret: the server's token.
        now: seconds since the epoch.
    """

    def __init__(self, secret: bytes, *, now: Callable[[], float]) -> None:
        self._secret = secret
        self._now = now

    def new(self, key_id: KeyId | None) -> str:
        """A cookie that holds for `COOKIE_S`, or as long as its key."""
        return self._signed(int(self._now()) + COOKIE_S, key_id)

    def read(self, cookie: str) -> tuple[KeyId | None] | None:
        """The key that a cookie stands for; None when this server never made it, or it is too old."""
        end, _, rest = cookie.partition(".")
        if not (end.isascii() and end.isdecimal() and len(end) <= 12):
            return None
        key, dot, _ = rest.rpartition(".")
        key_id = KeyId(key) if dot else None
        is_own = hmac.compare_digest(cookie.encode(), self._signed(int(end), key_id).encode())
        return (key_id,) if is_own and int(end) > self._now() else None

    def _signed(self, end: int, key_id: KeyId | None) -> str:
        told = f"{end}" if key_id is None else f"{end}.{key_id}"
        words = f"cookie {end}" if key_id is None else f"cookie {end} {key_id}"
        return f"{told}.{hmac.new(self._secret, words.encode(), sha256).hexdigest()}"
