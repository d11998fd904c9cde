"""Proposed roles of columns, from their names, their forms and their figures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from crenel.evidence.profile.contract import ContractColumns, ContractField, ContractRole
from crenel.evidence.profile.profile import ColumnProfile, Profile, form_of_type, share

Role: TypeAlias = ContractRole | Literal["undecided"]
Hierarchy: TypeAlias = Literal["numbers", "mask", "dates", "ip", "values", "file"]

_NEARLY_ALL = 0.9
"""Share of unique rows from which a column identifies records instead of describing persons."""

_MANY = 10
"""Number of distinct values from which numbers without a known name describe more than a category."""

_LONGEST_CODE = 6
"""Maximum number of digits of a masked code: a hierarchy has at most 2^20 leaves."""

_FIVE = 5
"""Number of digits of the postal codes that are recognized without a known name."""

_FEW_GAPS = 0.5
"""Density from which whole numbers of five digits are taken for codes: quantities of this size leave more gaps."""

_PERSONS = frozenset(
    "patient person subject customer user member client citizen employee passenger visitor student driver insured "
    "participant individual owner pid".split()
)
_IDS = frozenset("id ids uuid guid key number nr no hash".split())
_ROWS = frozenset("line row offset index seq sequence record".split())
_ACCOUNTS = frozenset(
    "email mail phone telephone mobile fax ssn passport iban account card license imei mac cookie username "
    "login medallion".split()
)
_NAMES = frozenset("name first last full given family middle maiden surname firstname lastname fullname".split())
_ADDRESSES = frozenset("street address url".split())
_MILLISECONDS = frozenset("ms millis epoch".split())
_BIRTHS = frozenset("birth born dob birthday birthdate dateofbirth".split())
_CODES = frozenset("zip zipcode postcode postal plz postalcode".split())
_SENSITIVE = frozenset(
    "diagnosis diagnoses disease condition illness icd symptom symptoms medication drug treatment procedure "
    "prescription therapy hiv disability income salary wage wages earnings pay debt religion faith politics party "
    "orientation crime offense conviction".split()
)
_AGES = frozenset("age ages".split())
_COUNTS = frozenset("num count amount total".split())
_NUMBERS = _AGES | frozenset("height weight hours year yob lat latitude lon lng longitude children".split())
_CATEGORIES = frozenset(
    "sex gender race ethnicity ethnic nationality citizenship country region state county city town area district "
    "municipality location place marital relationship education occupation job profession language".split()
)


_SINGLE: tuple[Role, ...] = ("subject", "event_time")
"""Roles of at most one column."""


@dataclass(frozen=True)
class Proposal:
    """Proposed role of one column, with its reason.

    Attributes
    ----------
    reason : a phrase without values of records
    figures : the figures that support it, in words
    hierarchy : builder of the hierarchy of a quasi-identifier, or ``file``; None for a numeric one
    domain : bounds, by the meaning of the name or round ones around nearly all values; None: a person decides
    length : number of characters of each value, for ``mask``
    was_number : whether the values of a mask read as numbers, which may have lost leading zeros
    values : for ``values``, those of the sample that at least ``Profile.k`` persons have
    further : number of other values in the sample
    outside : number of rows of the sample outside a domain that follows from its values; None: it does not
    is_open : whether nothing speaks for a role, and nothing against one
    has_missing : whether rows of the sample have no value
    """

    column: str
    role: Role
    reason: str
    hierarchy: Hierarchy | None = None
    domain: tuple[str, str] | None = None
    length: int | None = None
    figures: str = ""
    was_number: bool = False
    values: tuple[str, ...] = ()
    further: int = 0
    outside: int | None = None
    is_open: bool = False
    has_missing: bool = False


def propose(profile: Profile, contract: ContractColumns | None = None) -> tuple[Proposal, ...]:
    """Return a proposal for each column, in their order; pass-through only where a contract asks for it.

    Where the contract and the data disagree, the role is undecided.
    """
    scores = {column.name: _subject_score(column) for column in profile.columns}
    subject = max(scores, key=lambda name: scores[name], default=None)
    if subject is not None and scores[subject] < 2:
        subject = None
    times = [column for column in profile.columns if column.name != subject and _is_event_time(column)]
    event_time = min(times, key=lambda column: column.form != "timestamp").name if times else None
    proposals = []
    for column in profile.columns:
        if column.name == subject:
            why = "values repeat over rows" if column.may_be_subject else "named as a person"
            proposal = Proposal(column.name, "subject", why)
        elif column.name == event_time:
            proposal = Proposal(column.name, "event_time", "a time in each row")
        else:
            proposal = _proposal(column, is_person=scores[column.name] >= 2)
        proposals.append(replace(proposal, figures=_figures(column, subject), has_missing=column.missing > 0))
    return tuple(proposals) if contract is None else tuple(_agreed(profile, proposals, contract))


def _agreed(profile: Profile, proposals: Sequence[Proposal], contract: ContractColumns) -> Iterator[Proposal]:
    """Yield the proposals that follow from the data and from a contract together."""
    fields = {column.name: contract.find(column.name) or ContractField(column.name) for column in profile.columns}
    agreed = [_with_contract(*pair, fields[pair[0].name]) for pair in zip(profile.columns, proposals, strict=True)]
    stated = {
        role: [each.column for each in agreed if each.role == role and role in fields[each.column].roles]
        for role in _SINGLE
    }
    for column, each in zip(profile.columns, agreed, strict=True):
        named = stated.get(each.role, [])
        if each.column in named and len(named) > 1:
            kind = each.role.replace("_", "-")
            each = _undecided(each, f"the contract gives the role {kind} to {', '.join(map(repr, named))}")
        elif named and each.column not in named:
            # The contract has another column in this role.
            other = replace(
                _proposal(column, is_person=each.role == "subject"), figures=each.figures, has_missing=each.has_missing
            )
            each = _with_contract(column, other, fields[column.name])
        yield each


def _with_contract(column: ColumnProfile, suggested: Proposal, stated: ContractField) -> Proposal:
    """Return the proposal for a column, from that of the data and from a contract."""
    proposal, roles = suggested, stated.roles
    if roles.keys() == {"subject", "drop"}:  # a direct identifier, by which persons are counted
        roles.pop("drop")
    role = next(iter(roles), None)
    if len(roles) > 1:
        clauses = " and ".join(each.words for each in roles.values())
        proposal = _undecided(suggested, f"the contract {clauses}")
    elif role is None:
        proposal = _without_role(column, suggested, stated)
    elif role == suggested.role or (role, suggested.role) == ("drop", "subject"):
        proposal = replace(suggested, reason=f"{stated.clause(role)}; {suggested.reason}")
    elif role == "event_time" and _is_event_time(column):
        proposal = Proposal(column.name, role, stated.clause(role))
    elif role == "event_time" or (column.form == "other" and role not in ("drop", "passthrough")):
        proposal = _undecided(suggested, f"{stated.clause(role)}, and its type does not fit that role")
    elif suggested.role != "undecided" and (role, suggested.role) != ("subject", "drop"):
        kind = suggested.role.replace("_", "-")
        proposal = _undecided(suggested, f"{stated.clause(role)}, but the data suggest {kind}: {suggested.reason}")
    elif role == "quasi_identifier":
        proposal = _quasi_identifier(column, stated.clause(role))
    else:
        proposal = Proposal(column.name, role, stated.clause(role))
    if stated.is_critical and proposal.role == "drop":
        proposal = replace(proposal, reason=f"{proposal.reason}; the contract calls it a critical data element")
    return replace(proposal, figures=suggested.figures, has_missing=suggested.has_missing)


def _without_role(column: ColumnProfile, suggested: Proposal, stated: ContractField) -> Proposal:
    """Return the proposal for a column of which the contract states no role."""
    clause, words = stated.clause(), _words(stated.description)
    if stated.public is not None and suggested.role in ("subject", "sensitive"):
        return _undecided(suggested, f"{clause}, but the data suggest {suggested.role}: {suggested.reason}")
    if suggested.role == "undecided" and column.form != "other":
        if words & _SENSITIVE:
            return Proposal(
                column.name, "sensitive", "a value that must not be inferred, by its description in the contract"
            )
        if words & (_BIRTHS | _CODES | _NUMBERS | _CATEGORIES):
            return _quasi_identifier(column, "an attacker may know it, by its description in the contract")
        if stated.is_key:
            return Proposal(column.name, "drop", "the contract has it as primary key, which identifies a record")
    return replace(suggested, reason=f"{clause}; {suggested.reason}") if clause else suggested


def _undecided(suggested: Proposal, reason: str) -> Proposal:
    return Proposal(suggested.column, "undecided", reason, figures=suggested.figures, has_missing=suggested.has_missing)


def _parts(name: str) -> list[str]:
    """Return the words of a name in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_a-zA-Z]+", name)]


def _words(name: str) -> frozenset[str]:
    """Return the words of a name, and all of them as one: ``zip_code`` and ``zipcode`` are the same."""
    parts = _parts(name)
    return frozenset([*parts, "".join(parts)])


def _subject_score(column: ColumnProfile) -> int:
    """Return the strength of the signs that a column names the person; 2 suffices."""
    parts, words = {*_parts(column.name)}, _words(column.name)
    if column.form not in ("text", "whole", "digits") or words & (_ROWS | _CODES | _SENSITIVE):
        return 0
    is_person = bool(parts & _PERSONS) and parts <= _PERSONS | _IDS
    is_person |= any(f"{person}{end}" in words for person in _PERSONS for end in _IDS)
    is_id = bool(words & (_IDS | _ACCOUNTS))
    return 2 * is_person + is_id + column.may_be_subject if is_person or is_id else 0


def _is_event_time(column: ColumnProfile) -> bool:
    words = _words(column.name)
    return not words & _BIRTHS and (
        column.form == "timestamp" or (column.type == "BIGINT" and bool(words & _MILLISECONDS))
    )


def _proposal(column: ColumnProfile, *, is_person: bool) -> Proposal:
    """Return the proposal for a column that is neither the subject nor the event time, without its figures."""
    words, parts, measured = _words(column.name), {*_parts(column.name)}, _is_measured(column)
    if measured and column.distinct <= 1:
        return Proposal(column.name, "drop", "at most one value in all rows")
    if column.form == "other":
        return Proposal(column.name, "undecided", "a type that cannot be generalized", is_open=True)
    if words & _SENSITIVE:
        return Proposal(column.name, "sensitive", "a value that must not be inferred, by its name")
    if column.form == "ip" or words & (_BIRTHS | _CODES | _NUMBERS | _CATEGORIES):
        return _quasi_identifier(column, "an attacker may know it, by its name")
    if is_person or words & (_ACCOUNTS | _ADDRESSES) or (parts & _NAMES and parts <= _NAMES | _PERSONS):
        return Proposal(column.name, "drop", "identifies a person directly")
    if words & _ROWS:
        return Proposal(column.name, "drop", "numbers the rows")
    if measured and column.unique >= _NEARLY_ALL and column.form in ("text", "digits", "whole"):
        return Proposal(column.name, "drop", "singles out nearly every row, as an identifier of records does")
    if column.form in ("date", "timestamp"):
        return _quasi_identifier(column, "an attacker may know the day")
    if column.form == "whole" and column.length == _FIVE and column.density >= _FEW_GAPS and not words & _IDS:
        return _code(column, "five digits with few gaps, as postal codes have")
    if measured and column.form in ("whole", "number") and column.distinct >= _MANY and not words & _IDS:
        if column.unique < _NEARLY_ALL:
            return _quasi_identifier(column, "a number of medium uniqueness")
    return Proposal(column.name, "undecided", "neither its name nor its values show a role", is_open=True)


def _quasi_identifier(column: ColumnProfile, reason: str) -> Proposal:
    words = _words(column.name)
    hierarchy: Hierarchy | None = "file"
    domain = None
    if column.form == "ip":
        hierarchy = "ip"
    elif column.form in ("date", "timestamp"):
        hierarchy = "dates"
        domain = ("1900-01-01", "2029-12-31") if words & _BIRTHS else None
    elif words & _CODES:
        if column.form in ("digits", "whole") and column.length is not None and column.length <= _LONGEST_CODE:
            return _code(column, reason)
    elif column.form in ("whole", "number", "digits") and (words & _COUNTS or not words & _CATEGORIES):
        hierarchy = None if form_of_type(column.type) in ("whole", "number") else "numbers"
        domain = ("0", "120") if words & _AGES else None
    return Proposal(column.name, "quasi_identifier", reason, hierarchy, domain)


def _code(column: ColumnProfile, reason: str) -> Proposal:
    return Proposal(
        column.name, "quasi_identifier", reason, "mask", length=column.length, was_number=column.form == "whole"
    )


def _is_measured(column: ColumnProfile) -> bool:
    return bool(column.distinct or column.missing)


def _figures(column: ColumnProfile, subject: str | None) -> str:
    """Return the figures that support a proposal."""
    if not _is_measured(column):
        return f"{column.type}; not measured"
    figures = (
        f"{column.distinct:,} values; {share(column.unique)} of rows unique, {share(column.small)} in small groups"
    )
    figures += f", {share(column.missing)} missing" if column.missing else ""
    constant = None if subject is None else column.constant.get(subject)
    return figures if constant is None else f"{figures}; constant for {share(constant)} of persons with several rows"
