"""Extension point for anonymization algorithms: the class and the shard interface that each one provides.

An algorithm decides which tuples are released together, and when. One class (``Algorithm``) describes it completely,
with its settings as fields, and no code outside its folder names it. Configuration, fingerprint, pipeline, savepoints,
command line, metrics and warm-up read the class. ``crenel.anonymity.builtin`` lists the algorithms of Crenel.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic.fields import FieldInfo

from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.explain import fields_within
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy, SamplingAndNoise
from crenel.state.block import NO_TIME, Block, Rejected
from crenel.state.columns import with_roles
from crenel.state.counters import CounterState, counter
from crenel.state.shard import Changes, ShardState, StoredShard


@dataclass(frozen=True)
class ShardContext:
    """Policy, privacy models and settings under which a shard works.

    Attributes
    ----------
    policy, privacy : roles of the columns, and privacy models of each release
    algorithm : the algorithm with its settings
    members : names and types of the columns that are published unchanged, in the order of ``policy.members``
    sampling_and_noise : sampling and perturbation of the input; None: neither
    fingerprint : by field, properties that a restored shard must share (``crenel.anonymity.model.fingerprint``)
    remembers : whether each step returns changes to store; a temporary shard needs none
    admissions : number of admissions (``Admission``) that decide which tuples reach the shard; 0: it decides itself
    logs : names of the outputs ``on_demand`` that have a reader; a shard leaves the others empty
    """

    policy: Policy
    privacy: Privacy
    algorithm: Any
    members: pa.Schema
    sampling_and_noise: SamplingAndNoise | None = None
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    remembers: bool = True
    admissions: int = 0
    logs: frozenset[str] = frozenset()

    @cached_property
    def stored_members(self) -> NDArray[np.uint8]:
        """The form in which state holds the names, types and roles of the published columns."""
        return with_roles(self.members, self.policy.roles, dict(self.policy.arrays))

    @property
    def publishes_in_classes(self) -> bool:
        """Whether no tuple is ever published under the generalization of an earlier class."""
        return not self.algorithm.reuses and self.privacy.lasting is None


@dataclass(frozen=True, kw_only=True)
class Counters(CounterState):
    """Counters and current state of a shard; an algorithm adds fields of its own.

    Attributes
    ----------
    tuples_in : number of admitted tuples
    sampled_out : number of tuples that sampling excluded
    synthetic : number of released records that no tuple stands for: tuples_in + synthetic = released + suppressed +
        forgotten + buffered
    releases : number of releases by kind (``crenel.anonymity.model.outcomes.KINDS``)
    buffered : number of buffered tuples
    oldest_waiting : number of tuples that arrived since the oldest buffered tuple
    delays : number of tuples by bucket of delay; ``crenel.anonymity.buffer.release_buffer.delay_of_bucket`` returns the
        delay of a bucket in tuples
    persons_below_k : number of persons with a tuple published under a generalization that covers fewer than k of the
        anonymity set; nonzero only with a lasting guarantee and ``Persons.moved: count``, and stored with those sets
    """

    tuples_in: int
    sampled_out: int
    releases: dict[str, int]
    buffered: int
    oldest_waiting: int
    delays: NDArray[np.int64]
    synthetic: int = 0
    persons_below_k: int = counter(
        needs="lasting",
        label="below k",
        words="persons with a row that may belong to fewer than k members of their anonymity set",
    )


@dataclass(frozen=True)
class Step:
    """Result of one step of a shard.

    Attributes
    ----------
    releases : releases and suppressed tuples
    changes : changes of the state, to be stored; None where the shard stores nothing
    further : rows of the algorithm's additional outputs, by output name
    """

    releases: Releases
    changes: Changes | None
    further: Mapping[str, Sequence[Sequence[Any]]] = field(default_factory=dict)


class Shard(ABC):
    """In-memory state of one shard, made from ``ShardContext`` and stored state.

    Each step raises ``InvariantError`` where a release would violate a privacy model; that step then emits nothing.
    """

    context: ShardContext
    number: int

    @abstractmethod
    def push(self, block: Block, watermark: int = NO_TIME) -> Step:
        """Admit the tuples of a block, in order, and release the tuples that are due.

        ``watermark`` is in epoch milliseconds and precedes the block: tuples overdue by then are released first. If the
        block has a watermark per tuple, the greater of both applies from that tuple on. Tuples overdue by then are
        released before that tuple is admitted.
        """

    @abstractmethod
    def advance(self, watermark: int) -> Step:
        """Release the tuples that are due by the watermark."""

    @abstractmethod
    def finish(self) -> Step:
        """Publish or suppress all buffered tuples at the end of the input."""

    @abstractmethod
    def forget(self, subjects: NDArray[np.uint64]) -> Step:
        """Forget persons: erase their buffered tuples, unpublished, and all their stored tuples.

        All other tuples stay buffered. Published records do not change. State derived from published records alone does
        not change either: generalizations for reuse, and observed ranges of attributes without a domain. A later tuple
        of a forgotten person counts as that of a new person.

        Parameters
        ----------
        subjects : (persons,) keyed hashes, as in ``crenel.state.block.TupleColumns.subject``; persons without
            buffered tuples, or without any tuple so far, are allowed

        Raises
        ------
        ValueError
            The policy names no subject.
        """

    @abstractmethod
    def buffered(self) -> pa.RecordBatch:
        """Return the published values of all buffered tuples, in any order; their columns are ``terms.members``."""

    @property
    @abstractmethod
    def next_deadline(self) -> int | None:
        """Earliest epoch milliseconds at which event time makes a tuple due; None if there is no such time."""

    def observe_clock(self, now: int, since: int) -> None:  # noqa: B027 - most algorithms know no processing time
        """Observe the processing time; called before each step, and never where there is none, as in a program.

        Parameters
        ----------
        now : epoch milliseconds
        since : epoch milliseconds at which the operator began, at the start of the job or at a restart
        """

    @property
    def next_alarm(self) -> int | None:
        """Earliest epoch milliseconds of processing time at which a tuple becomes due; None if there is no such time.

        ``advance`` then releases it.
        """
        return None

    def observe_report(self, number: int, report: Mapping[str, int]) -> bool:
        """Observe what an admission reports, after all tuples that it has sent so far.

        The shard of the admission's number counts what the admission counts. Nothing of a report need be stored,
        because after a restart admissions report anew.

        Parameters
        ----------
        number : number of the admission
        report : ``Admission.report``

        Returns
        -------
        Whether tuples may have become due, which ``advance`` then releases.
        """
        return False

    @property
    @abstractmethod
    def counters(self) -> Counters:
        """Copy of the shard's counters."""

    @property
    @abstractmethod
    def random_key(self) -> bytes:
        """The 32 bytes that seed all random choices of the shard, unchanged by a restore."""


@dataclass(frozen=True)
class Admitted:
    """Result of ``Admission.admit``.

    Attributes
    ----------
    shard : (tuples,) the shard that each tuple goes on to; -1 for one that is left out
    changes : changes of the state, to be stored
    """

    shard: NDArray[np.int64]
    changes: Changes

    def blocks(self, block: Block) -> Iterator[Block]:
        """Yield the part of the block for each shard that receives one; rejected records go to the block's own shard.

        The parts have no watermarks of their own, because admissions interleave.
        """
        own = {block.shard} if len(block.rejected.column) else set[int]()
        for shard in sorted({*np.unique(self.shard[self.shard >= 0]).tolist(), *own}):
            rejected = block.rejected if shard == block.shard else Rejected.none()
            yield Block(shard=shard, rejected=rejected, encoder=block.encoder, **block.chosen(self.shard == shard))


class Admission(ABC):
    """First stage of an algorithm with several shards: it decides for each tuple whether it goes on, and where.

    An admission judges a tuple by its own person's tuples, the clock and its secret key alone. All tuples of a person
    come to one admission. There are as many admissions as shards, and each stores its state in the form of a shard.
    """

    number: int

    @abstractmethod
    def admit(self, block: Block) -> Admitted:
        """Decide about the tuples of a block, in order; the decisions do not depend on the division into blocks."""

    @abstractmethod
    def observe_clock(self, now: int, since: int) -> None:
        """Observe the processing time, as ``Shard.observe_clock``; called before ``admit``, and at ``next_alarm``."""

    @property
    @abstractmethod
    def next_alarm(self) -> int | None:
        """Epoch milliseconds of processing time at which ``report`` next changes without a tuple; None: never."""

    @property
    @abstractmethod
    def report(self) -> Mapping[str, int]:
        """Counts and progress by name. A shard receives them after all tuples that were sent to it before."""


@dataclass(frozen=True)
class AdmissionStage:
    """Functions that make an admission, as ``Algorithm.new`` and ``Algorithm.restored`` make a shard."""

    new: Callable[[ShardContext, int, bytes], Admission]
    restored: Callable[[ShardContext, StoredShard, str], Admission]


@dataclass(frozen=True)
class Output:
    """Additional output of an algorithm, whose rows go to a sink of the same name.

    Attributes
    ----------
    columns : type of each column by name: ``INT``, ``LONG``, ``DOUBLE``, ``BOOLEAN`` or ``STRING``; a LONG column
        ``event_time`` holds epoch milliseconds, and is published in the form of the source's event time
    meanings : meaning of each column by name, for the reference
    on_demand : whether shards write it only where ``ShardContext.logs`` names it
    """

    name: str
    columns: Mapping[str, str]
    meanings: Mapping[str, str] = field(default_factory=dict)
    on_demand: bool = False


REPAIRS = "repairs"
"""Name of the output of an algorithm that tells how releases were formed: merges, splits, swaps and reuse."""


class Algorithm(ABC):
    """An anonymization algorithm with its settings.

    A class of an algorithm is made by ``crenel.anonymity.model.fields.setting``. Its fields are those of its section in
    a configuration, and it is registered by ``add_algorithm``.

    Attributes
    ----------
    name : name in ``algorithm:``, and of its section in a configuration
    example : example of such a section, in one line
    state : kind (``crenel.state.codec.KINDS``) and class of the blob of a shard
    entries : kinds of the other blobs
    counted : counters that are metrics and part of the summary, with a short description of each
    gauges : additional metrics over the counters of all shards of a subtask; whole numbers
    noise : whether sampling and perturbation may precede the algorithm
    lasting : whether the algorithm supports a guarantee over all releases of a person
        (``crenel.anonymity.model.privacy.Privacy.lasting``)
    arrays : whether the algorithm counts each value of a sensitive array (``Policy.arrays``)
    private : whether the guarantee is one of differential privacy. It then needs choices that nobody can predict,
        so that ``seed`` weakens it, all records of a person in one shard, and declared generalizations
    fixed : names of settings that a restore cannot change, because buffered tuples or counts depend on them
    admission : first stage, by person, of the shards of a stream; None: each shard works by itself
    outputs : additional outputs
    section : ``name``, which begins the names of the fields in errors
    """

    name: ClassVar[str]
    example: ClassVar[str]
    state: ClassVar[tuple[str, type[ShardState]]]
    entries: ClassVar[tuple[str, ...]]
    counted: ClassVar[Mapping[str, str]]
    gauges: ClassVar[Mapping[str, Callable[[Sequence[Any]], int]]] = {}
    noise: ClassVar[bool] = False
    lasting: ClassVar[bool] = False
    arrays: ClassVar[bool] = False
    private: ClassVar[bool] = False
    fixed: ClassVar[tuple[str, ...]] = ()
    admission: ClassVar[AdmissionStage | None] = None
    outputs: ClassVar[tuple[Output, ...]] = ()
    section: ClassVar[str] = ""

    @classmethod
    @abstractmethod
    def new(cls, context: ShardContext, number: int, key: bytes) -> Shard:
        """Return an empty shard, from its context, its number from 0, and the 32 bytes of its random key."""

    @classmethod
    @abstractmethod
    def restored(cls, context: ShardContext, stored: StoredShard, where: str) -> Shard:
        """Return a stored shard under a context that may differ where that is safe.

        Parameters
        ----------
        where : name of the shard in errors

        Raises
        ------
        crenel.state.codec.StateError
            The bytes are damaged or of an unknown version.
        crenel.anonymity.model.errors.PolicyError
            A fixed property differs.
        """

    @classmethod
    @abstractmethod
    def compile(cls, privacy: Privacy) -> None:
        """Compile the procedures of the shards that need it under these privacy models."""

    @classmethod
    @abstractmethod
    def summary(cls, counts: Mapping[str, int]) -> tuple[str, str, str]:
        """Return a line of the run's summary, as (label, amount, words), from counts by name (``counted``)."""

    def problems(self, policy: Policy, privacy: Privacy) -> Iterator[str]:
        """Yield conflicts with the policy and the privacy models, each with its field and the valid values."""
        return iter(())

    def warnings(self) -> Iterator[str]:
        """Yield valid settings with a weaker guarantee than they suggest, each with its field."""
        return iter(())

    def describe(self) -> Iterator[tuple[str, str]]:
        """Yield the settings as ``crenel check`` shows them, as (name, text)."""
        return iter(())

    @property
    def delay_tuples(self) -> int | None:
        """Maximum delay in tuples of the shard; None: unbounded."""
        return None

    @property
    def has_representative(self) -> bool:
        """Whether one number, the representative of a class, replaces an interval."""
        return False

    @property
    def is_synthetic(self) -> bool:
        """Whether published records are synthetic.

        k, the privacy models and ``subjects`` in the audit log then count records in the place of persons.
        """
        return False

    def account(self, privacy: Privacy) -> Mapping[str, float]:
        """Return the figures of a private algorithm by name, as ``crenel budget`` shows them."""
        return {}

    def budgeted(self, privacy: Privacy) -> Mapping[str, object]:
        """Return the fields, with their values, that decide on epsilon and delta of what is published.

        Where a restore changes one, the guarantees before and after it add up.
        """
        return {}

    @property
    def reuses(self) -> bool:
        """Whether a tuple may be published under the generalization of an earlier class."""
        return False

    @property
    def generalizes_suppressed(self) -> bool:
        """Whether suppressed tuples are published, fully generalized."""
        return False

    @property
    def fixed_settings(self) -> dict[str, object]:
        """The settings that a restore cannot change, by the names of their fields."""
        return {f"{self.name}.{name}": getattr(self, name) for name in self.fixed}

    @classmethod
    def admissions(cls, shards: int) -> int:
        """Return the number of admissions before some shards; 0: the shards decide themselves, as a single one does."""
        return 0 if cls.admission is None or shards == 1 else shards

    @classmethod
    def logs(cls, read: Collection[str]) -> frozenset[str]:
        """Return the names of the outputs ``on_demand`` among those that have a reader."""
        return frozenset(output.name for output in cls.outputs if output.on_demand and output.name in read)

    @classmethod
    def written(cls, logs: Collection[str]) -> tuple[Output, ...]:
        """Return the outputs that shards write; ``logs`` as of ``ShardContext``."""
        return tuple(output for output in cls.outputs if not output.on_demand or output.name in logs)

    @classmethod
    def settings(cls) -> Iterator[tuple[str, FieldInfo]]:
        """Yield the settings by their dotted names."""
        return fields_within(cls)

    @classmethod
    def bounds(cls) -> dict[str, str]:
        """Return the unit, ``tuples`` or ``event_time``, of each setting that bounds a delay, by its dotted name."""
        units = {path: path.rpartition(".")[2] for path, _ in cls.settings()}
        return {path: unit for path, unit in units.items() if unit in ("tuples", "event_time")}

    @property
    def durations(self) -> dict[str, int]:
        """The durations among the settings, in milliseconds of event time, by dotted name."""
        times = {path: self.value_of(path) for path, unit in self.bounds().items() if unit == "event_time"}
        return {path: time for path, time in times.items() if time is not None}

    @property
    def delay_bounds(self) -> tuple[int | None, int | None]:
        """The configured delay bounds, in tuples and in milliseconds; None: unbounded."""
        values: dict[str, int | None] = {"tuples": None, "event_time": None}
        # The delay section is last, so that it takes precedence.
        for path, unit in sorted(self.bounds().items(), key=lambda item: item[0].startswith("delay.")):
            value = self.value_of(path)
            values[unit] = values[unit] if value is None else value
        return values["tuples"], values["event_time"]

    def value_of(self, path: str) -> Any:
        """Return the value of a setting by its dotted name; None within a section that is None."""
        value: Any = self
        for name in path.split("."):
            value = None if value is None else getattr(value, name)
        return value


A = TypeVar("A", bound=Algorithm)

_KNOWN: dict[str, type[Algorithm]] = {}


def add_algorithm(kind: type[A]) -> type[A]:
    """Register the class of an algorithm by its name, as ``extensions`` of a configuration do.

    Registering a class twice has no effect; another class of the same name raises ``ValueError``.
    """
    known = _KNOWN.setdefault(kind.name, kind)
    if (known.__module__, known.__qualname__) != (kind.__module__, kind.__qualname__):
        raise ValueError(f"algorithm: there are two of the name {kind.name!r}")
    kind.section = kind.name
    return kind


def known_algorithms() -> dict[str, type[Algorithm]]:
    """Return the classes of all registered algorithms, by name."""
    return dict(sorted(_KNOWN.items()))


def algorithms_with(has: Callable[[type[Algorithm]], object]) -> str:
    """Return the settings of the algorithms with a property, as a message offers them."""
    return " or ".join(f"'algorithm: {other.name}'" for other in known_algorithms().values() if has(other))
