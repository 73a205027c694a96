"""Who people are at the identity provider, and the Unix accounts that are one user's alone.

Revision 0011.
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Nobody has come in by a provider so far; users of before keep their accounts as all servers know them."""
    for name in ("subject", "account"):
        is_given = sa.text(f"{name} IS NOT NULL")
        op.add_column("users", sa.Column(name, TEXT, nullable=True))
        op.create_index(
            f"uq_users_{name}", "users", [name], unique=True, sqlite_where=is_given, postgresql_where=is_given
        )
