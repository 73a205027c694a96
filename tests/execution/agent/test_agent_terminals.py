"""Terminals of one kernel: acknowledged input, and cleanup of abandoned terminals."""

import json
import resource
import time

import psutil

from kernel_terminals import PROGRAM, WAIT_S_MAX, Open, TerminalViewer, kernel_terminals

TERMINALS_MAX = 16
"""Same value as in `spawner.terminals`."""


def opened(terminals: Open, name: str, **asked: object) -> tuple[TerminalViewer, int]:
    """A viewer, and the input bytes that the terminal acknowledges."""
    viewer = terminals(name, **asked)
    return viewer, int(json.loads(viewer.until(b"a"))["input"])


def confirmed(viewer: TerminalViewer) -> int:
    return int.from_bytes(viewer.until(b"k"), "big")


def test_each_viewer_learns_how_much_of_its_own_input_arrived() -> None:
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


def test_the_end_of_one_window_does_not_end_the_input_of_a_shared_terminal() -> None:
    with kernel_terminals() as terminals:
        ada, _ = opened(terminals, "one", tty=True, viewer="ada", command=["sh"])
        ada.send(b"e", b"")
        ben, _ = opened(terminals, "one", tty=True, viewer="ben")
        ben.send(b"i", b"echo on''e\n")
        printed = b""
        while b"one" not in printed:
            printed += ben.until(b"o")


def test_a_recording_that_fills_the_disk_ends_and_the_terminals_go_on() -> None:
    with kernel_terminals(file_bytes_max=100) as terminals:
        ben = terminals("two", tty=True, record=True, command=["seq", "100"])
        printed = b""
        while b"100\r\n" not in printed:
            printed += ben.until(b"o")


def test_a_terminal_whose_recording_cannot_begin_is_refused_and_the_others_go_on() -> None:
    with kernel_terminals(file_bytes_max=0) as terminals:
        ada, _ = opened(terminals, "one", viewer="ada", command=["cat"])
        ben = terminals("two", tty=True, record=True, command=["seq", "100"])
        assert json.loads(ben.until(b"f"))["message"] == "the terminal cannot be opened: File too large"
        ada.send(b"i", b"seven b")
        assert ada.until(b"o") == b"seven b"


def test_a_terminal_that_finds_no_free_descriptors_keeps_none() -> None:
    with kernel_terminals() as terminals:
        opened(terminals, "one", command=["cat"])
        (program,) = (one for one in psutil.Process().children() if str(PROGRAM) in one.cmdline())
        open_files = program.num_fds()
        resource.prlimit(program.pid, resource.RLIMIT_NOFILE, (open_files + 6, open_files + 6))
        for _ in range(3):
            ben = terminals("two", command=["true"])
            assert json.loads(ben.until(b"f"))["message"] == "the terminal cannot be opened: Too many open files"
            ben.close()
        give_up = time.monotonic() + WAIT_S_MAX
        while program.num_fds() > open_files:
            assert time.monotonic() < give_up
            time.sleep(0.01)


def test_only_viewers_that_left_are_forgotten() -> None:
    with kernel_terminals() as terminals:
        ada, _ = opened(terminals, "one", viewer="ada", command=["cat"])
        ada.send(b"i", b"seven b")
        assert confirmed(ada) == 7
        for number in range(70):
            opened(terminals, "one", viewer=f"v{number}")[0].close()
        assert opened(terminals, "one", viewer="ada", offset=0)[1] == 7


def test_abandoned_commands_with_much_output_free_their_terminal_slots() -> None:
    with kernel_terminals() as terminals:
        for number in range(TERMINALS_MAX):
            left = terminals(f"left-{number}", grace_s=0.1, command=["seq", "10000000"])
            left.until(b"o")
            left.close()
        give_up = time.monotonic() + WAIT_S_MAX
        while True:
            last = terminals("last", command=["echo", "hello"])
            kind, _ = last.frame()
            if kind == b"a":
                break
            assert time.monotonic() < give_up
            time.sleep(0.05)
        assert last.until(b"o") == b"hello\n"


def test_the_output_of_a_command_waits_for_its_viewer_within_the_grace_time() -> None:
    with kernel_terminals() as terminals:
        left = terminals("one", command=["seq", "1000000"])
        first = left.until(b"o")
        left.close()
        again = terminals("one", offset=len(first))
        received = first
        while (frame := again.frame())[0] != b"x":
            received += frame[1] if frame[0] == b"o" else b""
        assert received.endswith(b"\n999999\n1000000\n")
