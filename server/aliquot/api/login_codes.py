"""Login codes: each signs one browser in, once, soon."""

import secrets
import time
from typing import Final

from aliquot_schema.ids import KeyId

CODE_S: Final = 15 * 60.0
CODES_MAX: Final = 1024
CODES_OF_OWNER_MAX: Final = 16


class LoginCodes:
    """Codes and the keys that they stand for; None is the server's own token."""

    def __init__(self) -> None:
        self._codes: dict[str, tuple[float, KeyId | None, str]] = {}

    def new(self, key_id: KeyId | None, *, owner: str) -> str:
        """A code. Where somebody has many, by whatever keys and tokens, his oldest ends: nobody can end those of others
        by asking for his own."""
        now = time.monotonic()
        self._codes = {code: known for code, known in self._codes.items() if known[0] > now}
        mine = [code for code, known in self._codes.items() if known[2] == owner]
        for code in mine[: max(len(mine) - CODES_OF_OWNER_MAX + 1, 0)]:
            del self._codes[code]
        while len(self._codes) >= CODES_MAX:
            self._codes.pop(next(iter(self._codes)))
        code = secrets.token_urlsafe(24)
        self._codes[code] = now + CODE_S, key_id, owner
        return code

    def take(self, code: str) -> tuple[KeyId | None] | None:
        """Take a code out of use, and tell what it stood for; None when it is unknown, used, or too old."""
        # Codes are long and random, and a wrong one takes nothing away: looking one up tells nobody anything.
        end, key_id, _ = self._codes.pop(code, (0.0, None, ""))
        return (key_id,) if end > time.monotonic() else None
