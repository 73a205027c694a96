"""What a key looks like: `<id>.<secret>`. Of the secret a digest alone is kept.

A secret is 256 random bits. Nobody can guess such a one from its digest however fast the digest is made, so that a
slow one, as passwords need, would only cost the server time.
"""

import secrets
from hashlib import sha256
from hmac import compare_digest
from typing import Final

from aliquot_schema.accounts import KEY_PREFIX
from aliquot_schema.ids import KeyId

TEXT_CHARS_MAX: Final = 200
_SECRET_BYTES: Final = 32


def new_secret() -> str:
    """43 letters, digits, - and _."""
    return secrets.token_urlsafe(_SECRET_BYTES)


def digest_of(secret: str) -> str:
    """What is kept of a secret."""
    return sha256(secret.encode()).hexdigest()


def is_secret(secret: str, *, digest: str) -> bool:
    """Whether a secret is the one that was digested; how long that takes tells nothing."""
    return compare_digest(digest_of(secret), digest)


def shown(key_id: KeyId, *, secret: str) -> str:
    """What a person is given to come in with."""
    return f"{key_id}.{secret}"


def parts(text: str) -> tuple[KeyId, str] | None:
    """Split what somebody showed into (id, secret); None when it is no key."""
    if len(text) > TEXT_CHARS_MAX or not text.isascii() or not text.startswith(KEY_PREFIX):
        return None
    key_id, _, secret = text.partition(".")
    return (KeyId(key_id), secret) if secret else None
