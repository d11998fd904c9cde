"""Hierarchies of IPv4 addresses by network prefix."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, collapse_addresses
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crenel.anonymity.model.builders.builder import MOST_LEAVES, ROOT, Builder, BuilderError, Finder

_BITS = 32
_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_ADDRESS = rf"^{_OCTET}\.{_OCTET}\.{_OCTET}\.{_OCTET}$"
"""Addresses as ``ipaddress`` reads them: without leading zeros, which some programs read as octal."""


@dataclass(frozen=True)
class Addresses(Builder):
    """Networks by prefix length, with labels such as ``10.0.3.7``, ``10.0.3.0/24`` and ``10.0.0.0/16``.

    Attributes
    ----------
    networks : networks of the known addresses; one may lie inside another
    levels : prefix lengths, 1 to 32, beginning with the leaves, each shorter than the one before; at most 2^20 leaves
    """

    networks: tuple[IPv4Network, ...]
    levels: tuple[int, ...] = (32, 24, 16, 8)

    kind: ClassVar[Literal["address"]] = "address"

    def __post_init__(self) -> None:
        if not self.networks:
            raise BuilderError("networks", "must be networks, at least one, such as 10.0.0.0/16")
        outside = [length for length in self.levels if not 1 <= length <= _BITS]
        if not self.levels or outside or any(shorter >= longer for longer, shorter in pairwise(self.levels)):
            raise BuilderError(
                "levels",
                "must nest: lengths of prefixes from 32 to 1, each shorter than the one before, as [32, 24, 16]",
            )
        leaves = sum(2 ** max(self.levels[0] - network.prefixlen, 0) for network in self._separate)
        if leaves > MOST_LEAVES:
            raise BuilderError(
                "networks",
                f"make {leaves} leaves, and a hierarchy has 2^20 at most; narrow them, or begin levels with a shorter "
                "prefix, such as 24",
            )

    def paths(self) -> list[tuple[str, ...]]:
        return [(*(_label(start, length) for length in self.levels), ROOT) for start in self._leaves().tolist()]

    def finder(self) -> Finder:
        leaves = self._leaves()
        first = np.array([int(network.network_address) for network in self._separate], np.int64)
        last = np.array([int(network.broadcast_address) for network in self._separate], np.int64)

        def find(texts: NDArray[Any]) -> NDArray[np.intp]:
            column = pa.array(texts, pa.string(), from_pandas=True)
            well_formed = pc.match_substring_regex(column, _ADDRESS).fill_null(False)
            octets = pc.split_pattern(column.filter(well_formed), ".").flatten().cast(pa.int64()).to_numpy()
            addresses = octets.reshape(-1, 4) @ np.array([1 << 24, 1 << 16, 1 << 8, 1])
            network = np.searchsorted(first, addresses, side="right") - 1
            known = (network >= 0) & (addresses <= last[network])
            found = np.full(len(texts), -1, np.intp)
            found[well_formed.to_numpy(zero_copy_only=False)] = np.where(
                known, np.searchsorted(leaves, addresses, side="right") - 1, -1
            )
            return found

        return find

    @cached_property
    def _separate(self) -> list[IPv4Network]:
        """The networks in order, merged so that none lies inside another."""
        return list(collapse_addresses(self.networks))

    def _leaves(self) -> NDArray[np.int64]:
        """Return (leaves,) the first address of each leaf, in order."""
        width = 1 << _BITS - self.levels[0]
        starts = [
            np.arange(int(network.network_address) // width * width, int(network.broadcast_address) + 1, width)
            for network in self._separate
        ]
        return np.unique(np.concatenate(starts))


def _label(address: int, length: int) -> str:
    """Return the network of an address with a prefix of ``length`` bits."""
    if length == _BITS:
        return str(IPv4Address(address))
    return f"{IPv4Address(address >> _BITS - length << _BITS - length)}/{length}"
