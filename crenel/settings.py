"""Settings of an anonymization as Python objects, with the fields of the configuration file.

Each class has the fields of one section of the file, under the same names (docs/reference/configuration). ``Settings``
validates all of them together, exactly as a file is validated, and its errors name the same fields.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from datetime import date, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

if TYPE_CHECKING:
    from crenel.anonymity.model.hierarchy import Hierarchy
    from crenel.jobs.config.load import Config

Duration: TypeAlias = int | str | timedelta
"""Milliseconds, a text such as ``"10 min"`` or ``"6 h"``, or a ``timedelta``."""

_JOB = ("source", "sinks", "catalogs", "flink", "accept_duplicates", "audit_chain", "shape")
"""Sections of a file that only a job needs."""


@dataclass(frozen=True)
class Numeric:
    """A numeric quasi-identifier, published as an interval or as one number per class.

    Attributes
    ----------
    domain : lowest and highest valid value, both included; a value outside is rejected. Of a day or a timestamp:
        days or times, as objects or ISO 8601. Its width is at least 2.2e-308, unless both ends are equal. None: every
        finite value, and losses are relative to the range observed so far
    step : grid on which noise is drawn, above 0, in the unit of the column; the width of the domain holds one to 2^40
        steps. None: 1 for whole numbers; with noise, other numbers need a step
    ends : grid of the ends of published intervals, above 0, in the unit of the column; of a timestamp, a duration such
        as ``"1h"``. With ``5`` they are multiples of 5, rounded outwards, or an end of the domain, or, without a
        domain, the minimum or maximum of the column's type. A whole number if
        the type of the column is one; at most the width of the domain; not with representatives (``publish``,
        ``suhdsa.output``). None: no grid
    publish : published form of a class: its ``"interval"``, or a representative, its ``"mean"`` or ``"median"``. A
        representative belongs to one class, so it excludes reuse, a lasting guarantee and ``suppression: generalize``
    missing : ``"reject"`` records without a number; or keep the absence as a ``"value"``, which needs a domain. Whether
        the number is missing is then a quasi-identifier of its own, published as ``NAME_missing``: ``no``, ``yes``, or
        ``maybe`` for a class with records of both kinds
    """

    domain: tuple[float, float] | tuple[date | str, date | str] | None = None
    step: float | str | None = None
    ends: float | str | None = None
    publish: Literal["interval", "mean", "median"] = "interval"
    missing: Literal["reject", "value"] = "reject"

    def __post_init__(self) -> None:
        _require_pair("Numeric", self.domain)


@dataclass(frozen=True)
class Numbers:
    """A hierarchy of numbers: intervals of increasing width.

    Attributes
    ----------
    domain : lowest and highest number, both included
    levels : widths of intervals, each a multiple of the one before, the leaves first
    origin : a number at which an interval of every width begins
    whole : whether only whole numbers are known, and none with a fraction
    open : whether the leaf of the highest number has no upper end, and contains every larger number
    """

    domain: tuple[float, float]
    levels: Sequence[float]
    origin: float = 0
    whole: bool = True
    open: bool = False

    def __post_init__(self) -> None:
        _require_pair("Numbers", self.domain)


@dataclass(frozen=True)
class Mask:
    """A hierarchy of texts by masked suffix: ``23701``, ``2370*``, ``237**`` ((k, epsilon)-anonymity, Table I).

    Attributes
    ----------
    keep : numbers of characters that the levels keep, each fewer than the one before, the leaves first
    length : number of characters of every value: all texts of this length are known, 2^20 at most. None where
        ``values`` are given
    alphabet : all characters of these texts, each once
    values : all values, or the path of a text file with one in each line
    """

    keep: Sequence[int]
    length: int | None = None
    alphabet: str = "0123456789"
    values: Sequence[str] | Path | None = None


@dataclass(frozen=True)
class Dates:
    """A hierarchy of days.

    Attributes
    ----------
    domain : first and last day, both included, 2^20 days at most
    levels : some of day, month, quarter, year and decade, in this order; or some of day, week and week_year
    """

    domain: tuple[date | str, date | str]
    levels: Sequence[str] = ("day", "month", "quarter", "year", "decade")

    def __post_init__(self) -> None:
        _require_pair("Dates", self.domain)


@dataclass(frozen=True)
class Ip:
    """A hierarchy of IPv4 addresses by prefix.

    Attributes
    ----------
    networks : networks that contain all values, such as ``"10.0.0.0/16"``
    levels : lengths of prefixes, each shorter than the one before, the leaves first
    """

    networks: Sequence[str]
    levels: Sequence[int] = (32, 24, 16, 8)


@dataclass(frozen=True)
class Times:
    """A hierarchy of times of day, from text such as ``08:30`` or ``08:30:15``.

    Attributes
    ----------
    levels : some of minute, hour and part, in this order; a part is a quarter of the day
    """

    levels: Sequence[str] = ("minute", "hour", "part")


@dataclass(frozen=True)
class Weekdays:
    """A hierarchy of the days of the week of any date.

    Attributes
    ----------
    levels : day, part, or both in this order; a part is a weekday or the weekend
    """

    levels: Sequence[str] = ("day", "part")


@dataclass(frozen=True)
class Geohash:
    """A hierarchy of places by geohash; each shorter code contains the longer ones exactly.

    Attributes
    ----------
    levels : lengths of codes, each shorter than the one before, the leaves first; longer values are cut
    within : codes of cells that contain all values, such as ``"u4pr"``; 2^24 leaves at most. Empty: the whole world
    """

    levels: Sequence[int]
    within: Sequence[str] = ()


@dataclass(frozen=True)
class Quadkey:
    """A hierarchy of places by quadkey; each shorter code contains the longer ones exactly.

    Attributes
    ----------
    levels : lengths of codes, each shorter than the one before, the leaves first; longer values are cut
    within : codes of tiles that contain all values, such as ``"1202"``; 2^24 leaves at most. Empty: the whole world
    """

    levels: Sequence[int]
    within: Sequence[str] = ()


@dataclass(frozen=True)
class H3:
    """A hierarchy of places by H3 cell; a coarser cell contains the finer ones by index, and only about so on the map.

    Attributes
    ----------
    levels : resolutions from 15 to 0, each coarser than the one before, the leaves first; a finer value counts as its
        ancestor
    within : indices of cells that contain all values, such as ``"841f1d5ffffffff"``; 2^24 leaves at most. Empty: the
        whole world
    """

    levels: Sequence[int]
    within: Sequence[str] = ()


Builder: TypeAlias = Numbers | Mask | Dates | Ip | Times | Weekdays | Geohash | Quadkey | H3


@dataclass(frozen=True)
class Categorical:
    """A categorical quasi-identifier, published as a label of its hierarchy or as values of the class.

    Attributes
    ----------
    hierarchy : path of a hierarchy file, a builder, a mapping from each value of the column, or its text, to its
        ancestors (the root last), or a ``Hierarchy``
    publish : published form of a class: the lowest common ``"ancestor"`` of its values, the ``"set"`` of these values,
        or a representative, their ``"mode"``. A set lists at most 100 values; a class with more, and a fully
        generalized row, has the ancestor as its only entry. A set excludes reuse and a lasting guarantee, and a
        representative ``suppression: generalize`` as well

    Examples
    --------
    >>> area = Categorical({"Oslo": ["Norway", "*"], "Bergen": ["Norway", "*"], "Lund": ["Sweden", "*"]})
    """

    hierarchy: str | Path | Builder | Mapping[Any, Sequence[Any]] | Hierarchy
    publish: Literal["ancestor", "set", "mode"] = "ancestor"


@dataclass(frozen=True)
class Noised:
    """A numeric attribute that is published with noise ((k, epsilon)-anonymity, Section IV).

    Attributes
    ----------
    domain : lowest and highest value; a value outside is rejected, and noise stays within
    step : grid on which noise is drawn, above 0, in the unit of the column. None: 1 for whole numbers; other numbers
        need a step
    """

    domain: tuple[float, float]
    step: float | None = None

    def __post_init__(self) -> None:
        _require_pair("Noised", self.domain)


@dataclass(frozen=True)
class Generalized:
    """A sensitive column that is published as the label of its value at one level of a hierarchy.

    Attributes
    ----------
    hierarchy : all valid values, with the labels above them, as of ``Categorical``; a record with another value is
        rejected. Levels must be defined: each value has as many labels above it
    level : level of the published label: 0 for the values of the hierarchy, 1 for the labels above them, and so on;
        below that of the root

    Examples
    --------
    >>> income = Generalized(Numbers(domain=(0, 500_000), levels=[10_000], open=True))  # such as 20000-29999
    """

    hierarchy: str | Path | Builder | Mapping[Any, Sequence[Any]] | Hierarchy
    level: int = 0


@dataclass(frozen=True)
class Pseudonym:
    """A code of the subject in each published record.

    Attributes
    ----------
    column : name of the published column, which holds 32 hexadecimal digits and differs from all other published
        names; needs ``policy.subject`` and ``subject_key``
    scope : scope in which the records of one person share a code: the ``"stream"``; a ``"day"`` of event time in UTC,
        which needs ``policy.event_time``; a ``"release"`` of a shard
    accept_linkable : whether ``"stream"`` and ``"day"`` may link the records of a person although the guarantee holds
        per release; not needed with a lasting guarantee
    """

    column: str
    scope: Literal["stream", "day", "release"]
    accept_linkable: bool = False


@dataclass(frozen=True)
class Contract:
    """A contract of the data, which says which of its columns are personal data.

    Attributes
    ----------
    file : path of an Open Data Contract of version 3 or a descriptor set of Protobuf (both need the extra
        ``contract``), or of a schema of Avro
    schema_name : name of one schema object or message, for a contract of several; None: the contract has one
    confirmed : columns that are published unchanged although the contract calls them personal data, or restricted; each
        causes a warning. Such a column is an error without its name here
    """

    file: str | Path
    schema_name: str | None = None
    confirmed: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The role of each column. A column without a role is an error: no column is published by default.

    Attributes
    ----------
    quasi_identifiers : at least one, by column, in the order of publication
    sensitive : columns in which every release is l-diverse; published unchanged, but for ``generalized``
    noised : numbers that are published with noise within each release, by column; no equivalence class is formed by
        them, and a record without one is rejected
    passthrough : columns that are published unchanged and without any guarantee
    drop : columns that are discarded
    subject : column that identifies the person of a record; k counts persons. None: every record is its own person
    subject_normalization : which spellings of a subject are one person: ``"nfc"`` those that Unicode composes to the
        same characters, ``"trim"`` those with and without outer spaces
    event_time : column of event time; None: none
    event_time_limit : maximum lead of a record's event time over the watermark; a record beyond it is rejected as
        ``outside_domain``. None: no limit
    reference : column that identifies a rejected record; never published with released ones
    missing : ``"reject"`` records with a missing value; or keep it as a ``"value"``: a missing category is a leaf
        ``(missing)`` below the root, and a missing sensitive value is a value; numbers have ``Numeric.missing``
    pseudonym : a code of the subject in each published record; None: no code
    neutralize_formulas : whether a text of a sensitive, pass-through or reference column that begins with ``=``, ``+``,
        ``-``, ``@``, a tab or a carriage return gets an apostrophe in front, so that no spreadsheet evaluates it
    contract : contract of the data; None: none
    arrays : sensitive columns that are arrays, each with the maximum number of distinct values of a record, 1 to 64; a
        record with more is rejected as ``too_many_values``. ``visits[*].diagnosis`` is an array with a field of each
        row of the array ``visits``
    generalized : sensitive columns of which the label of a hierarchy is published, and counted by privacy models
    """

    quasi_identifiers: Mapping[str, Numeric | Categorical]
    sensitive: Sequence[str] = ()
    noised: Mapping[str, Noised] = field(default_factory=dict)
    passthrough: Sequence[str] = ()
    drop: Sequence[str] = ()
    subject: str | None = None
    event_time: str | None = None
    event_time_limit: Duration | None = None
    reference: str | None = None
    missing: Literal["reject", "value"] = "reject"
    pseudonym: Pseudonym | None = None
    neutralize_formulas: bool = False
    contract: Contract | None = None
    arrays: Mapping[str, int] = field(default_factory=dict)
    generalized: Mapping[str, Generalized] = field(default_factory=dict)
    subject_normalization: Sequence[Literal["nfc", "trim"]] = ()


@dataclass(frozen=True)
class Recursive:
    """Recursive (c, l)-diversity.

    Attributes
    ----------
    c : the most frequent value has fewer than c times as many persons as the l-th most frequent and all rarer ones
        together; above 0
    l : rank of the first value in that sum, a whole number from 2 to k
    """

    c: float
    l: int  # noqa: E741 - the name of the field


@dataclass(frozen=True, kw_only=True)
class Sensitive:
    """Privacy models of one sensitive column, each in place of that of all columns.

    Attributes
    ----------
    l : diversity of this column, from 1 to k, above or below that of all columns; None: that of all columns
    reference : path of a CSV file of values with their shares or counts, for t and beta; None: the stream of the shard
        so far
    distance : distance between values for t: ``"equal"``, ``"ordered"`` or ``"hierarchical"``
    hierarchy : path of a hierarchy file whose leaves are the values; required for the distance ``"hierarchical"``
    alpha, t, entropy_l, beta, recursive : privacy model of the same name for this column; None: that of all columns
    """

    l: int | None = None  # noqa: E741 - the name of the field
    reference: str | Path | None = None
    distance: Literal["equal", "ordered", "hierarchical"] = "equal"
    hierarchy: str | Path | None = None
    alpha: float | None = None
    t: float | None = None
    entropy_l: float | None = None
    beta: float | None = None
    recursive: Recursive | None = None


@dataclass(frozen=True, kw_only=True)
class Persons:
    """The guarantee over all records of a person.

    Attributes
    ----------
    guarantee : ``"each_release"``: k and l hold for each release; ``"lasting"``: for all records of a person together,
        with ``algorithm: nearest`` only
    horizon : event time since the last record of a person and of the whole anonymity set after which they are
        forgotten, an eighth of it later; at least ``nearest.delay.event_time``; None: never, and state grows with the
        number of persons
    moved : treatment of a record if it, or the latest values of a member of the anonymity set, lie outside the
        generalization: ``"widen"`` it, ``"suppress"`` the record, or publish it and ``"count"``
    """

    guarantee: Literal["each_release", "lasting"] = "each_release"
    horizon: Duration | None = None
    moved: Literal["widen", "suppress", "count"] = "widen"


@dataclass(frozen=True)
class Privacy:
    """Privacy models that every release satisfies.

    Attributes
    ----------
    k : minimum number of distinct persons in every release, 1 or more
    l : l-diversity of each sensitive column in every release, counted by persons, from 1 to k
    alpha : maximum share of a release's persons with the most frequent value of each sensitive column, above 0 and at
        most 1 ((alpha, k)-anonymity)
    t : t-closeness of each sensitive column: maximum Earth Mover's Distance between the values of a release and the
        reference distribution, above 0 and at most 1
    entropy_l : entropy l-diversity of each sensitive column, from 1 to k; need not be whole
    beta : basic beta-likeness of each sensitive column: bound on (p - q) / q, for a share p in the release and q in the
        reference distribution; above 0, at most 1,000,000
    recursive : recursive (c, l)-diversity of each sensitive column
    persons : the guarantee over all records of a person
    sensitive : privacy models of single sensitive columns
    models : parameters of privacy models of your own, by their names
    """

    k: int
    l: int = 1  # noqa: E741 - the name of the field
    alpha: float | None = None
    t: float | None = None
    entropy_l: float | None = None
    beta: float | None = None
    recursive: Recursive | None = None
    persons: Persons | None = None
    sensitive: Mapping[str, Sensitive] = field(default_factory=dict)
    models: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Delay:
    """Bounds on the time that a tuple waits for its equivalence class, at least one of the two.

    Attributes
    ----------
    tuples : maximum number of later tuples of its shard for which a tuple waits; None: unbounded, for SUHDSA two
        windows
    event_time : maximum wait in event time; None: unbounded, for SUHDSA two windows
    jitter : maximum share of the delay, from 0 to 1, by which a tuple's random deadline comes earlier. It hides the
        time of arrival of tuples in singleton releases: by reuse, or with ``suppression: generalize`` (CASTLE and
        nearest release)
    """

    tuples: int | None = None
    event_time: Duration | None = None
    jitter: float = 0.0


@dataclass(frozen=True)
class Window:
    """Bounds of a window; without both, the end of a bounded input closes it.

    Attributes
    ----------
    tuples : number of tuples that close a window, k or more; None: no number
    event_time : event time that closes a window; None: no time
    """

    tuples: int | None = None
    event_time: Duration | None = None


@dataclass(frozen=True)
class Castle:
    """CASTLE: adaptive clusters under a delay bound (Cao et al., CASTLE, Section 4).

    Attributes
    ----------
    delay : how long a tuple may wait
    max_clusters : maximum number of open clusters (beta in the paper)
    loss_window : number of recent releases (mu) in the mean loss tau, up to which a cluster takes tuples before
        another one is opened
    reuse_limit : maximum number of published generalizations that are kept for reuse (Omega); the paper keeps all.
        Above 0, singleton releases occur, and each run warns: set a jitter with it
    suppression : ``"withhold"`` suppresses a tuple without a class; ``"generalize"`` publishes it fully generalized, as
        the paper does, and is refused if ``shards.by`` divides by values
    weights : weight of each quasi-identifier in distances, above 0; 1 where not given. One of a greater weight is
        generalized less, at the cost of the others. Stated losses have no weights
    """

    delay: Delay
    max_clusters: int = 50
    loss_window: int = 100
    reuse_limit: int = 0
    suppression: Literal["withhold", "generalize"] = "withhold"
    weights: Mapping[str, float] = field(default_factory=dict)

    name: ClassVar[str] = "castle"


@dataclass(frozen=True)
class Nearest:
    """Nearest release: a due tuple is published with its nearest buffered tuples.

    Attributes
    ----------
    delay : how long a tuple may wait
    loss_window : number of recent releases in the mean loss that the choice of reuse compares with
    reuse_limit : maximum number of published generalizations that are kept for reuse. Above 0, singleton releases
        occur, and each run warns: set a jitter with it
    suppression : ``"withhold"`` suppresses a tuple without a class; ``"generalize"`` publishes it fully generalized,
        and is refused if ``shards.by`` divides by values
    weights : weight of each quasi-identifier in distances, above 0; 1 where not given. One of a greater weight is
        generalized less, at the cost of the others. Stated losses have no weights
    isolation_price : from 0 to 1. Above 0, a class may take an isolated tuple near its deadline in place of a nearer
        one, for the loss of later classes; 0.55 mostly loses 8 to 10 % less at a delay of 1,000 tuples or fewer, and
        takes up to three times the time of the core. Do not set it at a delay of 10,000
    """

    delay: Delay
    loss_window: int = 100
    reuse_limit: int = 0
    suppression: Literal["withhold", "generalize"] = "withhold"
    weights: Mapping[str, float] = field(default_factory=dict)
    isolation_price: float = 0.0

    name: ClassVar[str] = "nearest"


@dataclass(frozen=True)
class Target:
    """A diversity above l at which SUHDSA's controller aims, from l to ``most``.

    Attributes
    ----------
    most : maximum of the target l_t of repairs, whose minimum is l; from l to k (l_max in the paper)
    smoothing : weight of the newest entropy, above 0 and at most 1 (alpha)
    band : minimum change of entropy that moves l_t, from 0 to 1
    dwell : number of windows between two moves
    """

    most: int
    smoothing: float = 0.3
    band: float = 0.05
    dwell: int = 5


@dataclass(frozen=True)
class Adaptive:
    """Windows whose size adapts to the stream.

    Attributes
    ----------
    least : minimum number of tuples of a window, k or more; the maximum is ``suhdsa.tuples``
    delay_weight : weight of delay against loss, from 0 to 1
    windows : number of windows that are judged together, after which the size may change
    """

    least: int
    delay_weight: float = 0.5
    windows: int = 8


@dataclass(frozen=True)
class Suhdsa:
    """SUHDSA with l-diversity: windows that are repaired by swap and merge before their release.

    Attributes
    ----------
    tuples : number of tuples that close a window, including carried ones; at least k of them are new (beta in the
        paper). One of ``tuples`` and ``event_time`` is required
    event_time : event time that closes a window (T_beta)
    delay : how long a tuple may wait, one window or more; None: two windows
    distortion_weight : weight of the change of loss against that of time in the choice of a repair, from 0 to 1
        (lambda)
    neighbors : number of nearest groups that a repair considers (c)
    growth_cap : maximum size of a merged group, as a multiple of k subjects, 2 or more (gamma)
    output : whether a class is published as a ``"generalization"``, or by a ``"representative"`` value
    numeric : representative of the numbers of a group, in the output and in the search for neighbors
    categorical : representative of the categories of a group, in the same places
    weights : weight of each quasi-identifier in distances, 0 or more; 1 where not given
    target, adaptive : controllers of diversity and window size; None: without them
    """

    tuples: int | None = None
    event_time: Duration | None = None
    delay: Delay | None = None
    distortion_weight: float = 0.7
    neighbors: int = 3
    growth_cap: float = 3.0
    output: Literal["generalization", "representative"] = "generalization"
    numeric: Literal["mean", "median"] = "mean"
    categorical: Literal["mode", "ancestor"] = "mode"
    weights: Mapping[str, float] = field(default_factory=dict)
    target: Target | None = None
    adaptive: Adaptive | None = None

    name: ClassVar[str] = "suhdsa"


@dataclass(frozen=True)
class Mondrian:
    """Mondrian: each window is cut recursively into equivalence classes.

    Attributes
    ----------
    window : what closes a window; None: the end of a bounded input
    cut : ``"loss"``: a partition is cut where that lowers the loss most; ``"widest"``: across its widest attribute, as
        in the paper
    """

    window: Window | None = None
    cut: Literal["loss", "widest"] = "loss"

    name: ClassVar[str] = "mondrian"


@dataclass(frozen=True)
class Ola:
    """OLA: one optimal full-domain generalization for each window.

    Attributes
    ----------
    window : what closes a window; None: the end of a bounded input
    max_suppression : maximum share of a window's tuples that are suppressed, from 0 to 1, unless no levels satisfy it
    metric : loss to minimize
    """

    window: Window | None = None
    max_suppression: float = 0.05
    metric: Literal["precision", "discernibility", "entropy"] = "entropy"

    name: ClassVar[str] = "ola"


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Differentially private k-anonymity: declared cells, and a sample of persons or noisy counts for each window.

    Attributes
    ----------
    partition : path of a file of regions, each of which is a cell; ``crenel regions`` writes such files
    epsilon, delta : guarantee for each person over a horizon: above 0, and above 0 and below 1
    window : width of the windows, which begin at multiples of it in event time; None: all of a bounded input
    windows : maximum number of windows per horizon to which a person contributes
    horizon : a multiple of ``window``; None: the whole stream
    lateness : time after its end at which a window closes in a job; None: at the end of a bounded input
    release : ``"sampled"`` publishes records of sampled persons, ``"noisy"`` synthetic ones by counts with noise
    sample_rate : with ``"sampled"``, the probability that a person is in a window's sample, above 0 and below 1
    """

    partition: str | Path
    epsilon: float
    delta: float
    window: Duration | None = None
    windows: int = 1
    horizon: Duration | None = None
    lateness: Duration | None = None
    release: Literal["sampled", "noisy"] = "sampled"
    sample_rate: float | None = None

    name: ClassVar[str] = "cells"


@dataclass(frozen=True)
class CustomAlgorithm:
    """An algorithm of your own, which a module in ``Settings.extensions`` registers.

    Attributes
    ----------
    name : its name
    settings : its section of the configuration file
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)


Algorithm: TypeAlias = Castle | Nearest | Suhdsa | Mondrian | Ola | Cells | CustomAlgorithm

BUILTIN: tuple[type[Any], ...] = (Castle, Nearest, Suhdsa, Mondrian, Ola, Cells)
"""Classes of the algorithms that come with Crenel."""


@dataclass(frozen=True)
class Tolerance:
    """Noise as a tolerance, from which phi follows.

    Attributes
    ----------
    share : share of the range within which noise stays with that probability, above 0 (r in equation 4)
    probability : probability with which noise stays within the share, above 0 and below 1 (Pr)
    """

    share: float
    probability: float


@dataclass(frozen=True, kw_only=True)
class SamplingAndNoise:
    """Sampling and perturbation of the input (CASTLEGUARD, Algorithms 1 and 2).

    Attributes
    ----------
    sample_rate : probability that a tuple is admitted (beta), above 0 and at most 1
    phi : noise has the Laplace scale range / phi; None where ``within`` is given
    within : in place of phi, a tolerance
    range : whether the range is the ``"declared"`` domain, or the one ``"observed"`` so far, as in the paper
    """

    sample_rate: float
    phi: float | None = None
    within: Tolerance | None = None
    range: Literal["declared", "observed"] = "declared"


@dataclass(frozen=True)
class Confidence:
    """Suppression by confidence ((k, epsilon)-anonymity).

    Attributes
    ----------
    c : probability of the linking range, above 0 and below 1; records with too few subjects within it are suppressed
    k : minimum number of subjects within it, unless there are none; from 2 to ``privacy.k``
    """

    c: float
    k: int


@dataclass(frozen=True, kw_only=True)
class NoiseWithinRelease:
    """Noise on the noised attributes inside each equivalence class ((k, epsilon)-anonymity, Section IV).

    Attributes
    ----------
    epsilon : privacy parameter of a record, shared among its noised attributes; above 0
    shares : share of epsilon of each noised attribute: all attributes, with the sum 1; None: equal shares
    scale : the noise has the scale width / (epsilon x share); the width is that of the ``"release"``, as in the paper,
        or of the declared ``"domain"``
    least : minimum width of a release for the noise, as a share of the width of the domain, from 0 to 1
    confidence : suppression by confidence; None: none
    """

    epsilon: float
    shares: Mapping[str, float] | None = None
    scale: Literal["release", "domain"] = "release"
    least: float = 0.02
    confidence: Confidence | None = None


@dataclass(frozen=True)
class Shards:
    """Division of the stream among independent anonymizers.

    Attributes
    ----------
    count : number of independent anonymizers
    by : ``"subject"``, a quasi-identifier (categorical, or numeric with a domain), or ``"regions"``
    regions : path of a file of regions, which ``crenel regions`` writes; required with ``by: regions``
    """

    count: int = 1
    by: str = "subject"
    regions: str | Path | None = None


class PrivacyWarning(UserWarning):
    """Valid settings with a weaker guarantee than they suggest, in the words of ``crenel check``.

    ``anonymize`` and ``open_stream`` warn once of the settings, and ``Stream.snapshot`` of the key of stored state.

    Examples
    --------
    >>> import warnings
    >>> import crenel
    >>> warnings.simplefilter("error", crenel.PrivacyWarning)  # refuse such settings
    """


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings that determine the releases, validated together.

    Attributes
    ----------
    policy : the role of each column
    privacy : privacy models that every release satisfies
    algorithm : which tuples are released together, and when
    sampling_and_noise : sampling and perturbation of the input; None: neither
    noise_within_release : noise inside each equivalence class, needed with ``policy.noised``; None: none
    shards : division of the stream
    seed : determines every random choice, so that a run can be repeated; None: drawn from the operating system, which
        is right for data that is published
    subject_key : key of the hash of subjects, 16 random bytes or more; a shorter one causes a warning, and is refused
        with a pseudonym. Text or bytes, or the place where each process reads it, such as ``{"environment": "NAME"}``.
        A restore needs the same key
    subject_key_derivation : ``"scrypt"`` stretches the key before others are derived from it, so that each guess is
        slow; ``"direct"`` does not, as state, pseudonyms and codes of ``forgotten`` of version 0.1.0 require. A restore
        needs the same derivation
    epoch : of a job: another number makes its shards start anew, under a policy that its state does not fit
    extensions : Python modules that register algorithms or privacy models of your own
    folder : folder that relative paths of hierarchies refer to

    Raises
    ------
    ConfigError
        Lists every problem, each with its field and a valid form.

    Examples
    --------
    >>> import crenel
    >>> settings = crenel.Settings(
    ...     policy=crenel.Policy(quasi_identifiers={"age": crenel.Numeric((0, 110))}, sensitive=["diagnosis"]),
    ...     privacy=crenel.Privacy(k=10, l=2),
    ...     algorithm=crenel.Nearest(crenel.Delay(tuples=1000)),
    ... )
    >>> print(settings.to_yaml())
    policy:
      quasi_identifiers:
        age:
          type: numeric
          domain: [0, 110]
      sensitive: [diagnosis]
    privacy:
      k: 10
      l: 2
    algorithm: nearest
    nearest:
      delay:
        tuples: 1000
    <BLANKLINE>
    """

    policy: Policy
    privacy: Privacy
    algorithm: Algorithm
    sampling_and_noise: SamplingAndNoise | None = None
    noise_within_release: NoiseWithinRelease | None = None
    shards: Shards = Shards()
    seed: int | None = None
    subject_key: str | bytes | Mapping[str, str] | None = field(default=None, repr=False)
    subject_key_derivation: Literal["scrypt", "direct"] = "scrypt"
    epoch: int = 1
    extensions: Sequence[str] = ()
    folder: Path = field(default=Path(), repr=False)

    def __post_init__(self) -> None:
        self.validated  # noqa: B018 - an error must not wait until data is there

    @classmethod
    def _of_validated(cls, config: Config, **fields: Any) -> Settings:
        """Return settings without a second validation, which would parse each hierarchy again."""
        settings = object.__new__(cls)
        settings.__dict__.update(fields, validated=config)
        return settings

    @cached_property
    def validated(self) -> Config:
        """The settings in the form that the core takes."""
        from crenel.jobs.config.load import load_settings

        return load_settings(self._sections(), Path(self.folder), "settings")

    def _warn(self, *, of_state: bool = True, of_all: bool = True) -> None:
        """Warn of weak guarantees in the name of the caller's caller, once of each for these settings.

        Parameters
        ----------
        of_state, of_all : whether stored state, and all else, weakens a guarantee here
        """
        from crenel.jobs.config.warnings import STATE_WARNINGS

        warned: set[str] = self.__dict__.setdefault("_warned", set())
        for text in self.validated.warnings:
            if (of_state if text in STATE_WARNINGS else of_all) and text not in warned:
                warnings.warn(text, PrivacyWarning, stacklevel=3)
                warned.add(text)

    def to_yaml(self) -> str:
        """Return the settings as a configuration file, to which a job adds ``source`` and ``sinks``.

        A key given as text is not written: the file then refers to the variable CRENEL_SUBJECT_KEY.

        Raises
        ------
        ValueError
            A hierarchy was given as an object, and a file would have to name its path.
        """
        import yaml

        sections = self._sections()
        for role in ("quasi_identifiers", "generalized"):
            for name, attribute in sections["policy"].get(role, {}).items():
                hierarchy = attribute.get("hierarchy")
                if isinstance(hierarchy, Mapping) and "file" in hierarchy:
                    raise ValueError(
                        f"policy.{role}.{name}.hierarchy: is an object; save it as a file, and give its path"
                    )
        sections = _escaped(sections)
        if self.subject_key is not None and not isinstance(self.subject_key, Mapping):
            sections["subject_key"] = "${CRENEL_SUBJECT_KEY}"
        text: str = yaml.dump(sections, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=120)
        return text

    def _sections(self) -> dict[str, Any]:
        """Return the content of a configuration file."""
        sections: dict[str, Any] = _section(self)
        sections.pop("folder", None)
        sections["privacy"] |= sections["privacy"].pop("models", {})
        if isinstance(self.subject_key, bytes):
            sections["subject_key"] = self.subject_key.decode()
        name, own = self.algorithm.name, self.algorithm
        section = dict(own.settings) if isinstance(own, CustomAlgorithm) else _section(own)
        return sections | {"algorithm": name, name: section}


def load(path: str | Path, overrides: Sequence[str] = ()) -> Settings:
    """Return the settings of a configuration file; its sections for jobs, such as ``source``, are not read.

    Parameters
    ----------
    path : a YAML file; paths of hierarchies are relative to its folder
    overrides : fields to set first, each ``dotted.key=value`` with the value in YAML

    Raises
    ------
    ConfigError
        Lists every problem, each with its field and a valid form.
    """
    from crenel.jobs.config.file import ConfigError, expand, override, read

    content = read(path)
    problems = override(content, overrides)
    content, unset = expand({name: section for name, section in content.items() if name not in _JOB})
    problems += [f"{name}: {problem}" for name, problem in unset.items()]
    if problems:
        raise ConfigError(path, problems)
    return settings_of(content, Path(path).parent, path)


def settings_of(content: Mapping[str, Any], folder: Path, where: Path | str) -> Settings:
    """Return the settings of the sections of a file, which are validated once.

    Parameters
    ----------
    content : the sections, without those of jobs
    folder : folder that paths of hierarchies are relative to
    where : origin of the sections, which an error names

    Raises
    ------
    ConfigError
        Lists every problem, each with its field and a valid form.
    """
    from crenel.jobs.config.load import load_sections

    file, config = load_sections(content, folder, where)
    raw = content["policy"]["quasi_identifiers"]
    attributes: dict[str, Numeric | Categorical] = {}
    for name, section in file.policy.quasi_identifiers.items():
        if section.hierarchy is None:
            number, missing = section.number_form, section.missing or "reject"
            attributes[name] = Numeric(section.domain, section.step, section.ends, number, missing)
            continue
        hierarchy = _hierarchy_object(raw[name]["hierarchy"], section.hierarchy)
        attributes[name] = Categorical(hierarchy, section.category_form)
    generalized = {
        name: Generalized(
            _hierarchy_object(content["policy"]["generalized"][name]["hierarchy"], of.hierarchy), of.level
        )
        for name, of in file.policy.generalized.items()
    }
    own = {builtin.name: builtin for builtin in BUILTIN}.get(file.algorithm)
    section = getattr(file, file.algorithm)
    return Settings._of_validated(
        config,
        policy=_object(Policy, file.policy, quasi_identifiers=attributes, generalized=generalized),
        privacy=_privacy(file.privacy, content["privacy"]),
        algorithm=CustomAlgorithm(file.algorithm, content[file.algorithm]) if own is None else _object(own, section),
        sampling_and_noise=_object(SamplingAndNoise, file.sampling_and_noise),
        noise_within_release=_object(NoiseWithinRelease, file.noise_within_release),
        shards=_object(Shards, file.shards),
        seed=file.seed,
        subject_key=content.get("subject_key"),
        subject_key_derivation=file.subject_key_derivation,
        epoch=file.epoch,
        extensions=file.extensions,
        folder=folder,
    )


def _hierarchy_object(raw: Any, section: Any) -> Any:
    """Return the hierarchy of a program; ``raw`` and ``section``: its section before and after validation."""
    if isinstance(raw, Mapping) and "file" not in raw:
        ((kind, _),) = raw.items()
        return _object(_BUILDERS[kind], getattr(section, kind))
    hierarchy = raw["file"] if isinstance(raw, Mapping) else raw
    return str(hierarchy) if isinstance(hierarchy, str | Path) else hierarchy


def _privacy(section: Any, raw: Mapping[str, Any]) -> Privacy:
    known = {f.name for f in fields(Privacy)}
    sensitive = {
        name: _object(Sensitive, of, **{file: raw["sensitive"][name].get(file) for file in ("reference", "hierarchy")})
        for name, of in section.sensitive.items()
    }
    models = {name: value for name, value in raw.items() if name not in known and value is not None}
    privacy: Privacy = _object(Privacy, section, sensitive=sensitive, models=models)
    return privacy


_BUILDERS: dict[str, type[Any]] = {
    "numbers": Numbers,
    "mask": Mask,
    "dates": Dates,
    "ip": Ip,
    "times": Times,
    "weekdays": Weekdays,
    "geohash": Geohash,
    "quadkey": Quadkey,
    "h3": H3,
}


def _object(kind: type[Any], section: Any, **given: Any) -> Any:
    """Return the object of a validated section; None for None. ``given`` are fields that are known already."""
    if section is None:
        return None
    values = dict(given)
    for f in fields(kind):
        if f.name not in values and hasattr(section, f.name):
            value = getattr(section, f.name)
            if hasattr(type(value), "model_fields"):
                value = _object(_NESTED[kind, f.name], value)
            elif isinstance(value, Mapping) and (kind, f.name) in _NESTED:
                value = {name: _object(_NESTED[kind, f.name], each) for name, each in value.items()}
            elif isinstance(value, tuple) and f.name == "networks":
                value = tuple(map(str, value))
            values[f.name] = value
    return kind(**values)


_NESTED: dict[tuple[type[Any], str], type[Any]] = {
    (Policy, "noised"): Noised,
    (Policy, "pseudonym"): Pseudonym,
    (Policy, "contract"): Contract,
    (Privacy, "recursive"): Recursive,
    (Privacy, "persons"): Persons,
    (Sensitive, "recursive"): Recursive,
    (Castle, "delay"): Delay,
    (Nearest, "delay"): Delay,
    (Suhdsa, "delay"): Delay,
    (Suhdsa, "target"): Target,
    (Suhdsa, "adaptive"): Adaptive,
    (Mondrian, "window"): Window,
    (Ola, "window"): Window,
    (SamplingAndNoise, "within"): Tolerance,
    (NoiseWithinRelease, "confidence"): Confidence,
}
"""Classes of nested sections, by class and field."""


def _section(value: Any) -> Any:
    """Return the section of an object: its fields with another value than the default, as YAML has them."""
    if is_dataclass(value) and type(value).__module__ == __name__:
        found = {
            f.name: _section(getattr(value, f.name)) for f in fields(value) if getattr(value, f.name) != _default(f)
        }
        kind = {Numeric: "numeric", Categorical: "categorical", Noised: "numeric"}.get(type(value))
        if isinstance(value, Categorical | Generalized):
            found["hierarchy"] = _hierarchy(value.hierarchy)
        return found if kind is None else {"type": kind, **found}
    if isinstance(value, Mapping):
        return {str(key): _section(each) for key, each in value.items()}
    if isinstance(value, timedelta):
        return f"{value // timedelta(milliseconds=1)} ms"
    if isinstance(value, Path | date):
        return str(value)
    if isinstance(value, float) and hasattr(value, "text"):  # a day, a time or a duration
        return value.text
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_section(each) for each in value]
    return value


def _escaped(value: Any) -> Any:
    """Return a section whose texts have no variables: ``$$`` stands for one dollar in a file."""
    if isinstance(value, str):
        return value.replace("$", "$$")
    if isinstance(value, dict):
        return {key: _escaped(each) for key, each in value.items()}
    return [_escaped(each) for each in value] if isinstance(value, list) else value


def _require_pair(name: str, domain: object) -> None:
    """Raise an error where two numbers were given in place of a pair, as in ``Numeric(0, 110)``."""
    if domain is not None and (isinstance(domain, str) or not isinstance(domain, Sequence) or len(domain) != 2):
        raise ValueError(f"domain: must be a pair, the lowest and the highest value, as in {name}((LOWEST, HIGHEST))")


def _hierarchy(hierarchy: Any) -> Any:
    if isinstance(hierarchy, str | Path):
        return str(hierarchy)
    if isinstance(hierarchy, Mapping):
        return {"file": hierarchy}
    builder = next((name for name, kind in _BUILDERS.items() if isinstance(hierarchy, kind)), "file")
    return {builder: hierarchy if builder == "file" else _section(hierarchy)}


def _default(of: Any) -> Any:
    if of.default is not MISSING:
        return of.default
    return of.default_factory() if of.default_factory is not MISSING else MISSING


def _dumper() -> type[Any]:
    """Return a writer of YAML with lists in one line, and mappings over several."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def represent_list(self, data: Any) -> Any:
            return self.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=True)

    Dumper.add_representer(list, Dumper.represent_list)
    return Dumper
