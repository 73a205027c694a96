"""The channel on which every commit tells all servers of one PostgreSQL database that the log has grown."""

from typing import Final

CHANNEL: Final = "aliquot_events"
SERVER_SETTING: Final = "aliquot.server"
"""A setting of each session that holds its server's id; a notice names the server that committed."""
NOTIFY: Final = f"pg_notify('{CHANNEL}', coalesce(current_setting('{SERVER_SETTING}', true), ''))"
"""Part of the last statement of a commit, so that it costs no round trip."""
