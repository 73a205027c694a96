"""The node's identity."""

import socket
from pathlib import Path

import pytest

from aliquot.execution.devices.node import node_identity
from devices_files import write

MACHINE_ID = "0123456789abcdef0123456789abcdef"


def test_the_node_id_is_derived_from_the_machine_id_without_showing_it(tmp_path: Path) -> None:
    write(tmp_path / "etc/machine-id", MACHINE_ID + "\n")
    write(tmp_path / "proc/sys/kernel/random/boot_id", "b-1\n")
    node = node_identity(tmp_path)
    assert node.node_id == node_identity(tmp_path).node_id
    assert len(node.node_id) == 32
    assert node.node_id != MACHINE_ID
    assert (node.boot_id, node.hostname) == ("b-1", socket.gethostname())


def test_the_node_id_stays_the_same_after_a_reboot(tmp_path: Path) -> None:
    write(tmp_path / "etc/machine-id", MACHINE_ID)
    write(tmp_path / "proc/sys/kernel/random/boot_id", "b-1")
    before = node_identity(tmp_path)
    write(tmp_path / "proc/sys/kernel/random/boot_id", "b-2")
    after = node_identity(tmp_path)
    assert before.node_id == after.node_id
    assert before.boot_id != after.boot_id


@pytest.mark.parametrize("unusable", ["", "uninitialized\n", "0" * 32, "short", None])
def test_without_a_machine_id_the_dbus_id_or_hostname_is_used(tmp_path: Path, unusable: str | None) -> None:
    if unusable is not None:
        write(tmp_path / "etc/machine-id", unusable)
    of_hostname = node_identity(tmp_path).node_id
    write(tmp_path / "var/lib/dbus/machine-id", MACHINE_ID)
    of_dbus = node_identity(tmp_path).node_id
    write(tmp_path / "etc/machine-id", MACHINE_ID)
    assert of_dbus == node_identity(tmp_path).node_id
    assert of_hostname != of_dbus


def test_without_a_boot_id_the_boot_time_takes_its_place(tmp_path: Path) -> None:
    assert node_identity(tmp_path).boot_id == "unknown"
    write(tmp_path / "proc/stat", "cpu  1 2 3\nbtime 1700000000\n")
    assert node_identity(tmp_path).boot_id == "btime-1700000000"


def test_this_machine_has_an_identity() -> None:
    node = node_identity()
    assert node == node_identity()
    assert node.boot_id != "unknown"
