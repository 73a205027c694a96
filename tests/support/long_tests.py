"""What takes too long for the run of every commit: `scripts/test --long` runs it too."""

import os
from typing import Final

import pytest

IS_LONG: Final = "ALIQUOT_TESTS_LONG" in os.environ
LONG: Final = pytest.mark.skipif(not IS_LONG, reason="scripts/test --long runs it")
