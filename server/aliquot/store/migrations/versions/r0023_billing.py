"""Billing, revision 0023: prices in the policy, budgets of quotas, idle time of leases, and statements."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"

TEXT: Final = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INT: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NUMBERS: Final = (
    *("month", "used", "idle", "lost_failure", "lost_preemption", "cost", "credited"),
    *("sessions", "waited_ms", "preemptions"),
)


def upgrade() -> None:
    """Add the columns and the table; without prices, nothing was billed."""
    op.add_column("policies", sa.Column("prices", TEXT, nullable=False, server_default="{}"))
    op.add_column("quotas", sa.Column("budget", INT, nullable=True))
    op.add_column("leases", sa.Column("idle", INT, nullable=False, server_default="0"))
    op.add_column("leases", sa.Column("policy_version", INT, nullable=False, server_default="0"))
    op.create_table(
        "statements",
        sa.Column("id", TEXT, primary_key=True),
        sa.Column("version", INT, nullable=False),
        sa.Column("account", TEXT, nullable=False),
        *(sa.Column(name, INT, nullable=False) for name in NUMBERS),
    )
