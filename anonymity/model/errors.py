"""What is raised where something cannot be kept, or worked with."""

from __future__ import annotations

from typing import ClassVar


class PolicyError(ValueError):
    """A policy that cannot be kept. It names the field and what would be valid."""


class InvariantError(RuntimeError):
    """An invariant of Crenel that does not hold. Its message is constant, so it holds no value of a record."""


class InputError(Exception):
    """What a user gave and cannot be worked with; the message names the field, option or file, and what would help.

    Attributes
    ----------
    lead : what stands between the name of the configuration and the message; None: the message stands alone
    """

    lead: ClassVar[str | None] = None
