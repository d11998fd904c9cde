"""Utility of published forms: count queries, means of subgroups and classification, beside those of raw rows.

A second table has the loss where records without a number are rejected, and where they are kept.

Every form publishes the same classes of the same rows, so differences are those of the form alone. The recipient takes
the middle of an interval, and spreads a row evenly over the values that its label or set allows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

import crenel
from benchmarks.adult import CATEGORICAL, DATA, NUMERIC, frame
from benchmarks.measure import Table
from crenel.anonymity.model.attributes import MAYBE, Presence
from crenel.anonymity.model.policy import Policy
from crenel.assessment import outputs_of
from crenel.evidence.attack.attack_data import Scene, groups
from crenel.evidence.attack.queries import errors
from crenel.evidence.losses import covered
from crenel.evidence.outputs import RunOutputs, ends
from crenel.evidence.published_sets import PublishedSets
from crenel.stream import read_sample

_KS = (10, 50)
_DELAY = 1000
_QUERIES = 500
_SHARES = (0.05, 0.2, 0.5)
"""Shares of records that lack a number."""

_LABEL = "income"
_TESTED = 0.3
"""Share of the rows that are not published, and on which a trained classifier is tested."""

_LEAST = 100
"""Minimum number of rows of a subgroup whose means are compared."""

_FORMS: dict[str, tuple[Literal["interval", "mean", "median"], Literal["ancestor", "set", "mode"]]] = {
    "intervals, ancestors": ("interval", "ancestor"),
    "intervals, sets": ("interval", "set"),
    "means, ancestors": ("mean", "ancestor"),
    "means, sets": ("mean", "set"),
    "medians, modes": ("median", "mode"),
}


@dataclass(frozen=True)
class _Rows:
    """Rows as a recipient uses them.

    Attributes
    ----------
    numbers : (rows, numeric attributes)
    shares : by categorical attribute, (rows, values) share of each value in each row
    label : (rows,) whether the income is above 50,000
    """

    numbers: NDArray[np.float64]
    shares: dict[str, NDArray[np.float64]]
    label: NDArray[np.bool_]

    @property
    def features(self) -> NDArray[np.float64]:
        return np.column_stack([self.numbers, *self.shares.values()])


def _settings(rows: pd.DataFrame, k: int, form: str) -> crenel.Settings:
    number, category = _FORMS[form]
    attributes: dict[str, crenel.Numeric | crenel.Categorical] = {
        name: crenel.Numeric((float(rows[name].min()), float(rows[name].max())), publish=number) for name in NUMERIC
    }
    attributes |= {name: crenel.Categorical(DATA / f"hierarchy_{name}.csv", publish=category) for name in CATEGORICAL}
    return crenel.Settings(
        policy=crenel.Policy(quasi_identifiers=attributes, sensitive=[_LABEL]),
        privacy=crenel.Privacy(k=k),
        algorithm=crenel.Nearest(crenel.Delay(tuples=_DELAY)),
        seed=0,
    )


def _used(policy: Policy, table: pa.Table) -> _Rows:
    """Return published or raw rows as a recipient uses them."""
    numbers = []
    for attribute in policy.numeric:
        names = [name for name in (f"{attribute.name}_min", f"{attribute.name}_max") if name in table.column_names]
        ends = [table[name].to_numpy().astype(np.float64) for name in names or [attribute.name]]
        numbers.append(sum(ends) / len(ends))
    shares = {}
    for category in policy.categorical:
        sets = PublishedSets.read(category, table[category.name])
        each = np.zeros((len(sets.size), category.hierarchy.leaves))
        each[np.repeat(np.arange(len(sets.size)), sets.size), sets.leaves] = np.repeat(1 / sets.size, sets.size)
        shares[category.name] = each[sets.set_of_row]
    label = np.array(table[_LABEL].to_pylist(), object) == ">50K"
    return _Rows(np.column_stack(numbers), shares, label)


def _means_error(raw: _Rows, published: _Rows) -> float:
    """Return the mean error of means of numbers in subgroups, in standard deviations of the number.

    A subgroup is the rows of one category or of one income. Rows count by the share of the category.
    """
    found = []
    scale = raw.numbers.std(axis=0)
    pairs = [(raw.shares[name], published.shares[name]) for name in raw.shares]
    pairs.append(tuple(np.column_stack([of.label, ~of.label]).astype(np.float64) for of in (raw, published)))  # type: ignore[arg-type]
    for true, shown in pairs:
        chosen = (true.sum(axis=0) >= _LEAST) & (shown.sum(axis=0) > 0)
        was, now = (
            (share.T @ of.numbers)[chosen] / share.sum(axis=0)[chosen, None]
            for of, share in ((raw, true), (published, shown))
        )
        found.append(np.abs(was - now) / scale)
    return float(np.concatenate(found).mean())


def _scores(trained: _Rows, tested: _Rows) -> tuple[str, str]:
    """Return accuracy and AUC of a logistic regression, trained on published rows and tested on raw ones."""
    if find_spec("sklearn") is None:  # of the extra ``experiments``
        return "-", "-"
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    made: Any = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    made.fit(trained.features, trained.label)
    chance = made.predict_proba(tested.features)[:, 1]
    return f"{made.score(tested.features, tested.label):.3f}", f"{roc_auc_score(tested.label, chance):.3f}"


def _loss(outputs: RunOutputs) -> str:
    audit = outputs.audit
    if audit is None:
        raise ValueError("a result of the library has an audit log")
    name = "published_loss" if "published_loss" in audit.column_names else "loss"
    return f"{np.average(audit[name].to_numpy(), weights=audit['tuples'].to_numpy()):.3f}"


def utility_table() -> Table:
    """Tabulate the utility of each published form, by k."""
    table = Table(
        f"Utility of published forms (Adult, ten quasi-identifiers, nearest, delay {_DELAY:,})",
        ["k", "published", "loss", "query error, median", "error of means", "accuracy", "AUC"],
    )
    rows = frame()
    order = np.random.default_rng(0).permutation(len(rows))
    cut = int(len(rows) * (1 - _TESTED))
    columns = [*NUMERIC, *CATEGORICAL, _LABEL]
    data, unseen = (
        pa.Table.from_pandas(rows.iloc[part][columns], preserve_index=False) for part in (order[:cut], order[cut:])
    )
    policy = _settings(rows, _KS[0], "intervals, ancestors").policy
    raw, tested = _used(policy, data), _used(policy, unseen)
    table.add("", "raw", "0.000", "0.000", "0.000", *_scores(raw, tested))
    for k in _KS:
        for form in _FORMS:
            settings = _settings(rows, k, form)
            outputs = outputs_of(crenel.anonymize(data, settings), settings)
            scene = Scene.of(outputs, read_sample(data, settings)[0])
            wrong = errors(scene, groups(scene), np.random.default_rng(0), _QUERIES)
            used = _used(policy, outputs.released)
            shown = f"{_means_error(raw, used):.3f}"
            # A representative has no InfoLoss.
            loss = _loss(outputs) if _FORMS[form][0] == "interval" else "-"
            table.add(k, form, loss, f"{np.median(wrong):.3f}", shown, *_scores(used, tested))
    return table


def _loss_of_ten(outputs: RunOutputs) -> float:
    """Return the mean loss of the ten attributes; a number that only some records of a class have loses all of it."""
    audit, policy, found = outputs.audit, outputs.policy, []
    if audit is None:
        raise ValueError("a result of the library has an audit log")
    for number in policy.numeric:
        lost = covered(*ends(number, audit), number.domain or (0.0, 0.0))
        if number.missing == "value":
            lost = np.where(np.array(audit[f"{number.name}_missing"].to_pylist(), object) == MAYBE, 1.0, lost)
        found.append(lost)
    for category in policy.categorical:
        if not isinstance(category, Presence):
            node = {label: number for number, label in enumerate(category.hierarchy.labels)}
            found.append(category.hierarchy.loss[[node[label] for label in audit[category.name].to_pylist()]])
    return float(np.average(np.mean(found, axis=0), weights=audit["tuples"].to_numpy()))


def missing_table() -> Table:
    """Tabulate the loss where records without a number are rejected, and where they are kept."""
    table = Table(
        f"Missing numbers, rejected and kept (Adult, ten quasi-identifiers, nearest, k = {_KS[0]}, delay {_DELAY:,})",
        ["missing", "of", "records without it", "published", "loss as stated", "loss of the ten", "unpublished as 1"],
    )
    rows, random = frame(), np.random.default_rng(0)
    whole = pa.Table.from_pandas(rows[[*NUMERIC, *CATEGORICAL, _LABEL]], preserve_index=False)
    for share in (0.0, *_SHARES):
        for some in (NUMERIC[:1], NUMERIC) if share else ((),):
            data = whole
            for name in some:
                column = pa.array(rows[name], mask=random.random(len(rows)) < share)
                data = data.set_column(data.column_names.index(name), name, column)
            for missing in ("reject", "value") if share else ("reject",):
                settings = _settings(rows, _KS[0], "intervals, ancestors")
                attributes: dict[str, Any] = dict(settings.policy.quasi_identifiers)
                attributes |= {name: replace(attributes[name], missing=missing) for name in some}
                settings = replace(settings, policy=replace(settings.policy, quasi_identifiers=attributes))
                outputs = outputs_of(crenel.anonymize(data, settings), settings)
                published, lost = outputs.released.num_rows / len(rows), _loss_of_ten(outputs)
                of = {0: "-", 1: NUMERIC[0]}.get(len(some), "each of six numbers")
                rest = f"{1 - published * (1 - lost):.3f}"
                kept = {"reject": "rejected", "value": "kept"}[missing] if share else "-"
                table.add(f"{share:.0%}", of, kept, f"{published:.1%}", _loss(outputs), f"{lost:.3f}", rest)
    return table


def tables() -> Iterator[Table]:
    """Yield all tables of this file."""
    yield utility_table()
    yield missing_table()
