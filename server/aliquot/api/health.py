"""Health: whether the process is up, and whether it can serve.

Asked without a key it tells codes alone, from a closed list: no path, no agent and no error of a database is for
everybody to read. Whoever shows a key hears the words too.
"""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from aliquot.api.authentication import TokenAuth
from aliquot.api.encoding import json_response
from aliquot.service.measuring.conditions import Condition
from aliquot_schema.errors import Unauthenticated

Conditions = Callable[[], tuple[Condition, ...]]
"""What is wrong now; empty when all is well."""


class Health:
    """`/healthz` and `/readyz`."""

    def __init__(self, conditions: Conditions, auth: TokenAuth) -> None:
        self._conditions = conditions
        self._auth = auth

    async def healthz(self, _request: Request) -> Response:
        """The process answers, and so its event loop turns. Without an answer in time it is to be started again."""
        return json_response({"ok": True})

    async def readyz(self, request: Request) -> Response:
        """200 when it can serve, else 503; what is wrong, by code: what keeps it from serving, and what does not."""
        found = self._conditions()
        missing = [condition.code for condition in found if condition.is_fatal]
        warnings = [condition.code for condition in found if not condition.is_fatal]
        told: dict[str, object] = {"ready": not missing, "missing": missing, "warnings": warnings}
        if self._is_known(request):
            told["details"] = [{"code": condition.code, "message": condition.message} for condition in found]
        return json_response(told, status=503 if missing else 200)

    def _is_known(self, request: Request) -> bool:
        try:
            self._auth.authenticate(request)
        except Unauthenticated:
            return False
        return True
