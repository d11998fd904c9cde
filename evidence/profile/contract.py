"""Contracts of data: the roles that a contract or a schema states of columns, as a small vocabulary reads it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

ContractRole: TypeAlias = Literal["subject", "event_time", "quasi_identifier", "sensitive", "drop", "passthrough"]
Meaning: TypeAlias = ContractRole | Literal["identifier", "personal", "restricted", "public"]

WORDS: dict[Meaning, tuple[str, ...]] = {
    "subject": ("data-subject", "subject-id", "person-id"),
    "identifier": ("direct-identifier", "direct-id", "identifier", "directly-identifying"),
    "quasi_identifier": ("quasi-identifier", "quasi-id", "indirect-identifier", "indirectly-identifying", "qi"),
    "sensitive": ("sensitive", "sensitive-data", "special-category", "special-category-data", "special-categories"),
    "personal": (
        *("pii", "personal", "personal-data", "personal-information", "personally-identifiable-information"),
        *("sensitive-pii", "pii-sensitive", "gdpr", "phi", "protected-health-information"),
    ),
    "restricted": (
        *("restricted", "highly-restricted", "confidential", "highly-confidential", "private", "secret"),
        "debug-redact",  # a standard option of fields of Protobuf
    ),
    "public": ("public", "non-personal", "not-personal", "non-pii", "no-pii", "not-pii", "pii-none"),
}
"""Words of tags, classifications and custom properties, by meaning; case and the sign between words do not matter."""

ROLES: dict[str, Meaning] = {
    "subject": "subject",
    "event-time": "event_time",
    "quasi-identifier": "quasi_identifier",
    "sensitive": "sensitive",
    "drop": "drop",
    "pass-through": "passthrough",
    "passthrough": "passthrough",
}
"""Values of the property ``crenelRole``."""

EFFECTS: dict[Meaning, str] = {
    "subject": "the column that identifies the person: `subject`",
    "identifier": "a value that identifies a person directly: `drop`",
    "quasi_identifier": "a value that an attacker may know: `quasi_identifiers`",
    "sensitive": "a value that no attacker may infer: `sensitive`",
    "personal": "personal data; the data suggest the role",
    "restricted": "not public, as if it were personal data",
    "public": "public, or no personal data; states no role",
}
"""Effect of the words of each meaning, for the reference."""

_OF_WORD = {word: meaning for meaning, words in WORDS.items() for word in words}
_EXPLICIT = "crenel-role"
_PROPERTIES = frozenset(
    "classification data-classification sensitivity privacy privacy-role personal-data pii gdpr".split()
)
"""Custom properties whose value is a word of the vocabulary."""

_TRUE, _FALSE = ("true", "yes"), ("false", "no")
_NOT_PERSONAL: tuple[Meaning, ...] = ("public", "passthrough", "event_time")
_IDENTIFYING: tuple[Meaning, ...] = ("subject", "identifier", "quasi_identifier", "drop")


class RoleError(ValueError):
    """Error for a ``crenelRole`` that is no role; the message holds no value."""


@dataclass(frozen=True)
class ContractStatement:
    """A statement of a contract on a column.

    Attributes
    ----------
    words : the predicate of a sentence about the contract, such as ``tags it 'pii'``; of the vocabulary alone
    is_explicit : whether it is the role of ``crenelRole``, which counts before all other statements on roles
    """

    meaning: Meaning
    words: str
    is_explicit: bool = False

    @property
    def role(self) -> ContractRole | None:
        """The role that it states; None for personal data of any role, and for public data."""
        if self.meaning == "identifier":
            return "drop"
        if self.meaning == "personal" or self.meaning == "restricted" or self.meaning == "public":
            return None
        return self.meaning


@dataclass(frozen=True)
class ContractField:
    """A column of a contract, or a field inside one.

    Attributes
    ----------
    path : names with dots; items of an array are ``name[]``
    statements : its own, or those of the innermost field around it that has some
    is_key : whether it is the primary key alone
    is_critical : whether it is a critical data element
    description : in words; never printed, because it may hold examples of values
    """

    path: str
    statements: tuple[ContractStatement, ...] = ()
    is_key: bool = False
    is_critical: bool = False
    description: str = field(default="", repr=False)

    @property
    def roles(self) -> dict[ContractRole, ContractStatement]:
        """The stated roles; with several, the contract contradicts itself."""
        explicit = [each for each in self.statements if each.is_explicit]
        return {each.role: each for each in explicit or self.statements if each.role is not None}

    def personal(self, *, is_protected: bool) -> ContractStatement | None:
        """Return a statement against publication of unchanged values; None if there is none.

        ``is_protected``: whether privacy models hold for the values, as for sensitive ones. These models protect values
        that an attacker may infer, and no values by which an attacker knows a person.
        """
        for each in self.statements:
            if each.meaning in _IDENTIFYING if is_protected else each.meaning not in _NOT_PERSONAL:
                return each
        return None

    def clause(self, role: ContractRole | None = None) -> str:
        """Return what the contract says of a role, or at all, as the end of a sentence; empty where it says nothing."""
        said = self.statements[:1] if role is None else (self.roles[role],)
        return f"the contract {said[0].words}" if said else ""

    @property
    def public(self) -> ContractStatement | None:
        """The statement that the values are public, where no other one is; else None."""
        matching = [each for each in self.statements if each.meaning == "public"]
        return matching[0] if matching and len(matching) == len(self.statements) else None


@dataclass(frozen=True)
class ContractColumns:
    """The columns of a contract.

    Attributes
    ----------
    name : of its file
    fields : by path, under each name that a field has
    columns : the names of each column, the first of which is the name of its property
    """

    name: str
    fields: Mapping[str, ContractField]
    columns: tuple[tuple[str, ...], ...]

    def find(self, column: str) -> ContractField | None:
        """Return what is stated of a column, or of the innermost listed record around it; None for an unknown one."""
        if column in self.fields:
            return self.fields[column]
        around, dot, _ = column.rpartition(".")
        field = self.find(around) if dot else None
        return None if field is None else ContractField(column, field.statements)

    def within(self, column: str) -> Iterator[ContractField]:
        """Yield a column and the fields inside it; nothing for an unknown column."""
        if (field := self.find(column)) is not None:
            yield field
        for path, inner in self.fields.items():
            if path.startswith((f"{column}.", f"{column}[")):
                yield inner

    def missing(self, columns: Iterable[str]) -> list[str]:
        """Return the columns of the contract that are not among these columns, or paths of fields."""
        known = {column.partition(".")[0] for column in columns} | {*columns}
        return [names[0] for names in self.columns if known.isdisjoint(names)]

    def unknown(self, columns: Iterable[str]) -> list[str]:
        """Return the columns that the contract does not have."""
        return [column for column in columns if self.find(column) is None]


def statements_of(
    tags: Iterable[Any], classification: Any, custom: Iterable[tuple[str, Any]], definitions: Iterable[str] = ()
) -> tuple[ContractStatement, ...]:
    """Return the statements of the metadata of one column.

    Parameters
    ----------
    tags : words, or pairs such as ``privacy:pii`` and ``pii=true``
    classification : a word, or None
    custom : names and values of further properties
    definitions : addresses of definitions, whose last part may be a word of the vocabulary

    Raises
    ------
    RoleError
        A ``crenelRole`` is no role.
    """
    statements: list[ContractStatement | None] = [_classified(classification, "classifies it as {!r}")]
    for tag in tags:
        name, value = [*re.split(r"[:=]", str(tag), maxsplit=1), ""][:2]
        pair = _of_property(name, value, "tags it {!r}") if value else None
        statements.append(pair or _classified(value or name, "tags it {!r}"))
    statements += [_of_property(name, value, "has {}") for name, value in custom]
    for address in definitions:
        parts = re.split(r"[/#]", address.rstrip("/"))
        statements.append(_classified(parts[-1], "defines it as {!r}"))
    return tuple(dict.fromkeys(each for each in statements if each is not None))


def _classified(text: Any, words: str, lead: str = "") -> ContractStatement | None:
    word = _word(text)
    if word not in _OF_WORD:
        word = _word(re.split(r"[./]", str(text))[-1])
    return ContractStatement(_OF_WORD[word], words.format(lead + word)) if word in _OF_WORD else None


def _of_property(name: str, value: Any, words: str) -> ContractStatement | None:
    key, word = _word(name), _word(value)
    if key == _EXPLICIT:
        if word not in ROLES:
            raise RoleError(f"crenelRole: is no role; choose {', '.join(sorted({*ROLES} - {'passthrough'}))}")
        return ContractStatement(ROLES[word], f"has crenelRole: {word}", is_explicit=True)
    meaning: Meaning | None = None
    if word in _TRUE:
        meaning, word = _OF_WORD.get(key), "true"
    elif word in _FALSE:
        meaning, word = ("public" if _OF_WORD.get(key) == "personal" else None), "false"
    elif key in _PROPERTIES:
        return _classified(value, words, f"{key}: ")
    return None if meaning is None else ContractStatement(meaning, words.format(f"{key}: {word}"))


def _word(text: Any) -> str:
    """Return words in lower case with hyphens: ``quasiIdentifier`` and ``Quasi Identifier`` are the same."""
    return "-".join(re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", str(text))).lower()
