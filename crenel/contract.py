"""Contracts of a source, and columns that are published against them.

A contract is an Open Data Contract, a schema of Avro, or a descriptor set of Protobuf.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from crenel.anonymity.model.errors import InputError
from crenel.anonymity.model.explain import dotted, listed, suggestion, wrong_type
from crenel.anonymity.model.policy import ITEMS, Policy
from crenel.anonymity.model.policy import Contract as ContractSetting
from crenel.evidence.profile.contract import ContractColumns, ContractField, ContractStatement, RoleError, statements_of
from crenel.operators.encode.avro.schema import AvroField, AvroType, SchemaError, parse
from crenel.operators.encode.protobuf.schema import (
    DescriptorError,
    MessageType,
    is_descriptor_set,
    is_map,
    is_repeated,
    read_message,
)
from crenel.settings_file import read_yaml

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from open_data_contract_standard.model import SchemaProperty

_NO_CONTRACT = (
    "is no contract; give an Open Data Contract (YAML with apiVersion: v3.1.0, kind: DataContract and schema), a "
    'schema of Avro (JSON with "type": "record"), or a descriptor set of Protobuf (protoc --descriptor_set_out)'
)
_OF_AVRO = frozenset("name type default aliases order doc".split())
"""Properties of a field that Avro defines itself."""

_LARGEST = 10_000
"""Maximum number of fields of a message of Protobuf, with those inside it: types that are used many times multiply."""

_ENCRYPTED = ContractStatement("restricted", "names an encrypted form of it")
_ENCRYPTION = ContractStatement("identifier", "has it as the encrypted form of another property")


class ContractError(InputError):
    """Error for an unusable contract; the message names the file and the field, and holds no value."""


@dataclass(frozen=True)
class _NamedField:
    """A property of a contract or a field of a schema, with the metadata that both may have.

    Attributes
    ----------
    names : the first is the name in the contract
    place : of the property in its file, for errors
    encrypted : name of the column with its encrypted form; None: there is none
    """

    names: tuple[str, ...]
    place: str
    tags: Sequence[Any] = ()
    classification: Any = None
    custom: Sequence[tuple[str, Any]] = ()
    definitions: Sequence[str] = ()
    is_key: bool = False
    is_critical: bool = False
    description: str = ""
    encrypted: str | None = None
    inner: Sequence[_NamedField] = field(default_factory=tuple)


def read_contract(path: Path, schema_name: str | None, option: str = "policy.contract.schema_name") -> ContractColumns:
    """Return the contract in a file; the content shows its format.

    Parameters
    ----------
    schema_name : of a schema object or a message; None: the only one
    option : the field or option that gives it, which an error names

    Raises
    ------
    ContractError
        The file cannot be read, is no contract, lists a column twice, has no such schema object or several without a
        choice, or gives a role that there is not; or the extra ``contract`` is missing.
    """
    try:
        found = path.read_bytes()
        if is_descriptor_set(found):
            return _contract(path, _of_protobuf(path, found, schema_name, option))
        text = found.decode("utf-8-sig")
        content = json.loads(text)
    except (OSError, ValueError, RecursionError):  # another format, or what read() explains
        content = _read_yaml(path)
    if isinstance(content, dict) and isinstance(content.get("schema"), str):  # the answer of a schema registry
        text = content["schema"]
        content = {"type": None}
    if isinstance(content, list) or (isinstance(content, dict) and "type" in content and "apiVersion" not in content):
        if schema_name is not None:
            raise ContractError(f"{path}: is a schema of Avro, which has one record; leave out {option}")
        nodes = _of_avro(path, text)
    elif isinstance(content, dict):
        nodes = _of_odcs(path, content, schema_name, option)
    else:
        raise ContractError(f"{path}: {_NO_CONTRACT}")
    return _contract(path, nodes)


def _contract(path: Path, nodes: Sequence[_NamedField]) -> ContractColumns:
    fields: dict[str, ContractField] = {}
    for node in nodes:
        _add(fields, node, [""], (), path)
    return ContractColumns(path.name, fields, tuple(_names(node) for node in nodes))


def check_contract(
    section: ContractSetting, policy: Policy, folder: Path, paths: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Return problems and warnings about columns that a policy publishes unchanged, each with its field.

    Parameters
    ----------
    folder : folder that a relative path of the contract refers to
    paths : path of the field that a column is read from, by column; a column without one is the field of its name

    Raises
    ------
    ContractError
        As for ``read_contract``.
    """
    contract = read_contract(folder / section.file, section.schema_name)
    problems, warnings, stale = [], [], {*section.confirmed}
    for role in ("passthrough", "sensitive"):
        for column in getattr(policy, role):
            path = paths.get(column, column).replace(ITEMS, "[]")  # as a contract writes the items of an array
            if contract.find(path) is None:
                # Without the source, as in a program, the path of a renamed column is unknown.
                stale.discard(column)
                if role == "passthrough":
                    warnings.append(
                        f"policy.contract: {contract.name} does not list {path!r}, which policy.passthrough publishes "
                        "unchanged; add it to the contract, with its classification"
                    )
            words = _against(contract, path, is_protected=role == "sensitive")
            if words is None:
                continue
            stale.discard(column)
            if column in section.confirmed:
                warnings.append(f"policy.contract.confirmed: {column!r} is published unchanged, and {words}")
            else:
                problems.append(
                    f"policy.{role}: {column!r} is published unchanged, and {words}; give it another role, or confirm "
                    f"it by policy.contract.confirmed: [{column}]"
                )
    problems += [
        f"policy.contract.confirmed: {column!r} is not published unchanged against {contract.name}; remove it"
        for column in section.confirmed
        if column in stale
    ]
    return problems, warnings


def _against(contract: ContractColumns, path: str, *, is_protected: bool) -> str | None:
    """Return a statement against unchanged values of a column, or of a field in it; None without one."""
    for each in contract.within(path):
        if (found := each.personal(is_protected=is_protected)) is not None:
            place = "" if each.path == path else f" ({each.path!r} in it)"
            return f"{contract.name} {found.words}{place}"
    return None


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        content, repeated = read_yaml(path)
    except ValueError as error:
        raise ContractError(f"{path}: {error}") from None
    if not isinstance(content, dict):
        raise ContractError(f"{path}: {_NO_CONTRACT}")
    if repeated:
        raise ContractError(f"{path}: {repeated[0]}")
    return content


def _add(
    fields: dict[str, ContractField],
    node: _NamedField,
    around: Sequence[str],
    inherited: tuple[ContractStatement, ...],
    path: Path,
) -> None:
    """Add a property under each of its paths, and those inside it; ``around``: beginnings of these paths."""
    try:
        own = statements_of(node.tags, node.classification, node.custom, node.definitions)
    except RoleError as error:
        raise ContractError(f"{path}: {node.place}: {error}") from None
    own = own or ((_ENCRYPTED,) if node.encrypted is not None else ())
    found = ContractField("", own or inherited, node.is_key, node.is_critical, node.description)
    names = [prefix + name for prefix in around for name in node.names]
    added = [(name, found) for name in names]
    if node.encrypted is not None:
        encryption = replace(found, statements=own if found.public else (_ENCRYPTION, *own), is_key=False)
        added += [(prefix + node.encrypted, encryption) for prefix in around]
    for name, each in added:
        if name in fields:
            raise ContractError(f"{path}: {node.place}: the column {name!r} is listed twice; keep one")
        fields[name] = replace(each, path=name)
    for inner in node.inner:
        sign = "" if inner.names[0].startswith("[") else "."
        _add(fields, inner, [name + sign for name in names], found.statements, path)


def _names(node: _NamedField) -> tuple[str, ...]:
    return node.names if node.encrypted is None else (*node.names, node.encrypted)


def _of_odcs(path: Path, content: dict[str, Any], schema_name: str | None, option: str) -> list[_NamedField]:
    version = str(content.get("apiVersion") or "")
    if not version:
        raise ContractError(f"{path}: apiVersion: is missing, so the file {_NO_CONTRACT}")
    if not version.removeprefix("v").startswith("3."):
        raise ContractError(f"{path}: apiVersion: is not of version 3; migrate the contract, and write such as v3.1.0")
    try:
        from open_data_contract_standard.model import OpenDataContractStandard
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "open_data_contract_standard":
            raise
        raise ContractError(
            f"{path}: an Open Data Contract needs open-data-contract-standard: install crenel with its extra 'contract'"
        ) from None
    if content.get("kind") != "DataContract":
        raise ContractError(f"{path}: kind: is not that of a contract; write kind: DataContract")
    try:
        objects = OpenDataContractStandard.model_validate(content).schema_ or []
    except ValidationError as error:
        detail = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise ContractError(
            f"{path}: {dotted(detail['loc'])}: {wrong_type(detail)}; correct it as version 3 of the standard asks"
        ) from None
    names = [str(each.name) for each in objects]
    if not objects:
        raise ContractError(f"{path}: schema: holds no schema object; add one with the properties of the source")
    if schema_name is None and len(objects) > 1:
        raise ContractError(f"{path}: schema: holds {len(objects)} objects ({listed(names)}); name one by {option}")
    if schema_name is not None and names.count(schema_name) != 1:
        known = f"{suggestion(schema_name, names)}; known: {listed(names)}"
        raise ContractError(f"{path}: schema: has not exactly one object of the name that {option} gives{known}")
    number = 0 if schema_name is None else names.index(schema_name)
    return [*_properties(path, f"schema[{number}].properties", objects[number].properties or ())]


def _properties(path: Path, place: str, properties: Sequence[SchemaProperty]) -> Iterator[_NamedField]:
    keys = sum(bool(each.primaryKey) for each in properties)
    for number, each in enumerate(properties):
        if not each.name:
            raise ContractError(f"{path}: {place}[{number}].name: is missing; give the name of the column")
        node = _property(path, f"{place}[{number}]", each, each.name)
        yield replace(node, is_key=node.is_key and keys == 1)


def _property(path: Path, place: str, of: SchemaProperty, name: str) -> _NamedField:
    physical = of.physicalName if name != "[]" else None
    inner = [*_properties(path, f"{place}.properties", of.properties or ())]
    if of.items is not None:
        inner.append(_property(path, f"{place}.items", of.items, "[]"))
    parts = (("key", of.map.key), ("value", of.map.value)) if of.map is not None else ()
    inner += [_property(path, f"{place}.map.{part}", each, part) for part, each in parts if each is not None]
    return _NamedField(
        tuple(dict.fromkeys((name, physical) if physical else (name,))),
        place,
        of.tags or (),
        of.classification,
        [(each.property or "", each.value) for each in of.customProperties or ()],
        [each.url for each in of.authoritativeDefinitions or () if each.url],
        bool(of.primaryKey),
        bool(of.criticalDataElement),
        f"{of.businessName or ''} {of.description or ''}",
        of.encryptedName or None,
        inner,
    )


def _of_avro(path: Path, text: str) -> list[_NamedField]:
    try:
        schema = parse(text).present
    except SchemaError as error:
        raise ContractError(f"{path}: {error}; correct the schema of Avro") from None
    if schema.kind != "record":
        raise ContractError(f"{path}: is a schema of Avro, but of no record; give one of records with the columns")
    return [_field(each, "") for each in schema.fields]


def _field(of: AvroField, around: str) -> _NamedField:
    place = f"{around}{of.name}"
    own = {name: value for name, value in of.properties.items() if name not in _OF_AVRO}
    tags: list[Any] = []
    for name in [name for name in own if name.rpartition(":")[2] == "tags"]:
        found = own.pop(name)
        tags += found if isinstance(found, list) else [found]
    return _NamedField(
        (of.name,),
        place,
        tags,
        own.pop("classification", None),
        [*own.items()],
        description=str(of.properties.get("doc") or ""),
        inner=[*_inside(of.type.present, place)],
    )


def _inside(of: AvroType, place: str) -> Iterator[_NamedField]:
    """Yield the fields inside a type."""
    if of.kind == "record":
        yield from (_field(each, f"{place}.") for each in of.fields)
    elif of.kind == "union":
        # Records of a union may have fields of one name.
        yield from (_NamedField((f"[{n}]",), place, inner=[*_inside(part, place)]) for n, part in enumerate(of.parts))
    elif of.kind in ("array", "map"):
        name = "[]" if of.kind == "array" else "value"
        yield _NamedField((name,), place, inner=[*_inside(of.parts[0].present, place)])


def _of_protobuf(path: Path, content: bytes, schema_name: str | None, option: str) -> list[_NamedField]:
    try:
        message = read_message(content, schema_name, option)
    except DescriptorError as error:
        raise ContractError(f"{path}: {error}") from None
    return _Messages(path, message).named_fields(message.descriptor, "", ())


class _Messages:
    """Fields of messages as ``_NamedField``; a message inside itself is followed once."""

    def __init__(self, path: Path, message: MessageType) -> None:
        self._path, self._message, self._count = path, message, 0

    def named_fields(self, of: Descriptor, around: str, outer: tuple[str, ...]) -> list[_NamedField]:
        return [self._named_field(each, f"{around}{each.name}", (*outer, of.full_name)) for each in of.fields]

    def _named_field(self, of: FieldDescriptor, place: str, outer: tuple[str, ...]) -> _NamedField:
        self._count += 1
        if self._count > _LARGEST:
            raise ContractError(
                f"{self._path}: {outer[0]} has more than {_LARGEST:,} fields, with those inside its messages; give a "
                "message of less depth"
            )
        own, inner = [*self._options(of)], of.message_type
        within: list[_NamedField] = []
        if inner is not None and inner.full_name in outer:
            # Fields at any depth have no paths that could be listed, so that this one states what they do.
            own += [option for option in self._deep(inner, {inner.full_name}) if _is_restricting(*option)]
        elif is_map(of):
            within = [self._named_field(each, f"{place}.{each.name}", outer) for each in inner.fields]
        elif inner is not None:
            within = self.named_fields(inner, f"{place}.", outer)
        if is_repeated(of) and within and not is_map(of):
            within = [_NamedField(("[]",), place, inner=within)]
        tags = [value for name, value in own if name == "tags"]
        return _NamedField((of.name,), place, tags, custom=[each for each in own if each[0] != "tags"], inner=within)

    def _options(self, of: FieldDescriptor) -> Iterator[tuple[str, Any]]:
        """Yield the options of a field by their names without packages."""
        for name, value in self._message.options(of):
            yield name if name == "crenel.role" else name.rpartition(".")[2], value

    def _deep(self, of: Descriptor, seen: set[str]) -> Iterator[tuple[str, Any]]:
        """Yield the options of all fields inside a message, at any depth."""
        for each in of.fields:
            yield from self._options(each)
            inner = each.message_type
            if inner is not None and inner.full_name not in seen:
                seen.add(inner.full_name)
                yield from self._deep(inner, seen)


def _is_restricting(name: str, value: Any) -> bool:
    try:
        found = statements_of([value], None, ()) if name == "tags" else statements_of((), None, [(name, value)])
    except RoleError:  # which the field itself reports
        return False
    return any(each.meaning != "public" for each in found)
