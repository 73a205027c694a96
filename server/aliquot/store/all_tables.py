"""Every table of the database, whichever module declares it: what is exported and imported is all of them."""

from typing import Final

from sqlalchemy import MetaData

import aliquot.store.audit.tables
import aliquot.store.ledger.tables
import aliquot.store.outbox_tables
import aliquot.store.relay.tables
import aliquot.store.seals
import aliquot.store.secrets.tables
import aliquot.store.tables  # noqa: F401  # each of these makes its tables known
from aliquot.store.columns import METADATA

ALL_TABLES: Final[MetaData] = METADATA
