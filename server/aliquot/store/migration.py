"""Schema migration: brings the stored schema to this version. Alembic is imported only when there is work to do."""

from typing import Final

from sqlalchemy import Connection, inspect, text

from aliquot.service.ports import StoreUnavailable

REVISIONS: Final = ("0017", "0018", "0019", "0020", "0021", "0022", "0023", "0024", "0025", "0026", "0027")
"""Every revision in `migrations/versions`, oldest first. The first one is the baseline, which creates all tables."""
HEAD: Final = REVISIONS[-1]
SCRIPTS: Final = "aliquot.store:migrations"
"""Package in which Alembic finds the revisions."""
_VERSION_TABLE: Final = "alembic_version"
_POSTGRES_LOCK: Final = 0x616C6971
"""Key of the advisory lock held during a migration: `aliq`."""
SEAT_KEY: Final = 0x616C_6971_5365_6174
"""Key of the advisory lock that the leading server holds, the same in every database and release: `aliqSeat`."""
_OTHER_SERVERS: Final = """
SELECT DISTINCT a.application_name FROM pg_stat_activity a LEFT JOIN pg_locks l
ON l.pid = a.pid AND l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
AND (l.classid::bigint << 32 | l.objid::bigint) = :key
WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
AND (l.pid IS NOT NULL OR a.application_name LIKE 'http%://%')
ORDER BY a.application_name
"""
"""Each server, leader or follower, has a session for the leadership lock, which is named by its address."""


def stored_revision(connection: Connection) -> str | None:
    """The schema revision of the database; None if it has no schema yet.

    Raises:
        StoreUnavailable: the revision is too old or too new for this version, or the tables belong to another program.
    """
    tables = inspect(connection).get_table_names()
    if _VERSION_TABLE not in tables:
        if tables:
            raise StoreUnavailable("the database holds tables of another program; give Aliquot a database of its own")
        return None
    revision = connection.execute(text(f"SELECT version_num FROM {_VERSION_TABLE}")).scalar_one_or_none()
    if revision is not None and revision.isdigit() and revision < REVISIONS[0]:
        raise StoreUnavailable(
            f"the database has schema {revision}; this version of Aliquot upgrades schema {REVISIONS[0]} and later. "
            f"Start a version that upgrades to {REVISIONS[0]} once, then this one"
        )
    if revision is not None and revision not in REVISIONS:
        raise StoreUnavailable(
            f"the database has schema {revision}, this version of Aliquot supports up to {HEAD}; "
            "start the newer version, or restore the backup made before its upgrade"
        )
    return revision


def check_current(connection: Connection) -> None:
    """Check that the schema is current; nothing is changed.

    Raises:
        StoreUnavailable: see `stored_revision`; also if the database has no schema or an older one.
    """
    with connection.begin():
        revision = stored_revision(connection)
    if revision is None:
        raise StoreUnavailable("the database is empty: no server has used it yet")
    if revision != HEAD:
        raise StoreUnavailable(f"the database has schema {revision}; upgrade it to {HEAD} with `aliquot db upgrade`")


def migrate(connection: Connection) -> None:
    """Run the missing revisions in one transaction; a failure leaves the schema unchanged.

    Raises:
        StoreUnavailable: see `stored_revision`; also if servers of the older release run on the database.
    """
    with connection.begin():
        is_shared = connection.dialect.name == "postgresql"
        if is_shared:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _POSTGRES_LOCK})
        revision = stored_revision(connection)
        if revision is not None and revision != HEAD and is_shared:
            _check_alone(connection, revision)
        if revision != HEAD:
            _upgrade(connection)


def check_may_lead(connection: Connection) -> None:
    """Check, within a transaction, that the database was not upgraded since this server started.

    Raises:
        StoreUnavailable: it was.
    """
    revision = connection.execute(text(f"SELECT version_num FROM {_VERSION_TABLE}")).scalar_one_or_none()
    if revision != HEAD:
        raise StoreUnavailable(
            f"the database has schema {revision} now, and this server of an older release supports up to {HEAD}, so it "
            "cannot lead; stop it and start the newer version"
        )


def check_unused(connection: Connection) -> None:
    """Check that no server uses the database, for commands that servers would not notice.

    Raises:
        StoreUnavailable: servers use it. A SQLite file that is in use cannot be opened in the first place.
    """
    if connection.dialect.name == "postgresql" and (names := _other_servers(connection)):
        raise StoreUnavailable(f"servers run on this database: {names}. Stop them first; jobs are not affected")


def _other_servers(connection: Connection) -> str:
    others = connection.execute(text(_OTHER_SERVERS), {"key": SEAT_KEY}).scalars().all()
    return ", ".join(name or "a server without a short address" for name in others)


def _check_alone(connection: Connection, revision: str) -> None:
    if names := _other_servers(connection):
        raise StoreUnavailable(
            f"servers of the older release run on this database, which has schema {revision}: {names}. Stop them "
            f"before it is upgraded to {HEAD}; jobs are not affected. A server whose host died is forgotten in seconds"
        )


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", SCRIPTS)
    config.set_main_option("path_separator", "os")
    command.upgrade(config, HEAD)
