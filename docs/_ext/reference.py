"""Tables of the reference, made from the code.

A page has a comment ``<!-- generated: NAME ARGUMENT -->`` in the place of each table. The meaning of a parameter is an
attribute in the docstring of the class of its section.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatch
from inspect import cleandoc
from types import SimpleNamespace
from typing import Any, get_origin, get_type_hints

import numpy as np
import pyarrow as pa
import typer
import yaml
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

import crenel
from crenel.anonymity import builtin
from crenel.anonymity.algorithm import ShardContext, known_algorithms
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.explain import fields_of, sections
from crenel.anonymity.model.outcomes import (
    KIND_MEANINGS,
    LINKABLE,
    LINKABLE_MEANING,
    REJECTION_MEANINGS,
    SUPPRESSION_MEANINGS,
)
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Confidence, NoiseWithinRelease, Persons, Privacy
from crenel.anonymity.model.privacy_model import PrivacyModel, known_privacy_models
from crenel.anonymity.regions.loads import Loads
from crenel.evidence.profile.contract import EFFECTS, WORDS
from crenel.jobs.cli.app import app
from crenel.jobs.config.connectors import CONNECTORS
from crenel.jobs.config.load import job_sections, sink_descriptions
from crenel.operators.encode.function import register_loads, register_unknown
from crenel.operators.encode.records import UnknownFields
from crenel.operators.metrics import Metrics
from crenel.operators.output_columns import REFERENCE, SQL, OutputColumn, own_columns
from crenel.operators.shards.metrics import MEANINGS, ShardMetrics
from crenel.operators.shards.stream import WaitingTimes, WatermarkMerger
from crenel.settings import Settings

_PLACE = re.compile(r"^<!-- generated: (\w+)(?: (.+?))? -->$", re.MULTILINE)
_ATTRIBUTES = re.compile(r"^Attributes\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}$|\Z)", re.MULTILINE | re.DOTALL)
_SQL = re.compile(r"\b[A-Z][A-Z_]+(\(\d\))?")

EVERY_MODEL = Privacy(
    2,
    models={model.name: model.example for model in builtin.PRIVACY_MODELS},
    noise_within_release=NoiseWithinRelease(1, confidence=Confidence(0.9, 2)),
    persons=Persons("lasting"),
)
"""Privacy settings under which every reason and every metric exists."""


def expand(page: str) -> str:
    """Return a page with tables in the place of its comments."""
    return _PLACE.sub(lambda found: GENERATORS[found[1]](found[2] or ""), page)


def _table(headings: tuple[str, ...], rows: Iterator[tuple[str, ...]] | list[tuple[str, ...]]) -> str:
    lines = [headings, ("---",) * len(headings), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _markdown(docstring: str) -> str:
    return " ".join(docstring.replace("``", "`").split())


# Configuration.


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A parameter of the configuration file.

    Attributes
    ----------
    name : dotted name; ``NAME`` stands for a name of the user
    values : its valid values
    default : its default in YAML, or the condition under which it is required
    meaning : its effect
    """

    name: str
    values: str
    default: str
    meaning: str


def parameters() -> Iterator[Parameter]:
    """Yield every parameter of the file: settings, a section for each algorithm, and what only a job has."""
    hints, meanings = get_type_hints(Settings, include_extras=True), attributes(Settings)
    for of in dataclasses.fields(Settings):
        if of.name == "algorithm":
            yield from _algorithms(meanings[of.name])
        elif of.name != "folder":
            default = PydanticUndefined if of.default is dataclasses.MISSING else of.default
            yield from _parameter(
                of.name, FieldInfo.from_annotated_attribute(hints[of.name], default), meanings[of.name]
            )
    job = job_sections()
    meanings = attributes(job)
    for name, field in fields_of(job).items():
        if name != "sinks":
            yield from _parameter(name, field, meanings.get(name, ""))
    for name, (values, meaning) in sink_descriptions().items():
        default = "required" if name == "released" else "`null`"
        yield Parameter(f"sinks.{name}", _markdown(values), default, _of_file(meaning))


def _algorithms(meaning: str) -> Iterator[Parameter]:
    known = known_algorithms()
    yield Parameter("algorithm", " or ".join(f"'{name}'" for name in known), "`castle`", meaning)
    for name, algorithm in known.items():
        paths = {f"{name}.{path}" for path, _ in algorithm.settings()}
        yield from (of for of in _section(algorithm, f"{name}.", name) if of.name in paths)


def _section(kind: type, prefix: str, needed: str) -> Iterator[Parameter]:
    """Yield the parameters of a section; ``needed``: the optional section that some are required with."""
    meanings, models = attributes(kind), getattr(kind, "further_fields", dict)()
    for name, field in fields_of(kind).items():
        if name in models:
            yield from _privacy_model(prefix + name, known_privacy_models()[name])
        else:
            yield from _parameter(prefix + name, field, meanings.get(name, ""), needed)


def _parameter(name: str, field: FieldInfo, meaning: str, needed: str = "") -> Iterator[Parameter]:
    """Yield the parameter of a field, or those of the sections that it holds."""
    # The parameters of a hierarchy stand on a page of their own, as those of quasi-identifiers.
    is_one = name.endswith(".hierarchy") and not name.startswith("policy.quasi_identifiers.")
    kinds = [] if is_one else [*sections(field.annotation)]
    of_many = get_origin(field.annotation) is dict
    below = f"{name}.NAME." if of_many else f"{name}."
    required_with = needed if field.is_required() else name
    found = {kind: [*_section(kind, below, "" if of_many else required_with)] for kind in kinds}
    if len(found) > 1:
        yield from _by_type(below, found)
    elif found:
        yield from found[kinds[0]]
    else:
        yield Parameter(name, _markdown(field.description or ""), _default(field, needed), meaning)


def _by_type(prefix: str, found: Mapping[type, list[Parameter]]) -> Iterator[Parameter]:
    """Yield the parameters of sections that their ``type`` distinguishes; one that several have has parts."""
    types = {f"`{kind.__name__.lower()}`": kind for kind in found}
    own = [f"{of} has {', '.join(f'`{name}`' for name in fields_of(kind))}" for of, kind in types.items()]
    values = " or ".join(of.replace("`", "'") for of in types)
    yield Parameter(f"{prefix}type", values, "required", "; ".join(own))
    parts: dict[str, dict[str, Parameter]] = {}
    for of, kind in types.items():
        for parameter in found[kind]:
            parts.setdefault(parameter.name, {})[of] = parameter
    for name, having in parts.items():
        yield Parameter(
            name,
            _joined("; ", {of: each.values for of, each in having.items()}),
            _joined("; ", {of: each.default for of, each in having.items()}),
            _joined(". ", {of: each.meaning for of, each in having.items()}),
        )


def _joined(separator: str, parts: Mapping[str, str]) -> str:
    if len(parts) == 1:
        return next(iter(parts.values()))
    return separator.join(f"{of}: {text}" for of, text in parts.items())


def _title(model: PrivacyModel) -> tuple[str, str]:
    """Return the meaning of a privacy model and its source, from the first line of its module."""
    line = str(sys.modules[model.lacking.__module__].__doc__).partition("\n")[0]
    meaning, _, source = line.removesuffix(").").rpartition(" (")
    return meaning, source


def _privacy_model(name: str, model: PrivacyModel) -> Iterator[Parameter]:
    """Yield the parameters of a privacy model."""
    meaning, _ = _title(model)
    if name != f"privacy.{model.name}":
        meaning = f"`privacy.{model.name}` of this column; `null`: that of all columns"
    if not model.fields:
        yield Parameter(name, _markdown(model.parameter), "`null`", meaning)
    for field, words in model.fields.items():
        values, _, own = words.partition(": ")
        yield Parameter(f"{name}.{field}", values, f"required with `{name}`", own or meaning)


def _default(field: FieldInfo, needed: str) -> str:
    if field.is_required():
        return f"required with `{needed}`" if needed else "required"
    value = field.get_default(call_default_factory=True)
    # An object that a file cannot hold, such as a key, stands for none.
    shown = value if isinstance(value, str) and value.isidentifier() else json.dumps(value, default=lambda _: None)
    return f"`{shown}`"


def attributes(of: type) -> dict[str, str]:
    """Return the description of each attribute in the docstrings of a class and its bases, in terms of the file."""
    described: dict[str, str] = {}
    for base in reversed(of.__mro__):
        for names, text in _items(base):
            described |= {name.strip(): _of_file(_markdown(text)) for name in names.split(",")}
    return described


def _items(of: type) -> Iterator[tuple[str, str]]:
    """Yield names and description of each item among the attributes in the docstring of a class."""
    found = _ATTRIBUTES.search(cleandoc(vars(of).get("__doc__") or ""))
    for item in re.split(r"\n(?=\S)", found[1].strip("\n")) if found else ():
        names, _, text = item.partition(" : ")
        yield names, text


def _of_file(text: str) -> str:
    """Return a description in terms of the file: ``null`` for None, values without quotes, no objects or modules."""
    text = re.sub(r", or the `[A-Z]\w+` that it becomes| \(`crenel\.[\w.]+`\)", "", text)
    return re.sub(r"`\"(.+?)\"`", r"`\1`", re.sub(r"\bNone\b", "`null`", text))


def configuration(names: str) -> str:
    """Return the parameters below the given names, each with a heading; ``-NAME`` leaves out those below a name."""
    wanted = [name for name in names.split() if not name.startswith("-")]
    without = [name[1:] for name in names.split() if name.startswith("-")]
    found = [of for of in parameters() if _is_below(of.name, wanted) and not _is_below(of.name, without)]
    return "\n\n".join(
        f"### `{of.name}`\n\n{_sentence(of.meaning)}\n\n- Values: {of.values}\n- Default: {of.default}" for of in found
    )


def _is_below(name: str, sections: list[str]) -> bool:
    return any(f"{name}.".startswith(f"{section}.") for section in sections)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


# Command line.


def commands() -> dict[str, Any]:
    """Return all commands by name."""
    group: Any = typer.main.get_command(app)
    return dict(group.commands)


def command(name: str) -> str:
    """Return synopsis and options of a command."""
    found = commands()[name]
    context = found.context_class(found, info_name=name)
    synopsis, rows = f"crenel {name}", []
    for parameter in found.params:
        record = parameter.get_help_record(context)
        if record is None or "--help" in parameter.opts:
            continue
        # Types of arguments are no part of the command; a number is shown as N.
        shown = re.sub(r" <int.*>$", " N" if parameter.opts[0].startswith("-") else "", record[0])
        shown = shown if parameter.opts[0].startswith("-") else shown.partition(" ")[0]
        synopsis += f" {shown}" if parameter.required else f" [{shown}]"
        rows.append((f"`{shown}`", record[1]))
    options = _table(("argument or option", "meaning"), rows) if rows else "The command has no options."
    lines = textwrap.wrap(synopsis, 100, subsequent_indent=" " * 7, break_long_words=False, break_on_hyphens=False)
    return "\n\n".join([found.help, "\n".join(["```", *lines, "```"]), options])


# Python.


def api(modules: str) -> str:
    """Return directives for all public names of modules, as names of ``crenel``; of settings, their fields alone."""
    names = [name for name in crenel.__all__ if crenel._NAMES[name] in modules.split()]
    lines = []
    for name in names:
        found = getattr(crenel, name)
        lines.append(f".. auto{'class' if isinstance(found, type) else 'function'}:: crenel.{name}")
        if isinstance(found, type) and not fields_of(found):
            lines.append("   :members: to_yaml, warnings" if found is Settings else "   :members:")
        lines.append("")
    return "\n".join(["```{eval-rst}", *lines, "```"])


def inherited(of: type) -> list[str]:
    """Return the lines of a class of settings about fields that docstrings of its bases describe."""
    items = [item for base in of.__mro__[1:] for item in _items(base)]
    known = fields_of(of).keys()
    return [line for names, text in items if known & {*names.split(", ")} for line in f"{names} : {text}".split("\n")]


# Outputs and metrics.


def outputs(name: str) -> str:
    """Return the columns of an output."""
    if name in REFERENCE:
        return _columns(name, REFERENCE[name])
    writers: dict[tuple[OutputColumn, ...], list[str]] = {}
    for algorithm in known_algorithms().values():
        for output in (output for output in algorithm.outputs if output.name == name):
            writers.setdefault(own_columns(output), []).append(f"`{algorithm.name}`")
    return "\n\n".join(f"With {' and '.join(of)}:\n\n{_columns(name, columns)}" for columns, of in writers.items())


def _columns(output: str, columns: Iterable[OutputColumn]) -> str:
    rows = [(f"`{of.name}`", _type_of(of, output), of.meaning.replace("``", "`")) for of in columns]
    return _table((f"column of `{output}`", "type", "meaning"), rows)


def _type_of(column: OutputColumn, output: str) -> str:
    if column.name == "event_time":
        return "as in the source"
    return _SQL.sub(r"`\g<0>`", column.published or SQL[column.kind])


def kinds(_: str) -> str:
    return _table(("kind of release", "meaning"), _pairs(KIND_MEANINGS))


def suppressions(_: str) -> str:
    models = {
        model.reason: f"no set of buffered records satisfied `privacy.{model.name}`" for model in builtin.PRIVACY_MODELS
    }
    known = {**SUPPRESSION_MEANINGS, **models, LINKABLE: LINKABLE_MEANING}
    return _table(("reason for suppression", "meaning"), _pairs({name: known[name] for name in EVERY_MODEL.reasons}))


def privacy_models(_: str) -> str:
    rows = [
        (f"`{model.name}` ({_title(model)[1]})", model.statement, model.not_covered) for model in builtin.PRIVACY_MODELS
    ]
    return _table(("setting", "statement for every release", "not covered"), rows)


def rejections(_: str) -> str:
    return _table(("reason for rejection", "meaning"), _pairs(REJECTION_MEANINGS))


def contract(_: str) -> str:
    rows = [(EFFECTS[meaning], ", ".join(f"`{word}`" for word in words)) for meaning, words in WORDS.items()]
    return _table(("effect", "words"), rows)


def _pairs(meanings: Any) -> list[tuple[str, ...]]:
    return [(f"`{name}`", _markdown(text)) for name, text in meanings.items()]


class _Group:
    """A metric group that records the names of its metrics."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}

    def add_group(self, name: str) -> _Group:
        return self

    def counter(self, name: str) -> Any:
        self.known[name] = "counter"
        return SimpleNamespace(inc=lambda _: None)

    def gauge(self, name: str, read: Callable[[], int]) -> None:
        self.known[name] = "gauge"


def metrics_of_algorithms() -> dict[str, tuple[str, list[str]]]:
    """Return the type of each metric of a job and the algorithms that have it, by name."""
    policy = Policy({"NAME": Numeric((0, 9))}, sensitive=("SENSITIVE",))
    found: dict[str, tuple[str, list[str]]] = {}
    for kind in builtin.ALGORITHMS:
        group: Any = _Group()
        algorithm: Any = TypeAdapter(kind).validate_python(yaml.safe_load(kind.example))
        waiting = WaitingTimes(WatermarkMerger(1), timed=True)
        ShardMetrics(group, list, ShardContext(policy, EVERY_MODEL, algorithm, pa.schema([])), waiting)
        for name, metric in group.known.items():
            found.setdefault(name, (metric, []))[1].append(kind.name)
    return found


def metrics_of_shards() -> dict[str, str]:
    """Return the type of each metric of encode by name; ``NUMBER`` stands for a shard, ``NAME`` for a field."""
    group: Any = _Group()
    for regions in (False, True):
        register_loads(Metrics(group), Loads(np.array([0.5, 0.5])), regions=regions)
    unknown = UnknownFields()
    unknown.add(["NAME"], 1)
    register_unknown(Metrics(group), unknown)()
    return {re.sub(r"_\d+_", "_NUMBER_", name): kind for name, kind in group.known.items()}


def metrics(of: str) -> str:
    if of == "shards":
        rows = [(f"`{name}`", kind, _metric(name)) for name, kind in sorted(metrics_of_shards().items())]
        return _table(("metric of encode", "type", "meaning"), rows)
    has = metrics_of_algorithms()
    every = len(builtin.ALGORITHMS)
    return _table(
        ("metric", "type", "algorithm", "meaning"),
        [
            (f"`{name}`", kind, "all" if len(names) == every else ", ".join(sorted(names)), _metric(name))
            for name, (kind, names) in has.items()
        ],
    )


def _metric(name: str) -> str:
    return next(_markdown(text) for pattern, text in MEANINGS.items() if fnmatch(name, pattern))


def connectors(_: str) -> str:
    """Return the connectors that deliver each record once, as source and as sink."""
    of_kafka = "with `sink.delivery-guarantee: exactly-once` and a `sink.transactional-id-prefix` of its own"
    rows = [
        (
            f"`{name}`",
            connector.replays or "no source",
            of_kafka if name == "kafka" else "yes" if connector.publishes_once else "no sink",
        )
        for name, connector in CONNECTORS.items()
        if connector.replays or connector.publishes_once
    ]
    return _table(("connector", "as source: it resumes at a checkpoint", "as sink: it publishes at a checkpoint"), rows)


GENERATORS: dict[str, Callable[[str], str]] = {
    "api": api,
    "command": command,
    "configuration": configuration,
    "connectors": connectors,
    "contract": contract,
    "kinds": kinds,
    "metrics": metrics,
    "outputs": outputs,
    "privacy_models": privacy_models,
    "rejections": rejections,
    "suppressions": suppressions,
}
"""Function of the text that each comment stands for."""
