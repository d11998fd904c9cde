"""Consistency checks across outputs: release ids, row counts, summaries, and settings in force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.model.attributes import Numeric
from crenel.evidence.outputs import RunOutputs
from crenel.evidence.verify.classes import ALONE, ReleasedClasses
from crenel.evidence.verify.verdict import Check, Finding, judged, unseen

_SHOWN = 5


def release_ids(audit: pa.Table, shards: int, first_releases: Mapping[int, int], ends: Mapping[int, int]) -> Check:
    """Check that the release ids of each shard count up from 0, without gaps or duplicates.

    Parameters
    ----------
    first_releases : by shard, the first release of its audit log, where that is not 0
    ends : by shard whose chain has a closing record, the number of releases before that record
    """
    findings: list[Finding] = []
    shard, release = audit["shard"].to_numpy(), audit["release_id"].to_numpy()
    for number in sorted({*shard.tolist(), *ends}):
        if not 0 <= number < shards:
            findings.append(Finding(f"there are {shards} shards, numbered from 0", number))
        ids, times = np.unique(release[shard == number], return_counts=True)
        for twice in ids[times > 1].tolist():
            findings.append(Finding("is there more than once", number, twice))
        if ends.get(number, 0) > ids.max(initial=-1):
            ids = np.append(ids, ends[number])  # a fictive release behind the last one makes a gap at the end visible
        before = np.concatenate([[first_releases.get(number, 0) - 1], ids[:-1]])
        for last, following in zip(before[ids - before > 1].tolist(), ids[ids - before > 1].tolist(), strict=True):
            missing = f"releases {last + 1} to {following - 1} are" if following - last > 2 else "is"
            findings.append(Finding(f"{missing} missing", number, last + 1))
    later = ", ".join(f"{release} of shard {number}" for number, release in sorted(first_releases.items()))
    since = f"; the chain begins with release {later}, and does not cover earlier ones" if first_releases else ""
    words = f"{audit.num_rows:,} releases, none missing between the first of each shard and its last{since}"
    return judged("release ids", words, findings)


def cover(outputs: RunOutputs, audit: pa.Table, classes: ReleasedClasses) -> Check:
    """Check that each generalization has as many released rows as its releases have tuples."""
    tuples = np.zeros(classes.count, np.int64)
    np.add.at(tuples, classes.audit, audit["tuples"].to_numpy())
    rows, findings = classes.rows, list[Finding]()
    wrong = np.flatnonzero(rows != tuples)
    first = (
        {int(number): row for row, number in reversed(list(enumerate(classes.audit.tolist())))} if len(wrong) else {}
    )
    for number in wrong.tolist():
        wrong_rows = np.flatnonzero(classes.released == number)
        if number not in first:
            findings.append(Finding(f"{rows_text(wrong_rows)} of released: no release has their generalization"))
            continue
        release = audit.slice(first[number], 1).to_pylist()[0]
        others = int(classes.releases[number]) - 1
        has = f"and {others} more under its generalization have" if others else "has"
        text = f"{has} {tuples[number]:,} tuples, and there are {rows[number]:,} released rows"
        findings.append(Finding(text, release["shard"], release["release_id"]))
    stated = f"the tuples of {audit.num_rows:,} releases, generalization by generalization"
    words = f"{len(classes.released):,} released rows are {stated}"
    return judged("cover", words, findings)


def rows_text(wrong_rows: NDArray[np.int64]) -> str:
    """Return row numbers as text, counted from 1 in the order in which the sink is read."""
    shown = ", ".join(str(place + 1) for place in wrong_rows[:_SHOWN].tolist())
    more = f" and {len(wrong_rows) - _SHOWN} more" if len(wrong_rows) > _SHOWN else ""
    return f"row{'' if len(wrong_rows) == 1 else 's'} {shown}{more}"


def alone(
    outputs: RunOutputs,
    audit: pa.Table,
    classes: ReleasedClasses,
    first_releases: Mapping[int, int],
    *,
    generalizes: NDArray[np.bool_],
) -> Check:
    """Check that each singleton release reuses an earlier generalization, or is fully generalized.

    Parameters
    ----------
    first_releases : as in ``release_ids``; earlier generalizations of these shards are not in the audit log
    generalizes : (rows of audit,) whether the configuration then published suppressed tuples fully generalized
    """
    findings: list[Finding] = []
    origins: dict[tuple[int, int], list[tuple[int, int, tuple[int | None, ...]]]] = {}
    columns = audit.select(["shard", "release_id", "subjects", "tuples"]).to_pylist()
    diversities = [name for name in audit.column_names if name.startswith("diversity_")]
    diverse = list(zip(*(audit[name].to_pylist() for name in diversities), strict=True)) or [()] * len(columns)
    for row, kind, number, values in zip(columns, classes.kind, classes.audit.tolist(), diverse, strict=True):
        if kind not in ALONE:
            key = row["shard"], number
            origins.setdefault(key, []).append((row["release_id"], row["subjects"], values))
    everybody = _everybody(outputs)
    generalizations = audit.select(list(outputs.generalization)).to_pylist()
    for place, (row, kind) in enumerate(zip(columns, classes.kind, strict=True)):
        if kind not in ALONE:
            continue
        shard, release = row["shard"], row["release_id"]
        if row["tuples"] != 1:
            findings.append(Finding(f"is {kind}, and has {row['tuples']} tuples", shard, release))
        if kind == "generalized":
            if not generalizes[place]:
                findings.append(Finding("is generalized, and the configuration withholds", shard, release))
            if any(generalizations[place][name] != value for name, value in everybody.items()):
                findings.append(
                    Finding("is generalized, and not under the generalization of everybody", shard, release)
                )
            continue
        if shard in first_releases:
            continue
        before = origins.get((shard, int(classes.audit[place])), [])
        if not any(
            number < release and persons == row["subjects"] and _are_same(values, diverse[place])
            for number, persons, values in before
        ):
            text = "is reused, and no release before it has its generalization, subjects and diversity"
            findings.append(Finding(text, shard, release))
    kinds = Counter(classes.kind.tolist())
    reused, generalized = kinds["reused"], kinds["generalized"]
    words = f"{reused:,} rows in singleton releases under earlier generalizations, {generalized:,} fully generalized"
    return judged("alone", words, findings)


def _are_same(before: Sequence[int | None], now: Sequence[int | None]) -> bool:
    """Return whether two releases state the same diversity of each column that both of them publish."""
    return all(None in (one, other) or one == other for one, other in zip(before, now, strict=True))


def _everybody(outputs: RunOutputs) -> dict[str, object]:
    """Return the fully generalized values, by column of the generalization."""
    values: dict[str, object] = {}
    for attribute in outputs.policy.attributes:
        if not isinstance(attribute, Numeric):
            values[attribute.name] = attribute.hierarchy.labels[attribute.hierarchy.root]
        elif attribute.domain is not None and f"{attribute.name}_min" in outputs.generalization:
            for end, value in zip(("min", "max"), attribute.domain, strict=True):
                if float(value).is_integer():
                    values[f"{attribute.name}_{end}"] = float(value)
    return values


def counts(
    outputs: RunOutputs,
    classes: ReleasedClasses,
    *,
    generalizes: bool,
    ended: Mapping[int, Mapping[str, int]],
    resumed: Collection[int] = (),
) -> Check:
    """Check suppressed tuples for duplicates, and all outputs against closing records and the summary.

    Parameters
    ----------
    generalizes : whether suppressed tuples are published, and so are not in ``suppressed``
    ended : by shard whose chain ends with a closing record, the counts in that record
    resumed : shards that have published further releases since their last closing record, and so since their last
        summary
    """
    findings: list[Finding] = []
    words = []
    if outputs.suppressed is not None:
        findings += _suppressed_twice(outputs.suppressed)
        words.append(f"{outputs.suppressed.num_rows:,} tuples suppressed, each once")
    if outputs.rejected is not None:
        words.append(f"{outputs.rejected.num_rows:,} rows rejected")
    for shard, amounts in sorted(ended.items()):
        findings += _unaccounted("the closing record", shard, amounts)
        others = dict.fromkeys(_seen_of(shard, outputs, classes), 0)  # a closing record omits counts of 0
        findings += _against("the closing record", shard, {**others, **amounts}, outputs, classes, generalizes)
    if ended:
        words.append("as many of each as the closing records say")
    summary = outputs.further.get("summary")
    if summary is not None:
        stated = _summarized(summary)
        for shard, sums in sorted(stated.items()):
            if shard not in resumed:
                findings += _against("the summary", shard, sums, outputs, classes, generalizes)
        findings += [Finding("has ended, and is missing in the summary", s) for s in ended if s not in stated]
        if stated:
            words.append("as many of each as the summary says")
    if not words:
        return unseen("counts", "sinks.suppressed, sinks.rejected and sinks.summary are missing")
    return judged("counts", "; ".join(words), findings)


def nothing_lost(outputs: RunOutputs, resumed: Collection[int] = ()) -> Check:
    """Check that each record that was read has been published, suppressed, forgotten, sampled out or rejected.

    ``resumed``: as of ``counts``.
    """
    summary, findings = outputs.further.get("summary"), list[Finding]()
    stated = {} if summary is None else _summarized(summary)
    known = {shard: sums for shard, sums in stated.items() if shard not in resumed and "tuples_in" in sums}
    if outputs.audit is None or outputs.suppressed is None or not known:
        return unseen("nothing lost", "only the sink summary has the number of input rows, at the end of the input")
    for shard, sums in sorted(known.items()):
        findings += _unaccounted("the summary", shard, sums)
    admitted, sampled_out = (
        int(sum(amounts.get(name, 0) for amounts in known.values())) for name in ("tuples_in", "sampled_out")
    )
    words = [f"{admitted:,} admitted tuples, each published, suppressed or forgotten"]
    counted = [amount for amounts in known.values() for name, amount in amounts.items() if name.startswith("rejected.")]
    if outputs.rejected is not None and counted and not resumed:
        rejected, rows = int(sum(counted)), outputs.rejected.num_rows
        words.append(f"{rows:,} rejected rows")
        if rejected != rows:
            findings.append(Finding(f"the summary counts {rejected:,} rejected rows, and there are {rows:,}"))
    if outputs.read is not None:
        ended = admitted + sampled_out + (0 if outputs.rejected is None else outputs.rejected.num_rows)
        words.append(f"{outputs.read:,} records read")
        if outputs.read != ended:
            text = f"{outputs.read:,} records were read, and {ended:,} were admitted, sampled out or rejected"
            findings.append(Finding(text))
    return judged("nothing lost", "; ".join(words), findings)


def _suppressed_twice(suppressed: pa.Table) -> Iterator[Finding]:
    tuples = Counter(zip(suppressed["shard"].to_pylist(), suppressed["position"].to_pylist(), strict=True))
    for (shard, position), times in tuples.items():
        if times > 1:
            yield Finding(f"the tuple at position {position} was suppressed {times} times", shard)


def _summarized(summary: pa.Table) -> dict[int, dict[str, float]]:
    """Return amounts by shard and name; of several job ends the last counts, because no counter decreases."""
    by_shard: dict[int, dict[str, float]] = {}
    for row in summary.to_pylist():
        amounts = by_shard.setdefault(row["shard"], {})
        amounts[row["name"]] = max(amounts.get(row["name"], row["amount"]), row["amount"])
    return by_shard


def _unaccounted(who: str, shard: int, amounts: Mapping[str, float]) -> Iterator[Finding]:
    """Yield a finding where a record counts tuples that were neither published, suppressed nor forgotten."""
    suppressed = sum(amount for name, amount in amounts.items() if name.startswith("suppressed."))
    published = amounts.get("released", 0) - amounts.get("releases.generalized", 0)
    published -= amounts.get("synthetic", 0)  # no tuple stands for these
    came, ended = amounts.get("tuples_in", 0), published + suppressed + amounts.get("forgotten", 0)
    if came != ended:
        text = f"{who} counts {came:,.0f} admitted tuples, and {ended:,.0f} that were decided"
        yield Finding(text, shard)


def _against(
    who: str, shard: int, amounts: Mapping[str, float], outputs: RunOutputs, classes: ReleasedClasses, generalizes: bool
) -> Iterator[Finding]:
    """Yield a finding for each count of a shard that its outputs contradict."""
    there = {"releases": outputs.audit, "released": outputs.audit, "suppressed": outputs.suppressed}
    seen = _seen_of(shard, outputs, classes)
    if generalizes:  # fully generalized tuples are in audit, and no output holds their reasons
        reasons = sum(amount for name, amount in amounts.items() if name.startswith("suppressed."))
        amounts = {name: amount for name, amount in amounts.items() if not name.startswith("suppressed.")}
        alone = seen["releases.generalized"]
        withheld = sum(times for name, times in seen.items() if name.startswith("suppressed."))
        if outputs.audit is not None and alone + withheld != reasons:
            others = f", and {withheld:,} in suppressed" if withheld else ""
            yield Finding(f"{who} counts {reasons:,.0f} suppressed, and {alone:,} are fully generalized{others}", shard)
    for name, amount in amounts.items():
        if there.get(name.partition(".")[0]) is not None and seen[name] != amount:
            yield Finding(f"{who} counts {amount:,.0f} of {name}, and there are {seen[name]:,}", shard)


def _seen_of(shard: int, outputs: RunOutputs, classes: ReleasedClasses) -> Counter[str]:
    """Count the outputs of a shard, under the names of the summary."""
    seen: Counter[str] = Counter()
    if outputs.audit is not None:
        in_shard = outputs.audit["shard"].to_numpy() == shard
        seen.update(f"releases.{kind}" for kind in classes.kind[in_shard].tolist())
        seen["released"] = int(outputs.audit["tuples"].to_numpy()[in_shard].sum())
    if outputs.suppressed is not None:
        in_shard = outputs.suppressed["shard"].to_numpy() == shard
        reasons = np.array(outputs.suppressed["reason"].to_pylist(), object)[in_shard]
        seen.update(f"suppressed.{reason}" for reason in reasons.tolist())
    return seen
