"""The pages say what the code has, and the code has what their tables name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import numpy as np
import pyarrow as pa
import pytest
import typer
import yaml
from pydantic.fields import FieldInfo

from crenel.anonymity import builtin
from crenel.anonymity.algorithm import Algorithm, Output, ShardContext
from crenel.anonymity.algorithms.batch.windows import ClosedBy
from crenel.anonymity.algorithms.nearest.algorithm import NearestParameters
from crenel.anonymity.algorithms.ola.algorithm import OlaParameters
from crenel.anonymity.algorithms.suhdsa.parameters import SuhdsaParameters
from crenel.anonymity.builtin import SUHDSA
from crenel.anonymity.model.attributes import Noised, Numeric
from crenel.anonymity.model.outcomes import KINDS, REJECTIONS
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Confidence, Lasting, NoiseWithin, Privacy
from crenel.anonymity.model.secret import Secret
from crenel.anonymity.regions.loads import Loads
from crenel.jobs.anonymize import main as anonymize
from crenel.jobs.causes import CAUSES
from crenel.jobs.cli.app import app
from crenel.jobs.config.fields import Section
from crenel.jobs.config.load import load
from crenel.jobs.config.schema import file_model
from crenel.operators.output_columns import REFERENCE, SQL, own_columns

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), ROOT / "docker" / "README.md"]
PACKAGES = (
    "anonymity",
    "benchmarks",
    "conf",
    "crenel",
    "docker",
    "docs",
    "evidence",
    "examples",
    "experiments",
    "jobs",
    "operators",
    "state",
    "tests",
)

ALGORITHMS: list[Algorithm] = [*builtin.ALGORITHMS]

MODELS = {model.name: model for model in builtin.PRIVACY_MODELS}
EVERY_REASON = Privacy(
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

_FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`")


# Facts of the code.


@pytest.fixture(autouse=True)
def _only_what_comes_with_crenel(monkeypatch: pytest.MonkeyPatch) -> None:
    # Other tests make algorithms and promises of their own known.
    monkeypatch.setattr("crenel.anonymity.algorithm._KNOWN", {known.name: known for known in ALGORITHMS})
    monkeypatch.setattr("crenel.anonymity.model.privacy_model._KNOWN", MODELS)


def parameters(section: type[Section] | None = None, prefix: str = "") -> dict[str, FieldInfo]:
    """Return every parameter of the file by its dotted name; ``NAME`` stands for a name of the user's own."""
    section = section or file_model()
    found: dict[str, FieldInfo] = {}
    for name, field in section.model_fields.items():
        inner = [(f"{prefix}{name}.{of}", below) for of, below in _sections(field.annotation)]
        for place, below in inner:
            found |= parameters(below, place)
        if not inner:
            found[prefix + name] = field
    return found


def _sections(annotation: Any, of: str = "") -> Iterator[tuple[str, type[Section]]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield of, annotation
    elif get_origin(annotation) is dict:
        yield from _sections(get_args(annotation)[1], "NAME.")
    elif get_origin(annotation) in (Annotated, Union, UnionType):
        for argument in get_args(annotation):
            yield from _sections(argument, of)


def words() -> dict[str, set[str]]:
    """Return the names of kinds and reasons, by the heading of their table."""
    return {
        "kind of release": set(KINDS),
        "reason for suppression": set(EVERY_REASON.reasons),
        "reason for rejection": set(REJECTIONS),
    }


def metrics() -> dict[str, dict[str, str]]:
    """Type of each metric by name, by algorithm."""
    from crenel.operators.shards.metrics import ShardMetrics
    from tests.support.fakes import FakeCounter, FakeMetrics

    found = {}
    policy = Policy((Numeric("NAME", (0, 9)),), ("SENSITIVE",))
    for algorithm in ALGORITHMS:
        group: Any = FakeMetrics()
        bounded = SimpleNamespace(delay_tuples=9, window=ClosedBy(9))
        ShardMetrics(group, list, algorithm, ShardContext(policy, EVERY_REASON, bounded, pa.schema([])))
        found[algorithm.name] = {
            path.removeprefix("crenel."): "counter" if isinstance(metric, FakeCounter) else "gauge"
            for path, metric in group.known.items()
        }
    return found


def metrics_of_shards() -> dict[str, str]:
    """Type of each metric by name, of two shards or regions; ``NUMBER`` stands for that of a shard."""
    from crenel.operators.encode.function import register_loads
    from tests.support.fakes import FakeCounter, FakeMetrics

    group: Any = FakeMetrics()
    for regions in (False, True):
        register_loads(group, Loads(np.array([0.5, 0.5])), regions=regions)
    return {
        re.sub(r"_\d+_", "_NUMBER_", path.removeprefix("crenel.")): "counter"
        if isinstance(metric, FakeCounter)
        else "gauge"
        for path, metric in group.known.items()
    }


def columns_of_sinks() -> dict[str, list[str]]:
    """Names of the columns of each sink.

    For a policy that generalizes ``NAME``, has the sensitive ``SENSITIVE``, and noises ``NOISED``.
    """
    from crenel.jobs.pipeline.anonymizer import outputs
    from tests.support.layouts import layout_of

    noised = (Noised("NOISED", (0, 9)),)
    policy = Policy((Numeric("NAME"),), ("SENSITIVE",), noised=noised, event_time="TIME", reference="LINE")
    types = {"NAME": "INT", "SENSITIVE": "STRING", "NOISED": "INT", "TIME": "BIGINT", "LINE": "BIGINT"}
    of_window = {"algorithm": SUHDSA, "parameters": SuhdsaParameters(tuples=20)}
    found = outputs(layout_of(policy, types, **of_window, audit_chain=Secret("audit_chain.key")))
    return {sink: [column.name for column in columns] for sink, (columns, _) in found.items()}


def options() -> dict[str, set[str]]:
    """Commands that have it, by option of the command line."""
    found: dict[str, set[str]] = {}
    for name, command in typer.main.get_command(app).commands.items():
        for parameter in command.params:
            for option in parameter.opts:
                if option.startswith("--"):
                    found.setdefault(option, set()).add(name)
    return found


# Statements of the pages.


def prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def rows(page: str, heading: str) -> list[dict[str, str]]:
    """Return the rows of all tables of a page whose first column has this heading, by the headings of columns."""
    found, header = [], None
    for line in prose(DOCS / page).splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else None
        if cells is None:
            header = None
        elif header is None:
            header = cells
        elif header[0] == heading and set(cells[0]) != {"-"}:
            found.append(dict(zip(header, cells, strict=True)))
    return found


def named(page: str, heading: str) -> list[str]:
    """Return the names in the first column of those tables."""
    return [name for row in rows(page, heading) for name in _CODE.findall(row[heading])]


def test_every_parameter_is_in_the_tables_and_every_one_in_the_tables_is_a_parameter() -> None:
    documented = [name.removesuffix(".NAME") for name in named("configuration.md", "parameter")]
    assert len(documented) == len(set(documented))
    assert set(documented) == parameters().keys()


def test_defaults_are_those_of_the_code() -> None:
    known = parameters()
    for row in rows("configuration.md", "parameter"):
        (name,) = _CODE.findall(row["parameter"])
        field = known[name.removesuffix(".NAME")]
        if field.is_required():
            assert row["default"].startswith(("required", "or ")), name
        elif isinstance(field.default, str | int | float):
            assert yaml.safe_load(row["default"].strip("`")) == field.default, name


def test_every_sink_is_in_the_table() -> None:
    assert {f"sinks.{name}" for name in named("outputs.md", "sink")} == {
        name for name in parameters() if name.startswith("sinks.")
    }


@pytest.mark.parametrize("sink", list(REFERENCE))
def test_the_columns_of_an_output_are_documented_as_they_are_declared(sink: str) -> None:
    declared = [
        [f"`{column.name}`", code(column.published or SQL[column.kind]), column.since, column.meaning]
        for column in REFERENCE[sink]
    ]
    assert [list(row.values()) for row in rows("outputs.md", f"column of `{sink}`")] == declared


@pytest.mark.parametrize("output", SUHDSA.outputs, ids=lambda output: output.name)
def test_the_columns_of_an_output_of_an_algorithm_are_documented_with_their_types(output: Output) -> None:
    declared = {
        f"`{column.name}`": "as in the source" if column.name == "event_time" else code(SQL[column.kind])
        for column in own_columns(output)
    }
    heading = f"column of `{output.name}`"
    assert {row[heading]: row["type"] for row in rows("outputs.md", heading)} == declared


def test_every_column_of_a_sink_is_documented() -> None:
    for sink, names in columns_of_sinks().items():
        documented = {
            name for row in rows("outputs.md", f"column of `{sink}`") for name in _CODE.findall(" ".join(row.values()))
        }
        shared = {"NAME_min", "NAME_max"} if sink == "audit" else set()
        assert {name.replace("SENSITIVE", "NAME").replace("NOISED", "NAME") for name in names} - shared <= documented, (
            sink
        )


def code(types: str) -> str:
    """Return a text with its SQL types as code."""
    return re.sub(r"\b[A-Z][A-Z_]+(\(\d\))?", r"`\g<0>`", types)


@pytest.mark.parametrize("heading", list(words()))
def test_every_kind_and_reason_is_in_the_tables(heading: str) -> None:
    documented = named("outputs.md", heading)
    assert len(documented) == len(set(documented))
    assert set(documented) == words()[heading]


def test_every_metric_is_in_the_table_with_its_type_and_algorithm() -> None:
    known = metrics()
    documented = {
        _CODE.findall(row["metric"])[0]: (row["type"], row["algorithm"]) for row in rows("outputs.md", "metric")
    }
    has: dict[str, tuple[str, list[str]]] = {}
    for algorithm, types in known.items():
        for name, kind in types.items():
            has.setdefault(name, (kind, []))[1].append(algorithm)
    of = {name: "all" if len(names) == len(known) else ", ".join(sorted(names)) for name, (_, names) in has.items()}
    assert documented == {name: (kind, of[name]) for name, (kind, _) in has.items()}


def test_every_metric_of_shards_is_in_the_table_with_its_type() -> None:
    documented = {
        _CODE.findall(row["metric of shards"])[0]: row["type"] for row in rows("outputs.md", "metric of shards")
    }
    assert documented == metrics_of_shards()


def test_what_to_watch_is_a_metric() -> None:
    known = {name for types in metrics().values() for name in types} | metrics_of_shards().keys()
    watched = named("operations.md", "metric")
    assert watched
    assert [pattern for pattern in watched if not any(fnmatch(name, pattern) for name in known)] == []


def test_every_option_of_the_command_line_is_in_the_table() -> None:
    documented = {
        option: set(_CODE.findall(row["of"]))
        for row in rows("operations.md", "option")
        for option in _CODE.findall(row["option"])
    }
    assert documented == options()
    text = (DOCS / "operations.md").read_text(encoding="utf-8")
    for command in typer.main.get_command(app).commands:
        assert f"crenel {command}" in text
    assert "crenel --version" in text


def test_the_options_of_the_job_for_a_cluster_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        anonymize(["--help"])
    known = set(re.findall(r"--\w+", capsys.readouterr().out)) - {"--help"}
    assert known
    for option in known:
        assert option in (DOCS / "operations.md").read_text(encoding="utf-8")


def test_every_cause_of_a_failed_job_is_in_the_table_of_troubleshooting() -> None:
    text = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    section = text.partition("## While the job runs\n")[2].partition("\n## ")[0]
    documented = {_CODE.findall(line)[0]: line for line in section.splitlines() if line.startswith("| `")}
    assert [cause.phrase for cause in CAUSES if cause.phrase not in documented] == []
    for line in documented.values():
        assert len(line.strip("| ").split(" | ")) == 3, line


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page, made of its headings as GitHub does."""
    found = set()
    for title in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE):
        found.add(re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-"))
    return found


def test_every_included_part_of_a_file_is_there() -> None:
    include = re.compile(r'^```\{include\} (\S+)\n:start-after: "(.+)"\n:end-before: "(.+)"\n```$', re.MULTILINE)
    pages = [page for page in sorted(DOCS.glob("*/*.md")) if "{include}" in page.read_text(encoding="utf-8")]
    for page in pages:
        for path, begin, end in include.findall(page.read_text(encoding="utf-8")):
            text = (page.parent / path).read_text(encoding="utf-8")
            assert text.count(begin) == text.count(end) == 1, (page.name, begin)
            included = text[text.index(begin) + len(begin) : text.index(end)]
            assert included.startswith("\n| "), (page.name, begin)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.is_file() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_modules_and_targets_that_a_page_names_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    paths = re.findall(rf"(?<![\w./$-])(?:{'|'.join(PACKAGES)})/[\w./*-]*\w", text)
    modules = [name for name in re.findall(r"python -m ([\w.]+)", text) if name.partition(".")[0] in PACKAGES]
    targets = re.findall(r"(?:^|`)make (\w+)", text, re.MULTILINE)
    made = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert [path for path in paths if not list(ROOT.glob(path))] == []
    for name in modules:
        place = ROOT / name.replace(".", "/")
        assert place.with_suffix(".py").is_file() or (place / "__main__.py").is_file(), name
    assert set(targets) <= set(made)


def test_every_page_is_in_the_readme_and_every_example_in_a_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for page in DOCS.glob("*.md"):
        assert f"(docs/{page.name})" in readme
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    examples = sorted((ROOT / "conf").glob("*.yaml"))
    assert examples
    assert [path.name for path in examples if f"conf/{path.name}" not in text] == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 100


def blocks(page: Path) -> list[str]:
    """Return the blocks of YAML of a page."""
    return re.findall(r"^```yaml\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the hierarchies of the policies on the pages."""
    (tmp_path / "hierarchies").symlink_to(ROOT / "conf" / "hierarchies")
    monkeypatch.setenv("CRENEL_SUBJECT_KEY", "sixteen bytes or more")
    return tmp_path


def test_the_policies_of_readme_and_configuration_are_valid(folder: Path) -> None:
    for page, count, key in ((ROOT / "README.md", 1, b""), (DOCS / "configuration.md", 4, b"sixteen bytes or more")):
        (block,) = blocks(page)
        path = folder / "policy.yaml"
        path.write_text(block, encoding="utf-8")
        config = load(path)
        assert (config.privacy.k, config.privacy.l, config.shards.count) == (10, 2, count)
        assert (config.parameters.delay_tuples, config.subject_key.read()) == (200, key)


def test_the_hierarchies_of_the_configuration_are_built(folder: Path) -> None:
    text = (DOCS / "configuration.md").read_text(encoding="utf-8")
    (block,) = [found for found in re.findall(r"^```\w*\n(.*?)^```$", text, re.M | re.S) if "{numbers: {" in found]
    path = folder / "policy.yaml"
    path.write_text(blocks(DOCS / "configuration.md")[0], encoding="utf-8")
    fields = yaml.load(block, yaml.BaseLoader).items()
    config = load(path, [f"policy.quasi_identifiers.{name}={json.dumps(field)}" for name, field in fields])
    labels = {attribute.name: attribute.hierarchy.labels for attribute in config.policy.categorical}
    for row in rows("configuration.md", "builder"):
        kind = _CODE.findall(row["builder"])[0]
        (name,) = [name for name, field in fields if kind in field["hierarchy"]]
        shown = [label for label in _CODE.findall(row["labels"].partition(";")[0]) if " to " not in label]
        assert set(shown) <= set(labels[name]), kind


def test_what_algorithms_adds_to_a_policy_is_valid(folder: Path) -> None:
    path = folder / "policy.yaml"
    path.write_text(blocks(DOCS / "configuration.md")[0], encoding="utf-8")
    near, persons, windows, cut, levels, within, noise = (
        yaml.safe_load(block) for block in blocks(DOCS / "algorithms.md")
    )
    apart = load(
        path,
        [
            f"policy.noised={json.dumps(within['policy']['noised'])}",
            f"noise_within_release={json.dumps(within['noise_within_release'])}",
        ],
    )
    assert [attribute.name for attribute in apart.policy.noised] == ["height", "weight"]
    assert apart.privacy.noise_within == NoiseWithin(2)
    nearest = load(path, ["castle=null", *(f"{name}={json.dumps(value)}" for name, value in near.items())])
    assert nearest.parameters == NearestParameters(1000)
    lasting = {name: value for name, value in persons["privacy"].items() if name == "persons"}
    comes_again = load(
        path,
        [
            "castle=null",
            *(f"{name}={json.dumps(value)}" for name, value in near.items()),
            "nearest.delay.event_time=6 h",
            f"privacy.persons={json.dumps(lasting['persons'])}",
        ],
    )
    assert comes_again.privacy.lasting == Lasting(30 * 24 * 3_600_000, "widen")
    at_rest = load(path, ["castle=null", *(f"{name}={json.dumps(value)}" for name, value in cut.items())])
    assert (at_rest.algorithm.name, at_rest.parameters.window) == ("mondrian", ClosedBy(10_000, 3_600_000))
    area = "policy.quasi_identifiers={area: {type: categorical, hierarchy: hierarchies/area.csv}}"
    alike = load(path, ["castle=null", area, *(f"{name}={json.dumps(value)}" for name, value in levels.items())])
    assert alike.parameters == OlaParameters(ClosedBy(10_000, 3_600_000))
    windowed = load(path, ["castle=null", *(f"{name}={json.dumps(value)}" for name, value in windows.items())])
    assert (windowed.algorithm.name, windowed.parameters.delay_tuples) == ("suhdsa", 100)
    fields = noise["policy"]["quasi_identifiers"].items()
    noised = load(
        path,
        [
            f"sampling_and_noise={json.dumps(noise['sampling_and_noise'])}",
            *(f"policy.quasi_identifiers.{name}={json.dumps(field)}" for name, field in fields),
        ],
    )
    assert noised.sampling_and_noise is not None
    assert (noised.sampling_and_noise.sample_rate, noised.sampling_and_noise.phi) == (0.5, 100)
    assert [attribute.step for attribute in noised.policy.numeric] == [None, 0.5]
