"""Confinement inputs.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from msgspec import Struct


class SecretUseInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A secret of yours that each kernel is given: as a variable, as a file, or both."""

    name: str
    """Its name, as of `set_secret`."""
    as_env: str | None = None
    """The variable's name."""
    as_file: str | None = None
    """The file's name, in the folder that ALIQUOT_SECRETS_DIR names."""


class SessionLimitsInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What each kernel may use at most; the operator's settings say more."""

    processes: int | None = None
    """Processes and threads at one time."""
    open_files: int | None = None
    """Open files of each process."""
