"""What was held within a time is found by when it was given back.

Revision 0013.
"""

from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Usage over time goes through the table in this order, a page at a time."""
    op.create_index("ix_holdings_ended", "holdings", ["ended_us", "lease_id", "device_id", "slot"])
