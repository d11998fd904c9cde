"""The seam of algorithms: what one is to everything around it.

An algorithm decides which tuples leave together, and when. All that others must know of it stands in one record
(``Algorithm``), and nothing outside its own folder names it: configuration, fingerprint, pipeline, savepoints, command
line, metrics and warm-up ask the record. ``crenel.anonymity.algorithms.builtin`` lists those that come with Crenel.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from operator import attrgetter
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy, SamplingAndNoise
from crenel.state.block import NO_TIME, Block
from crenel.state.stored import Changes, Stored


@dataclass(frozen=True)
class ShardContext:
    """What a shard is held to, and how it works.

    Attributes
    ----------
    policy, privacy : what is promised
    parameters : of the algorithm, an instance of ``Algorithm.parameters``
    members : names and types of the columns that are published as they are, in the order of ``policy.members``
    sampling_and_noise : sampling and perturbation of what comes in; None: neither
    fingerprint : by field, what a restored shard must have in common (``crenel.anonymity.model.fingerprint``)
    remembers : whether each step tells what is to be stored; a shard that is thrown away need not
    """

    policy: Policy
    privacy: Privacy
    parameters: Any
    members: pa.Schema
    sampling_and_noise: SamplingAndNoise | None = None
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    remembers: bool = True


@dataclass(frozen=True)
class Counters:
    """What has happened in a shard so far, and how it stands; an algorithm adds fields of its own.

    Attributes
    ----------
    tuples_in : tuples let in
    sampled_out : tuples that sampling did not let in
    released, suppressed : tuples by what became of them; the latter by reason (``Privacy.reasons``)
    linked : released tuples whose published noised values are nearest to an original of their own subject, of
        those that left with them; 0 where nothing is noised
    releases : releases by kind (``crenel.anonymity.model.outcomes.KINDS``)
    loss_sum : InfoLoss summed over released tuples
    forgotten : tuples of forgotten persons, which left nowhere
    buffered : tuples that wait
    oldest_waiting : tuples that came since the oldest that waits
    longest_delay : largest delay so far, in tuples
    delays : how many tuples had which delay; ``crenel.anonymity.buffer.release_buffer.delay_of_bucket`` tells the
        tuples of a bucket
    """

    tuples_in: int
    sampled_out: int
    released: int
    linked: int
    suppressed: dict[str, int]
    releases: dict[str, int]
    loss_sum: float
    forgotten: int
    buffered: int
    oldest_waiting: int
    longest_delay: int
    delays: NDArray[np.int64]


@dataclass(frozen=True)
class Step:
    """What one step of a shard gives.

    Attributes
    ----------
    releases : what left
    changes : what changed in its state, to be written; None where the shard remembers nothing
    further : rows of the algorithm's further outputs, by the name of the output
    """

    releases: Releases
    changes: Changes | None
    further: Mapping[str, Sequence[Sequence[Any]]] = field(default_factory=dict)


class Shard(ABC):
    """The live form of one shard, made from ``ShardContext`` and what is stored of it.

    Each step raises ``InvariantError`` where a promise would be broken; nothing of that step was emitted then.
    """

    terms: ShardContext
    number: int

    @abstractmethod
    def push(self, block: Block, watermark: int = NO_TIME) -> Step:
        """Let in the tuples of a block, in order, and release what falls due.

        ``watermark`` is epoch milliseconds that event time has passed: what is overdue by then leaves at once. Where
        the block says what had passed when each of its tuples came, that counts from there on, if it is more: what is
        overdue by then leaves before that tuple comes.
        """

    @abstractmethod
    def advance(self, watermark: int) -> Step:
        """Release what event time has made due."""

    @abstractmethod
    def finish(self) -> Step:
        """The input has ended: everything leaves."""

    @abstractmethod
    def forget(self, subjects: NDArray[np.uint64]) -> Step:
        """Forget persons: their tuples that wait leave nowhere, and nothing that is stored holds any of theirs then.

        Whatever else waits stays. What was published stays as it was, and so does what shows only that: generalizations
        that are reused, and the range observed so far of an attribute without a domain. A tuple of theirs that comes
        later is a new person's.

        Parameters
        ----------
        subjects : (persons,) their keyed hashes, as ``crenel.state.block.TupleColumns.subject`` has them; of some of
            them nothing may wait, or ever have come

        Raises
        ------
        ValueError
            The policy names no subject.
        """

    @property
    @abstractmethod
    def next_deadline(self) -> int | None:
        """The earliest epoch milliseconds at which event time makes something due; None where nothing waits for it."""

    @property
    @abstractmethod
    def counters(self) -> Counters:
        """A copy of the shard's counters."""

    @property
    @abstractmethod
    def random_key(self) -> bytes:
        """The 32 bytes that all its random choices follow from: those it was made with, also after a restore."""


class StateOfShard(Protocol):
    """What can be read from the blob of any shard: its number, what it was stored under, and its entries."""

    @property
    def shard(self) -> int: ...

    @property
    def fingerprint(self) -> dict[str, str]: ...

    @property
    def entries(self) -> dict[str, list[int | str]] | None: ...

    @classmethod
    def from_bytes(cls, blob: bytes, where: str = "") -> StateOfShard: ...


SettingKind: TypeAlias = Literal[
    "positive", "natural", "share", "weight", "at least 2", "above 0 to 1", "duration", "choice", "weights"
]
"""Kinds of values of a configuration: whole numbers from 1 and from 0; numbers from 0 to 1, from 0, from 2, and above 0
up to 1; milliseconds; one of ``Setting.choices``; a mapping of quasi-identifiers to weights."""


@dataclass(frozen=True)
class Setting:
    """A parameter of an algorithm as a configuration has it.

    Attributes
    ----------
    path : its dotted name within the algorithm's section, such as ``delay.tuples``
    field : the field of ``Algorithm.parameters`` that it sets, dotted where that is a dataclass of its own
    kind : what its value may be
    description : the same in words, for errors and documentation
    required : whether it must be given with the section that it is in
    choices : of a ``choice``
    """

    path: str
    field: str
    kind: SettingKind
    description: str
    required: bool = False
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Section:
    """A section within an algorithm's: a mapping of its own in a configuration.

    Attributes
    ----------
    path : its dotted name
    description : what it may be, in words
    required : whether it must be given
    empty : what is wrong with one in which nothing is set of what has no default; nothing is, where it is empty
    """

    path: str
    description: str
    required: bool = False
    empty: str = ""


@dataclass(frozen=True)
class Output:
    """A further output of an algorithm: its rows go to a sink of the same name.

    Attributes
    ----------
    columns : type of each column by its name: ``INT``, ``LONG``, ``DOUBLE``, ``BOOLEAN`` or ``STRING``; a LONG column
        ``event_time`` holds epoch milliseconds, and is published as the source's event time is
    """

    name: str
    columns: Mapping[str, str]


@dataclass(frozen=True, repr=False)
class Algorithm:
    """Everything that others must know of an algorithm.

    Attributes
    ----------
    name : as ``algorithm:`` names it, and its section in a configuration
    parameters : a frozen dataclass that validates itself
    settings, sections : how the section of a configuration becomes ``parameters``
    example : such a section, in one line
    new : a shard of which nothing is stored, from its terms, its number from 0, and the 32 bytes of its random key
    restored : a shard as it was stored, under terms that may differ where that is safe; the last argument names it in
        errors. Raises ``crenel.state.codec.StateError`` where the bytes are damaged or of an unknown version, and
        ``crenel.anonymity.model.errors.PolicyError`` where the terms differ in what cannot change
    state : kind (``crenel.state.codec.KINDS``) and class of the blob of a shard
    entries : kinds of the other blobs
    problems : what does not go together in a policy, its promises and the parameters, each with its field
    cautions : what is valid in the parameters and promises less than it seems to, each with its field
    noise : whether sampling and perturbation may come before it
    lasting : whether a promise may hold of a person over all their releases
        (``crenel.anonymity.model.privacy.Lasting``)
    delay_tuples : for how many later tuples of its shard one may wait, by parameters; None: for as many as come
    representative : whether parameters publish one number, which stands for its group, in the place of an interval
    outputs : further outputs
    stored_name : its name in stored state and in the uid of its operator, where that is not ``name``: savepoints of
        the former name restore
    counted : fields of its counters that are metrics and part of the summary, with a word on each
    gauges : further metrics, over the counters of all shards of a subtask; whole numbers
    tell : what ``crenel check`` shows of the parameters, as (name, text)
    summary : a line of a run's summary, as (label, amount, words), from its counts by name (``counted``)
    compile : compiles all that its shards will call
    """

    name: str
    parameters: type
    settings: tuple[Setting, ...]
    sections: tuple[Section, ...]
    example: str
    new: Callable[[ShardContext, int, bytes], Shard]
    restored: Callable[[ShardContext, Stored, str], Shard]
    state: tuple[str, type[StateOfShard]]
    entries: tuple[str, ...]
    problems: Callable[[Policy, Privacy, Any], Iterator[str]]
    counted: Mapping[str, str]
    gauges: Mapping[str, Callable[[Sequence[Any]], int]]
    tell: Callable[[Any], Iterator[tuple[str, str]]]
    summary: Callable[[Mapping[str, int]], tuple[str, str, str]]
    compile: Callable[[], object]
    cautions: Callable[[Any], Iterator[str]] = lambda parameters: iter(())
    noise: bool = False
    lasting: bool = False
    delay_tuples: Callable[[Any], int | None] = lambda parameters: None
    representative: Callable[[Any], bool] = lambda parameters: False
    outputs: tuple[Output, ...] = ()
    stored_name: str = ""

    @property
    def stored_as(self) -> str:
        """The name of this algorithm in stored state and in the uid of its operator."""
        return self.stored_name or self.name

    def durations(self, parameters: Any) -> dict[str, int]:
        """Milliseconds of event time that parameters count, by the dotted name of the setting."""
        found = {
            setting.path: attrgetter(setting.field)(parameters)
            for setting in self.settings
            if setting.kind == "duration"
        }
        return {path: time for path, time in found.items() if time is not None}

    def __repr__(self) -> str:
        return f"<algorithm {self.name}>"

    def __reduce__(self) -> tuple[Callable[[str, str], Algorithm], tuple[str, str]]:
        # In another process it is the one of that name, once its module is imported.
        return _found, (self.new.__module__, self.name)


_KNOWN: dict[str, Algorithm] = {}


def add_algorithm(algorithm: Algorithm) -> Algorithm:
    """Make an algorithm known by its name, as ``extensions`` of a configuration do; the same one twice is one."""
    if _KNOWN.setdefault(algorithm.name, algorithm).new is not algorithm.new:
        raise ValueError(f"algorithm: there are two of the name {algorithm.name!r}")
    return algorithm


def tell_delay(parameters: Any) -> Iterator[tuple[str, str]]:
    """The delay of parameters that have ``delay_tuples`` and ``delay_event_time``, as ``crenel check`` shows it."""
    if parameters.delay_tuples is not None:
        yield "delay.tuples", f"{parameters.delay_tuples} later tuples of the shard"
    if parameters.delay_event_time is not None:
        yield "delay.event_time", f"{parameters.delay_event_time} ms"


def _found(module: str, name: str) -> Algorithm:
    import_module(module)
    return _KNOWN[name]


def known_algorithms() -> dict[str, Algorithm]:
    """All algorithms that were made known, by name."""
    return dict(sorted(_KNOWN.items()))
