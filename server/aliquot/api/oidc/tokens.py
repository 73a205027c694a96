"""Tokens of the provider: a text becomes claims, once its signature and its terms hold.

Source: RFC 7519; RFC 8725 (algorithms are this server's to choose, never the token's).
"""

from typing import Any, Final

import jwt
from jwt.exceptions import ExpiredSignatureError, InvalidTokenError, PyJWTError

from aliquot.api.oidc.provider_keys import KINDS, ProviderKeys
from aliquot_schema.errors import Unauthenticated

TEXT_CHARS_MAX: Final = 16 * 1024
SUBJECT_CHARS_MAX: Final = 255
"""Source: OpenID Connect Core 1.0, 2."""
_NEEDED: Final = ["exp", "iss", "aud", "sub"]


def is_token(text: str) -> bool:
    """Whether a text looks like such a token; no key of this server does."""
    return text.count(".") == 2 and len(text) <= TEXT_CHARS_MAX and text.isascii()


class Tokens:
    """Reads tokens.

    Args:
        audience: for whom they have to be made out.
        leeway_s: by how much clocks may differ.
    """

    def __init__(self, keys: ProviderKeys, *, issuer: str, audience: str, leeway_s: float) -> None:
        self._keys = keys
        self._issuer = issuer
        self._audience = audience
        self._leeway_s = leeway_s

    async def claims(self, text: str) -> dict[str, Any]:
        """What a token says; `iss` and `sub` are texts, `exp` is a number.

        Raises:
            Unauthenticated: it does not hold.
        """
        algorithm, kid = _head(text)
        key = await self._keys.key(kid, algorithm)
        try:
            claims = jwt.decode(
                text,
                key,
                algorithms=[algorithm],
                audience=self._audience,
                issuer=self._issuer,
                leeway=self._leeway_s,
                options={"require": _NEEDED, "enforce_minimum_key_length": True},
            )
        except ExpiredSignatureError:
            raise Unauthenticated("The token is too old; get a new one from the identity provider.") from None
        except (PyJWTError, ValueError, OverflowError) as error:
            raise Unauthenticated(f"The token of the identity provider does not hold: {error}.") from None
        if not _is_name(claims["sub"]):
            raise Unauthenticated(f"The token does not say whose it is, in 1 to {SUBJECT_CHARS_MAX} plain characters.")
        return claims


def _is_name(subject: str) -> bool:
    """Whether it can be kept, in any database; no provider gives another one."""
    return 0 < len(subject) <= SUBJECT_CHARS_MAX and subject.isprintable()


def _head(text: str) -> tuple[str, str | None]:
    """(algorithm, key id). What is read here is not signed; it chooses among what is taken anyway."""
    try:
        head = jwt.get_unverified_header(text)
    except (InvalidTokenError, RecursionError):
        raise Unauthenticated("The token cannot be read.") from None
    algorithm, kid = head.get("alg"), head.get("kid")
    if not isinstance(algorithm, str) or algorithm not in KINDS:
        raise Unauthenticated(f"Tokens signed by {ascii(algorithm)[:24]} are not taken; {', '.join(KINDS)} are.")
    return algorithm, kid if isinstance(kid, str) else None
