"""An algorithm that breaks its promise with the first tuple that comes, and says so."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from crenel.anonymity.algorithm import ShardContext, add_algorithm
from crenel.anonymity.model.errors import InvariantError
from examples.own_algorithm import IN_ORDER

SAYS = "a release of this shard breaks a promise; nothing of it was emitted"


def _new(terms: ShardContext, number: int, key: bytes) -> NoReturn:
    raise InvariantError(SAYS)


BROKEN = add_algorithm(replace(IN_ORDER, name="violating", new=_new, compile=lambda privacy: None))
