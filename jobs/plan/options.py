"""Options of ``crenel plan``: constraints, and user-defined dimensions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from crenel.anonymity.algorithm import known_algorithms
from crenel.anonymity.model.errors import InputError
from crenel.anonymity.model.policy import SHARD_BY_REGIONS, SHARD_BY_SUBJECT
from crenel.evidence.choice import Wanted
from crenel.jobs.config.fields import Duration
from crenel.jobs.config.load import Config

_DURATION: TypeAdapter[int] = TypeAdapter(Duration)
_TUPLES = re.compile(r"\s*([0-9]+)\s*tuples?\s*")
_SHARDS = re.compile(r"\s*([0-9]+)\s*(?:by\s+(\S.*?))?\s*")
_SHARE = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(%?)\s*")
_NAMES = {"algorithm": "algorithms", "k": "k", "l": "l", "delay": "waits", "shards": "shards"}


class PlanError(InputError):
    """Error for an invalid option; the message names it and valid values."""


@dataclass(frozen=True)
class Bounds:
    """Constraints from the options; None: not given.

    Attributes
    ----------
    loss : maximum, 0 to 1
    delay : maximum in tuples of the sample, or in milliseconds
    suppressed : maximum, 0 to 1
    k : minimum
    """

    loss: float | None = None
    delay: tuple[int | None, int | None] | None = None
    suppressed: float | None = None
    k: int | None = None

    @property
    def given(self) -> bool:
        """Whether any constraint is given."""
        return any(value is not None for value in (self.loss, self.delay, self.suppressed, self.k))


def wait_of(text: str, option: str = "--vary delay") -> tuple[int | None, int | None]:
    """Parse ``1000 tuples`` or ``10 min`` to tuples or milliseconds; raise ``PlanError`` for anything else."""
    if found := _TUPLES.fullmatch(text):
        return int(found[1]), None
    try:
        # A bare number would be milliseconds in a configuration, but many users would expect tuples.
        if not text.strip().isdigit():
            return None, _DURATION.validate_python(text)
    except ValidationError:
        pass
    raise PlanError(f"{option}: must be a duration such as '10 min', or a number of tuples such as '1000 tuples'")


def share_of(text: str, option: str) -> float:
    """Parse a share such as ``1%`` or ``0.01``; raise ``PlanError`` if it is not from 0 to 1."""
    found = _SHARE.fullmatch(text)
    share = float(found[1]) / (100 if found[2] else 1) if found else -1.0
    if not 0 <= share <= 1:
        raise PlanError(f"{option}: must be a share such as '1%' or '0.01'")
    return share


def wanted_of(bounds: Bounds, config: Config, *, timed: bool) -> Wanted:
    """Return the constraints on a setting; k and l are at least the configured ones, unless ``--min-k`` changes k.

    ``timed``: whether the sample has event time.

    Raises
    ------
    PlanError
        A delay in a measure that the sample does not have.
    """
    delay = float("inf")
    if bounds.delay is not None:
        tuples, milliseconds = bounds.delay
        if timed and milliseconds is None:
            raise PlanError("--max-delay: this stream has event time, so give a duration such as '10 min'")
        if not timed and tuples is None:
            raise PlanError(
                "--max-delay: the stream has no event time, so a duration means nothing; give '1000 tuples', or name "
                "a column in policy.event_time"
            )
        delay = float(milliseconds if tuples is None else tuples)  # type: ignore[arg-type]
    return Wanted(
        loss=1.0 if bounds.loss is None else bounds.loss,
        suppressed=1.0 if bounds.suppressed is None else bounds.suppressed,
        delay=delay,
        k=config.privacy.k if bounds.k is None else bounds.k,
        l=config.privacy.l,
        sooner=bounds.loss is not None and bounds.delay is None,
    )


def varied(texts: Sequence[str], content: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Parse dimensions and values from ``NAME=VALUE,VALUE``, for ``crenel.jobs.plan.grid.Grid`` or dotted fields.

    Raises
    ------
    PlanError
        An unknown name, or an invalid value.
    """
    found: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        name, parts = name.strip(), tuple(value.strip() for value in values.split(",") if value.strip())
        if not (name and equals and parts):
            raise PlanError("--vary: is not of the form NAME=VALUE,VALUE, such as k=5,10,20")
        if "." in name:
            found[name] = parts
            continue
        if name not in _NAMES:
            raise PlanError(f"--vary: {name!r} is none of {', '.join(_NAMES)}, and no dotted field such as castle.x")
        _require(name, parts)
        found[_NAMES[name]] = parts
    return found


def _require(name: str, values: Sequence[str]) -> None:
    if name in ("k", "l") and not all(value.isdecimal() and int(value) >= 1 for value in values):
        raise PlanError(f"--vary {name}: must be whole numbers, 1 or more")
    if name == "algorithm" and (unknown := [value for value in values if value not in known_algorithms()]):
        raise PlanError(f"--vary algorithm: {unknown[0]!r} is none of {', '.join(known_algorithms())}")
    for value in values if name == "delay" else ():
        wait_of(value)
    for value in values if name == "shards" else ():
        match = _SHARDS.fullmatch(value)
        if match is None or int(match[1]) < 1:
            raise PlanError(
                f"--vary shards: must be such as '4', '4 by {SHARD_BY_SUBJECT}' or '4 by {SHARD_BY_REGIONS}'"
            )
