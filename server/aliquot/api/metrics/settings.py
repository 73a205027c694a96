"""Settings of what is measured, and of the log."""

from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings


class MeasuringSettings(BaseSettings):
    """A part of `aliquot.settings.Settings`."""

    metrics_open: bool = Field(
        False, description="Whether /metrics is answered without a key; only where the server listens on loopback."
    )
    metrics_token_file: Path | None = Field(
        None, description="A file with a token, of 16 characters or more, that opens /metrics and nothing else."
    )
    queue_backlog: int = Field(
        1_000, ge=0, description="Tasks that wait before the log says that there is a backlog; 0 = it never does."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="How much to log.")
    log_format: Literal["console", "json"] = Field(
        "console", description="Log lines for people, or one JSON object each."
    )
