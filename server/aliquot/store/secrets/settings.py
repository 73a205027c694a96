"""Settings of secrets."""

from pathlib import Path
from typing import Final

from pydantic import Field
from pydantic_settings import BaseSettings

KEY_FILE: Final = Path("server") / "secrets.key"


class SecretSettings(BaseSettings):
    """A part of `aliquot.settings.Settings`."""

    secrets_key_file: Path | None = Field(
        None,
        description="The keys that secrets are encrypted with, the same for all servers of a database; without one, "
        "server/secrets.key in the data folder.",
    )

    def secret_keys(self, data_folder: Path) -> Path:
        """Where the keys are."""
        return self.secrets_key_file or data_folder / KEY_FILE
