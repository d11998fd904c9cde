"""Settings as Python objects have the fields, defaults and errors of the configuration file."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import pytest

import crenel
from crenel.anonymity.algorithm import known_algorithms
from crenel.anonymity.builtin import PRIVACY_MODELS
from crenel.anonymity.model.privacy_model import known_privacy_models
from crenel.jobs.config.fields import Section
from crenel.jobs.config.schema import File, file_model
from crenel.settings import _BUILDERS, _NESTED, BUILTIN
from tests.crenel.stream import settings
from tests.support.launch import ROOT


def sections(annotation: Any) -> Iterator[type[Section]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    for argument in get_args(annotation):
        yield from sections(argument)


def pairs() -> Iterator[tuple[type[Any], type[Section]]]:
    """Yield each class with its section, nested ones too."""
    model = file_model(job=False)
    roots: list[tuple[type[Any], str]] = [
        (crenel.Policy, "policy"),
        (crenel.Privacy, "privacy"),
        (crenel.SamplingAndNoise, "sampling_and_noise"),
        (crenel.NoiseWithinRelease, "noise_within_release"),
        (crenel.Shards, "shards"),
        *((kind, kind.name) for kind in BUILTIN),
    ]
    for kind, name in roots:
        (section,) = sections(model.model_fields[name].annotation)
        yield from _with_nested(kind, section)
    (attribute,) = sections(model.model_fields["policy"].annotation.model_fields["quasi_identifiers"].annotation)
    (hierarchy,) = sections(attribute.model_fields["hierarchy"].annotation)
    for name, builder in _BUILDERS.items():
        (section,) = sections(hierarchy.model_fields[name].annotation)
        yield builder, section
    (sensitive,) = sections(model.model_fields["privacy"].annotation.model_fields["sensitive"].annotation)
    yield crenel.Sensitive, sensitive


def _with_nested(kind: type[Any], section: type[Section]) -> Iterator[tuple[type[Any], type[Section]]]:
    yield kind, section
    for (owner, name), nested in _NESTED.items():
        if owner is kind:
            for inner in sections(section.model_fields[name].annotation):
                yield nested, inner


@pytest.mark.parametrize(("kind", "section"), [*pairs()], ids=lambda of: of.__name__)
def test_a_class_has_the_fields_of_its_section_with_their_defaults(kind: type[Any], section: type[Section]) -> None:
    own = {f.name: f for f in dataclasses.fields(kind)}
    own.pop("models", None)  # of extensions
    built_in = {model.name for model in PRIVACY_MODELS}
    others = {name for name in known_privacy_models() if name not in built_in}  # of other tests in this process
    shared = own.keys() & section.model_fields.keys()
    # A Delay of SUHDSA has no jitter, and a noised attribute no choice of types.
    assert own.keys() - shared <= {"jitter"}
    assert section.model_fields.keys() - shared - others <= {"type"}
    for name in shared:
        field, of = own[name], section.model_fields[name]
        default = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
        assert (default is dataclasses.MISSING) == of.is_required(), name
        if not of.is_required():
            assert default == of.get_default(call_default_factory=True), name


def test_each_algorithm_that_comes_with_crenel_has_a_class() -> None:
    assert {kind.name for kind in BUILTIN} <= known_algorithms().keys()
    names = {name for name, of in known_algorithms().items() if of.new.__module__.startswith("crenel.")}
    assert names == {kind.name for kind in BUILTIN}


def test_settings_have_the_sections_of_a_file_that_do_not_belong_to_a_job() -> None:
    job = {"source", "sinks", "catalogs", "flink", "accept_duplicates", "audit_chain", "shape"}
    assert {f.name for f in dataclasses.fields(crenel.Settings)} - {"folder"} == {
        *(File.model_fields.keys() - job),
        *("policy", "privacy", "algorithm"),
    }


@pytest.mark.parametrize("path", sorted((ROOT / "conf").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_file_and_its_settings_are_the_same(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = ROOT.parent / "shared/data/adult"
    if "adult" in path.name and not data.exists():
        pytest.skip("../shared/data is not there")
    monkeypatch.setenv("ADULT_HIERARCHIES", str(data))
    monkeypatch.setenv("CRENEL_SUBJECT_KEY", "sixteen bytes 16")
    read = crenel.load(path)
    (tmp_path / "hierarchies").symlink_to(ROOT / "conf/hierarchies")
    (tmp_path / "regions").symlink_to(ROOT / "conf/regions")
    (tmp_path / path.name).write_text(read.to_yaml(), encoding="utf-8")
    again = crenel.load(tmp_path / path.name)
    assert dataclasses.replace(again, folder=read.folder, subject_key=read.subject_key) == read
    assert again.validated.parameters == read.validated.parameters


def test_overrides_of_a_file_are_those_of_the_command_line() -> None:
    assert crenel.load(ROOT / "conf/built.yaml", ["privacy.k=7"]).privacy.k == 7
    with pytest.raises(crenel.ConfigError, match=r"privacy\.k: must be a whole number"):
        crenel.load(ROOT / "conf/built.yaml", ["privacy.k=many"])


def test_a_file_is_validated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read, replaced = crenel.load(ROOT / "conf/built.yaml"), []
    again = dataclasses.replace(read)
    assert (again.validated.parameters, again.validated.shards) == (read.validated.parameters, read.validated.shards)
    monkeypatch.setattr("crenel.jobs.config.load.load_settings", lambda *_: replaced.append(True))
    assert crenel.load(ROOT / "conf/built.yaml").validated is not None
    assert not replaced


def test_durations_are_milliseconds_texts_or_timedeltas() -> None:
    for duration in (7_200_000, "2 h", timedelta(hours=2)):
        made = settings(algorithm="nearest")
        made = dataclasses.replace(made, algorithm=crenel.Nearest(crenel.Delay(event_time=duration)))
        assert made.validated.parameters.delay_event_time == 7_200_000


def test_errors_name_each_field_and_a_valid_form() -> None:
    with pytest.raises(crenel.ConfigError) as caught:
        crenel.Settings(
            policy=crenel.Policy(quasi_identifiers={"age": crenel.Numeric((90, 18))}, sensitive=["age"]),
            privacy=crenel.Privacy(k=0),
            algorithm=crenel.Nearest(crenel.Delay()),
        )
    problems = "\n".join(caught.value.problems)
    assert "policy.quasi_identifiers.age.domain: the lower bound is above the upper one" in problems
    assert "privacy.k: is too small; a whole number, 1 or more" in problems
    assert "nearest.delay: " in problems


def test_a_key_is_not_shown_and_not_written() -> None:
    made = settings(subject_key="correct horse battery staple")
    assert "horse" not in repr(made)
    made = dataclasses.replace(
        made, policy=dataclasses.replace(made.policy, quasi_identifiers={"age": crenel.Numeric()})
    )
    assert "horse" not in made.to_yaml()
    assert "subject_key: ${CRENEL_SUBJECT_KEY}" in made.to_yaml()


def test_a_hierarchy_given_as_an_object_is_not_written() -> None:
    with pytest.raises(ValueError, match=r"policy\.quasi_identifiers\.area\.hierarchy: is an object"):
        settings().to_yaml()


def test_an_algorithm_of_ones_own_has_its_section() -> None:
    made = crenel.Settings(
        policy=crenel.Policy(quasi_identifiers={"age": crenel.Numeric((0, 9))}),
        privacy=crenel.Privacy(k=2),
        algorithm=crenel.CustomAlgorithm("in_order"),
        extensions=["examples.own_algorithm"],
    )
    assert made.validated.algorithm.name == "in_order"


@pytest.mark.parametrize(
    "make",
    [
        lambda: crenel.Numeric(0, 110),  # type: ignore[arg-type]
        lambda: crenel.Numeric((0,)),  # type: ignore[arg-type]
        lambda: crenel.Numeric("2024-01-01", "2024-12-31"),  # type: ignore[arg-type]
        lambda: crenel.Noised(0, 110),  # type: ignore[arg-type]
        lambda: crenel.Numbers(0, 110),  # type: ignore[arg-type]
        lambda: crenel.Dates("2024-01-01", ["day"]),  # type: ignore[arg-type]
    ],
)
def test_a_domain_is_a_pair(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"^domain: must be a pair, the lowest and the highest value"):
        make()


@pytest.mark.parametrize("lateness", [-5, 1.5, True, "soon", timedelta(-1), timedelta(microseconds=1), None])
def test_a_lateness_that_is_no_duration_is_refused_at_once(lateness: Any) -> None:
    with pytest.raises(ValueError, match=r"^lateness: must be whole milliseconds, 0 or more, or a text such as"):
        crenel.open_stream(settings(), lateness=lateness)


def test_the_epoch_and_dollars_survive(tmp_path: Path) -> None:
    made = replace(settings(), subject_key="sixteen bytes of $HOME", epoch=3)
    quasi: Any = {"${HOME}": crenel.Numeric((0, 1)), "a$$b": crenel.Categorical("${file:x}$.csv")}
    (tmp_path / "${file:x}$.csv").write_text("a;*\nb;*\n", encoding="utf-8")
    policy = crenel.Policy(quasi_identifiers=quasi, sensitive=["$", "$${HOME}"], subject="${person}")
    made = replace(made, policy=policy, folder=tmp_path)
    assert "HOME of" not in made.to_yaml()
    (tmp_path / "job.yaml").write_text(
        made.to_yaml().replace("${CRENEL_SUBJECT_KEY}", "sixteen bytes of $$HOME"), encoding="utf-8"
    )
    read = crenel.load(tmp_path / "job.yaml")
    assert replace(read, seed=5).epoch == read.validated.epoch == 3
    assert read.policy.sensitive == ("$", "$${HOME}")
    assert read.policy.subject == "${person}"
    assert read.to_yaml() == replace(read, seed=read.seed).to_yaml()
    assert read.subject_key == made.subject_key
    assert read.policy.quasi_identifiers.keys() == quasi.keys()
