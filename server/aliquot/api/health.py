"""Health: whether the process is up, and whether it can serve. Asked without a token, and says no more than that."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from aliquot.api.encoding import json_response

Ready = Callable[[], str | None]
"""None when everything is there, else what is missing, in words."""


class Health:
    """`/healthz` and `/readyz`."""

    def __init__(self, ready: Ready, warnings: Callable[[], list[str]]) -> None:
        """
        Args:
            warnings: what does not work as it should while it serves, in words.
        """
        self._ready = ready
        self._warnings = warnings

    async def healthz(self, _request: Request) -> Response:
        """The process answers."""
        return json_response({"ok": True})

    async def readyz(self, _request: Request) -> Response:
        """200 when it can serve, else 503 with what is missing; with what does not work as it should, if anything."""
        missing, warnings = self._ready(), self._warnings()
        told: dict[str, object] = {"ready": missing is None, "missing": missing}
        if warnings:
            told["warnings"] = warnings
        return json_response(told, status=503 if missing else 200)
