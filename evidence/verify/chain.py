"""Verification of the hash chain of the audit log, recomputed from the rows that its sink wrote.

"The chain" in ``docs/reference/evidence/verify.md`` specifies the hashed content. This module implements that text,
independently of the code that writes the chain.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from typing import Any, TypeAlias
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

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
    """

    release: int
    closing: bool
    start: int
    event_time: int | None
    members: str
    link: str
    content: bytes

    @property
    def place(self) -> tuple[int, bool, int]:
        """Return the position in the shard; closing records precede the release of the same id, ordered by start."""
        return self.release, not self.closing, self.start if self.closing else 0

    def may_follow(self, before: Entry) -> bool:
        """Return whether this entry may directly follow another one, judged by their ids."""
        return before.release == (self.release if before.closing else self.release - 1)

    def is_behind(self, links: Iterable[str], digest: Digest) -> bool:
        """Return whether the hash matches the content of this entry chained to one of the given links."""
        return any(digest(b"release" + _field(link) + self.content).hex() == self.link for link in links)


Log: TypeAlias = Mapping[int, Sequence[Entry]]
"""By shard, the entries of its chain, in the order in which they were written."""


def read(audit: pa.Table, closing: pa.Table | None) -> Log:
    """Return the entries of an audit log, whose closing records stand in a table of their own."""
    by_shard: dict[int, list[Entry]] = {}
    names = ("shard", "release_id", "chain_start", "event_time", "chain_members", "chain")
    forms = _forms(audit, closing)
    for table, closes in ((audit, False), (closing, True)):
        if table is not None:
            columns = (table[name].to_pylist() for name in names)
            for shard, release, start, time, members, link, content in zip(*columns, _rows(table, forms), strict=True):
                entry = Entry(release, closes, start or 0, time, members or "", link or "", content)
                by_shard.setdefault(shard, []).append(entry)
    return {shard: sorted(entries, key=lambda entry: entry.place) for shard, entries in sorted(by_shard.items())}


def _forms(*tables: pa.Table | None) -> Mapping[str, str]:
    """Return the form in which each published column is hashed, as most starts of a shard state it.

    A restore may add and remove columns. A row that states another form of a column was altered, and its hash reveals
    the alteration.
    """
    stated = Counter(text for table in tables if table is not None for text in table["chain_forms"].to_pylist() if text)
    return {name: form for text, _ in reversed(stated.most_common()) for name, form in _pairs(text)}


def _rows(audit: pa.Table, forms: Mapping[str, str]) -> list[bytes]:
    """Return the hashed content of each row, without its own link."""
    audit = audit.drop(["chain"])
    texts = [
        [_text(value, single=forms.get(name) == "float") for value in audit[name].to_pylist()]
        for name in audit.column_names
    ]
    return [b"".join(map(_field, row)) for row in zip(*texts, strict=True)]


def follow(
    outputs: RunOutputs, audit: pa.Table, classes: ReleasedClasses, log: Log, chained: Chained
) -> Iterator[Check]:
    """Check that the rows of the audit log, and their members, are those that the job wrote, in that order."""
    digest, first_releases, findings, judgments = _hasher(chained.key), beginnings(log, chained), list[Finding](), 0
    for shard, entries in log.items():
        last: list[Entry] = []
        for _, group in groupby(entries, key=lambda entry: entry.place):
            same = list(group)
            begins = not last and same[0].release == first_releases.get(shard, 0)
            if begins or (last and same[0].may_follow(last[0])):
                before = [""] if begins else [entry.link for entry in last]
                judgments += len(same)
                findings += [_changed(shard, entry) for entry in same if not entry.is_behind(before, digest)]
            else:
                findings.append(Finding("is gone: the next one is chained to it", shard, same[0].release - 1))
            last = same
    if judgments > 1 and sum("changed" in finding.text for finding in findings) == judgments:
        findings = [Finding("no release fits the chain: audit_chain.key is another, or all of them were rewritten")]
    releases = sum(not entry.closing for entries in log.values() for entry in entries)
    how = "with the key" if chained.key else "without a key, so that anyone with write access can rewrite it"
    yield judged("chain", f"{releases:,} releases, each unchanged behind its predecessor, {how}", findings)
    yield _starts(audit if outputs.closing is None else pa.concat_tables([audit, outputs.closing]), chained)
    if not chained.key:
        yield unseen("values", "without audit_chain.key the audit log does not cover the values of members")
    else:
        yield _values(outputs, audit, classes, digest)


def _changed(shard: int, entry: Entry) -> Finding:
    text = "was changed or added, or is not behind its original predecessor"
    if not entry.closing:
        return Finding(text, shard, entry.release)
    return Finding(f"the closing record behind {entry.release:,} releases {text}", shard)


def beginnings(log: Log, chained: Chained) -> dict[int, int]:
    """Return by shard the release above 0 with which its chain begins; omit chains that begin with release 0.

    A job that resumes from a savepoint may introduce a chain. Only the first release in the log can begin a chain, and
    only where its hash has no preceding link.
    """
    digest = _hasher(chained.key)
    firsts = {shard: first for shard, (first, *_) in log.items()}
    return {s: first.release for s, first in firsts.items() if first.release > 0 and first.is_behind([""], digest)}


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


def of_run(
    audit: pa.Table, closing: pa.Table | None, summary: pa.Table | None, chained: Chained, run: str | None
) -> Check:
    """Check that all shards, and the summary, are of one run.

    ``run``: identity of the run to require; None: any one.
    """
    names = ("shard", "release_id", "chain_start", "chain_version", "chain_run")
    starts = [row for table in (audit, closing) if table is not None for row in table.select(names).to_pylist()]
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
    lacking = {
        row["shard"] for table in (audit, closing) if table is not None for row in table.select(["shard"]).to_pylist()
    }
    findings += [Finding("no row states a run", shard) for shard in sorted(lacking - {row["shard"] for row in starts})]
    for row in () if summary is None else summary.to_pylist():
        if row["name"].startswith(_RUN) and row["name"] != f"{_RUN}{expected}":
            findings.append(Finding(f"the summary is of another run than {expected}", row["shard"]))
    how = "" if chained.key else ", without a key, so that anyone with write access can state any run"
    if run is not None or findings:
        return judged("run", f"all shards are of the run {expected}{how}", findings)
    return unseen("run", f"all shards are of the run {expected}{how}; --run requires the run that you expect")


def _starts(audit: pa.Table, chained: Chained) -> Check:
    """Check the configuration that each start states, and list the code versions.

    A restore may change settings, but not the policy and the hierarchies.
    """
    names = ("shard", "release_id", "chain_start", "chain_version", "chain_policy", "chain_hierarchies")
    findings: list[Finding] = []
    versions: Counter[str] = Counter()
    for shard, release, start, version, *stated in zip(*(audit[name].to_pylist() for name in names), strict=True):
        if version is None:
            continue
        versions[version] += 1
        for what, was, now in zip(
            ("policy", "hierarchies"), stated, (chained.policy, chained.hierarchies), strict=True
        ):
            if was != now:
                text = f"start {start} was under another {what} than this configuration's"
                findings.append(Finding(text, shard, release))
    settings = Counter(text for text in audit["chain_settings"].to_pylist() if text is not None)
    if settings and chained.settings not in settings:
        findings.append(
            Finding("no start was under the privacy models, algorithm and parameters of this configuration")
        )
    others = settings.total() - settings[chained.settings]
    earlier = f"; {others} starts were under other settings, which a restore may change" if others else ""
    listed = ", ".join(f"{version} ({times} shards begun or restored)" for version, times in versions.items())
    return judged(
        "starts", f"under this policy and these hierarchies, by {listed or 'no code version'}{earlier}", findings
    )


def _values(outputs: RunOutputs, audit: pa.Table, classes: ReleasedClasses, digest: Digest) -> Check:
    """Check that the values under each generalization are those that its releases had."""
    names = [name for name in outputs.released.column_names if name not in outputs.generalization]
    forms = _forms(audit, outputs.closing)
    columns = [
        [_field(_published(value or "", forms.get(name, "text"))) for value in outputs.released[name].to_pylist()]
        for name in names
    ]
    rows: Sequence[bytes] = [b"".join(row) for row in zip(*columns, strict=True)]
    if not names:
        rows = [b""] * outputs.released.num_rows
    sums = [0] * classes.count
    for number, row in zip(classes.released.tolist(), rows, strict=True):
        sums[number] += int.from_bytes(digest(b"member" + row)[:16], "big")
    stated = [0] * classes.count
    releases_of: dict[int, list[int]] = {}
    members_of = zip(classes.audit.tolist(), audit["chain_members"].to_pylist(), strict=True)
    for place, (number, members) in enumerate(members_of):
        stated[number] += int(members or "0", 16)
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
    words = f"of {len(rows):,} released rows are unchanged, generalization by generalization"
    return judged("values", words, findings)


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
