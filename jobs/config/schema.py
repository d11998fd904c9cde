"""Schema of a configuration: types, ranges and defaults of every field, and descriptions of valid values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast

from pydantic import AfterValidator, BeforeValidator, Field, InstanceOf, ValidationInfo, create_model
from pydantic import model_validator as check

from crenel.anonymity.algorithm import Algorithm, known_algorithms
from crenel.anonymity.model.attributes import Categorical, Generalized, Instant, Noised, Numeric
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.hierarchy import Hierarchy, HierarchyError
from crenel.anonymity.model.hierarchy import load as load_hierarchy
from crenel.anonymity.model.policy import MOST_VALUES, SHARD_BY_SUBJECT, Policy, Pseudonym, Shards
from crenel.anonymity.model.privacy import Confidence, Lasting, NoiseWithin, Privacy, SamplingAndNoise
from crenel.anonymity.model.privacy_model import PrivacyModel, Sensitive, known_privacy_models
from crenel.anonymity.model.reference import Reference
from crenel.anonymity.model.reference import load as load_reference
from crenel.anonymity.model.region_tree import RegionTree
from crenel.anonymity.model.secret import Derivation, Secret
from crenel.anonymity.noise.budget import phi_within
from crenel.jobs.config.contract import ContractSection, as_file
from crenel.jobs.config.fields import (
    AboveZero,
    Catalog,
    Column,
    Columns,
    Duration,
    Natural,
    Options,
    Position,
    Positive,
    Real,
    Section,
    Sink,
    Span,
    Whole,
)
from crenel.jobs.config.hierarchies import HierarchyField, HierarchySection, reading
from crenel.jobs.config.secrets import KEY_SOURCES, secret_field
from crenel.jobs.config.sections import AlgorithmSection, further_of, model_field, section_of
from crenel.jobs.config.source import SourceSection

_Section = TypeVar("_Section", bound=Section)
_SECTIONS = ("quasi_identifiers", "noised", "pseudonym", "contract", "arrays", "generalized")


def _increasing(domain: tuple[float, float]) -> tuple[float, float]:
    if domain[0] > domain[1]:
        raise ValueError("the lower bound is above the upper one")
    if isinstance(domain[0], Instant) != isinstance(domain[1], Instant):
        raise ValueError("one bound is a day or a time, and the other a number; give two of one kind")
    return domain


class QuasiIdentifier(Section):
    """Section of one quasi-identifier.

    Attributes
    ----------
    type : ``numeric`` is published as an interval, ``categorical`` as a label of its hierarchy
    publish : another published form of a class than its interval or lowest common ancestor. ``set`` lists the values
        that occur in the class; ``mean``, ``median`` and ``mode`` are representatives, of which each class has one. The
        classes are the same in each form. Not with ``reuse_limit`` above 0 or the lasting guarantee; representatives
        neither with ``suppression: generalize`` nor with ``ends``
    missing : of a number: ``value`` keeps records without it. Whether it is missing is then a quasi-identifier of its
        own, published as ``NAME_missing``; ``policy.missing`` is for categories
    """

    type: Literal["numeric", "categorical"] = Field(description="'numeric' or 'categorical'")
    domain: Annotated[tuple[Position, Position], AfterValidator(_increasing)] | None = Field(
        None,
        description="[lowest, highest], two finite numbers, days or times, for a numeric one; without it the observed "
        "range",
    )
    step: Span | None = Field(
        None,
        description="for a numeric one, a number above 0, or a duration such as 1h: the grid on which noise is drawn, "
        "in the column's unit",
    )
    ends: Span | None = Field(
        None,
        description="for a numeric one, a number above 0, such as 5, or a duration such as 1h: ends of published "
        "intervals are multiples of it",
    )
    hierarchy: HierarchyField | None = Field(
        None,
        description="for a categorical one, the path of a hierarchy file, relative to the configuration, or one of "
        "{numbers: ...}, {mask: ...}, {dates: ...}, {ip: ...}",
    )
    publish: Literal["interval", "mean", "median", "ancestor", "set", "mode"] | None = Field(
        None,
        description="for a numeric one 'interval', 'mean' or 'median'; for a categorical one 'ancestor', 'set' or "
        "'mode'",
    )
    missing: Literal["reject", "value"] | None = Field(
        None, description="for a numeric one with a 'domain', 'reject' or 'value': what becomes of records without it"
    )

    def number(self, name: str) -> Numeric:
        """Return the numeric attribute of a column."""
        return Numeric(name, self.domain, self.step, self.ends, self.number_form, self.missing or "reject")

    @property
    def number_form(self) -> Literal["interval", "mean", "median"]:
        """The published form of a numeric one."""
        return cast(Literal["interval", "mean", "median"], self.publish or "interval")

    @property
    def category_form(self) -> Literal["ancestor", "set", "mode"]:
        """The published form of a categorical one."""
        return cast(Literal["ancestor", "set", "mode"], self.publish or "ancestor")

    @check(mode="after")
    def _fits_its_type(self) -> QuasiIdentifier:
        if self.type == "categorical" and self.hierarchy is None:
            raise ValueError("a categorical one needs a 'hierarchy', the path of its file or what builds it")
        if self.type == "categorical" and self.domain is not None:
            raise ValueError("a categorical one has no 'domain'; remove it, or make the type 'numeric'")
        if self.type == "categorical" and self.step is not None:
            raise ValueError("a categorical one has no 'step'; noise moves it by whole leaves: remove it")
        if self.type == "categorical" and self.ends is not None:
            raise ValueError("a categorical one has no 'ends'; it is published as a label of its hierarchy: remove it")
        if self.type == "categorical" and self.missing is not None:
            raise ValueError("a categorical one has no 'missing'; policy.missing is for all of them: remove it")
        if self.type == "numeric" and self.hierarchy is not None:
            raise ValueError("a numeric one has no 'hierarchy'; remove it, or make the type 'categorical'")
        forms = ("interval", "mean", "median") if self.type == "numeric" else ("ancestor", "set", "mode")
        if self.publish is not None and self.publish not in forms:
            others = ", ".join(map(repr, forms[:-1]))
            raise ValueError(
                f"a {self.type} one is not published as {self.publish!r}; choose {others} or {forms[-1]!r}"
            )
        return self


class NoisedAttribute(Section):
    """Section of one noised attribute.

    Attributes
    ----------
    type : kind of the attribute; only numbers can be noised
    """

    type: Literal["numeric"] = Field("numeric", description="'numeric'")
    domain: Annotated[tuple[Real, Real], AfterValidator(_increasing)] = Field(
        description="[lowest, highest], two finite numbers: noise stays within"
    )
    step: AboveZero | None = Field(
        None,
        description="a number above 0: the grid that noise is drawn on, in the column's unit; 1 for whole numbers",
    )


class GeneralizedAttribute(Section):
    """Section of one sensitive column that is published by a hierarchy.

    Attributes
    ----------
    hierarchy : all valid values, with the labels above them; as the ``hierarchy`` of a quasi-identifier
    level : level of the published label: 0 for the values of the hierarchy, 1 for the labels above them
    """

    hierarchy: HierarchyField = Field(
        description="the path of a hierarchy file, relative to the configuration, or one of {numbers: ...}, "
        "{mask: ...}, {dates: ...}, {ip: ...}"
    )
    level: Natural = Field(0, description="a whole number from 0 on, below the level of the root")


class PseudonymSection(Section):
    column: Column = Field(description="the name of a column of what is released, such as patient")
    scope: Literal["stream", "day", "release"] = Field(description="'stream', 'day' or 'release'")
    accept_linkable: bool = Field(False, description="true or false")

    def core(self) -> Pseudonym:
        return Pseudonym(self.column, self.scope, self.accept_linkable)


class PolicySection(Section):
    quasi_identifiers: dict[Column, QuasiIdentifier] = Field(
        min_length=1,
        description="at least one 'column: {type: numeric}' or 'column: {type: categorical, hierarchy: FILE}'",
    )
    sensitive: Columns = Field((), description="a list of columns, such as [income]")
    noised: dict[Column, NoisedAttribute] = Field(
        {}, description="numbers that are published with noise: 'column: {type: numeric, domain: [100, 220], step: 1}'"
    )
    passthrough: Columns = Field((), description="a list of columns, such as [trip_id]")
    drop: Columns = Field((), description="a list of columns, such as [name]")
    subject: Column | None = Field(None, description="a column, or null where every row is its own person")
    subject_normalization: tuple[Literal["nfc", "trim"], ...] = Field((), description="a list of nfc and trim")
    event_time: Column | None = Field(None, description="a column, or null where there is none")
    event_time_limit: Duration | None = Field(
        None, description="a duration such as '1 h', or null: how far ahead of the watermark a row may be dated"
    )
    reference: Column | None = Field(None, description="a column to show with rejected rows, or null")
    missing: Literal["reject", "value"] = Field("reject", description="'reject' or 'value'")
    pseudonym: PseudonymSection | None = Field(
        None, description="a mapping such as {column: patient, scope: day}, or null: a code of the subject in each row"
    )
    neutralize_formulas: bool = Field(False, description="true or false")
    contract: Annotated[ContractSection, BeforeValidator(as_file)] | None = Field(
        None,
        description="the path of a contract, a mapping such as {file: visits.odcs.yaml, confirmed: [trip_id]}, or null",
    )
    arrays: dict[Column, Whole] = Field(
        {}, description=f"sensitive arrays: 'column: 8', the maximum number of values of a record, 1 to {MOST_VALUES}"
    )
    generalized: dict[Column, GeneralizedAttribute] = Field(
        {}, description="sensitive columns of which a label is published: 'column: {hierarchy: FILE, level: 1}'"
    )

    @check(mode="after")
    def _possible(self) -> PolicySection:
        self.core()
        return self

    def core(self) -> Policy:
        """Return the policy; where missing values are kept, each hierarchy has a leaf for them."""
        return self._core

    @cached_property
    def _core(self) -> Policy:
        return Policy(
            quasi_identifiers=tuple(self._attribute(name, field) for name, field in self.quasi_identifiers.items()),
            noised=tuple(Noised(name, field.domain, field.step) for name, field in self.noised.items()),
            pseudonym=None if self.pseudonym is None else self.pseudonym.core(),
            arrays=tuple(self.arrays.items()),
            generalized=tuple(
                Generalized(
                    name, self._tree(f"generalized.{name}", field.hierarchy), field.hierarchy.builder, field.level
                )
                for name, field in self.generalized.items()
            ),
            **{role: getattr(self, role) for role in PolicySection.model_fields if role not in _SECTIONS},
        )

    def _attribute(self, name: str, field: QuasiIdentifier) -> Numeric | Categorical:
        if field.hierarchy is None:
            return field.number(name)
        tree = self._tree(f"quasi_identifiers.{name}", field.hierarchy)
        return Categorical(name, tree, field.hierarchy.builder, field.category_form)

    def _tree(self, place: str, field: HierarchySection) -> Hierarchy:
        try:
            return field.tree.with_missing() if self.missing == "value" else field.tree
        except HierarchyError as error:
            raise PolicyError(f"policy.{place}.hierarchy: {error}") from None


class PersonsSection(Section):
    guarantee: Literal["each_release", "lasting"] = Field("each_release", description="'each_release' or 'lasting'")
    horizon: Duration | None = Field(
        None, description="a duration such as '30 days' of event time since a person's last row, or null: for ever"
    )
    moved: Literal["widen", "suppress", "count"] = Field("widen", description="'widen', 'suppress' or 'count'")

    @check(mode="after")
    def _possible(self) -> PersonsSection:
        self.core()
        return self

    def core(self) -> Lasting | None:
        return Lasting(self.horizon, self.moved) if self.guarantee == "lasting" else None


class SensitiveSection(Section):
    """Privacy models of one sensitive column; each registered model adds a field."""

    l: Positive | None = Field(  # noqa: E741 - the field's own name for it
        None, description="a whole number from 1 to k, or null for privacy.l"
    )
    reference: Annotated[InstanceOf[Reference], BeforeValidator(reading(load_reference))] | None = Field(
        None,
        description="the path of a CSV file of values and their shares or counts, relative to the configuration, or "
        "null for the stream so far",
    )
    distance: Literal["equal", "ordered", "hierarchical"] = Field(
        "equal", description="'equal', 'ordered' or 'hierarchical': how far t has values from each other"
    )
    hierarchy: Annotated[InstanceOf[Hierarchy], BeforeValidator(reading(load_hierarchy))] | None = Field(
        None, description="the path of a hierarchy file whose leaves are the values, relative to the configuration"
    )

    @check(mode="after")
    def _possible(self) -> SensitiveSection:
        if self.distance != "equal" and self.reference is None:
            raise ValueError("its 'distance' is one to a 'reference'; give that, or remove it")
        if (self.distance == "hierarchical") != (self.hierarchy is not None):
            raise ValueError("a 'hierarchy' and 'distance: hierarchical' go together; give both, or neither")
        return self

    def compared(self) -> Reference | None:
        """Return the reference distribution with its distances."""
        if self.reference is None:
            return None
        return replace(self.reference, distance=self.distance, hierarchy=self.hierarchy)


class PrivacySection(Section):
    """k and l; each registered privacy model adds a field."""

    k: Positive = Field(description="a whole number, 1 or more")
    l: Positive = Field(1, description="a whole number from 1 to k")  # noqa: E741 - the field's own name for it
    persons: PersonsSection | None = Field(
        None,
        description="a mapping such as {guarantee: lasting, horizon: 30 days}: for persons with several rows",
    )
    sensitive: dict[Column, SensitiveSection] = Field(
        {}, description="privacy models of single sensitive columns, such as {diagnosis: {l: 3, alpha: 0.5}}"
    )

    @check(mode="after")
    def _possible(self) -> PrivacySection:
        self.core()
        return self

    def core(self) -> Privacy:
        columns = tuple(Sensitive(name, of.l, further_of(of), of.compared()) for name, of in self.sensitive.items())
        lasting = None if self.persons is None else self.persons.core()
        return Privacy(self.k, self.l, further_of(self), sensitive=columns, lasting=lasting)


class ConfidenceSection(Section):
    c: Annotated[Real, Field(gt=0, lt=1)] = Field(description="a number above 0 and below 1, such as 0.99")
    k: Annotated[Positive, Field(ge=2)] = Field(description="a whole number from 2 to privacy.k")


class NoiseWithinSection(Section):
    epsilon: AboveZero = Field(description="a number above 0, such as 2: for all noised attributes of a record")
    shares: dict[Column, AboveZero] | None = Field(
        None, description="the share of epsilon of each noised attribute, 1 together; without it they are equal"
    )
    scale: Literal["release", "domain"] = Field("release", description="'release' or 'domain'")
    least: Annotated[Real, Field(ge=0, le=1)] = Field(0.02, description="a share of the domain's width, from 0 to 1")
    confidence: ConfidenceSection | None = Field(
        None, description="a mapping such as {c: 0.99, k: 10}, or null for no suppression by it"
    )

    def core(self, policy: Policy) -> NoiseWithin:
        """Return the noise, with shares in the order of the policy."""
        names = [attribute.name for attribute in policy.noised]
        if self.shares is not None and sorted(self.shares) != sorted(names):
            raise PolicyError(
                f"noise_within_release.shares: must name each column of policy.noised, which are {', '.join(names)}"
            )
        return NoiseWithin(
            epsilon=self.epsilon,
            shares=() if self.shares is None else tuple(self.shares[name] for name in names),
            scale=self.scale,
            least=self.least,
            confidence=None if self.confidence is None else Confidence(self.confidence.c, self.confidence.k),
        )


class WithinSection(Section):
    share: AboveZero = Field(description="a number above 0, such as 0.05: a share of the range")
    probability: Annotated[Real, Field(gt=0, lt=1)] = Field(description="a number above 0 and below 1, such as 0.99")


class SamplingAndNoiseSection(Section):
    sample_rate: Annotated[Real, Field(gt=0, le=1)] = Field(
        description="a number above 0 and at most 1, such as 0.9: the share of tuples that are let in"
    )
    phi: AboveZero | None = Field(None, description="a number above 0, such as 100: noise has the scale range / phi")
    within: WithinSection | None = Field(None, description="a mapping such as {share: 0.05, probability: 0.99}")
    range: Literal["declared", "observed"] = Field("declared", description="'declared' or 'observed'")

    @check(mode="after")
    def _possible(self) -> SamplingAndNoiseSection:
        self.core()
        return self

    def core(self) -> SamplingAndNoise:
        """Return sampling and noise; a given tolerance determines phi."""
        if self.phi is not None and self.within is None:
            phi = self.phi
        elif self.phi is None and self.within is not None:
            phi = phi_within(self.within.share, self.within.probability)
        else:
            raise ValueError("give either 'phi' or 'within', the tolerance that phi follows from")
        return SamplingAndNoise(self.sample_rate, phi, self.range == "observed")


class ShardsSection(Section):
    count: Positive = Field(1, description="a whole number, 1 or more")
    by: Column = Field(SHARD_BY_SUBJECT, description="'subject', a quasi-identifier, or 'regions'")
    regions: Column | None = Field(
        None, description="with 'by: regions', the path of what 'crenel regions' wrote, relative to the configuration"
    )

    def core(self, regions: RegionTree | None) -> Shards:
        """Return the division into shards; ``regions`` are those of the file, where one is named."""
        return Shards(self.count, self.by, regions)


_DISCARDED = Field(
    None,
    description="the options of a Flink connector, {table: lake.clinic.NAME} for a table of a catalog, or null "
    "to discard",
)


class SinksSection(Section):
    """Connector options of each output.

    Attributes
    ----------
    released : published records, into an exactly-once connector
    suppressed : suppressed records without their values, into an exactly-once connector; None: discarded
    rejected : rejected rows without their values, into an exactly-once connector; None: discarded
    audit : one row for each release, into an exactly-once connector; None: discarded
    forgotten : codes of forgotten persons with the time, into any connector; None: discarded
    summary : counters of each shard at the end of the input, into any connector; None: discarded
    repairs : how releases were formed, into any connector, with ``algorithm: castle``, ``nearest`` or ``suhdsa``; not
        for recipients. None: discarded, and with CASTLE and nearest not written
    windows : windows of SUHDSA, into any connector; with ``algorithm: suhdsa`` only. None: discarded
    """

    released: Sink = Field(
        description="the options of a Flink connector, such as {connector: filesystem, path: /out, format: csv}, or a "
        "table of a catalog, as {table: lake.clinic.released}"
    )
    suppressed: Sink | None = _DISCARDED
    rejected: Sink | None = _DISCARDED
    audit: Sink | None = _DISCARDED
    forgotten: Sink | None = _DISCARDED
    summary: Sink | None = _DISCARDED


def _of_the_algorithm(section: _Section | None, info: ValidationInfo) -> _Section | None:
    """Check that the section of the chosen algorithm is given, and no other."""
    chosen, name = info.data.get("algorithm"), info.field_name
    if section is None and chosen == name:
        raise ValueError("is missing")
    if section is not None and chosen not in (None, name):
        raise ValueError(f"goes with 'algorithm: {name}', and the algorithm is {chosen!r}; remove it, or choose {name}")
    return section


class _Head(Section):
    policy: PolicySection = Field(description="a mapping of roles to columns of the source")
    privacy: PrivacySection = Field(description="a mapping such as {k: 10, l: 2}")
    algorithm: str = "castle"


class AuditChainSection(Section):
    """Hash chain through the audit log.

    Attributes
    ----------
    key : key of the chain, or the place where each process reads it. ``audit_chain: {}`` chains without a key. The
        chain needs ``sinks.audit``, which receives a closing record for each shard at the end of the input. To turn it
        on or off, give ``released`` and ``audit`` other folders, because the columns of ``audit`` change
    """

    key: Annotated[InstanceOf[Secret] | None, secret_field("audit_chain.key")] = Field(
        None, description=f"text, best as ${{CRENEL_AUDIT_KEY}}, {KEY_SOURCES}, or null for a chain without a key"
    )


class File(Section):
    """The whole of a configuration file; ``file_model`` adds the head, with a section for each algorithm.

    Attributes
    ----------
    algorithm : the algorithm; its section is required, and that of any other is refused
    seed : determines every random choice, with a warning if there is noise; None: drawn from the operating system
    catalogs : catalogs of Flink, for ``source.table``, for sinks with ``table``, and for ``source.query``
    flink : settings of Flink by Flink's names, dotted or nested, passed on unchanged
    accept_duplicates : whether source, sinks and checkpoints need not be exactly-once, so that a tuple may be published
        twice
    shape : ``nested`` publishes ``released`` with the fields of ROW columns where they were in the source, and each
        interval as ``{min, max}`` in the place of its quasi-identifier; not for CSV and JDBC sinks
    epoch : another number makes shards start anew if a drained job continues under a policy that its state does not fit
    """

    if TYPE_CHECKING:
        policy: PolicySection
        privacy: PrivacySection
        algorithm: str

    sampling_and_noise: SamplingAndNoiseSection | None = Field(
        None, description="a mapping such as {sample_rate: 0.5, phi: 100}, or null for neither sampling nor noise"
    )
    noise_within_release: NoiseWithinSection | None = Field(
        None, description="a mapping such as {epsilon: 2}, needed with policy.noised, or null"
    )
    shards: ShardsSection = Field(
        default_factory=ShardsSection, description="a mapping such as {count: 4, by: subject}"
    )
    seed: Annotated[Whole, Field(ge=0, le=2**63 - 1)] | None = Field(
        None, description="a whole number from 0 to 2^63 - 1, or null"
    )
    subject_key: Annotated[InstanceOf[Secret] | None, secret_field("subject_key")] = Field(
        None, description=f"text, best as ${{CRENEL_SUBJECT_KEY}}, or {KEY_SOURCES}"
    )
    subject_key_derivation: Derivation = Field("scrypt", description="'scrypt' or 'direct'")
    audit_chain: AuditChainSection | None = Field(
        None, description="a mapping such as {key: ${CRENEL_AUDIT_KEY}}, {} for a chain without a key, or null for none"
    )
    catalogs: dict[Column, Catalog] = Field(
        {},
        description="options of Flink's CREATE CATALOG by name, such as {lake: {type: paimon, warehouse: "
        "file:///shared/lake}}",
    )
    source: SourceSection = Field(description="a mapping with ddl or table and, where wanted, query")
    sinks: SinksSection = Field(description="a mapping with at least 'released'")
    flink: Options = Field({}, description="settings of Flink by their names, each with one value")
    accept_duplicates: bool = Field(False, description="true or false")
    shape: Literal["flat", "nested"] = Field("flat", description="'flat' or 'nested'")
    epoch: Positive = Field(1, description="a whole number, 1 or more: with another one shards begin anew")
    extensions: Columns = Field((), description="a list of Python modules, such as [my_company.privacy_models]")

    @property
    def chosen(self) -> Algorithm:
        """The algorithm."""
        return known_algorithms()[self.algorithm]

    @property
    def complete_privacy(self) -> Privacy:
        """k, l and further privacy models, and noise within releases."""
        noise = self.noise_within_release
        return replace(self.privacy.core(), noise_within=None if noise is None else noise.core(self.policy.core()))

    @property
    def parameters(self) -> Any:
        """The parameters of the algorithm."""
        section: AlgorithmSection = getattr(self, self.algorithm)
        return section.core()


def file_model(*, job: bool = True) -> type[File]:
    """Return the model of a file with the currently registered algorithms and privacy models.

    ``job``: whether the file describes a job, and not only the settings of a program, without source and sinks.
    """
    registered = known_algorithms(), known_privacy_models()
    if _last_models.get("registered") != registered:  # pydantic takes most of the time of a load to make one
        _last_models.clear()
        _last_models["registered"] = registered
    if job not in _last_models:
        _last_models[job] = _file_model(*registered, job=job)
    return cast(type[File], _last_models[job])


_last_models: dict[Any, Any] = {}
"""The models of a job's and of a program's file, and the algorithms and privacy models that they were made of."""


def _file_model(algorithms: Mapping[str, Algorithm], models: Mapping[str, PrivacyModel], *, job: bool) -> type[File]:
    names = " or ".join(f"'{name}'" for name in algorithms)
    outputs = sorted({output.name for algorithm in algorithms.values() for output in algorithm.outputs})
    further: dict[str, Any] = {name: model_field(model) for name, model in models.items()}
    column: Any = create_model("SensitiveSection", __base__=SensitiveSection, **further)
    of_all = further | {"sensitive": (dict[Column, column], PrivacySection.model_fields["sensitive"])}
    sections = {
        name: (
            Annotated[section_of(algorithm) | None, AfterValidator(_of_the_algorithm)],
            Field(None, description=f"a mapping such as {algorithm.example}", validate_default=True),
        )
        for name, algorithm in algorithms.items()
    }
    head: dict[str, Any] = {
        "privacy": (create_model("PrivacySection", __base__=PrivacySection, **of_all), _Head.model_fields["privacy"]),
        "algorithm": (Literal[tuple(algorithms)], Field("castle", description=names)),
        **sections,
    }
    sinks: dict[str, Any] = dict.fromkeys(outputs, (Sink | None, _DISCARDED))
    tail: dict[str, Any] = {
        "sinks": (create_model("SinksSection", __base__=SinksSection, **sinks), File.model_fields["sinks"])
    }
    if not job:
        tail |= {"source": (SourceSection | None, None), "sinks": (tail["sinks"][0] | None, None)}
    # With several bases, the fields of the last one come first.
    bases: Any = (File, create_model("Head", __base__=_Head, **head))
    return cast(type[File], create_model("File", __base__=bases, **tail))
