"""Verification, attacks and privacy figures within a Python process."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from crenel.anonymity.model.attributes import SEPARATOR
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.fields import DurationLike
from crenel.anonymity.model.values import milliseconds
from crenel.columns import decoded, texts
from crenel.evidence.attack.published_records import attack_outputs
from crenel.evidence.attack.replays import attack_replays
from crenel.evidence.attack.result import AttackResults, Effort, InputNames
from crenel.evidence.budget import Budget, account
from crenel.evidence.outputs import RunOutputs
from crenel.evidence.verify.verdict import Verdict
from crenel.frames import Frame
from crenel.operators.encode.columns import array_texts
from crenel.operators.output_columns import IN_FORCE, RECORD_OUTPUTS
from crenel.operators.plan import joined_schemas, output_schemas
from crenel.results import Result
from crenel.settings import Settings
from crenel.stream import milliseconds_of, read_sample


def verify(result: Result, settings: Settings | Sequence[Settings]) -> Verdict:
    """Check the outputs of a finished anonymization against its settings.

    The checks count persons, values and rows in the tables alone, as ``crenel verify`` does for a job.

    Parameters
    ----------
    result : all outputs of ``anonymize``, or of a stream that has finished
    settings : the settings under which they were made. Of a stream that was restored with others, all of these: each
        release is judged by those that were in force, and ``result`` has the columns of all, null where settings
        publish none

    Returns
    -------
    The outcome of each check. ``outcome`` is ``"holds"``, ``"broken"`` or ``"unchecked"``.

    Raises
    ------
    ValueError
        A table lacks a column, or holds values of another type: it is of other settings.
    ConfigError
        Several settings differ in a field that no restore changes.

    Examples
    --------
    >>> import crenel, pyarrow as pa
    >>> visits = pa.table({"age": [31, 34, 58, 52], "diagnosis": ["flu", "asthma", "flu", "back pain"]})
    >>> settings = crenel.Settings(
    ...     policy=crenel.Policy(quasi_identifiers={"age": crenel.Numeric((0, 110))}, sensitive=["diagnosis"]),
    ...     privacy=crenel.Privacy(k=2, l=2),
    ...     algorithm=crenel.Nearest(crenel.Delay(tuples=100)),
    ...     seed=1,
    ... )
    >>> verdict = crenel.verify(crenel.anonymize(visits, settings), settings)
    >>> verdict.outcome
    'holds'
    >>> [check.name for check in verdict.checks if check.outcome == "broken"]
    []
    """
    from crenel.evidence.verify.verify import verify as verify_outputs
    from crenel.evidence_inputs import guarantees, require_one_run

    given = [settings] if isinstance(settings, Settings) else list(settings)
    named = {f"settings[{place}]": one for place, one in enumerate(given)}
    require_one_run(named)
    return verify_outputs(outputs_of(result, *given), [guarantees(one, name=name) for name, one in named.items()])


def attack(
    data: Any,
    settings: Settings,
    *,
    result: Result | None = None,
    lateness: DurationLike = 0,
    seeds: int = 5,
    targets: int = 1000,
    within_rows: Sequence[int] = (0, 50),
    within_time: Sequence[DurationLike] = ("1 min",),
) -> AttackResults:
    """Estimate the re-identification risk of outputs, for attackers with different knowledge.

    Without ``result``, the data is replayed under the settings. The person behind each published row is then known, so
    the success of each attack is measured.

    Parameters
    ----------
    data : the original records, as for ``anonymize``; a few thousand at least for a useful estimate
    settings : policy, privacy models and algorithm
    result : outputs of ``anonymize`` for all of this data and these settings, to attack in place of replays
    lateness : as for ``anonymize``
    seeds : number of replays, each with its own random choices
    targets : maximum number of target persons in each replay
    within_rows : errors of the attacker's knowledge of arrival order, in records
    within_time : errors of the attacker's knowledge of arrival times

    Returns
    -------
    The success of each attack with its 95 % confidence interval; ``to_arrow()`` returns them as a table.

    Raises
    ------
    AttackError
        Nothing was released, there are too few persons, or the result is of other data.
    ConfigError, TypeError, ValueError
        As ``anonymize``; or fewer than two records are valid.

    Examples
    --------
    >>> import crenel, pyarrow as pa
    >>> visits = pa.table({"age": [20 + i * 7 % 60 for i in range(200)]})
    >>> settings = crenel.Settings(
    ...     policy=crenel.Policy(quasi_identifiers={"age": crenel.Numeric((0, 110))}),
    ...     privacy=crenel.Privacy(k=5),
    ...     algorithm=crenel.Nearest(crenel.Delay(tuples=100)),
    ...     seed=1,
    ... )
    >>> results = crenel.attack(visits, settings, seeds=1)
    >>> results.attacks[0].name, results.attacks[0].promised
    ('re-identification at 1', 0.2)
    """
    effort = Effort(
        seeds=seeds,
        targets=targets,
        within_rows=tuple(within_rows),
        within_time=tuple(map(milliseconds_of, within_time)),
    )
    sample, setting = read_sample(data, settings, lateness=lateness)
    if result is None:
        return attack_replays(sample, setting, effort, names=_NAMES)
    return attack_outputs(
        outputs_of(result, settings),
        sample,
        setting.privacy.k,
        effort,
        exact=setting.sampling_and_noise is None,
        shards=setting.shards,
        names=_NAMES,
    )


_NAMES = InputNames("result.released", "data", "the data of the result")
"""Names of the parameters of ``attack``, for messages."""


def budget(
    settings: Settings, *, epsilons: Sequence[float] | None = None, wanted: tuple[float, float] | None = None
) -> Budget:
    """Return the privacy figures of sampling and noise.

    Parameters
    ----------
    settings : with ``sampling_and_noise``
    epsilons : epsilons to compute delta for; None: a selection
    wanted : (epsilon, delta) to compute the largest sample rate for

    Raises
    ------
    PolicyError
        The settings have no ``sampling_and_noise``.

    Examples
    --------
    >>> import crenel
    >>> settings = crenel.Settings(
    ...     policy=crenel.Policy(quasi_identifiers={"age": crenel.Numeric((0, 110))}),
    ...     privacy=crenel.Privacy(k=10),
    ...     algorithm=crenel.Castle(crenel.Delay(tuples=100)),
    ...     sampling_and_noise=crenel.SamplingAndNoise(sample_rate=0.5, phi=10),
    ... )
    >>> figures = crenel.budget(settings, epsilons=[1.0])
    >>> round(figures.smallest, 3)
    0.693
    >>> figures.to_dict()["noise"][0]["scale"]
    11.0
    """
    if settings.sampling_and_noise is None:
        raise PolicyError("sampling_and_noise: is missing, so there is no budget to account for")
    return account(settings.policy, settings.privacy.k, settings.sampling_and_noise, epsilons, wanted)


def outputs_of(result: Result, settings: Settings, *others: Settings) -> RunOutputs:
    """Return outputs in the types in which those of a job are read back.

    ``others``: further settings of the same stream, whose columns are added.
    """
    schemas = joined_schemas([output_schemas(one, chained=False) for one in (settings, *others)])
    frames = {name: Frame.of(getattr(result, name)) for name in RECORD_OUTPUTS}
    sets = {attribute.name for one in (settings, *others) for attribute in one.policy.sets}
    arrays = {name: most for one in (settings, *others) for name, most in one.policy.arrays.items()}
    kinds = {column.name: column.type for column in frames["released"].schema}
    found = {name: _typed(name, frame, schemas[name], sets, arrays) for name, frame in frames.items()}
    written = {name: Frame.of(table) for name, table in result.further.items()}
    further = {name: _typed(f"further[{name!r}]", frame, schemas[name]) for name, frame in written.items()}
    counts = [
        {"shard": shard, "name": name, "amount": float(amount)}
        for shard, amounts in result.summary.shards.items()
        for name, amount in amounts.items()
    ]
    further["summary"] = pa.Table.from_pylist(counts, _SUMMARY)
    return RunOutputs(
        settings.policy, **found, further=further, read=result.summary.read if counts else None, kinds=kinds
    )


_SUMMARY = pa.schema([("shard", pa.int64()), ("name", pa.string()), ("amount", pa.float64())])
"""Columns of the output ``summary`` of a job, as it is read back."""


def _typed(
    name: str, frame: Frame, schema: pa.Schema, sets: Collection[str] = (), arrays: Collection[str] = ()
) -> pa.Table:
    """Return the columns of a schema of a frame.

    ``sets``: columns of arrays that become texts; ``arrays``: those that become JSON.
    """
    arrow = pa.Table.from_batches(list(frame.batches()), frame.schema)
    columns = []
    for field in schema:
        if field.name not in arrow.column_names and field.name == IN_FORCE.name:  # outputs of an older version
            columns.append(pa.nulls(arrow.num_rows, field.type))
            continue
        if field.name not in arrow.column_names:
            raise ValueError(f"result.{name}: lacks the column {field.name!r}; is it of other settings?")
        try:
            column = decoded(arrow[field.name].combine_chunks())
            if field.name in sets:
                column = pc.binary_join(column.cast(pa.list_(pa.string())), SEPARATOR)
            if field.name in arrays:
                columns.append(array_texts(column.cast(pa.list_(column.type.value_type))))
                continue
            columns.append(_cast(column, field))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, AttributeError):  # a text has no type of elements
            raise ValueError(
                f"result.{name}: the column {field.name!r} is not of type {field.type}; is it of other settings?"
            ) from None
    return pa.table(columns, schema=schema)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    if field.type == pa.string():
        return texts(column)
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        missing = column.is_null().to_numpy(zero_copy_only=False)
        return pa.array(milliseconds(column), pa.int64(), mask=missing).cast(field.type)
    if pa.types.is_decimal(column.type) and field.type == pa.float64():
        column = column.cast(pa.string())  # rounded once, as the encoder reads it; members at an end would be missed
    return column.cast(field.type, safe=field.type != pa.float64())
