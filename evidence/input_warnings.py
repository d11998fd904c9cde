"""Warnings about input of which much cannot be published, each with its field and a remedy, and no value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.policy import Policy
from crenel.evidence.profile.profile import share as share_text

MANY = 0.1
"""Share of rejected or late records from which a run warns of them."""

LATENESS = "give a larger 'lateness'"
"""How a program allows for more disorder."""

_REMEDIES = {
    "bad_type": "its texts are no numbers, or infinite; convert them to numbers, or make it categorical",
    "unreadable": "a defect of Crenel; the log of the TaskManager names the place in the code, so report that line",
}


def place_of(policy: Policy, column: str | None) -> str:
    """Return the field of a configuration that names a column."""
    if column is None:
        return "policy"
    if column == policy.subject:
        return "policy.subject"
    if column == policy.event_time:
        return "policy.event_time"
    attributes = (*policy.attributes, *policy.noised.values(), *policy.generalized.values())
    return next(
        (attribute.place for attribute in attributes if attribute.name == column),
        f"policy.sensitive: column {column!r}",
    )


def rejection_remedy(policy: Policy, column: str | None, reason: str) -> str:
    """Return what an operator does about records that are rejected for a column and a reason."""
    if reason == "missing":
        return _of_missing(policy, column)
    if reason == "outside_domain":
        if column == policy.event_time:
            return (
                "times are outside the years 1 to 9999, or further ahead of the watermark than "
                "policy.event_time_limit; correct their unit or their clock, or raise the limit"
            )
        return "its numbers are outside the domain; correct their unit, or declare a wider domain"
    if reason == "unknown_category":
        return "its hierarchy lacks these values; add them, or convert them to values that it has"
    if reason == "too_many_values":
        return f"policy.arrays.{column} is the maximum number of distinct values of an array; raise it"
    return _REMEDIES[reason]


def _of_missing(policy: Policy, column: str | None) -> str:
    check = "it is absent or empty, or its text is not of the column's type: compare a record with the declared type"
    if column == policy.subject:
        return f"{check}. A record without a person is never admitted; leave such records out if they are of nobody"
    if column == policy.event_time:
        return f"{check}. A job reads times of RFC 3339 in SQL by crenel_instant"
    numeric = {attribute.name: attribute for attribute in policy.attributes if isinstance(attribute, Numeric)}
    if column in numeric and numeric[column].missing != "value":
        return f"{check}. 'missing: value' of this attribute admits records without the number"
    if column in policy.noised:
        return f"{check}. A noised number is always required"
    if policy.missing != "value":
        return f"{check}. 'policy.missing: value' admits records without a category or a sensitive value"
    return check


def rejection_warnings(
    policy: Policy, rows: int, rejected: Mapping[tuple[str | None, str], int], share: float = MANY, *, prefix: str = ""
) -> Iterator[str]:
    """Yield a warning for each column and reason for which many rows are rejected, the most frequent first.

    Parameters
    ----------
    rows : number of rows that were read
    rejected : number of rejected rows by column and reason
    share : of all rows, from which all rejected ones together are many. A pair with a tenth of the rejected rows has a
        warning of its own
    prefix : of the number of rows in the text, such as ``"the first "``
    """
    total = sum(rejected.values())
    if not total or total < share * rows:
        return
    for (column, reason), count in sorted(rejected.items(), key=lambda pair: (-pair[1], str(pair[0]))):
        if count >= MANY * total:
            yield (
                f"{place_of(policy, column)}: {count:,} of {prefix}{rows:,} rows ({share_text(count / rows)}) are "
                f"rejected as {reason}: {rejection_remedy(policy, column, reason)}"
            )


def late_warnings(field: str, late: int, tuples: int, lateness: str) -> Iterator[str]:
    """Yield a warning if many records arrive after their time is over, so that they cannot wait for others.

    Parameters
    ----------
    field : of the delay
    late : tuples that were due at their arrival
    lateness : how a user allows for more disorder
    """
    if late >= MANY * max(tuples, 1):
        yield (
            f"{field}: {late / tuples:.0%} of the tuples were due when they arrived, because a record with a much "
            "later event time had come before them. Read the records in the order of policy.event_time, or "
            f"{lateness}. If a few records have a time far ahead, such as 2099, set policy.event_time_limit, which "
            "rejects them"
        )
