"""Plan of an anonymization: what follows from settings and columns for encode, for shards and for outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from math import isclose
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from crenel.anonymity.algorithm import Algorithm, ShardContext
from crenel.anonymity.model.attributes import Numeric, Presence, QuasiIdentifier
from crenel.anonymity.model.errors import ConfigError, PolicyError
from crenel.anonymity.model.fingerprint import fingerprint
from crenel.anonymity.model.policy import SHARD_BY_SUBJECT, Policy, Shards
from crenel.anonymity.model.secret import NO_KEY, SubjectKey
from crenel.operators.column_types import INSTANTS, INTEGERS, ColumnType
from crenel.operators.digests import PlanSettings, in_force_digest
from crenel.operators.encode.arguments import ArgumentCollector
from crenel.operators.encode.columns import Argument, Read, members_schema
from crenel.operators.encode.nested import first_field
from crenel.operators.encode.references import with_codes
from crenel.operators.output_columns import (
    ARROW,
    CHAIN,
    IN_FORCE,
    SUMMARY,
    Generalization,
    OutputColumn,
    member_columns,
    numbers_in_force,
    output_columns,
    release_columns,
)
from crenel.operators.shards.chain import ChainSettings

INTEGER_STEP = 1.0
"""Step of an integer column without a configured step."""

ROW = "\0row"
"""Name of the column with the number of a record; no source has a column of this name."""

_ROLES = "quasi_identifiers, sensitive, noised, passthrough, subject, event_time, reference or drop"
_TEXT = ColumnType("STRING", "STRING")


@dataclass(frozen=True)
class AnonymizationPlan:
    """Arguments of encode, context of shards and columns of outputs; a job ships it to its workers.

    Attributes
    ----------
    context : of all shards; its policy has the steps that follow from the types of columns, its privacy models the
        codes of references
    shards : division of the tuples
    seed : fixes every random choice; None: drawn from the operating system at a shard's first tuple
    subject_key : key of the subject hash, from which pseudonyms are derived too
    types : type of each column with a role, as it is published
    arguments : of encode
    quasi_identifiers, sensitive, noised, passthrough : how they are read, in the order of the policy; a ``Presence`` is
        read as its number
    subject, event_time, reference : how they are read; None where the policy names none
    watermark : the watermark at a record's arrival, missing before the first; None where no setting uses event time
    null_text : text of a missing value in the released output
    keys : (shards,) of a job: the Flink key of each shard, as chosen by ``crenel.operators.shards.keys``
    chain : of the audit log; None where it has none
    encoders : number of parallel encoders
    lines : names of the published columns, where the operator writes published records as JSON; None where it returns
        their values
    in_force : hash of the settings in force, which each release states (``in_force_digest``); empty in a replay
    refuses : whether the operator gives a ``RestoreError`` as a row of its main output, so that the job can end for
        good; otherwise it raises the error, and Flink starts the job again
    """

    context: ShardContext
    shards: Shards = field(default_factory=Shards)
    seed: int | None = None
    subject_key: SubjectKey = NO_KEY
    types: Mapping[str, ColumnType] = field(default_factory=dict)
    arguments: tuple[Argument, ...] = ()
    quasi_identifiers: tuple[Read, ...] = ()
    sensitive: tuple[Read, ...] = ()
    noised: tuple[Read, ...] = ()
    passthrough: tuple[Read, ...] = ()
    subject: Read | None = None
    event_time: Read | None = None
    reference: Read | None = None
    watermark: Read | None = None
    null_text: str = ""
    keys: tuple[int, ...] = ()
    chain: ChainSettings | None = None
    encoders: int = 1
    lines: tuple[str, ...] | None = None
    in_force: str = ""
    refuses: bool = False

    @property
    def policy(self) -> Policy:
        """Roles, domains and hierarchies; with noise steps, where noise is configured."""
        return self.context.policy

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm to run."""
        algorithm: Algorithm = self.context.algorithm
        return algorithm

    @cached_property
    def checked(self) -> tuple[str | None, ...]:
        """The columns for which a record may be rejected, in the order of their validation.

        The first invalid column determines the rejection; ``Rejected.column`` is its index here. Only
        ``Encoder.refuse`` rejects a record for a column of ``passthrough``, or for None: no single column.
        """
        reads = (*self.quasi_identifiers, *self.sensitive, *self.noised, self.subject, self.event_time)
        return (*(read.name for read in (*reads, *self.passthrough) if read is not None), None)

    @property
    def members(self) -> tuple[Read, ...]:
        """The columns that are published with a value per record."""
        return self.sensitive + self.noised + self.passthrough

    @property
    def reads(self) -> tuple[Read, ...]:
        """The form of each column."""
        single = (self.subject, self.event_time, self.reference, self.watermark)
        return (*self.quasi_identifiers, *self.members, *(read for read in single if read is not None))

    @property
    def readable(self) -> AnonymizationPlan:
        """The same plan with sensitive arrays as JSON in the published values, for readers in Python."""
        plan = replace(self, sensitive=tuple(replace(read, packed=None) for read in self.sensitive))
        return replace(plan, context=replace(plan.context, members=members_schema(plan.members)))

    @property
    def divided_by_row(self) -> bool:
        """Whether a tuple's shard depends on its whole content, because the policy names no subject."""
        return self.shards.count > 1 and self.shards.by == SHARD_BY_SUBJECT and self.subject is None

    @cached_property
    def numbers(self) -> Mapping[int, int]:
        """Number of each shard, by its Flink key."""
        return {key: number for number, key in enumerate(self.keys)}

    @cached_property
    def generalization(self) -> Generalization:
        """Published form of the quasi-identifiers."""
        types = {attribute.name: self.types.get(attribute.name, _TEXT) for attribute in self.policy.numeric}
        return Generalization(
            self.policy,
            self.algorithm.has_representative,
            integers=frozenset(name for name, of in types.items() if of.name in (*INTEGERS, *INSTANTS)),
            extremes={name: ends for name, of in types.items() if (ends := of.extremes) is not None},
        )

    @property
    def member_columns(self) -> tuple[OutputColumn, ...]:
        """The published columns with a value per record; the pseudonym comes last."""
        return member_columns(self.policy, self.context.members)

    @property
    def published_members(self) -> pa.Schema:
        """Names and types of ``member_columns``."""
        members, pseudonym = self.context.members, self.policy.pseudonym
        return members if pseudonym is None else members.append(pa.field(pseudonym.column, pa.string()))

    @property
    def values_in_force(self) -> dict[str, str | float | None]:
        """The values in force that each release states, by audit column in order; None where one is not configured."""
        context = self.context
        return {IN_FORCE.name: self.in_force, **numbers_in_force(context.privacy, context.sampling_and_noise)}

    def outputs(self, *, chained: bool) -> dict[str, tuple[OutputColumn, ...]]:
        """Return the columns of each output; ``chained``: whether the audit log has a hash chain."""
        context = self.context
        return output_columns(
            self.generalization,
            self.member_columns,
            context.privacy,
            context.sampling_and_noise,
            self.algorithm,
            chained=chained,
        )

    def release_row(self, *, chained: bool) -> tuple[OutputColumn, ...]:
        """Return the columns of a release in the operator's rows; ``chained`` as of ``outputs``."""
        return (*release_columns(self.policy), *self.generalization.columns, *(CHAIN if chained else ()))


def output_schemas(settings: PlanSettings, *, chained: bool) -> dict[str, pa.Schema]:
    """Return the columns of each output in their order, with types as in ``crenel.evidence.outputs.RunOutputs``.

    Types in a sink depend on those of the source's columns as well.

    Parameters
    ----------
    chained : whether the audit log has a hash chain
    """
    policy, pseudonym = settings.policy, settings.policy.pseudonym
    names = (*policy.members, *(() if pseudonym is None else (pseudonym.column,)))
    outputs = output_columns(
        Generalization(policy, settings.algorithm.has_representative),
        [OutputColumn(name, "", "STRING") for name in names],
        settings.privacy,
        settings.sampling_and_noise,
        settings.algorithm,
        chained=chained,
    )
    outputs["summary"] = SUMMARY
    return {name: pa.schema([(of.name, ARROW[of.kind]) for of in columns]) for name, columns in outputs.items()}


def joined_schemas(schemas: Sequence[Mapping[str, pa.Schema]]) -> dict[str, pa.Schema]:
    """Return the columns of each output under any of several settings, those of the first one first."""
    fields: dict[str, dict[str, pa.Field]] = {}
    for outputs in schemas:
        for name, schema in outputs.items():
            known = fields.setdefault(name, {})
            for field_ in schema:
                if known.setdefault(field_.name, field_).type != field_.type:  # a number that is null elsewhere
                    known[field_.name] = pa.field(field_.name, pa.float64())
    return {name: pa.schema(list(known.values())) for name, known in fields.items()}


def by_row(context: ShardContext, kept: Collection[str]) -> ShardContext:
    """Return a context whose shards hold the number of each record as their last published column.

    ``kept``: columns whose values are looked up by this number, so that shards hold a placeholder for each.
    """
    policy = context.policy
    names = (*policy.sensitive, *policy.noised)
    members = [(name, pa.bool_() if name in kept else context.members.field(name).type) for name in names]
    return replace(
        context, policy=replace(policy, passthrough=(ROW,)), members=pa.schema([*members, (ROW, pa.int64())])
    )


def plan_of(
    settings: PlanSettings,
    columns: Mapping[str, ColumnType],
    *,
    outputs: Collection[str] = (),
    null_text: str = "",
    source: Mapping[str, str] = MappingProxyType({}),
    epoch: int = 1,
) -> tuple[AnonymizationPlan, list[str]]:
    """Return the plan, and problems of the columns: with any, the plan is useless.

    Problems are every column without a role, role without a column, type that its role cannot have, and missing or
    unfit step; without these, each value of a reference distribution that its column cannot have.

    Parameters
    ----------
    columns : type of each column, in order
    outputs : names of the outputs that have a collector
    null_text : text of a missing value in the released output
    source : the query, and the computed columns of the source, for the fingerprint of the state
    epoch : of the shards
    """
    noise, algorithm = settings.sampling_and_noise, settings.algorithm
    policy, stepless = _fill_steps(settings.policy, columns, noise=noise is not None)
    if algorithm.private:
        policy = _with_whole_steps(policy, columns)
    collector = ArgumentCollector(
        {name: columns.get(name) for name in policy.roles},
        neutralized=policy.neutralize_formulas,
        normalization=policy.subject_normalization,
        arrays=policy.arrays,
        generalized=policy.generalized,
    )
    # The type of a column that the source lacks shows nowhere; a label is text, whatever the type of its values is.
    types = {name: columns.get(name, _TEXT) for name in policy.roles} | dict.fromkeys(policy.generalized, _TEXT)
    read = _reads(settings, policy, collector, columns)
    problems = [*_unmatched(policy, columns), *collector.problems, *stepless, *_unfit_ends(policy, columns)]
    privacy = settings.privacy
    members = (*read["sensitive"], *read["noised"], *read["passthrough"])
    if not problems:
        privacy, problems = with_codes(privacy, policy, read["sensitive"], types, settings.subject_key, null_text)
    context = ShardContext(
        policy=policy,
        privacy=privacy,
        algorithm=algorithm,
        members=members_schema(members),
        sampling_and_noise=noise,
        fingerprint=fingerprint(
            policy,
            settings.shards,
            settings.subject_key,
            {each.name: types[each.name].text for each in members},
            algorithm=algorithm.name,
            parameters=algorithm.fixed_settings,
            sampling_and_noise=noise,
            subject_type=None if policy.subject is None else types[policy.subject].text,
            source=source,
            budgeted=algorithm.budgeted(settings.privacy),
            privacy=settings.privacy,
            epoch=epoch,
        ),
        admissions=algorithm.admissions(settings.shards.count),
        logs=algorithm.logs(outputs),
    )
    plan = AnonymizationPlan(
        context=context,
        shards=settings.shards,
        seed=settings.seed,
        subject_key=settings.subject_key,
        types=types,
        arguments=tuple(collector.arguments),
        null_text=null_text,
        in_force=in_force_digest(settings),
        **read,
    )
    return plan, problems


def _reads(
    settings: PlanSettings, policy: Policy, collector: ArgumentCollector, columns: Mapping[str, ColumnType]
) -> dict[str, Any]:
    """Return how each column is read, by the field of the plan; ``collector`` collects arguments and problems."""
    reads: dict[str, Any] = {
        "quasi_identifiers": _quasi_identifiers(policy, collector),
        "sensitive": tuple(collector.member("sensitive", name) for name in policy.sensitive),
        "noised": tuple(collector.noised(attribute) for attribute in policy.noised.values()),
        "passthrough": tuple(collector.member("passthrough", name) for name in policy.passthrough),
        "subject": None if policy.subject is None else collector.subject(policy.subject),
        "event_time": None if policy.event_time is None else collector.event_time(policy.event_time),
        "reference": None if policy.reference is None else collector.reference(policy.reference),
    }
    if policy.event_time is not None:
        timed = [name for name in (policy.event_time, *columns) if name in columns and columns[name].rowtime]
        if timed and (policy.event_time_limit is not None or settings.algorithm.durations):
            reads["watermark"] = collector.watermark(timed[0])
    return reads


def _quasi_identifiers(policy: Policy, collector: ArgumentCollector) -> tuple[Read, ...]:
    """Return how each quasi-identifier is read; the presence of a number is read with the number."""
    found: dict[str, Read] = {}
    for of in policy.attributes:
        found[of.name] = found[of.number] if isinstance(of, Presence) else collector.quasi_identifier(of)
    return tuple(found.values())


def _unmatched(policy: Policy, found: Mapping[str, ColumnType]) -> Iterator[str]:
    """Yield roles whose column the source lacks, and columns of the source without a role.

    A misspelled role is an error of the configuration, so its message suggests the intended column, and that column is
    no problem of its own.
    """
    roles = policy.roles
    spare = [name for name in found if name not in roles]
    intended: set[str] = set()
    for name in (name for name in roles if name not in found):
        role = "quasi_identifiers" if roles[name] == "quasi_identifier" else roles[name]
        lower = {column.lower(): column for column in spare}
        close = [lower[match] for match in get_close_matches(name.lower(), lower, 1)]
        intended.update(close)
        question = f"did you mean {close[0]!r}? It" if close else "it"
        yield f"policy.{role}: the source has no column {name!r}; {question} has {', '.join(found)}"
    for name in spare:
        if name not in intended:
            example = first_field(name, found[name])
            inner = "" if example is None else f", or roles to its fields, such as {example!r}"
            yield f"policy: the source's column {name!r} has no role; give it one of {_ROLES}{inner}"


def repeated(output: str, names: Iterable[str]) -> Iterator[str]:
    """Yield a problem for each name that an output would have twice."""
    for name, times in Counter(names).items():
        if times > 1:
            yield f"sinks.{output}: would have {times} columns {name!r}; rename a column in the source's query or data"


def _fill_steps(policy: Policy, types: Mapping[str, ColumnType], *, noise: bool) -> tuple[Policy, list[str]]:
    """Return the policy with a step for each noised attribute, and problems of configured steps.

    ``types`` are by column; missing columns are skipped. ``noise``: whether quasi-identifiers are noised as well.
    """
    problems: list[str] = []
    if not noise and not policy.noised:
        return policy, problems

    def filled(attribute: Any, because: str) -> Any:
        sql = types.get(attribute.name)
        if sql is None:
            return attribute
        where = f"{attribute.place}.step"
        if attribute.step is not None:
            problems.extend(f"{where}: {problem}" for problem in _unfit(attribute.step, sql))
        elif sql.name in INTEGERS:
            try:
                return replace(attribute, step=INTEGER_STEP)
            except ConfigError as error:
                problems.extend(f"{attribute.place}.{problem}" for problem in error.problems)
        else:
            problems.append(
                f"{where}: is missing; {because} draws noise on a grid, and a column of type {sql.text} "
                "needs one: give the least difference that means something, such as 0.1"
            )
        return attribute

    attributes = {
        name: filled(attribute, "sampling_and_noise") if noise and isinstance(attribute, Numeric) else attribute
        for name, attribute in policy.quasi_identifiers.items()
    }
    noised = {name: filled(attribute, "privacy.noise_within_release") for name, attribute in policy.noised.items()}
    return replace(policy, quasi_identifiers=attributes, noised=noised), problems


def _with_whole_steps(policy: Policy, types: Mapping[str, ColumnType]) -> Policy:
    """Return the policy with the step 1 for attributes of integer columns, at which declared intervals then end."""

    def whole(attribute: QuasiIdentifier) -> QuasiIdentifier:
        sql = types.get(attribute.name)
        if isinstance(attribute, Numeric) and sql is not None and sql.name in INTEGERS:
            with suppress(PolicyError):  # a domain of too many steps: intervals then end at the cuts
                return replace(attribute, step=INTEGER_STEP)
        return attribute

    return replace(policy, quasi_identifiers={name: whole(each) for name, each in policy.quasi_identifiers.items()})


def _unfit_ends(policy: Policy, types: Mapping[str, ColumnType]) -> list[str]:
    """Return problems with the grids of published ends (``Numeric.ends``), given the types by column."""
    problems: list[str] = []
    for attribute in policy.numeric:
        sql = types.get(attribute.name)
        if attribute.ends is not None and sql is not None:
            problems.extend(f"{attribute.place}.ends: {problem}" for problem in _unfit(attribute.ends, sql))
    return problems


def _unfit(step: float, sql: ColumnType) -> list[str]:
    if sql.name in INTEGERS and step != round(step):
        return [f"is not a whole number, and the column's type is {sql.text}; give a whole number, or leave it out"]
    least = sql.unit
    if sql.name in INSTANTS and step % least:
        return [f"is finer than the column's type, {sql.text}; give a multiple of {least} ms, such as 1d"]
    parts = step * 10**sql.scale
    if sql.name == "DECIMAL" and not (round(parts) and isclose(parts, round(parts), rel_tol=1e-9)):
        return [f"is finer than the column's type, {sql.text}; give a multiple of {10**-sql.scale:.15g}"]
    return []
