"""Verification of the hash chain of the audit log, recomputed from the rows that its sink wrote.

"The chain" in ``docs/reference/evidence/verify.md`` specifies the hashed content. This module implements that text,
independently of the code that writes the chain.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from typing import Any, TypeAlias
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.evidence.outputs import RunOutputs
from crenel.evidence.verify.classes import ReleasedClasses
from crenel.evidence.verify.verdict import Check, Finding, Head, judged, unchecked, unseen

_TIME = re.compile(r"(?:([0-9]{4,}-[0-9]{2}-[0-9]{2})[ T])?([0-9]{2}:[0-9]{2})(:[0-9]{2})?(\.[0-9]+)?Z?")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NAMED = 3
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")
_LONGEST = 400
"""Maximum number of digits of a number; a longer one, such as 1E+999999999, remains a text."""

_RUN = "run."
"""Start of the name by which a summary states the run."""

Digest: TypeAlias = Callable[[bytes], bytes]
"""The hash function of the chain."""


@dataclass(frozen=True)
class Chained:
    """The chain settings of a configuration.

    Attributes
    ----------
    key : of the HMAC; empty: the chain has none
    policy, hierarchies, settings : hashes, as the first row after each start states them
    """

    key: bytes
    policy: str
    hierarchies: str
    settings: str


@dataclass(frozen=True)
class Entry:
    """A row of a chained audit log: a release, or a closing record.

    Attributes
    ----------
    release : its id; of a closing record the id of the release that would follow
    closing : whether it is a closing record
    start : number of the shard's start after which it was written
    event_time : of the newest member, epoch milliseconds
    members : the sum of the hashes of the members; of a closing record its counts
    link : its ``chain``
    content : the bytes that are hashed together with the preceding link
    digest : the hash function
    """

    release: int
    closing: bool
    start: int
    event_time: int | None
    members: str
    link: str
    content: bytes
    digest: Digest

    @property
    def place(self) -> tuple[int, bool, int]:
        """Return the position in the shard; closing records precede the release of the same id, ordered by start."""
        return self.release, not self.closing, self.start if self.closing else 0

    def may_follow(self, before: Entry) -> bool:
        """Return whether this entry may directly follow another one, judged by their ids."""
        return before.release == (self.release if before.closing else self.release - 1)

    def is_behind(self, links: Collection[str]) -> bool:
        """Return whether the hash matches the content of this entry chained to one of the given links."""
        return any(self.digest(b"release" + _field(link) + self.content).hex() == self.link for link in links)


@dataclass(frozen=True)
class ChainedRows:
    """Rows of ``audit`` that were written under one configuration.

    Attributes
    ----------
    table : the rows
    closing : whether they are closing records
    columns : of the configuration, in their order
    key : of its chain; empty: the chain has none
    """

    table: pa.Table
    closing: bool
    columns: Sequence[str]
    key: bytes


@dataclass(frozen=True)
class ChainSpan:
    """The releases under one configuration, and the form of their members.

    Attributes
    ----------
    chained : settings of the chain
    columns : of ``released`` behind the generalization
    own : (rows of audit,) whether the release is under this configuration
    """

    chained: Chained
    columns: Sequence[str]
    own: NDArray[np.bool_]


Log: TypeAlias = Mapping[int, Sequence[Entry]]
"""By shard, the entries of its chain, in the order in which they were written."""


def read(parts: Sequence[ChainedRows]) -> Log:
    """Return the entries of an audit log, whose rows are given by the configuration that they were written under."""
    by_shard: dict[int, list[Entry]] = {}
    names = ("shard", "release_id", "chain_start", "event_time", "chain_members", "chain")
    forms = _forms([part.table for part in parts])
    for part in parts:
        columns, contents, digest = (
            (part.table[name].to_pylist() for name in names),
            _contents(part.table, forms, part.columns),
            _hasher(part.key),
        )
        for shard, release, start, time, members, link, content in zip(*columns, contents, strict=True):
            entry = Entry(release, part.closing, start or 0, time, members or "", link or "", content, digest)
            by_shard.setdefault(shard, []).append(entry)
    return {shard: sorted(entries, key=lambda entry: entry.place) for shard, entries in sorted(by_shard.items())}


def _forms(tables: Iterable[pa.Table]) -> Mapping[str, str]:
    """Return the form in which each published column is hashed, as most starts of a shard state it.

    A restore may add and remove columns. A row that states another form of a column was altered, and its hash reveals
    the alteration.
    """
    stated = Counter(text for table in tables for text in table["chain_forms"].to_pylist() if text)
    return {name: form for text, _ in reversed(stated.most_common()) for name, form in _pairs(text)}


def _contents(audit: pa.Table, forms: Mapping[str, str], columns: Sequence[str]) -> Iterator[bytes]:
    """Yield the hashed content of each row, without its own link."""
    texts = (
        [_text(value, single=forms.get(name) == "float") for value in audit[name].to_pylist()]
        for name in columns
        if name != "chain"
    )
    return (b"".join(map(_field, row)) for row in zip(*texts, strict=True))


def follow(
    outputs: RunOutputs, audit: pa.Table, classes: ReleasedClasses, log: Log, members: Sequence[ChainSpan]
) -> Iterator[Check]:
    """Check that the rows of the audit log, and their members, are those that the job wrote, in that order.

    ``members``: of each configuration.
    """
    first_releases, findings, judgments = beginnings(log), list[Finding](), 0
    for shard, entries in log.items():
        last: list[Entry] = []
        for _, group in groupby(entries, key=lambda entry: entry.place):
            same = list(group)
            begins = not last and same[0].release == first_releases.get(shard, 0)
            if begins or (last and same[0].may_follow(last[0])):
                before = [""] if begins else [entry.link for entry in last]
                judgments += len(same)
                findings += [_changed(shard, entry) for entry in same if not entry.is_behind(before)]
            else:
                findings.append(Finding("is gone: the next one is chained to it", shard, same[0].release - 1))
            last = same
    if judgments > 1 and sum("changed" in finding.text for finding in findings) == judgments:
        findings = [Finding("no release fits the chain: audit_chain.key is another, or all of them were rewritten")]
    releases = sum(not entry.closing for entries in log.values() for entry in entries)
    keyed = [one for one in members if one.chained.key]
    how = "with the key"
    if len(keyed) < len(members):
        how = f"{'in part ' if keyed else ''}without a key, so that anyone with write access can rewrite it"
    yield judged("chain", f"{releases:,} releases, each unchanged behind its predecessor, {how}", findings)
    yield _starts(_tables(outputs, audit), [one.chained for one in members])
    if keyed:
        yield _values(outputs, audit, classes, keyed)
    else:
        yield unseen("values", "without audit_chain.key the audit log does not cover the values of members")


def _tables(outputs: RunOutputs, audit: pa.Table) -> list[pa.Table]:
    """Return the releases, and the closing records if there are any."""
    return [audit] if outputs.closing is None else [audit, outputs.closing]


def _changed(shard: int, entry: Entry) -> Finding:
    text = "was changed or added, or is not behind its original predecessor"
    if not entry.closing:
        return Finding(text, shard, entry.release)
    return Finding(f"the closing record behind {entry.release:,} releases {text}", shard)


def beginnings(log: Log) -> dict[int, int]:
    """Return by shard the release above 0 with which its chain begins; omit chains that begin with release 0.

    A job that resumes from a savepoint may introduce a chain. Only the first release in the log can begin a chain, and
    only where its hash has no preceding link.
    """
    firsts = {shard: first for shard, (first, *_) in log.items()}
    return {s: first.release for s, first in firsts.items() if first.release > 0 and first.is_behind([""])}


def end(log: Log, shards: int, *, runs_on: bool) -> Check:
    """Check that the chain of each shard ends with a closing record, which each end of the input writes.

    ``runs_on``: whether the job is known to run on, or to have been stopped with a savepoint; the chain then has no
    end.
    """
    closed = {shard for shard, entries in log.items() if any(entry.closing for entry in entries)}
    ends = heads(log)
    unclosed = [head for head in ends if not head.closing]
    lacking = [shard for shard in range(shards) if shard not in closed] if closed else []
    if lacking or (closed and not unclosed):
        releases = sum(head.release for head in ends if head.closing)
        words = f"each of {shards} shards has its closing record, behind {releases:,} releases in all"
        text = "has no closing record, and other shards have one: its end is gone"
        return judged("end", words, [Finding(text, shard) for shard in lacking])
    times = [f" (event time {head.minute})" if head.minute else "" for head in unclosed]
    reached = [f"release {h.release} of shard {h.shard}{time}" for h, time in zip(unclosed, times, strict=True)]
    more = f" and {len(reached) - _NAMED} shards more (--json lists all)" if len(reached) > _NAMED else ""
    where = f"it reaches up to {', '.join(reached[:_NAMED])}{more}" if reached else "it holds no release"
    why = "the job went on after an end, and has not ended again" if closed else "the run has not ended"
    words = f"the chain has no closing record at its end: {why}, or the end is gone; {where}"
    return unseen("end", words) if runs_on else unchecked("end", words)


def heads(log: Log) -> tuple[Head, ...]:
    """Return the last entry of each shard's chain."""
    lasts = {shard: last for shard, (*_, last) in log.items()}
    return tuple(Head(s, last.release, last.link, last.closing, last.event_time) for s, last in lasts.items())


def ends(log: Log) -> dict[int, int]:
    """Return by shard the number of releases before its last closing record; omit shards without one."""
    return {shard: e.release for shard, entries in log.items() for e in entries if e.closing}


def closing_counts(log: Log) -> dict[int, dict[str, int]]:
    """Return the counts of each closing record that ends a shard's chain, by shard and name.

    Unreadable counts were altered, and ``follow`` reports the alteration.
    """
    return {shard: _counts(last.members) for shard, (*_, last) in log.items() if last.closing}


def _counts(text: str) -> dict[str, int]:
    return {name: int(count) for name, count in _pairs(text) if count.isascii() and count.isdecimal()}


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names and amounts of a text of pairs."""
    for pair in text.split(" "):
        name, _, amount = pair.rpartition("=")
        yield unquote(name), amount


def still_there(log: Log, earlier: Sequence[Head]) -> Check:
    """Check that the chain of each shard still contains an earlier recorded end."""
    links = {(shard, e.release, e.closing): e.link for shard, entries in log.items() for e in entries}
    known = {(shard, e.closing, e.link) for shard, entries in log.items() for e in entries}
    findings = []
    for head in earlier:
        if (head.shard, head.closing, head.chain) not in known:
            there = (head.shard, head.release, head.closing) in links
            text = "existed earlier, with another chain" if there else "existed earlier, and is gone"
            if head.closing:
                findings.append(Finding(f"the closing record behind {head.release:,} releases {text}", head.shard))
            else:
                findings.append(Finding(text, head.shard, head.release))
    return judged("since", f"the earlier last releases of {len(earlier)} shards still exist", findings)


def of_run(tables: Sequence[pa.Table], summary: pa.Table | None, *, has_key: bool, run: str | None) -> Check:
    """Check that all shards, and the summary, are of one run.

    Parameters
    ----------
    tables : rows of ``audit`` with a chain
    run : identity of the run to require; None: any one
    """
    names = ("shard", "release_id", "chain_start", "chain_version", "chain_run")
    starts = [row for table in tables for row in table.select(names).to_pylist()]
    starts = [row for row in starts if row["chain_version"] is not None or row["chain_run"] is not None]
    stated = Counter(row["chain_run"] or "" for row in starts)
    if not stated:
        return unchecked("run", "no row of audit states a run")
    expected = stated.most_common(1)[0][0] if run is None else run
    findings = [
        Finding(f"start {row['chain_start']} is of another run than {expected}", row["shard"], row["release_id"])
        for row in starts
        if (row["chain_run"] or "") != expected
    ]
    shards = {shard for table in tables for shard in table["shard"].to_pylist()}
    findings += [Finding("no row states a run", shard) for shard in sorted(shards - {row["shard"] for row in starts})]
    for row in () if summary is None else summary.to_pylist():
        if row["name"].startswith(_RUN) and row["name"] != f"{_RUN}{expected}":
            findings.append(Finding(f"the summary is of another run than {expected}", row["shard"]))
    how = "" if has_key else ", without a key, so that anyone with write access can state any run"
    if run is not None or findings:
        return judged("run", f"all shards are of the run {expected}{how}", findings)
    return unseen("run", f"all shards are of the run {expected}{how}; --run requires the run that you expect")


def _starts(tables: Sequence[pa.Table], given: Sequence[Chained]) -> Check:
    """Check that each start was under the policy and the hierarchies of one configuration, and list the code versions.

    A restore may change settings, and columns that are published unchanged.
    """
    names = ("shard", "release_id", "chain_start", "chain_version", "chain_policy", "chain_hierarchies")
    findings: list[Finding] = []
    versions: Counter[str] = Counter()
    whose = "this configuration's" if len(given) == 1 else "those of the configurations"
    known = {"policy": {one.policy for one in given}, "hierarchies": {one.hierarchies for one in given}}
    for row in (row for table in tables for row in table.select(names).to_pylist()):
        if row["chain_version"] is None:
            continue
        versions[row["chain_version"]] += 1
        for what, digests in known.items():
            if row[f"chain_{what}"] not in digests:
                text = f"start {row['chain_start']} was under another {what} than {whose}"
                findings.append(Finding(text, row["shard"], row["release_id"]))
    settings = Counter(text for table in tables for text in table["chain_settings"].drop_null().to_pylist())
    known_settings = {one.settings for one in given}
    if settings and not settings.keys() & known_settings:
        this = "this configuration" if len(given) == 1 else "one of these configurations"
        findings.append(Finding(f"no start was under the privacy models, algorithm and parameters of {this}"))
    others = settings.total() - sum(settings[text] for text in known_settings)
    earlier = f"; {others} starts were under other settings, which a restore may change" if others else ""
    listed = ", ".join(f"{version} ({times} shards begun or restored)" for version, times in versions.items())
    policies = "this policy" if len(given) == 1 else "these policies"
    words = f"under {policies} and these hierarchies, by {listed or 'no code version'}{earlier}"
    return judged("starts", words, findings)


def _values(outputs: RunOutputs, audit: pa.Table, classes: ReleasedClasses, members: Sequence[ChainSpan]) -> Check:
    """Check that the values under each generalization are those that its releases had."""
    forms = _forms(_tables(outputs, audit))
    kinds = {(tuple(one.columns), one.chained.key): one.chained for one in members}
    kind_of = np.full(audit.num_rows, -1)
    for one in members:
        kind_of[one.own] = [*kinds].index((tuple(one.columns), one.chained.key))
    kind_of_row, known = _kinds_of_rows(outputs, audit, classes, [columns for columns, _ in kinds], kind_of)
    sums = [0] * classes.count
    for kind, ((names, _), chained) in enumerate(kinds.items()):
        own = np.flatnonzero((kind_of_row == kind) & known[classes.released])
        table, digest = outputs.released.take(own), _hasher(chained.key)
        columns = [
            [_field(_published(value or "", forms.get(name, "text"))) for value in table[name].to_pylist()]
            for name in names
        ]
        rows = [b"".join(row) for row in zip(*columns, strict=True)] if names else [b""] * len(own)
        for number, row in zip(classes.released[own].tolist(), rows, strict=True):
            sums[number] += int.from_bytes(digest(b"member" + row)[:16], "big")
    stated = [0] * classes.count
    releases_of: dict[int, list[int]] = {}
    members_of = zip(classes.audit.tolist(), audit["chain_members"].to_pylist(), strict=True)
    for place, (number, hashes) in enumerate(members_of):
        if known[number]:
            stated[number] += int(hashes or "0", 16)
            releases_of.setdefault(number, []).append(place)
    findings = []
    for number, releases in releases_of.items():
        if (sums[number] - stated[number]) % 2**128:
            named = audit.take(releases[:_NAMED]).to_pylist()
            others = [f"{row['release_id']} of shard {row['shard']}" for row in named[1:]]
            more = f" and {len(releases) - len(named)} more" if len(releases) > len(named) else ""
            alike = f", or under one with its generalization ({', '.join(others)}{more})," if others else ""
            text = f"released rows differ in values from the members of this release{alike}"
            findings.append(Finding(text.rstrip(","), named[0]["shard"], named[0]["release_id"]))
    rest = int((~known)[classes.released].sum())
    why = "their releases have no key, or are of several configurations and the rows do not show which"
    mixed = f"; {rest:,} rows were not judged: {why}" if rest else ""
    words = f"of {len(classes.released) - rest:,} released rows are unchanged, generalization by generalization"
    return judged("values", words + mixed, findings)


def _kinds_of_rows(
    outputs: RunOutputs,
    audit: pa.Table,
    classes: ReleasedClasses,
    columns: Sequence[Sequence[str]],
    kind_of: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the form of each released row, and whether it is certain, by generalization.

    A generalization has rows of two forms where releases before and after a restore share it, and columns have changed
    between them. Files show the form of each row. Other sinks have nulls in place of missing columns: there a row has
    the form with the fewest columns that holds all of its values, if as many rows have it as its releases have tuples.

    Parameters
    ----------
    columns : of each form, behind the generalization
    kind_of : (rows of audit,) form of the members of each release; -1: unknown

    Returns
    -------
    kind_of_row : (rows of released,) -1 for a row with columns or values that its releases do not have
    known : (generalizations,)
    """
    expected = np.zeros((len(columns), classes.count), np.int64)
    tuples, has_kind, released = audit["tuples"].to_numpy(), kind_of >= 0, outputs.released
    np.add.at(expected, (kind_of[has_kind], classes.audit[has_kind]), tuples[has_kind])
    unknown = np.bincount(classes.audit[~has_kind], minlength=classes.count) > 0
    if len(columns) == 1:
        return np.zeros(len(classes.released), np.int64), ~unknown
    kind_of_row = np.full(len(classes.released), -1)
    present = expected[:, classes.released] > 0
    every = {name for names in columns for name in names}
    has_value = {name: released[name].is_valid().to_numpy() for name in every}
    form_of_row, is_shown = _forms_of_rows(outputs)
    for kind in sorted(range(len(columns)), key=lambda kind: -len(columns[kind])):
        fits = present[kind] & (~is_shown | (form_of_row == "\n".join(columns[kind])))
        for name in every - {*columns[kind]}:
            fits &= ~has_value[name]
        kind_of_row[fits] = kind
    fit = kind_of_row >= 0
    counted = np.zeros_like(expected)
    np.add.at(counted, (kind_of_row[fit], classes.released[fit]), 1)
    several = (expected > 0).sum(0) > 1
    all_shown = np.bincount(classes.released[~is_shown], minlength=classes.count) == 0
    return kind_of_row, ~unknown & (~several | all_shown | (counted == expected).all(0))


def _forms_of_rows(outputs: RunOutputs) -> tuple[NDArray[np.object_], NDArray[np.bool_]]:
    """Return (rows of released,) the columns of each row behind the generalization as text, and whether they show."""
    forms: Sequence[str | None] = outputs.forms or [None] * outputs.released.num_rows
    generalization = {*outputs.generalization}
    behind = {
        form: "\n".join(name for name in (form or "").split("\n") if name not in generalization) for form in set(forms)
    }
    shown = np.array([form is not None for form in forms], np.bool_)
    return np.array([behind[form] for form in forms], object), shown


def _hasher(key: bytes) -> Digest:
    return (lambda content: hmac.digest(key, content, "sha256")) if key else lambda c: hashlib.sha256(c).digest()


def _field(text: str) -> bytes:
    content = text.encode()
    return str(len(content)).encode() + b":" + content


def _published(text: str, form: str) -> str:
    """Return a released value in the form in which it is hashed."""
    if form == "time" and (time := _TIME.fullmatch(text)) is not None:
        day, minute, second, fraction = time.groups()
        shown = (fraction or "").rstrip("0")
        clock = f"{minute}{second or ':00'}{shown if shown != '.' else ''}"
        return clock if day is None else f"{day} {clock}"
    if form == "decimal" and _NUMBER.fullmatch(text) is not None:
        number = Decimal(text)
        if len(text) <= _LONGEST and abs(number.adjusted()) <= _LONGEST:
            integer, _, fraction = format(number, "f").partition(".")
            digits = ".".join(filter(None, (integer, fraction.rstrip("0"))))
            return "0" if digits == "-0" else digits
    if form in ("double", "float") and (_NUMBER.fullmatch(text) is not None or text in _NOT_FINITE):
        return _text(float(text), single=form == "float")
    return text


def _text(value: Any, *, single: bool = False) -> str:
    """Return a value of an audit row in the form in which it is hashed; ``single``: as a float32."""
    if not isinstance(value, float):
        return "" if value is None else str(value)
    with np.errstate(over="ignore"):
        number = np.float32(value) if single else np.float64(value)
    if not np.isfinite(number):
        return "NaN" if np.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    if number == int(number):
        return str(int(number))
    return "f" + np.array(number, ">f4" if single else ">f8").tobytes().hex()
