"""The hash chain of the audit log, followed anew from what its sink wrote.

``docs/evidence.md``, "The chain", says what is hashed; this is written after it, and not after the code that hashes.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from evidence.outputs import Outputs
from evidence.verify.classes import Classes
from evidence.verify.verdict import Check, Finding, judged, unseen

_TIME = re.compile(r"([0-9]{4,}-[0-9]{2}-[0-9]{2})[ T]([0-9]{2}:[0-9]{2})(:[0-9]{2})?(\.[0-9]+)?Z?")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NAMED = 3

Head: TypeAlias = tuple[int, int, str]
"""A shard, a release of it, and its ``chain``."""


@dataclass(frozen=True)
class Chained:
    """What a configuration says of the chain.

    Attributes
    ----------
    key : of the HMAC; empty: the chain has none
    policy, hierarchies : as the first row after each start has them
    """

    key: bytes
    policy: str
    hierarchies: str


def follow(outputs: Outputs, audit: pa.Table, classes: Classes, chained: Chained) -> Iterator[Check]:
    """Whether rows of the audit log are those that the job wrote, one after another, and their members as well."""
    rows, links, digest = _rows(audit), audit["chain"].to_pylist(), _hasher(chained.key)
    begun = beginnings(audit, chained)
    places: dict[tuple[int, int], list[int]] = {}
    for place, name in enumerate(zip(audit["shard"].to_pylist(), audit["release_id"].to_pylist(), strict=True)):
        places.setdefault(name, []).append(place)
    findings: list[Finding] = []
    judgements = 0
    for (shard, release), found in sorted(places.items()):
        first = release == begun.get(shard, 0)
        before = [""] if first else [links[place] or "" for place in places.get((shard, release - 1), ())]
        if not before:
            findings.append(Finding("is gone: the next one is chained to it", shard, release - 1))
            continue
        for place in found:
            judgements += 1
            if not any(digest(b"release" + _field(link) + rows[place]).hex() == links[place] for link in before):
                text = "was changed or added, or is not behind the one it was written after"
                findings.append(Finding(text, shard, release))
    if judgements > 1 and sum("changed" in finding.text for finding in findings) == judgements:
        findings = [Finding("no release fits the chain: audit_chain.key is another, or all of them were written anew")]
    how = "with the key" if chained.key else "without a key, so that whoever can write can write it anew"
    yield judged("chain", f"{len(rows):,} releases, each as it was written behind the one before, {how}", findings)
    yield _starts(audit, chained)
    if not chained.key:
        yield unseen("values", "without audit_chain.key the audit log tells nothing of the values of members")
    else:
        yield _values(outputs, audit, classes, digest)


def beginnings(audit: pa.Table, chained: Chained) -> dict[int, int]:
    """By shard, the release above 0 with which its chain begins; none where it begins with its first release.

    A job may get a chain when it goes on from a savepoint. Only the first release that is there can be it, and only
    where its hash has no other before it.
    """
    shards, releases, links = (audit[name].to_pylist() for name in ("shard", "release_id", "chain"))
    first: dict[int, int] = {}
    for place, (shard, release) in enumerate(zip(shards, releases, strict=True)):
        if shard not in first or release < releases[first[shard]]:
            first[shard] = place
    digest, found = _hasher(chained.key), {}
    for shard, place in first.items():
        (row,) = _rows(audit.slice(place, 1))
        if releases[place] > 0 and digest(b"release" + _field("") + row).hex() == links[place]:
            found[shard] = releases[place]
    return found


def _rows(audit: pa.Table) -> list[bytes]:
    """What is hashed of each row beside the chain before it."""
    texts = [[_text(value) for value in column.to_pylist()] for column in audit.drop_columns(["chain"]).columns]
    return [b"".join(map(_field, row)) for row in zip(*texts, strict=True)]


def heads(audit: pa.Table) -> dict[int, tuple[int, str]]:
    """By shard, its last release and the end of its chain."""
    found: dict[int, tuple[int, str]] = {}
    columns = (audit[name].to_pylist() for name in ("shard", "release_id", "chain"))
    for shard, release, link in zip(*columns, strict=True):
        if shard not in found or release > found[shard][0]:
            found[shard] = release, link
    return found


def still_there(audit: pa.Table, earlier: Sequence[Head]) -> Check:
    """Whether what earlier was the end of the chain of each shard is in it now."""
    names = ("shard", "release_id", "chain")
    held = set(zip(*(audit[name].to_pylist() for name in names), strict=True))
    ids = {(shard, release) for shard, release, _ in held}
    findings = []
    for head in earlier:
        if head not in held:
            shard, release, _ = head
            text = (
                "was there before, with another chain" if (shard, release) in ids else "was there before, and is gone"
            )
            findings.append(Finding(text, shard, release))
    return judged("since", f"the last releases of {len(earlier)} shards of then are there still", findings)


def _starts(audit: pa.Table, chained: Chained) -> Check:
    """What each start says of the policy and the code."""
    names = ("shard", "release_id", "chain_start", "chain_version", "chain_policy", "chain_hierarchies")
    findings: list[Finding] = []
    versions: Counter[str] = Counter()
    for shard, release, start, version, *told in zip(*(audit[name].to_pylist() for name in names), strict=True):
        if version is None:
            continue
        versions[version] += 1
        for what, was, now in zip(("policy", "hierarchies"), told, (chained.policy, chained.hierarchies), strict=True):
            if was != now:
                text = f"start {start} was under another {what} than this configuration's"
                findings.append(Finding(text, shard, release))
    listed = ", ".join(f"{version} ({times} shards begun or restored)" for version, times in versions.items())
    return judged("starts", f"under this policy and these hierarchies, by {listed or 'nobody'}", findings)


def _values(outputs: Outputs, audit: pa.Table, classes: Classes, digest: Callable[[bytes], bytes]) -> Check:
    """Whether the values of all rows under each generalisation are those that its releases had."""
    names = [name for name in outputs.released.column_names if name not in outputs.generalisation]
    columns = [[_field(_alike(value or "")) for value in outputs.released[name].to_pylist()] for name in names]
    rows: Sequence[bytes] = [b"".join(row) for row in zip(*columns, strict=True)]
    if not names:
        rows = [b""] * outputs.released.num_rows
    sums = [0] * classes.count
    for number, row in zip(classes.released.tolist(), rows, strict=True):
        sums[number] += int.from_bytes(digest(b"member" + row)[:16], "big")
    told = [0] * classes.count
    of: dict[int, list[int]] = {}
    members_of = zip(classes.audit.tolist(), audit["chain_members"].to_pylist(), strict=True)
    for place, (number, members) in enumerate(members_of):
        told[number] += int(members or "0", 16)
        of.setdefault(number, []).append(place)
    findings = []
    for number, held in of.items():
        if (sums[number] - told[number]) % 2**128:
            found = audit.take(held[:_NAMED]).to_pylist()
            others = [f"{row['release_id']} of shard {row['shard']}" for row in found[1:]]
            more = f" and {len(held) - len(found)} more" if len(held) > len(found) else ""
            alike = f", or under one with its generalisation ({', '.join(others)}{more})," if others else ""
            text = f"released rows have other values than those that left in it{alike}"
            findings.append(Finding(text.rstrip(","), found[0]["shard"], found[0]["release_id"]))
    words = f"of {len(rows):,} released rows are those that left, generalisation by generalisation"
    return judged("values", words, findings)


def _hasher(key: bytes) -> Callable[[bytes], bytes]:
    return (lambda content: hmac.digest(key, content, "sha256")) if key else lambda c: hashlib.sha256(c).digest()


def _field(text: str) -> bytes:
    content = text.encode()
    return str(len(content)).encode() + b":" + content


def _alike(text: str) -> str:
    """A released value in the form in which it is hashed."""
    if (time := _TIME.fullmatch(text)) is not None:
        day, minute, second, fraction = time.groups()
        shown = (fraction or "").rstrip("0")
        return f"{day} {minute}{second or ':00'}{shown if shown != '.' else ''}"
    if _NUMBER.fullmatch(text) is not None and not text.lstrip("-").isdecimal():
        return _text(float(text))
    return text


def _text(value: Any) -> str:
    """A value of a row of the audit log in the form in which it is hashed."""
    if not isinstance(value, float):
        return "" if value is None else str(value)
    if not isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if value == int(value):
        return str(int(value))
    with np.errstate(over="ignore"):
        single = np.float32(value)
    if not np.isfinite(single):
        return "f" + np.array(value, ">f8").tobytes().hex()
    return str(int(single)) if single == int(single) else "f" + np.array(single, ">f4").tobytes().hex()
