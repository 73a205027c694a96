"""How many GPUs each session asks for, so that lists can be sorted by it.

Revision 0015.
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
SESSIONS = sa.table("sessions", sa.column("id", sa.Text), sa.column("spec", sa.Text), sa.column("gpus_milli", INT))
ROWS_AT_ONCE = 1000
AMOUNT_MAX = 2**63 - 1
SCALES = {"device": 1000, "shares": 1}


def upgrade() -> None:
    """There is no index: it would cost every submission, and pages in this order are rare."""
    op.add_column("sessions", sa.Column("gpus_milli", INT, nullable=False, server_default="0"))
    connection = op.get_bind()
    ids = sa.select(SESSIONS.c.id, SESSIONS.c.spec).order_by(SESSIONS.c.id).limit(ROWS_AT_ONCE)
    fill = SESSIONS.update().where(SESSIONS.c.id == sa.bindparam("of")).values(gpus_milli=sa.bindparam("milli"))
    rows = connection.execute(ids).all()
    while rows:
        connection.execute(fill, [{"of": row.id, "milli": _milli(json.loads(row.spec))} for row in rows])
        rows = connection.execute(ids.where(SESSIONS.c.id > rows[-1].id)).all()


def _milli(spec: dict[str, object]) -> int:
    """As this version of the schema reckons: whole devices, and shares as they are, of all kernels together."""
    slots, kernels = spec["slots"], spec.get("cluster_size", 1)
    assert isinstance(slots, dict)
    assert isinstance(kernels, int)
    scaled = [(SCALES.get(slot.rpartition(".")[2], 0), amount) for slot, amount in slots.items()]
    milli = sum(scale * (AMOUNT_MAX if amount == "unlimited" else amount) for scale, amount in scaled)
    return min(milli * kernels, AMOUNT_MAX)
