"""Implementation of ``crenel init``: profiles a source, and writes a configuration that a person completes."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import indent

from rich.console import Console

from crenel.anonymity.model.explain import UNDECIDED
from crenel.anonymity.model.hierarchy import OTHER
from crenel.contract import read_contract
from crenel.evidence.profile.contract import ContractColumns
from crenel.evidence.profile.profile import SMALL, Profile, share, spellings_warning
from crenel.evidence.profile.proposed_values import completed
from crenel.evidence.profile.roles import Proposal, propose
from crenel.jobs.cli.cli_common import table
from crenel.jobs.cli.init_source import Described, SourceError, describe
from crenel.jobs.formats.json_records import member_path
from crenel.operators.output_columns import RECORD_OUTPUTS

_PLAIN = re.compile(r"(?!(?:null|Null|NULL)$)[A-Za-z_][\w.-]*")
"""Name of a column that YAML reads as text without quotes."""

_WORD = re.compile(r"[A-Za-z][\w-]*(?: [\w-]+)*")
_NO_TEXT = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}
"""Words that YAML does not read as text."""

SCHEMA_FILE = "crenel.schema.json"
"""Name of the file of the JSON Schema beside a proposal."""

_WIDTH = 110
"""Length of lines of values."""

_PAIRS = 5
"""Number of pairs of quasi-identifiers that the file and the command show."""

_UNDECIDED_ROLE = "write {type: numeric} or {type: categorical, hierarchy: FILE}, or move it to another role"

_HEAD = """\
# yaml-language-server: $schema={schema}
# An editor completes and checks this file by its JSON Schema: crenel schema --write {schema}
# Proposal of 'crenel init', which a person completes: 'crenel check' refuses this file until each '{undecided}' is
# decided, and names it. 'TO CONFIRM' marks what follows from names and figures, and what a person must check.
# {basis}
# Of the values of records, this file holds those that at least {k} persons share, and round bounds.
"""

_TAIL = """\
privacy: {{k: 10{l}}}

# TO CONFIRM: the number of later records that a record may wait for; 'crenel plan' recommends one.
algorithm: nearest

nearest:
  delay: {{tuples: 1000}}

# A secret that protects hashes of persons from guessing; set the variable, and remove the '#'.
# subject_key: ${{CRENEL_SUBJECT_KEY}}

source:
"""


def write_configuration(
    source: Path,
    output: Path,
    *,
    rows: int,
    names: Sequence[str],
    contract_file: Path | None = None,
    schema_name: str | None = None,
    force: bool,
    console: Console,
) -> None:
    """Profile a source, write the proposed configuration, and print the roles and the undecided items.

    Parameters
    ----------
    rows : maximum number of rows to read, 1 or more
    names : names of the columns of a CSV file without them; may be empty
    contract_file : contract that states roles; None: there is none
    schema_name : of a schema object or message of the contract; None: it has one
    force : whether an existing output is replaced

    Raises
    ------
    SourceError
        The source cannot be read, or the output exists or cannot be written.
    ContractError
        The contract cannot be used.
    """
    if output.exists() and not force:
        raise SourceError(f"{output} exists; choose another file, or replace it by --force")
    if schema_name is not None and contract_file is None:
        raise SourceError("--schema-name is for a contract; give its file by --contract")
    contract = None if contract_file is None else read_contract(contract_file, schema_name, "--schema-name")
    described = describe(source, rows, names)
    proposals = propose(described.profile, contract)
    if described.sample is not None:
        proposals = completed(proposals, described.sample, described.profile)
    named, differences = [], []
    if contract is not None and contract_file is not None:
        path = os.path.relpath(contract_file, output.parent)
        given = {"file": path} if schema_name is None else {"file": path, "schema_name": schema_name}
        named = [f"contract: {{{', '.join(f'{key}: {_scalar(value)}' for key, value in given.items())}}}"]
        differences = _differences(contract, [proposal.column for proposal in proposals])
    text = configuration_text(described, proposals, output.stem, named, differences)
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SourceError(f"{output} cannot be written: {error.strerror}; choose a folder that exists") from None
    warnings = [*_input_warnings(described, proposals)]
    _show(described.profile, proposals, output, _undecided_fields(proposals), differences, warnings, console)


def configuration_text(
    described: Described,
    proposals: Sequence[Proposal],
    name: str,
    contract: Sequence[str] = (),
    differences: Sequence[str] = (),
) -> str:
    """Return the text of the configuration.

    Parameters
    ----------
    name : folder of its outputs
    contract : lines of the policy that name the contract; none without one
    differences : differences between the contract and the data
    """
    profile = described.profile
    basis = "Names and types are known alone; give a file of records to see figures."
    if profile.rows:
        basis = (
            f"Figures are those of the first {profile.rows:,} rows. A row is unique by a column where no other row\n"
            f"# has its value; groups of fewer than {profile.k} such rows are small."
        )
    has_sensitive = any(proposal.role == "sensitive" for proposal in proposals)
    parts = [
        _HEAD.format(schema=SCHEMA_FILE, undecided=UNDECIDED, basis=basis, k=profile.k),
        "policy:",
        indent("\n".join([*_policy(profile, proposals), *(f"# {line}" for line in differences), *contract]), "  "),
        "",
        _TAIL.format(l=", l: 2" if has_sensitive else "") + indent("\n".join(_source(described)), "  "),
        "",
        "sinks:",
    ]
    folder = json.dumps(name, ensure_ascii=False)[1:-1].replace("$", "$$")
    for sink in RECORD_OUTPUTS:
        path = f'"${{CRENEL_OUTPUT:-/tmp/crenel}}/{folder}/{sink}"'
        parts.append(f"  {sink}: {{connector: filesystem, path: {path}, format: csv}}")
    return "\n".join(parts) + "\n"


def _policy(profile: Profile, proposals: Sequence[Proposal]) -> Iterator[str]:
    subject, event_time = (
        next((one for one in proposals if one.role == role), None) for role in ("subject", "event_time")
    )
    if subject is None:
        yield "# No column names a person. Name one; or write null, where every row is a person of its own."
        yield f"subject: {UNDECIDED}"
    else:
        yield from _basis(subject)
        yield f"subject: {_scalar(subject.column)}"
        figures = next(one for one in profile.columns if one.name == subject.column)
        if figures.spellings:
            yield f"# {spellings_warning(figures)}."
            yield "subject_normalization: [nfc, trim]"
    if event_time is not None:
        yield from _basis(event_time)
        yield f"event_time: {_scalar(event_time.column)}"
    if any(_is_kept_missing(one) for one in proposals):
        yield "# TO CONFIRM: a missing category or sensitive value counts as a value; 'reject' rejects such records."
        yield "missing: value"
    attributes = [one for one in proposals if one.role in ("quasi_identifier", "undecided")]
    yield "# Values that an attacker may know of a person; published generalized."
    for line in _pairs(profile, [one.column for one in attributes]):
        yield f"# {line}"
    if not attributes:
        yield f"quasi_identifiers: {UNDECIDED}"
    else:
        yield "quasi_identifiers:"
    for one in attributes:
        advice, value = _attribute(one)
        yield from (f"  {line}" for line in _basis(one, *([advice] if advice else [])))
        yield from _wrapped(f"  {_key(one.column)}: {value}")
    for role, meaning in (
        ("sensitive", "Values that no attacker may infer; published unchanged."),
        ("passthrough", "Columns that the contract has published as they are, without any guarantee."),
        ("drop", "Columns that are read and discarded; nothing of them is published."),
    ):
        columns = [one for one in proposals if one.role == role]
        if columns:
            yield f"# {meaning}"
            yield f"{role}:"
        for one in columns:
            yield from (f"  {line}" for line in _basis(one))
            yield f"  - {_scalar(one.column)}"


def _is_kept_missing(proposal: Proposal) -> bool:
    is_category = proposal.role == "quasi_identifier" and proposal.hierarchy is not None
    return proposal.has_missing and (is_category or proposal.role == "sensitive")


def _wrapped(line: str) -> Iterator[str]:
    """Yield a line in parts of up to ``_WIDTH`` characters, cut between the items of a list."""
    part = ""
    for item in re.split(r"(?<=,) (?=[\w\"(])", line):
        if part and len(part) + len(item) >= _WIDTH:
            yield part
            part = f"      {item}"
        else:
            part = f"{part} {item}" if part else item
    yield part


def _basis(proposal: Proposal, *advice: str) -> Iterator[str]:
    """Yield the comments on a proposal."""
    for line in (f"{proposal.reason[0].upper()}{proposal.reason[1:]}.", f"{proposal.figures}.", *advice):
        yield f"# {line}"


def _attribute(proposal: Proposal) -> tuple[str, str]:
    """Return the advice on a quasi-identifier, possibly empty, and its value in YAML."""
    domain = UNDECIDED if proposal.domain is None else f"[{', '.join(proposal.domain)}]"
    bounds = "Domain: round bounds for all records to come."
    if proposal.outside is not None:
        bounds = (
            f"TO CONFIRM: the domain holds nearly all values of the sample; {proposal.outside:,} rows lie outside, and "
            "would be rejected."
        )
    elif proposal.domain is not None:
        bounds = "TO CONFIRM: the domain follows from the name of the column, and not from the data."
    categorical = "{type: categorical, hierarchy: %s}"
    if proposal.role == UNDECIDED:
        return f"Role: {_UNDECIDED_ROLE}.", UNDECIDED
    if proposal.hierarchy is None:
        missing = ", missing: value" if proposal.has_missing else ""
        return bounds, f"{{type: numeric, domain: {domain}{missing}}}"
    if proposal.hierarchy == "numbers":
        return bounds, categorical % f"{{numbers: {{domain: {domain}, levels: [1, 5, 10, 20], open: true}}}}"
    if proposal.hierarchy == "dates":
        return bounds, categorical % f"{{dates: {{domain: {domain}, levels: [day, month, year, decade]}}}}"
    if proposal.hierarchy == "ip":
        return (
            "TO CONFIRM: the first half of each address is known. List your own networks to keep more.",
            categorical % "{ip: {networks: [0.0.0.0/0], levels: [16, 8]}}",
        )
    if proposal.hierarchy == "mask" and proposal.length is not None:
        if proposal.was_number:
            widths = ", ".join(str(10**zeros) for zeros in range(proposal.length))
            highest = "9" * proposal.length
            advice = "TO CONFIRM: ranges of numbers with the same first digits."
            return advice, categorical % f"{{numbers: {{domain: [0, {highest}], levels: [{widths}]}}}}"
        keep = ", ".join(map(str, range(proposal.length, 0, -1)))
        return "", categorical % f"{{mask: {{length: {proposal.length}, keep: [{keep}, 0]}}}}"
    if proposal.hierarchy == "values":
        listed = ", ".join([*map(_value, proposal.values), OTHER])
        advice = (
            f"TO CONFIRM: the values that at least {SMALL} persons have, without groups; '{OTHER}' stands for all "
            f"others, {proposal.further:,} in the sample."
        )
        return advice, categorical % f"{{values: [{listed}]}}"
    return "Hierarchy: the path of a CSV file of its categories, from each value to the root.", categorical % UNDECIDED


def _pairs(profile: Profile, names: Sequence[str]) -> Iterator[str]:
    """Yield lines about the pairs of quasi-identifiers that single out most rows."""
    singling = [pair for pair in profile.pairs if {*pair.columns} <= {*names} and pair.small][:_PAIRS]
    if singling:
        yield "Pairs of them that single out most rows:"
    for pair in singling:
        names_of_pair = " + ".join(map(_key, pair.columns))
        yield f"  {names_of_pair}: {share(pair.unique)} of rows unique, {share(pair.small)} in small groups"


def _source(described: Described) -> Iterator[str]:
    yield "ddl: |"
    yield indent(described.ddl, "  ")
    if described.query is not None:
        yield "# The query gives each column its type; unreadable values are missing, and times without offset are UTC."
        yield "query: |"
        yield indent(described.query, "  ")
    if described.json_fields:
        yield "# Type of each field of a line; unreadable values are missing, and times without offset are UTC."
        yield "from_json:"
        yield "  column: record"
        yield "  fields:"
    for name, (kind, steps) in described.json_fields.items():
        path = json.dumps(member_path(*steps).replace("$", "$$"), ensure_ascii=False)
        yield f"    {_key(name)}: {kind if len(steps) == 1 else f'{{type: {kind}, path: {path}}}'}"


def _differences(contract: ContractColumns, columns: Sequence[str]) -> list[str]:
    """Return lines about columns that the contract or the data lacks."""
    missing, unknown = contract.missing(columns), contract.unknown(columns)
    lines = (("lists columns that the data lack", missing), ("does not list columns of the data", unknown))
    return [f"The contract {what}: {', '.join(map(_key, names))}." for what, names in lines if names]


def _input_warnings(described: Described, proposals: Sequence[Proposal]) -> Iterator[str]:
    """Yield warnings about records of the sample that would be rejected, fail a job, or count as another person."""
    rows = described.profile.rows
    if described.unfit and described.json_fields:
        yield f"{described.unfit:,} lines are no objects of JSON, and their records would be rejected"
    elif described.unfit:
        yield (
            f"{described.unfit:,} lines have another number of fields than the first one, and Flink's format csv fails "
            "the job at such a line; correct them, or read lines by source.from_csv, which rejects them"
        )
    for field in described.left_out:
        yield f"{field}, and left out; to read such a field, give it a type in source.from_json.fields, and a role"
    roles = {proposal.column: proposal.role for proposal in proposals}
    for column in described.profile.columns:
        missing = round(column.missing * rows)
        if missing and roles.get(column.name) in ("subject", "event_time"):
            yield (
                f"{column.name}: {missing:,} of {rows:,} rows have no value, and would be rejected as missing; "
                "'crenel check' names the remedy"
            )
        if column.spellings:
            yield f"{column.name}: {spellings_warning(column)}"


def _undecided_fields(proposals: Sequence[Proposal]) -> list[str]:
    fields = [] if any(proposal.role == "subject" for proposal in proposals) else ["subject"]
    attributes = [proposal for proposal in proposals if proposal.role in ("quasi_identifier", "undecided")]
    fields += [
        f"quasi_identifiers.{proposal.column}" for proposal in attributes if UNDECIDED in _attribute(proposal)[1]
    ]
    return fields if attributes else [*fields, "quasi_identifiers"]


def _show(
    profile: Profile,
    proposals: Sequence[Proposal],
    output: Path,
    undecided: Sequence[str],
    differences: Sequence[str],
    warnings: Sequence[str],
    console: Console,
) -> None:
    shown = table("column", "proposed role", "unique rows", f"in groups below {profile.k}", words=2)
    for proposal, figures in zip(proposals, profile.columns, strict=True):
        numbers = (share(figures.unique), share(figures.small)) if profile.rows else ("-", "-")
        shown.add_row(proposal.column, proposal.role.replace("_", "-"), *numbers)
    console.print(shown)
    console.print()
    for line in differences:
        console.print(line, soft_wrap=True)
    for warning in warnings:
        console.print(f"Warning: {warning}.", soft_wrap=True)
    if undecided:
        console.print("Undecided, below policy:")
    for field in undecided:
        console.print(f"  {field}", soft_wrap=True)
    console.print(
        f"{output} is a proposal. Confirm each role, decide what is undecided, then run: crenel check {output}",
        soft_wrap=True,
    )


def _key(name: str) -> str:
    """Return a name as a key in YAML."""
    return name if _PLAIN.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _value(text: str) -> str:
    """Return a value of a column as text in a list of YAML."""
    plain = _WORD.fullmatch(text) and text.lower() not in _NO_TEXT
    return text if plain else json.dumps(text, ensure_ascii=False).replace("$", "$$")


def _scalar(name: str) -> str:
    """Return a name as a value in YAML, where a dollar begins a variable."""
    return _key(name.replace("$", "$$"))
