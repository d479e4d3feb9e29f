"""Whatever we start listens on loopback addresses only. Reads Linux's table of sockets."""

from __future__ import annotations

import ipaddress
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jiuwen_memory.foundation.store.graph import GraphConfig, GraphStoreFactory
from tests.servers import OpenAIServer
from tests.stores import lite_server

LISTENING = "0A"

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def listening() -> Iterator[tuple[str, int, str]]:
    """Address, port and inode of every listening socket of this machine."""
    for name in ("tcp", "tcp6"):
        table = Path("/proc/net") / name
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            fields = line.split()
            if fields[3] == LISTENING:
                address, port = fields[1].split(":")
                yield readable(address), int(port, 16), fields[9]


def readable(address: str) -> str:
    """Return an address that the kernel writes as words in the machine's byte order."""
    raw = b"".join(bytes.fromhex(address[start : start + 8])[::-1] for start in range(0, len(address), 8))
    found = ipaddress.ip_address(raw)
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)


def own_addresses() -> list[str]:
    """The addresses on which this process listens."""
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    inodes = {str(link.readlink()).removeprefix("socket:[").rstrip("]") for link in links}
    return [address for address, _, inode in listening() if inode in inodes]


def is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address).is_loopback


def test_a_socket_that_is_open_to_everyone_is_seen() -> None:
    with socket.socket() as everywhere:
        everywhere.bind(("0.0.0.0", 0))
        everywhere.listen()

        assert not all(map(is_loopback, own_addresses()))


async def test_the_embedded_store_listens_on_loopback_or_not_at_all(tmp_path: Path) -> None:
    async with GraphStoreFactory.from_config(GraphConfig(uri=str(tmp_path / "graph.db"), embed_dim=32)) as store:
        await store.open()

        assert all(map(is_loopback, own_addresses()))


def test_the_servers_of_the_tests_listen_on_loopback(tmp_path: Path) -> None:
    with lite_server(tmp_path / "data") as milvus, OpenAIServer() as openai:
        ports = {int(address.removesuffix("/v1").rpartition(":")[2]) for address in (milvus, openai.base_url)}
        addresses = [address for address, port, _ in listening() if port in ports]

        assert len(addresses) >= 2
        assert all(map(is_loopback, addresses))
