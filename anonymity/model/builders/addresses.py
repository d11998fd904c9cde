"""Hierarchies of IPv4 addresses by network prefix."""

from __future__ import annotations

from functools import cached_property
from ipaddress import IPv4Address, IPv4Network
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crenel.anonymity.model.builders.builder import BuilderError
from crenel.anonymity.model.builders.codes import Codes, Ranges
from crenel.anonymity.model.fields import Items, Network, Positive, about, setting

_BITS = 32
_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_ADDRESS = rf"^{_OCTET}\.{_OCTET}\.{_OCTET}\.{_OCTET}$"
"""Addresses as ``ipaddress`` reads them: without leading zeros, which some programs read as octal."""


@setting
class Ip(Codes):
    """A hierarchy of IPv4 addresses by prefix, with labels such as ``10.0.3.7``, ``10.0.3.0/24`` and ``10.0.0.0/16``.

    Attributes
    ----------
    networks : networks that contain all values, such as ``"10.0.0.0/16"``; one may lie inside another
    levels : lengths of prefixes, 1 to 32, each shorter than the one before, the leaves first; 2^24 leaves at most
    """

    networks: Annotated[Items[Network], about("IPv4 networks such as [10.0.0.0/16]; IPv6 is not known")]
    levels: Annotated[Items[Positive], about("lengths of prefixes, the leaves first, such as [32, 24, 16, 8]")] = (
        32,
        24,
        16,
        8,
    )

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
        self.require_few("networks", "narrow them, or begin levels with a shorter prefix, such as 24")

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(1 << self.levels[0] - length for length in self.levels)

    @property
    def ranges(self) -> Ranges:
        return self._addresses.divided(1 << _BITS - self.levels[0])

    def codes(self, texts: NDArray[Any]) -> NDArray[np.int64]:
        column = pa.array(texts, pa.string(), from_pandas=True)
        well_formed = pc.match_substring_regex(column, _ADDRESS).fill_null(False)
        octets = pc.split_pattern(column.filter(well_formed), ".").flatten().cast(pa.int64()).to_numpy()
        addresses = octets.reshape(-1, 4) @ np.array([1 << 24, 1 << 16, 1 << 8, 1])
        known = self._addresses.ranks(addresses) >= 0
        found = np.full(len(texts), -1, np.int64)
        found[well_formed.to_numpy(zero_copy_only=False)] = np.where(known, addresses >> _BITS - self.levels[0], -1)
        return found

    def labels(self, level: int, codes: NDArray[np.int64]) -> list[str]:
        length = self.levels[level]
        suffix = "" if length == _BITS else f"/{length}"
        return [f"{IPv4Address(code << _BITS - length)}{suffix}" for code in codes.tolist()]

    def node(self, label: str) -> tuple[int, int] | None:
        try:
            network = IPv4Network(label)
        except ValueError:
            return None
        length, code = network.prefixlen, int(network.network_address) >> _BITS - network.prefixlen
        if length not in self.levels or self.labels(level := self.levels.index(length), np.array([code])) != [label]:
            return None
        return level, code

    @cached_property
    def _addresses(self) -> Ranges:
        return Ranges((int(network.network_address), int(network.broadcast_address) + 1) for network in self.networks)
