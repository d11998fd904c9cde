"""Tables of the reference, made from the code.

A page has a comment ``<!-- generated: NAME ARGUMENT -->`` in the place of each table. The meaning of a parameter is an
attribute in the docstring of its section's model, or of the class in ``crenel.settings`` for the same section.
"""

from __future__ import annotations

import dataclasses
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatch
from inspect import cleandoc
from pathlib import Path
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import pyarrow as pa
import typer
from pydantic.fields import FieldInfo

import crenel
from crenel import settings
from crenel.anonymity import builtin
from crenel.anonymity.algorithm import ShardContext, known_algorithms
from crenel.anonymity.algorithms.batch.windows import ClosedBy
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.outcomes import (
    KIND_MEANINGS,
    LINKABLE,
    LINKABLE_MEANING,
    REJECTION_MEANINGS,
    SUPPRESSION_MEANINGS,
)
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Confidence, Lasting, NoiseWithin, Privacy
from crenel.anonymity.regions.loads import Loads
from crenel.evidence.profile.contract import EFFECTS, WORDS
from crenel.jobs.cli.app import app
from crenel.jobs.config import delivery
from crenel.jobs.config.fields import Section
from crenel.jobs.config.schema import GeneralizedAttribute, file_model
from crenel.operators.encode.function import register_loads, register_unknown
from crenel.operators.encode.records import UnknownFields
from crenel.operators.metrics import Metrics
from crenel.operators.output_columns import REFERENCE, SQL, OutputColumn, own_columns
from crenel.operators.shards.metrics import MEANINGS, ShardMetrics

_SINCE = Path(__file__).with_name("since.txt")
_PLACE = re.compile(r"^<!-- generated: (\w+)(?: (.+?))? -->$", re.MULTILINE)
_ATTRIBUTES = re.compile(r"^Attributes\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}$|\Z)", re.MULTILINE | re.DOTALL)
_SQL = re.compile(r"\b[A-Z][A-Z_]+(\(\d\))?")

EVERY_MODEL = Privacy(
    2,
    further=(
        (builtin.ALPHA, 1.0),
        (builtin.ENTROPY_L, 1.0),
        (builtin.RECURSIVE, (1.0, 2.0)),
        (builtin.T, 1.0),
        (builtin.BETA, 1.0),
    ),
    noise_within=NoiseWithin(1, confidence=Confidence(0.9, 2)),
    lasting=Lasting(),
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


def parameters(section: type[Section] | None = None) -> Iterator[Parameter]:
    """Yield every parameter of the file, in the order of the schema."""
    return _parameters(section or file_model(), "", (settings.Settings,), "")


def _parameters(section: type[Section], prefix: str, classes: tuple[type, ...], optional: str) -> Iterator[Parameter]:
    for name, field in section.model_fields.items():
        # The parameters of a hierarchy stand on a page of their own, as those of quasi-identifiers.
        inner = [] if section is GeneralizedAttribute and name == "hierarchy" else [*_sections(field.annotation)]
        for of, below in inner:
            needed = optional if field.is_required() else prefix + name
            yield from _parameters(below, f"{prefix}{name}.{of}", _classes_of(name, classes), "" if of else needed)
        if not inner:
            values = _markdown(field.description or "")
            yield Parameter(prefix + name, values, _default(field, optional), _meaning(name, (section, *classes)))


def _sections(annotation: Any, of: str = "") -> Iterator[tuple[str, type[Section]]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield of, annotation
    elif get_origin(annotation) is dict:
        yield from _sections(get_args(annotation)[1], "NAME.")
    elif get_origin(annotation) in (Annotated, Union, UnionType):
        for argument in get_args(annotation):
            yield from _sections(argument, of)


def _default(field: FieldInfo, optional: str) -> str:
    if field.is_required():
        return f"required with `{optional}`" if optional else "required"
    value = field.get_default(call_default_factory=True)
    return f"`{value if isinstance(value, str) and value.isidentifier() else json.dumps(value)}`"


def _classes_of(name: str, classes: tuple[type, ...]) -> tuple[type, ...]:
    """Return the classes of ``crenel.settings`` for a section within those of another."""
    builtins = {known.name: known for known in settings.BUILTIN}
    if name in builtins:
        return (builtins[name],)
    # Classes that settings.py imports for types alone hold no parameters.
    unknown = {"Hierarchy": object, "Config": object}
    hints = (get_type_hints(known, localns=unknown)[name] for known in classes if name in known.__dataclass_fields__)
    found = (part for hint in hints for part in _dataclasses(hint))
    # The builders of hierarchies are classes of their own: Numbers for the section numbers.
    return (*found, *(known for known in classes if known.__name__.lower() == name))


def _dataclasses(hint: Any) -> Iterator[type]:
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        yield hint
    for argument in get_args(hint):
        yield from _dataclasses(argument)


def attributes(of: type) -> dict[str, str]:
    """Return the description of each attribute in the docstrings of a class and its bases."""
    described: dict[str, str] = {}
    for base in reversed(of.__mro__):
        found = _ATTRIBUTES.search(cleandoc(vars(base).get("__doc__") or ""))
        for item in re.split(r"\n(?=\S)", found[1].strip("\n") if found else ""):
            names, _, text = item.partition(" : ")
            described |= {name.strip(): _markdown(text) for name in names.split(",")}
    return described


def _meaning(name: str, classes: tuple[type, ...]) -> str:
    """Return the description of a parameter, in terms of the file: ``null`` for None, and values without quotes."""
    text = next((found[name] for found in map(attributes, classes) if name in found), "")
    return re.sub(r"`\"(.+?)\"`", r"`\1`", re.sub(r"\bNone\b", "`null`", text))


def first_versions() -> dict[str, str]:
    """Return the version of Crenel that first had each parameter under its name, from ``since.txt``."""
    found, version = {}, ""
    for line in _SINCE.read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):
            found[line.strip()] = version
        elif not line.startswith("#"):
            version = line
    return found


def configuration(names: str) -> str:
    """Return the parameters below the given names, each with a heading; ``-NAME`` leaves out those below a name."""
    wanted = [name for name in names.split() if not name.startswith("-")]
    without = [name[1:] for name in names.split() if name.startswith("-")]
    found = [of for of in parameters() if _is_below(of.name, wanted) and not _is_below(of.name, without)]
    since = first_versions()
    return "\n\n".join(
        f"### `{of.name}`\n\n{_sentence(of.meaning)}\n\n- Values: {of.values}\n- Default: {of.default}\n"
        f"- Since: {since[of.name]}"
        for of in found
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
    """Return directives for all public names of modules, as names of ``crenel``."""
    names = [name for name in crenel.__all__ if crenel._NAMES[name] in modules.split()]
    lines = []
    for name in names:
        found = getattr(crenel, name)
        kind = "class" if isinstance(found, type) else "function" if callable(found) else "data"
        lines += [f".. auto{kind}:: crenel.{name}", "   :members:" if kind == "class" else "   :no-value:", ""]
    return "\n".join(["```{eval-rst}", *lines, "```"]).replace("   :no-value:\n", "\n")


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
    rows = [(f"`{of.name}`", _type_of(of, output), of.since, of.meaning.replace("``", "`")) for of in columns]
    return _table((f"column of `{output}`", "type", "since", "meaning"), rows)


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
    policy = Policy((Numeric("NAME", (0, 9)),), ("SENSITIVE",))
    found: dict[str, tuple[str, list[str]]] = {}
    for algorithm in builtin.ALGORITHMS:
        group: Any = _Group()
        bounded = SimpleNamespace(delay_tuples=9, window=ClosedBy(9))
        ShardMetrics(group, list, algorithm, ShardContext(policy, EVERY_MODEL, bounded, pa.schema([])))
        for name, kind in group.known.items():
            found.setdefault(name, (kind, []))[1].append(algorithm.name)
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
    names = dict.fromkeys([*delivery._REPLAYED, *delivery._ONCE])
    of_kafka = "with `sink.delivery-guarantee: exactly-once` and a `sink.transactional-id-prefix` of its own"
    rows = [
        (
            f"`{name}`",
            delivery._REPLAYED.get(name, "no source"),
            of_kafka if name == "kafka" else "yes" if name in delivery._ONCE else "no sink",
        )
        for name in names
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
    "rejections": rejections,
    "suppressions": suppressions,
}
"""Function of the text that each comment stands for."""
