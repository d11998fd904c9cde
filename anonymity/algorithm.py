"""Extension point for anonymization algorithms: the record and the shard interface that each one provides.

An algorithm decides which tuples are released together, and when. One record (``Algorithm``) describes it completely,
and no code outside its folder names it. Configuration, fingerprint, pipeline, savepoints, command line, metrics and
warm-up read the record. ``crenel.anonymity.builtin`` lists the algorithms that come with Crenel.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from operator import attrgetter
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.buffer.releases import Releases
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
    parameters : parameters of the algorithm, an instance of ``Algorithm.parameters``
    members : names and types of the columns that are published unchanged, in the order of ``policy.members``
    sampling_and_noise : sampling and perturbation of the input; None: neither
    fingerprint : by field, properties that a restored shard must share (``crenel.anonymity.model.fingerprint``)
    remembers : whether each step returns changes to store; a temporary shard needs none
    admissions : number of admissions (``Admission``) that decide which tuples reach the shard; 0: it decides itself
    logs : names of the outputs ``on_demand`` that have a reader; a shard leaves the others empty
    """

    policy: Policy
    privacy: Privacy
    parameters: Any
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
        return not getattr(self.parameters, "reuse_limit", 0) and self.privacy.lasting is None


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
        anonymity set; nonzero only with a lasting guarantee and ``Lasting.moved: count``, and stored with those sets
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


SettingKind: TypeAlias = Literal[
    "positive",
    "natural",
    "share",
    "weight",
    "at least 2",
    "above 0 to 1",
    "duration",
    "clock duration",
    "choice",
    "weights",
    "regions",
]
"""Kinds of configuration values: whole numbers from 1 and from 0; numbers from 0 to 1, from 0, from 2, and above 0
up to 1; durations in milliseconds, of event time as watermarks measure it, and of clocks; one of ``Setting.choices``; a
mapping of quasi-identifiers to weights; the path of a regions file, of which the parameter is the ``RegionTree``."""


@dataclass(frozen=True)
class Setting:
    """Parameter of an algorithm in a configuration.

    Attributes
    ----------
    path : dotted name within the algorithm's section, such as ``delay.tuples``
    field : field of ``Algorithm.parameters`` that the setting fills, dotted for a nested dataclass
    kind : kind of the value
    description : description of valid values, for errors and documentation
    required : whether the setting is required where its section is present
    choices : valid values of the kind ``choice``
    """

    path: str
    field: str
    kind: SettingKind
    description: str
    required: bool = False
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Section:
    """Nested section of an algorithm's configuration, a mapping of its own.

    Attributes
    ----------
    path : dotted name
    description : description of valid values
    required : whether the section is required
    empty : error message for a section that sets none of its settings without default; empty where that is valid
    """

    path: str
    description: str
    required: bool = False
    empty: str = ""


@dataclass(frozen=True)
class Output:
    """Additional output of an algorithm, whose rows go to a sink of the same name.

    Attributes
    ----------
    columns : type of each column by name: ``INT``, ``LONG``, ``DOUBLE``, ``BOOLEAN`` or ``STRING``; a LONG column
        ``event_time`` holds epoch milliseconds, and is published in the form of the source's event time
    meanings : meaning of each column by name, for the reference
    on_demand : whether shards write it only where ``ShardContext.logs`` names it
    since : first version of Crenel that writes it
    """

    name: str
    columns: Mapping[str, str]
    meanings: Mapping[str, str] = field(default_factory=dict)
    on_demand: bool = False
    since: str = "0.1"


REPAIRS = "repairs"
"""Name of the output of an algorithm that tells how releases were formed: merges, splits, swaps and reuse."""


@dataclass(frozen=True, repr=False)
class Algorithm:
    """Complete description of an algorithm.

    Attributes
    ----------
    name : name in ``algorithm:``, and of its section in a configuration
    parameters : frozen dataclass that validates itself
    settings, sections : mapping from the configuration section to ``parameters``
    example : example of such a section, in one line
    new : function that makes an empty shard from its context, its number from 0, and the 32 bytes of its random key
    restored : function that restores a stored shard under a context that may differ where that is safe; its last
        argument names the shard in errors. It raises ``crenel.state.codec.StateError`` where the bytes are damaged or
        of an unknown version, and ``crenel.anonymity.model.errors.PolicyError`` where a fixed property differs
    state : kind (``crenel.state.codec.KINDS``) and class of the blob of a shard
    entries : kinds of the other blobs
    problems : function that yields conflicts between policy, privacy models and parameters, each with its field
    warnings : function that yields valid parameters with a weaker guarantee than they suggest, each with its field
    noise : whether sampling and perturbation may precede the algorithm
    lasting : whether the algorithm supports a guarantee over all releases of a person
        (``crenel.anonymity.model.privacy.Lasting``)
    arrays : whether the algorithm counts each value of a sensitive array (``Policy.arrays``)
    delay_tuples : function from parameters to the maximum delay in tuples of the shard; None: unbounded
    representative : function from parameters to whether one number, the group's representative, replaces an interval
    synthetic : function from parameters to whether published records are synthetic; k, the privacy models and
        ``subjects`` in the audit log then count records in the place of persons
    private : whether the guarantee is one of differential privacy. It then needs choices that nobody can predict,
        so that ``seed`` weakens it, all records of a person in one shard, and declared generalizations
    account : function from privacy models and parameters to the figures of a private algorithm by name, as ``crenel
        budget`` shows them
    budgeted : function from privacy models and parameters to the fields, with their values, that decide on epsilon and
        delta of what is published; where a restore changes one, the guarantees before and after it add up
    fixed : names of parameters that a restore cannot change, because buffered tuples or counts depend on them
    admission : first stage, by person, of the shards of a stream; None: each shard works by itself
    outputs : additional outputs
    stored_name : name in stored state and in the uid of the operator, if not ``name``; savepoints under that former
        name still restore
    counted : counters that are metrics and part of the summary, with a short description of each
    gauges : additional metrics over the counters of all shards of a subtask; whole numbers
    tell : function that yields the parameters for ``crenel check``, as (name, text)
    summary : function from counts by name (``counted``) to a line of the run's summary, as (label, amount, words)
    compile : function that compiles the procedures of the shards that need it under these privacy models
    """

    name: str
    parameters: type
    settings: tuple[Setting, ...]
    sections: tuple[Section, ...]
    example: str
    new: Callable[[ShardContext, int, bytes], Shard]
    restored: Callable[[ShardContext, StoredShard, str], Shard]
    state: tuple[str, type[ShardState]]
    entries: tuple[str, ...]
    problems: Callable[[Policy, Privacy, Any], Iterator[str]]
    counted: Mapping[str, str]
    gauges: Mapping[str, Callable[[Sequence[Any]], int]]
    tell: Callable[[Any], Iterator[tuple[str, str]]]
    summary: Callable[[Mapping[str, int]], tuple[str, str, str]]
    compile: Callable[[Privacy], object]
    warnings: Callable[[Any], Iterator[str]] = lambda parameters: iter(())
    noise: bool = False
    lasting: bool = False
    arrays: bool = False
    delay_tuples: Callable[[Any], int | None] = lambda parameters: None
    representative: Callable[[Any], bool] = lambda parameters: False
    synthetic: Callable[[Any], bool] = lambda parameters: False
    private: bool = False
    account: Callable[[Privacy, Any], Mapping[str, float]] | None = None
    budgeted: Callable[[Privacy, Any], Mapping[str, object]] = lambda privacy, parameters: {}
    fixed: tuple[str, ...] = ()
    admission: AdmissionStage | None = None
    outputs: tuple[Output, ...] = ()
    stored_name: str = ""

    @property
    def stored_as(self) -> str:
        """Name of the algorithm in stored state and in the uid of its operator."""
        return self.stored_name or self.name

    def fixed_parameters(self, parameters: Any) -> dict[str, object]:
        """Return the parameters that a restore cannot change, by the names of their fields."""
        return {f"{self.name}.{name}": getattr(parameters, name) for name in self.fixed}

    def admissions(self, shards: int) -> int:
        """Return the number of admissions before some shards; 0: the shards decide themselves, as a single one does."""
        return 0 if self.admission is None or shards == 1 else shards

    def logs(self, read: Collection[str]) -> frozenset[str]:
        """Return the names of the outputs ``on_demand`` among those that have a reader."""
        return frozenset(output.name for output in self.outputs if output.on_demand and output.name in read)

    def written(self, logs: Collection[str]) -> tuple[Output, ...]:
        """Return the outputs that shards write; ``logs`` as of ``ShardContext``."""
        return tuple(output for output in self.outputs if not output.on_demand or output.name in logs)

    def durations(self, parameters: Any) -> dict[str, int]:
        """Return the durations among the parameters, in milliseconds of event time, by dotted setting name."""
        found = {
            setting.path: attrgetter(setting.field)(parameters)
            for setting in self.settings
            if setting.kind == "duration"
        }
        return {path: time for path, time in found.items() if time is not None}

    def __repr__(self) -> str:
        return f"<algorithm {self.name}>"

    def __reduce__(self) -> tuple[Callable[[str, str], Algorithm], tuple[str, str]]:
        # Another process imports the module and looks the algorithm up by name.
        return _found, (self.new.__module__, self.name)


_KNOWN: dict[str, Algorithm] = {}


def add_algorithm(algorithm: Algorithm) -> Algorithm:
    """Register an algorithm by name, as ``extensions`` of a configuration do; repetition has no effect."""
    if _KNOWN.setdefault(algorithm.name, algorithm).new is not algorithm.new:
        raise ValueError(f"algorithm: there are two of the name {algorithm.name!r}")
    return algorithm


def tell_delay(parameters: Any) -> Iterator[tuple[str, str]]:
    """Yield ``delay_tuples`` and ``delay_event_time`` of parameters as ``crenel check`` shows them."""
    if parameters.delay_tuples is not None:
        yield "delay.tuples", f"{parameters.delay_tuples} later tuples of the shard"
    if parameters.delay_event_time is not None:
        yield "delay.event_time", f"{parameters.delay_event_time} ms"


def weights_setting(valid: str) -> Setting:
    """Return the setting ``weights`` (``crenel.anonymity.model.weights``); ``valid`` describes a valid weight."""
    return Setting("weights", "weights", "weights", f"a mapping of quasi-identifiers to numbers {valid}, as {{age: 2}}")


def tell_weights(parameters: Any) -> Iterator[tuple[str, str]]:
    """Yield ``weights`` of parameters as ``crenel check`` shows them."""
    yield "weights", ", ".join(f"{name} {weight:.6g}" for name, weight in parameters.weights) or "all 1"


def _found(module: str, name: str) -> Algorithm:
    import_module(module)
    return _KNOWN[name]


def known_algorithms() -> dict[str, Algorithm]:
    """Return all registered algorithms, by name."""
    return dict(sorted(_KNOWN.items()))
