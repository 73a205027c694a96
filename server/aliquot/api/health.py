"""Health endpoints: whether the process is up, and whether it can serve.

Without credentials only codes from a closed list are returned: paths, agents and database errors are not public.
Authenticated callers also get the messages.
"""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from aliquot.api.authentication import TokenAuth
from aliquot.api.encoding import json_response
from aliquot.service.metrics.health import HealthCondition
from aliquot_schema.errors import Unauthenticated

Conditions = Callable[[], tuple[HealthCondition, ...]]
"""Current problems; empty when healthy."""


class Health:
    """`/healthz` and `/readyz`."""

    def __init__(self, conditions: Conditions, auth: TokenAuth) -> None:
        self._conditions = conditions
        self._auth = auth

    async def healthz(self, _request: Request) -> Response:
        """Liveness: the event loop runs. Restart the process when there is no answer in time."""
        return json_response({"ok": True})

    async def readyz(self, request: Request) -> Response:
        """Readiness: 200 when it can serve, else 503, with the codes of fatal problems and of warnings."""
        found = self._conditions()
        missing = [condition.code for condition in found if condition.is_fatal]
        warnings = [condition.code for condition in found if not condition.is_fatal]
        report: dict[str, object] = {"ready": not missing, "missing": missing, "warnings": warnings}
        if self._is_authenticated(request):
            report["details"] = [{"code": condition.code, "message": condition.message} for condition in found]
        return json_response(report, status=503 if missing else 200)

    def _is_authenticated(self, request: Request) -> bool:
        try:
            self._auth.authenticate(request)
        except Unauthenticated:
            return False
        return True
