"""Settings of metrics and logging."""

from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings


class MeasuringSettings(BaseSettings):
    """The part of `aliquot.settings.Settings` on metrics and logging."""

    metrics_open: bool = Field(
        False, description="Whether /metrics needs no key; allowed only where the server listens on loopback."
    )
    metrics_token_file: Path | None = Field(
        None, description="File with a token of at least 16 characters that grants access to /metrics only."
    )
    queue_backlog: int = Field(1_000, ge=0, description="Waiting tasks at which the log reports a backlog; 0 = never.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="How much to log.")
    log_format: Literal["console", "json"] = Field(
        "console", description="Log lines for people, or one JSON object each."
    )
