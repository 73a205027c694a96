"""Rotation: everything is encrypted with a new key, and the old ones are forgotten; or what no key opens is."""

from functools import partial

from aliquot.store.audit.noting import Hand, patiently
from aliquot.store.runner import Runner
from aliquot.store.secrets import rows
from aliquot.store.secrets.keys import SecretKeys


async def rotate(database: Runner, *, keys: SecretKeys, by: Hand) -> int:
    """Rotate the keys; returns how many secrets there are. What breaks off is done by the next try: until the end the
    file holds the old keys too.

    Raises:
        Unavailable: something cannot be decrypted, or the file cannot be written; nothing is lost.
    """
    keys.begin_rotation()
    count = await database.write(patiently(partial(rows.reseal, keys=keys, by=by)))
    keys.end_rotation(used=await database.read(rows.key_ids))
    return count


async def forget(database: Runner, *, keys: SecretKeys, by: Hand) -> int:
    """Delete what cannot be decrypted by any key of the file; returns how many secrets that were.

    Raises:
        Unavailable: the file cannot be used.
    """
    return await database.write(patiently(partial(rows.forget, known=keys.ids(), by=by)))
