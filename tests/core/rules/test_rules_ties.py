"""Ties: rows of equal score keep the order of the queue."""

from types import SimpleNamespace

import numpy as np

from aliquot.core.scheduler.ordering import in_order

ROWS = 300


def test_rows_of_equal_score_keep_their_order() -> None:
    scores = np.arange(ROWS, dtype=np.int64) * 7919 % 3
    places = in_order(lambda standing: scores, SimpleNamespace()).tolist()  # type: ignore[arg-type]  # nobody reads it
    assert places == sorted(range(ROWS), key=lambda place: (-scores[place], place))
