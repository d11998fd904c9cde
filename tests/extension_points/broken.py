"""An algorithm that breaks its promise with the first tuple that comes, and says so."""

from __future__ import annotations

from typing import ClassVar, NoReturn

from crenel.anonymity.algorithm import ShardContext, add_algorithm
from crenel.anonymity.model.errors import InvariantError
from crenel.anonymity.model.fields import setting
from crenel.anonymity.model.privacy import Privacy
from examples.own_algorithm import InOrder

SAYS = "a release of this shard breaks a promise; nothing of it was emitted"


@add_algorithm
@setting
class Broken(InOrder):
    """Raise at the first tuple."""

    name: ClassVar[str] = "violating"

    @classmethod
    def new(cls, context: ShardContext, number: int, key: bytes) -> NoReturn:
        raise InvariantError(SAYS)

    @classmethod
    def compile(cls, privacy: Privacy) -> None:
        """Compile nothing: no tuple is released."""
