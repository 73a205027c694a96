"""Terminals of one kernel: whose input arrived, and what becomes of terminals that were left."""

import json

from kernel_terminals import Open, TerminalViewer, kernel_terminals


def opened(terminals: Open, name: str, **asked: object) -> tuple[TerminalViewer, int]:
    """A viewer, and the bytes of its input that the terminal says it has."""
    viewer = terminals(name, **asked)
    return viewer, int(json.loads(viewer.until(b"a"))["input"])


def confirmed(viewer: TerminalViewer) -> int:
    return int.from_bytes(viewer.until(b"k"), "big")


def test_each_viewer_is_told_how_much_of_its_own_input_arrived() -> None:
    with kernel_terminals() as terminals:
        ada, _ = opened(terminals, "one", viewer="ada", command=["cat"])
        ada.send(b"i", b"seven b")
        assert confirmed(ada) == 7
        ben, received = opened(terminals, "one", viewer="ben")
        assert received == 0
        ben.send(b"i", b"four")
        assert (confirmed(ben), confirmed(ada)) == (4, 7)
        ada.close()
        assert opened(terminals, "one", viewer="ada", offset=0)[1] == 7


def test_the_input_of_clients_without_a_name_is_counted_over_their_connections() -> None:
    with kernel_terminals() as terminals:
        ada, _ = opened(terminals, "one", viewer="ada", command=["cat"])
        ada.send(b"i", b"seven b")
        assert confirmed(ada) == 7
        old, received = opened(terminals, "one")
        assert received == 0
        old.send(b"i", b"four")
        assert confirmed(old) == 4
        old.close()
        assert opened(terminals, "one", offset=0)[1] == 4


def test_only_viewers_that_left_are_forgotten() -> None:
    with kernel_terminals() as terminals:
        ada, _ = opened(terminals, "one", viewer="ada", command=["cat"])
        ada.send(b"i", b"seven b")
        assert confirmed(ada) == 7
        for number in range(70):
            opened(terminals, "one", viewer=f"v{number}")[0].close()
        assert opened(terminals, "one", viewer="ada", offset=0)[1] == 7
