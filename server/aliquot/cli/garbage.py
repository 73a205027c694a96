"""Garbage: the collector looks through what is new, and now and then through everything.

Python goes through all objects that live long again and again, and nothing else runs meanwhile: a fifth of a second
with ten thousand sessions. Nearly all of them are records without cycles, which are freed without it.
"""

import gc
import time
from collections.abc import Mapping
from typing import Any, Final

OLDEST: Final = 2
THRESHOLDS: Final = (20_000, 0, 0)
"""Objects that are new, and rounds between looks at older ones; see `gc.set_threshold`. Python's own 700 are those of a
few requests: it would look through all that are being answered again and again. Every third round is a full one, and
each object is looked at three times at most before it is left out: the longest look is through 60,000."""
THOROUGH_S: Final = 6 * 3600.0
"""How often everything is looked through, for the cycles that have lived long before they became garbage."""


class PatientCollector:
    """What has outlived a full collection is left out of the next ones, until it is time to look through everything."""

    def __init__(self, *, thorough_s: float = THOROUGH_S) -> None:
        self._thorough_s = thorough_s
        self._looked_at = time.monotonic()
        self._thresholds = gc.get_threshold()

    def begin(self) -> None:
        """From now on; what is there already is left out."""
        gc.freeze()
        gc.callbacks.append(self._hear)
        gc.set_threshold(*THRESHOLDS)
        gc.enable()

    def end(self) -> None:
        """Leave the collector as Python has it."""
        gc.callbacks.remove(self._hear)
        gc.set_threshold(*self._thresholds)
        gc.unfreeze()

    def _hear(self, phase: str, found: Mapping[str, Any]) -> None:
        if phase != "stop" or found["generation"] != OLDEST:
            return
        if time.monotonic() - self._looked_at < self._thorough_s:
            gc.freeze()
        else:
            self._looked_at = time.monotonic()
            gc.unfreeze()  # the next full collection looks through everything
