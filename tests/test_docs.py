"""The pages say what the code has, and the code has what their tables name."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest
import reference
import yaml

import crenel
from crenel.anonymity import builtin
from crenel.anonymity.algorithm import Algorithm
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.algorithms.ola.algorithm import Ola
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.model.attributes import Noised, Numeric, by_name
from crenel.anonymity.model.delay import Delay, Window
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import NoiseWithinRelease, Persons, Privacy
from crenel.anonymity.model.secret import Secret
from crenel.jobs.anonymize import main as anonymize
from crenel.jobs.causes import CAUSES
from crenel.jobs.config.load import load

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SITE = [page for page in sorted(DOCS.glob("**/*.md")) if "_build" not in page.parts]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *SITE, ROOT / "docker" / "README.md"]
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

CONFIGURATION = DOCS / "reference" / "configuration"

ALGORITHMS: list[type[Algorithm]] = [*builtin.ALGORITHMS]

MODELS = {model.name: model for model in builtin.PRIVACY_MODELS}
_FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`")


# Facts of the code.


@pytest.fixture(autouse=True)
def _only_what_comes_with_crenel(monkeypatch: pytest.MonkeyPatch) -> None:
    # Other tests make algorithms and promises of their own known.
    monkeypatch.setattr("crenel.anonymity.algorithm._KNOWN", {known.name: known for known in ALGORITHMS})
    monkeypatch.setattr("crenel.anonymity.model.privacy_model._KNOWN", MODELS)


def columns_of_sinks() -> dict[str, list[str]]:
    """Names of the columns of each sink.

    For a policy that generalizes ``NAME``, has the sensitive ``SENSITIVE``, and noises ``NOISED``.
    """
    from crenel.jobs.pipeline.anonymizer import outputs
    from tests.support.layouts import layout_of

    noised = (Noised((0, 9)).named("NOISED"),)
    policy = Policy(
        {"NAME": Numeric()},
        sensitive=("SENSITIVE",),
        noised=by_name(noised),
        event_time="TIME",
        reference="LINE",
    )
    types = {"NAME": "INT", "SENSITIVE": "STRING", "NOISED": "INT", "TIME": "BIGINT", "LINE": "BIGINT"}
    noisy, chain = Privacy(2, noise_within_release=NoiseWithinRelease(1)), Secret("audit_chain.key")
    found = outputs(layout_of(policy, types, algorithm=Suhdsa(tuples=20), privacy=noisy, audit_chain=chain))
    return {sink: [column.name for column in columns] for sink, (columns, _) in found.items()}


# Statements of the pages.


@cache
def prose(page: Path) -> str:
    """Return a page with its generated tables, and without its blocks of code."""
    return _FENCE.sub("", reference.expand(page.read_text(encoding="utf-8")))


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


def comments(name: str) -> list[tuple[Path, list[str]]]:
    """Return page and arguments of each comment that a generated table of this name replaces."""
    found = re.compile(rf"^<!-- generated: {name}(?: (.+))? -->$", re.MULTILINE)
    return [(page, (match[1] or "").split()) for page in SITE for match in found.finditer(page.read_text("utf-8"))]


def test_every_parameter_has_a_meaning_and_stands_on_one_page() -> None:
    assert [of.name for of in reference.parameters() if not of.meaning or not of.values] == []
    shown = [
        name
        for _, arguments in comments("configuration")
        for name in re.findall(r"^### `(.+)`$", reference.configuration(" ".join(arguments)), re.MULTILINE)
    ]
    assert sorted(shown) == sorted(of.name for of in reference.parameters())


def test_the_default_of_a_parameter_is_shown_as_a_file_has_it() -> None:
    shown = {of.name: of.default for of in reference.parameters()}
    assert shown["privacy.k"] == "required"
    assert shown["policy.pseudonym.scope"] == "required with `policy.pseudonym`"
    assert shown["policy.quasi_identifiers.NAME.publish"] == "`numeric`: `interval`; `categorical`: `ancestor`"
    for name, value in (("algorithm", "castle"), ("policy.subject", None), ("suhdsa.distortion_weight", 0.7)):
        assert yaml.safe_load(shown[name].strip("`")) == value


def test_a_setting_that_an_algorithm_lacks_is_no_parameter() -> None:
    shown = {of.name for of in reference.parameters()}
    assert "castle.delay.jitter" in shown
    assert "suhdsa.delay.jitter" not in shown


def test_the_python_reference_has_the_fields_that_a_class_inherits() -> None:
    names = {line.partition(" : ")[0] for line in reference.inherited(crenel.Castle) if not line.startswith(" ")}
    assert names == {"delay", "loss_window", "reuse_limit", "suppression", "weights"}


def test_every_command_name_of_the_library_and_output_stands_on_a_page() -> None:
    assert {name for _, (name,) in comments("command")} == reference.commands().keys()
    assert {module for _, modules in comments("api") for module in modules} == {*crenel._NAMES.values()}
    sinks = {of.name.removeprefix("sinks.") for of in reference.parameters() if of.name.startswith("sinks.")}
    assert {name for _, (name,) in comments("outputs")} == sinks == {*named("reference/outputs.md", "sink")}


@pytest.mark.parametrize("name", reference.GENERATORS)
def test_generated_text_has_no_empty_cell(name: str) -> None:
    for _, arguments in comments(name):
        text = reference.GENERATORS[name](" ".join(arguments))
        assert text
        assert [line for line in text.splitlines() if re.search(r"\|\s+\|", line)] == []


def test_every_column_of_a_sink_is_documented() -> None:
    for sink, names in columns_of_sinks().items():
        documented = {
            name
            for row in rows("reference/outputs.md", f"column of `{sink}`")
            for name in _CODE.findall(" ".join(row.values()))
        }
        shared = {"NAME_min", "NAME_max"} if sink == "audit" else set()
        assert {name.replace("SENSITIVE", "NAME").replace("NOISED", "NAME") for name in names} - shared <= documented, (
            sink
        )


def test_what_to_watch_is_a_metric() -> None:
    known = reference.metrics_of_algorithms().keys() | reference.metrics_of_shards().keys()
    watched = named("how-to/monitor.md", "metric")
    assert watched
    assert [pattern for pattern in watched if not any(fnmatch(name, pattern) for name in known)] == []


def test_the_options_of_the_job_for_a_cluster_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        anonymize(["--help"])
    known = set(re.findall(r"--\w+", capsys.readouterr().out)) - {"--help"}
    assert known
    for option in known:
        assert option in (DOCS / "reference" / "command-line.md").read_text(encoding="utf-8")


def test_every_cause_of_a_failed_job_is_in_the_table_of_troubleshooting() -> None:
    text = (DOCS / "how-to" / "troubleshoot.md").read_text(encoding="utf-8")
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
    text = re.sub(r"\]\(.*?\)|```\{toctree\}.*?```", "]", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    paths = re.findall(rf"(?<![\w./$-])(?:{'|'.join(PACKAGES)})/[\w./*-]*\w", text)
    modules = [name for name in re.findall(r"python -m ([\w.]+)", text) if name.partition(".")[0] in PACKAGES]
    targets = re.findall(r"(?:^|`)make (\w+)", text, re.MULTILINE)
    made = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    made_by_make_docs = ("docs/_build",)
    assert [path for path in paths if not path.startswith(made_by_make_docs) and not list(ROOT.glob(path))] == []
    for name in modules:
        place = ROOT / name.replace(".", "/")
        assert place.with_suffix(".py").is_file() or (place / "__main__.py").is_file(), name
    assert set(targets) <= set(made)


def test_every_example_is_in_a_page() -> None:
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
    for page, count, key in ((ROOT / "README.md", 1, b""), (CONFIGURATION / "index.md", 4, b"sixteen bytes or more")):
        (block,) = blocks(page)
        path = folder / "policy.yaml"
        path.write_text(block, encoding="utf-8")
        config = load(path)
        assert (config.privacy.k, config.privacy.l, config.shards.count) == (10, 2, count)
        assert (config.algorithm.delay.tuples, config.subject_key.read()) == (200, key)


def test_the_hierarchies_of_the_configuration_are_built(folder: Path) -> None:
    text = (CONFIGURATION / "hierarchies.md").read_text(encoding="utf-8")
    (block,) = [found for found in re.findall(r"^```\w*\n(.*?)^```$", text, re.M | re.S) if "{numbers: {" in found]
    path = folder / "policy.yaml"
    path.write_text(blocks(CONFIGURATION / "index.md")[0], encoding="utf-8")
    fields = yaml.load(block, yaml.BaseLoader).items()
    config = load(path, [f"policy.quasi_identifiers.{name}={json.dumps(field)}" for name, field in fields])
    labels = {attribute.name: attribute.hierarchy.labels for attribute in config.policy.categorical}
    for row in rows("reference/configuration/hierarchies.md", "builder"):
        kind = _CODE.findall(row["builder"])[0]
        (name,) = [name for name, field in fields if kind in field["hierarchy"]]
        shown = [label for label in _CODE.findall(row["labels"].partition(";")[0]) if " to " not in label]
        assert set(shown) <= set(labels[name]), kind


def test_what_the_pages_of_algorithms_add_to_a_policy_is_valid(folder: Path) -> None:
    path = folder / "policy.yaml"
    path.write_text(blocks(CONFIGURATION / "index.md")[0], encoding="utf-8")
    (near,), (persons,), (windows,), (cut,), (levels,), (noise, within) = (
        [yaml.safe_load(block) for block in blocks(DOCS / "concepts" / f"{name}.md")]
        for name in ("nearest", "persons", "suhdsa", "mondrian", "ola", "noise")
    )
    apart = load(
        path,
        [
            f"policy.noised={json.dumps(within['policy']['noised'])}",
            f"privacy.noise_within_release={json.dumps(within['privacy']['noise_within_release'])}",
        ],
    )
    assert [attribute.name for attribute in apart.policy.noised.values()] == ["height"]
    assert apart.privacy.noise_within_release == NoiseWithinRelease(2)
    nearest = load(path, ["castle=null", *(f"{name}={json.dumps(value)}" for name, value in near.items())])
    assert nearest.algorithm == Nearest(Delay(1000))
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
    assert comes_again.privacy.lasting == Persons("lasting", 30 * 24 * 3_600_000, "widen")
    at_rest = load(path, ["castle=null", *(f"{name}={json.dumps(value)}" for name, value in cut.items())])
    assert (at_rest.algorithm.name, at_rest.algorithm.window) == ("mondrian", Window(10_000, 3_600_000))
    area = "policy.quasi_identifiers={area: {type: categorical, hierarchy: hierarchies/area.csv}}"
    alike = load(path, ["castle=null", area, *(f"{name}={json.dumps(value)}" for name, value in levels.items())])
    assert alike.algorithm == Ola(Window(10_000, 3_600_000))
    windowed = load(path, ["castle=null", *(f"{name}={json.dumps(value)}" for name, value in windows.items())])
    assert (windowed.algorithm.name, windowed.algorithm.longest_delay.tuples) == ("suhdsa", 100)
    fields = noise["policy"]["quasi_identifiers"].items()
    noised = load(
        path,
        [
            f"sampling_and_noise={json.dumps(noise['sampling_and_noise'])}",
            *(f"policy.quasi_identifiers.{name}={json.dumps(field)}" for name, field in fields),
        ],
    )
    assert noised.sampling_and_noise is not None
    assert (noised.sampling_and_noise.sample_rate, noised.sampling_and_noise.inverse_scale) == (0.5, 100)
    assert [attribute.step for attribute in noised.policy.numeric] == [None, 0.5]
