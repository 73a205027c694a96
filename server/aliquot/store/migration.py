"""Bringing the stored schema to this version. Alembic is imported only when there is something to do."""

from typing import Final

from sqlalchemy import Connection, inspect, text

from aliquot.service.ports import StoreUnavailable

REVISIONS: Final = (
    "0001",
    "0002",
    "0003",
    "0004",
    "0005",
    "0006",
    "0007",
    "0008",
    "0009",
    "0010",
    "0011",
    "0012",
    "0013",
    "0014",
    "0015",
    "0016",
    "0017",
)
"""Every revision in `migrations/versions`, oldest first."""
HEAD: Final = REVISIONS[-1]
_VERSION_TABLE: Final = "alembic_version"
_POSTGRES_LOCK: Final = 0x616C6971
"""One key for everybody who migrates a database of Aliquot: `aliq`."""


def stored_revision(connection: Connection) -> str | None:
    """The revision of the database; None when it has no schema yet.

    Raises:
        StoreUnavailable: it was made by a version that this one does not know, or belongs to another program.
    """
    tables = inspect(connection).get_table_names()
    if _VERSION_TABLE not in tables:
        if tables:
            raise StoreUnavailable("the database holds tables of another program; name one of its own for Aliquot")
        return None
    revision = connection.execute(text(f"SELECT version_num FROM {_VERSION_TABLE}")).scalar_one_or_none()
    if revision is not None and revision not in REVISIONS:
        raise StoreUnavailable(
            f"the database has schema {revision}, this version of Aliquot knows {HEAD} at most; "
            "start the newer version, or restore the backup that was made before it"
        )
    return revision


def check_current(connection: Connection) -> None:
    """See that there is nothing to migrate; nothing is changed.

    Raises:
        StoreUnavailable: as `stored_revision`, or it has no schema, or an older one.
    """
    with connection.begin():
        revision = stored_revision(connection)
    if revision is None:
        raise StoreUnavailable("the database is empty: no server has been started on it yet")
    if revision != HEAD:
        raise StoreUnavailable(f"the database has schema {revision}; `aliquot db upgrade` brings it to {HEAD}")


def migrate(connection: Connection) -> None:
    """Run what is missing, in one transaction; a failure leaves the schema as it was.

    Raises:
        StoreUnavailable: as `stored_revision`.
    """
    with connection.begin():
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _POSTGRES_LOCK})
        if stored_revision(connection) != HEAD:
            _upgrade(connection)


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", "aliquot.store:migrations")
    config.set_main_option("path_separator", "os")
    command.upgrade(config, HEAD)
