"""Access: who may read the metrics. They name nodes, agents and devices, and never a user or a session."""

import hmac
from typing import Final

from starlette.requests import Request

from aliquot.api.authentication import TokenAuth

_SCHEME: Final = "bearer "


class MetricsAccess:
    """Whoever has a key or a cookie, in any role; whoever has the token of the metrics; or everybody."""

    def __init__(self, auth: TokenAuth, *, token: str | None = None, is_open: bool = False) -> None:
        """
        Args:
            token: opens the metrics and nothing else; None = there is none.
            is_open: only right where nobody but this machine's own users can come in.
        """
        self._auth = auth
        self._token = None if token is None else token.encode()
        self._is_open = is_open

    def check(self, request: Request) -> None:
        """Let it pass.

        Raises:
            Unauthenticated: it shows nothing that opens the metrics.
        """
        if not self._is_open and not self._shows_token(request.headers.get("authorization", "")):
            self._auth.authenticate(request)

    def _shows_token(self, authorization: str) -> bool:
        if self._token is None or not authorization.lower().startswith(_SCHEME):
            return False
        return hmac.compare_digest(authorization[len(_SCHEME) :].strip().encode(), self._token)
