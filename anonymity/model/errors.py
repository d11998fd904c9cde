"""Errors about settings and input, and about violated invariants."""

from __future__ import annotations

from typing import ClassVar


class PolicyError(ValueError):
    """A policy that cannot be enforced. The message names the field and a valid value."""


class InvariantError(RuntimeError):
    """A violated invariant of Crenel. The message is constant, so it contains no value of a record."""


class InputError(Exception):
    """Invalid user input; the message names the field, option or file, and the remedy.

    Attributes
    ----------
    lead : text between the name of the configuration and the message; None: the message stands alone
    """

    lead: ClassVar[str | None] = None
