"""Names of system errors: one errno means different things for a file and for a socket."""

import errno
import os

import pytest

from aliquot.store.engines.database import unavailability


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.EACCES, os.strerror(errno.EACCES), "aliquot.db"), "is read-only; check the owner"),
        (OSError(errno.EACCES, os.strerror(errno.EACCES)), "cannot be reached: .*Permission denied"),
        (OSError(errno.EROFS, os.strerror(errno.EROFS)), "is read-only"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "the disk is full"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), "cannot be reached"),
    ],
)
def test_an_os_error_gets_the_message_of_its_cause(error: OSError, words: str) -> None:
    told = unavailability(error)
    assert told is not None
    with pytest.raises(type(told), match=words):
        raise told
