"""What is raised where something cannot be kept."""

from __future__ import annotations


class PolicyError(ValueError):
    """A policy that cannot be kept. It names the field and what would be valid."""
