"""The configuration: what is read, what is refused, and in what words."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.errors import ConfigError
from crenel.anonymity.model.hierarchy import MISSING
from crenel.anonymity.model.outcomes import REUSE_RISK
from crenel.anonymity.model.policy import Shards
from crenel.anonymity.model.privacy import Privacy, SamplingAndNoise
from crenel.anonymity.model.secret import NO_KEY, Secret, SubjectKey
from crenel.jobs.config.delivery import repeating_source
from crenel.jobs.config.load import Config, load

EXAMPLES = Path(__file__).parents[3] / "conf"

FULL = """
policy:
  subject: person
  event_time: ts
  quasi_identifiers:
    hours-per-week: {type: numeric, domain: [17, 90.5]}
    education.level: {type: categorical, hierarchy: trees/education.csv}
    pay: {type: numeric}
  sensitive: [income, no]
  passthrough: [2019]
  drop: [1.10, name]
  reference: line
  missing: reject
privacy: {k: 10, l: 2}
castle:
  delay: {tuples: 1000, event_time: 10 min, jitter: 0.2}
  max_clusters: 40
  loss_window: 90
  reuse_limit: 0
  suppression: withhold
shards: {count: 4, by: hours-per-week}
seed: 7
subject_key: ${CRENEL_TEST_KEY:-sixteen bytes 16}
source:
  ddl: CREATE TEMPORARY TABLE source (a INT) WITH ('connector' = 'datagen')
  query: SELECT * FROM source
sinks:
  released: {connector: filesystem, path: /out, sink.parallelism: 1, auto-compaction: true}
  audit: {connector: blackhole}
  rejected: null
flink:
  parallelism.default: 2
  execution: {checkpointing: {interval: 10 s}}
"""

SMALL = """
policy:
  quasi_identifiers:
    age: {type: numeric}
privacy: {k: 3}
castle: {delay: {tuples: 5}}
source: {ddl: CREATE TEMPORARY TABLE source}
sinks: {released: {connector: blackhole}}
"""


def configured(folder: Path, text: str, *overrides: str) -> Config:
    (folder / "trees").mkdir(exist_ok=True)
    (folder / "trees" / "education.csv").write_text("master;university;*\nbachelor;university;*\nnone;*\n")
    (folder / "roots.csv").write_text("a;*\nb;+\n")
    path = folder / "job.yaml"
    path.write_bytes(text.encode())
    return load(path, overrides)


def problems(folder: Path, text: str, *overrides: str) -> list[str]:
    with pytest.raises(ConfigError) as error:
        configured(folder, text, *overrides)
    for problem in error.value.problems:
        assert problem in str(error.value)
    return list(error.value.problems)


def test_every_field_arrives(tmp_path: Path) -> None:
    config = configured(tmp_path, FULL)
    policy = config.policy
    hours, education, pay = policy.attributes
    assert (hours, pay) == (Numeric((17.0, 90.5)).named("hours-per-week"), Numeric().named("pay"))
    assert isinstance(education, Categorical)
    assert (education.name, education.hierarchy.labels[:3]) == ("education.level", ("master", "bachelor", "none"))
    assert (policy.subject, policy.event_time, policy.reference, policy.missing) == ("person", "ts", "line", "reject")
    # Text that YAML would take for a boolean or a number is a column's name as it was typed.
    assert (policy.sensitive, policy.passthrough, policy.drop) == (("income", "no"), ("2019",), ("1.10", "name"))
    assert config.privacy == Privacy(10, 2)
    assert config.algorithm == Castle(
        Delay(1000, 600_000, jitter=0.2), max_clusters=40, loss_window=90, reuse_limit=0, suppression="withhold"
    )
    assert config.shards == Shards(4, "hours-per-week")
    assert (config.seed, config.subject_key) == (7, SubjectKey.of(b"sixteen bytes 16"))
    assert config.source.query == "SELECT * FROM source"
    assert config.sinks == {
        "released": {"connector": "filesystem", "path": "/out", "sink.parallelism": "1", "auto-compaction": "true"},
        "audit": {"connector": "blackhole"},
    }
    assert config.flink == {"parallelism.default": "2", "execution.checkpointing.interval": "10 s"}
    assert config.accept_duplicates is False


def test_a_limit_of_event_time_needs_event_time(tmp_path: Path) -> None:
    assert configured(tmp_path, FULL, "policy.event_time_limit=1 h").policy.event_time_limit == 3_600_000
    assert configured(tmp_path, FULL).policy.event_time_limit is None
    (problem,) = problems(tmp_path, SMALL, "policy.event_time_limit=1 h")
    assert problem.startswith("policy.event_time_limit: policy.event_time names no column; name one")


def test_what_counts_event_time_is_known_by_its_field(tmp_path: Path) -> None:
    assert configured(tmp_path, FULL).counts_event_time == "castle.delay.event_time"
    assert configured(tmp_path, FULL, "castle.delay={tuples: 5}").counts_event_time is None


def test_full_generalization_needs_the_domain_of_every_number(tmp_path: Path) -> None:
    generalize, domain = "castle.suppression=generalize", "policy.quasi_identifiers.pay.domain=[0, 9]"
    by_subject = "shards.by=subject"
    assert configured(tmp_path, FULL, generalize, domain, by_subject).algorithm.suppression == "generalize"
    [problem] = problems(tmp_path, FULL, generalize, by_subject)
    assert problem.startswith("policy.quasi_identifiers.pay.domain: is missing; castle.suppression")


@pytest.mark.parametrize("by", ["hours-per-week", "education.level"])
def test_full_generalization_is_refused_where_files_tell_the_shard_and_so_the_value(tmp_path: Path, by: str) -> None:
    given = ("castle.suppression=generalize", "policy.quasi_identifiers.pay.domain=[0, 9]", f"shards.by={by}")
    [problem] = problems(tmp_path, FULL, *given)
    assert problem.startswith("castle.suppression: generalize publishes a tuple without detail")
    assert f"shards.by: {by} divides by values" in problem
    assert configured(tmp_path, FULL, *given, "shards.count=1").shards.count == 1


NOISED = (
    "sampling_and_noise={sample_rate: 0.9, phi: 100}",
    "shards.by=subject",
    "policy.quasi_identifiers.pay={type: numeric, domain: [0, 9000], step: 0.5}",
    "seed=null",
)


def test_sampling_and_noise_arrive(tmp_path: Path) -> None:
    config = configured(tmp_path, FULL, *NOISED)
    assert config.sampling_and_noise == SamplingAndNoise(0.9, 100.0)
    assert config.policy.numeric[1] == Numeric((0, 9000), 0.5).named("pay")
    assert config.warnings == ()
    assert configured(tmp_path, FULL).sampling_and_noise is None
    assert configured(tmp_path, FULL, *NOISED, "sampling_and_noise=null").sampling_and_noise is None


def test_phi_follows_from_a_tolerance(tmp_path: Path) -> None:
    within = "sampling_and_noise={sample_rate: 1, within: {share: 0.05, probability: 0.99}}"
    found = configured(tmp_path, FULL, *NOISED, within).sampling_and_noise
    assert found is not None
    assert round(found.inverse_scale, 4) == 92.1034  # -ln(0.01) / 0.05


def test_noise_refuses_shards_that_follow_from_values(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, FULL, *NOISED, "policy.subject=null")
    assert problem.startswith("shards.count: without policy.subject a row's shard follows from its values")
    assert configured(tmp_path, FULL, *NOISED, "policy.subject=null", "shards.count=1").policy.subject is None


def test_the_observed_range_is_an_explicit_choice_with_a_warning(tmp_path: Path) -> None:
    # Shards are by a quasi-identifier, and one number lacks its domain.
    found = [problem.split("; ")[0] for problem in problems(tmp_path, FULL, NOISED[0])]
    assert found == [
        "policy.quasi_identifiers.pay.domain: is missing",
        "shards.by: a shard chosen by a quasi-identifier gives away what noise is to hide",
    ]
    observed = "sampling_and_noise.range=observed"
    config = configured(tmp_path, FULL, NOISED[0], NOISED[1], observed, "seed=null")
    assert config.sampling_and_noise == SamplingAndNoise(0.9, 100.0, range="observed")
    (warning,) = config.warnings
    assert warning.startswith("sampling_and_noise.range: observed ")
    assert "values of persons" in warning
    assert "zero or small" in warning
    categorical = "policy.quasi_identifiers={town: {type: categorical, hierarchy: trees/education.csv}}"
    assert configured(tmp_path, FULL, NOISED[0], NOISED[1], observed, categorical, "seed=null").warnings == ()


def test_noise_without_sampling_is_warned_of(tmp_path: Path) -> None:
    (warning,) = configured(tmp_path, FULL, *NOISED, "sampling_and_noise.sample_rate=1").warnings
    assert warning.startswith("sampling_and_noise.sample_rate: 1 lets every tuple in")


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        (["castle.reuse_limit=5", "castle.delay.jitter=0"], "castle.reuse_limit"),
        (
            [
                *("castle.delay.jitter=0", "castle.suppression=generalize", "shards.by=subject"),
                "policy.quasi_identifiers.pay.domain=[0, 9]",
            ],
            "castle.suppression",
        ),
        (["castle.reuse_limit=5"], ""),
    ],
)
def test_who_leaves_alone_at_a_moment_that_is_known_is_warned_of(
    tmp_path: Path, overrides: list[str], named: str
) -> None:
    found = configured(tmp_path, FULL, *overrides).warnings
    found = [warning for warning in found if not warning.startswith("castle.reuse_limit: ")]
    assert [named in warning and warning.startswith("castle.delay.jitter: is 0") for warning in found] == (
        [True] if named else []
    )


def test_no_shipped_configuration_reuses_generalizations() -> None:
    shipped = sorted((Path(__file__).resolve().parents[3] / "conf").glob("*.yaml"))
    assert shipped
    for path in shipped:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert {(content.get(name) or {}).get("reuse_limit", 0) for name in ("castle", "nearest")} == {0}, path.name


@pytest.mark.parametrize("algorithm", ["castle", "nearest"])
def test_reuse_is_off_by_default_and_the_warning_about_it_states_its_price(tmp_path: Path, algorithm: str) -> None:
    chosen = ["castle=null", f"algorithm={algorithm}", f"{algorithm}={{delay: {{tuples: 9}}}}"]
    config = configured(tmp_path, FULL, *chosen)
    assert (config.algorithm.reuse_limit, config.algorithm.delay.jitter, config.warnings) == (0, 0, ())
    warning, *_ = configured(tmp_path, FULL, *chosen, f"{algorithm}.reuse_limit=5").warnings
    assert warning.startswith(f"{algorithm}.reuse_limit: is 5")
    assert REUSE_RISK in warning


@pytest.mark.parametrize(
    ("overrides", "warned"),
    [
        ((), []),
        ((*NOISED, "seed=7"), ["seed: fixes the noise"]),
        (("subject_key=null",), ["subject_key: is not given"]),
        (("subject_key=fifteen bytes 1",), ["subject_key: is shorter than 16 bytes"]),
        (("subject_key=eight ÄÖÜ",), ["subject_key: is shorter than 16 bytes"]),
        (("subject_key=ÄÖÜÄÖÜÄÖ",), []),  # bytes of UTF-8, not characters
        (("subject_key=null", "policy.subject=null"), []),
        (("accept_duplicates=true",), ["accept_duplicates: true lets a record be published twice"]),
        (
            (*NOISED, "seed=7", "sampling_and_noise.sample_rate=1", "subject_key=a", "accept_duplicates=true"),
            [
                "sampling_and_noise.sample_rate: 1",
                "seed: fixes",
                "subject_key: is shorter",
                "accept_duplicates: true",
            ],
        ),
    ],
)
def test_what_promises_less_than_it_seems_to_is_warned_of_once(
    tmp_path: Path, overrides: tuple[str, ...], warned: list[str]
) -> None:
    found = configured(tmp_path, FULL, *overrides).warnings
    assert [warning[: len(start)] for warning, start in zip(found, warned, strict=True)] == warned


def test_full_generalization_and_noise_both_ask_for_a_domain(tmp_path: Path) -> None:
    generalize = "castle.suppression=generalize"
    assert configured(tmp_path, FULL, *NOISED, generalize).algorithm.suppression == "generalize"
    found = problems(tmp_path, FULL, NOISED[0], NOISED[1], generalize)
    assert [problem.split(":")[0] for problem in found] == ["policy.quasi_identifiers.pay.domain"] * 2


def test_defaults_are_those_that_are_documented(tmp_path: Path) -> None:
    config = configured(tmp_path, SMALL)
    assert config.privacy == Privacy(3, 1)
    assert config.algorithm == Castle(
        Delay(5, None, jitter=0.0), max_clusters=50, loss_window=100, reuse_limit=0, suppression="withhold"
    )
    assert config.shards == Shards(1, "subject")
    assert (config.seed, config.subject_key, config.source.query, config.flink) == (None, NO_KEY, None, {})
    assert list(config.policy.roles) == ["age"]


@pytest.mark.parametrize("name", ["adult", "adult-nearest", "adult-suhdsa", "taxi", "taxi-noise", "demo", "lake"])
def test_the_examples_are_valid(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for column in ("education", "marital-status", "occupation", "native-country"):
        (tmp_path / f"hierarchy_{column}.csv").write_text("a;*\nb;*\n")
    monkeypatch.setenv("ADULT_HIERARCHIES", str(tmp_path))
    names = ("ADULT_CSV", "TAXI_CSV", "CRENEL_DEMO_INPUT", "CRENEL_DEMO_OUTPUT", "CRENEL_WAREHOUSE", "CRENEL_JARS")
    for variable in names:
        monkeypatch.setenv(variable, "/somewhere")
    config = load(EXAMPLES / f"{name}.yaml")
    assert config.privacy.k == 10
    assert "'path' = '/somewhere'" in config.source.ddl


def test_kept_missing_values_have_a_leaf_in_every_hierarchy(tmp_path: Path) -> None:
    (education,) = configured(tmp_path, FULL, "policy.missing=value").policy.categorical
    assert MISSING in education.hierarchy.labels


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("250", 250), ("500 ms", 500), ("3s", 3000), ("10 min", 600_000), ("2 h", 7_200_000), ("1 day", 86_400_000)],
)
def test_durations_are_read_with_their_unit(tmp_path: Path, text: str, milliseconds: int) -> None:
    config = configured(tmp_path, SMALL, "policy.event_time=ts", f"castle.delay={{event_time: {text}}}")
    assert config.algorithm == Castle(Delay(None, milliseconds))


@pytest.mark.parametrize(
    "text", ["10 m", "soon", "1.5 h", "-3 s", "10 min 5 s", "1_0 s", "１０ s", "200 years", "999999999 days", "[1]"]
)
def test_a_duration_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (problem,) = problems(tmp_path, FULL, f"castle.delay.event_time={text}")
    assert problem.startswith("castle.delay.event_time: ")
    assert "'10 min'" in problem


def test_an_override_reaches_keys_with_dots_and_dashes(tmp_path: Path) -> None:
    config = configured(
        tmp_path,
        FULL,
        "policy.quasi_identifiers.hours-per-week.domain=[0, 5]",
        "policy.quasi_identifiers.education.level={type: numeric}",
        "policy.quasi_identifiers.pay.domain=[1, 2]",
        "sinks.released.sink.parallelism=9",
        "sinks.released.sink.rolling-policy.file-size=1MB",
        "sinks.suppressed.connector=blackhole",
        "shards.by=hours-per-week",
        "seed=null",
        "source.ddl=a = 'b'",
    )
    assert config.policy.attributes == (
        Numeric((0, 5)).named("hours-per-week"),
        Numeric().named("education.level"),
        Numeric((1, 2)).named("pay"),
    )
    assert config.sinks["released"]["sink.parallelism"] == "9"
    assert config.sinks["released"]["sink.rolling-policy.file-size"] == "1MB"
    assert config.sinks["suppressed"] == {"connector": "blackhole"}
    assert config.seed is None
    assert config.source.ddl == "a = 'b'"


def test_an_unset_variable_is_named_with_its_field_and_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CRENEL_TEST_UNSET", raising=False)
    unset, malformed = problems(tmp_path, SMALL, "policy.drop=[a, '${CRENEL_TEST_UNSET}']", "privacy.k=${1}")
    assert unset.startswith(
        "policy.drop[1]: the environment variable CRENEL_TEST_UNSET is not set; export it, or write"
    )
    assert malformed.startswith("privacy.k: a '${' that names no variable; write ${NAME}")


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("privacy.k=0", ": is too small; a whole number, 1 or more"),
        ("privacy.k=ten", ": must be a whole number, 1 or more"),
        ("privacy.k=1_0", ": is not a number; digits without '_' between them"),
        ("privacy.k=１０", ": must be a whole number, 1 or more"),
        ("seed=1_0", ": is not a number; digits without"),
        ("policy.quasi_identifiers.pay.domain=[0, 1_000]", "[1]: is not a number;"),
        ("policy.quasi_identifiers.pay.step=1_0.5", ": is not a number;"),
        ("sampling_and_noise={sample_rate: 0.0_5, phi: 3}", ".sample_rate: is not a number; digits without"),
        ("privacy.k=true", ": must be a whole number, 1 or more"),
        ("privacy.k=99999999999999999999", ": is too large; a whole number, 1 or more"),
        ("privacy.l=11", ": must be from 1 to k (10), not 11"),
        ("privacy.seed=1", ": is unknown; known here: k, l"),
        ("privacy=null", ": must be a mapping such as {k: 10, l: 2}"),
        ("castle.delay={}", ": give 'tuples', 'event_time', or both"),
        ("castle.delay=1000", ": is not a mapping; {tuples: 1000}"),
        ("castle.delay.tuples=-1", ": is too small"),
        ("castle.max_cluster=3", ": is unknown (did you mean 'max_clusters'?); known here: delay,"),
        ("castle.suppression=withold", ": is not one of the choices (did you mean 'withhold'?)"),
        ("sampling_and_noise=0.9", ": must be a mapping such as {sample_rate: 0.5, phi"),
        ("sampling_and_noise={phi: 3}", ".sample_rate: is missing; a number above 0 and at most 1"),
        ("sampling_and_noise={sample_rate: 0, phi: 3}", ".sample_rate: is too small"),
        ("sampling_and_noise={sample_rate: 1.1, phi: 3}", ".sample_rate: is too large"),
        ("sampling_and_noise={sample_rate: nan, phi: 3}", ".sample_rate: is not finite"),
        ("sampling_and_noise={sample_rate: 1, phi: 0}", ".phi: is too small; a number above 0"),
        ("sampling_and_noise={sample_rate: 1, phi: inf}", ".phi: is not finite"),
        ("sampling_and_noise={sample_rate: 1}", ": give either 'phi' or 'within'"),
        (
            "sampling_and_noise={sample_rate: 1, phi: 3, within: {share: 0.1, probability: 0.9}}",
            ": give either 'phi' or 'within'",
        ),
        (
            "sampling_and_noise={sample_rate: 1, within: {share: 0.1}}",
            ".within.probability: is missing; a number above 0 and below 1",
        ),
        (
            "sampling_and_noise={sample_rate: 1, within: {share: 0.1, probability: 1}}",
            ".within.probability: is too large",
        ),
        ("sampling_and_noise={sample_rate: 1, within: {share: 0, probability: 0.9}}", ".within.share: is too small"),
        (
            "sampling_and_noise={sample_rate: 1, phi: 3, range: observd}",
            ".range: is not one of the choices (did you mean 'observed'?); 'declared' or",
        ),
        ("policy.quasi_identifiers.pay.step=0", ": is too small; a number above 0"),
        ("policy.quasi_identifiers.hours-per-week.step=74", ": is wider than the domain"),
        ("policy.quasi_identifiers.hours-per-week.step=1e-11", ": is too small; the domain may hold 2^40 steps"),
        (
            "policy.quasi_identifiers.education.level.step=1",
            "policy.quasi_identifiers.education.level: a categorical one has no 'step'",
        ),
        ("policy.quasi_identifiers.pay.ends=0", ": is too small; a number above 0"),
        ("policy.quasi_identifiers.hours-per-week.ends=74", ": is wider than the domain"),
        (
            "policy.quasi_identifiers.education.level.ends=1",
            "policy.quasi_identifiers.education.level: a categorical one has no 'ends'",
        ),
        (
            "policy.quasi_identifiers.education.level.missing=value",
            "policy.quasi_identifiers.education.level: a categorical one has no 'missing'",
        ),
        ("shards.count=0", ": is too small"),
        ("shards.by=pay", ": the numeric 'pay' has no domain to divide; give policy.quasi_identifiers.pay.domain"),
        ("shards.by=hours", ": is not a quasi-identifier; one of subject, hours-per-week, education.level, pay"),
        ("shards.by=income", ": is not a quasi-identifier"),
        ("policy.quasi_identifiers={}", ": holds too little; at least one"),
        ("policy.quasi_identifiers.pay={}", ".type: is missing; 'numeric' or 'categorical'"),
        ("policy.quasi_identifiers.pay.type=Numeric", ": is not one of the choices (did"),
        ("policy.quasi_identifiers.pay.domain=[2024-02-30, 2024-03-01]", "[0]: is no day or time such as 2024-02-29"),
        ("policy.quasi_identifiers.pay.domain=[2024-03-02, 2024-03-01]", ": the lower bound is above"),
        ("policy.quasi_identifiers.pay.ends=1 fortnight", ": is not a duration"),
        ("policy.quasi_identifiers.pay.domain=[2, 1]", ": the lower bound is above"),
        ("policy.quasi_identifiers.pay.domain=[1, inf]", "[1]: is not finite; [lowest"),
        ("policy.quasi_identifiers.pay.domain=[1]", "[1]: is missing; [lowest"),
        ("policy.quasi_identifiers.pay.domain=[1, 2, 3]", ": holds too much; [lowest"),
        (
            "policy.quasi_identifiers.pay.hierarchy=roots.csv",
            "policy.quasi_identifiers.pay: a numeric one has no 'hierarchy'",
        ),
        (
            "policy.quasi_identifiers.pay.hierarchy=trees/education.csv",
            "policy.quasi_identifiers.pay: a numeric one has no",
        ),
        ("policy.quasi_identifiers.pay.type=categorical", "policy.quasi_identifiers.pay: a categorical one needs a"),
        ("policy.sensitive=income", ": must be a list of columns, such as [income]"),
        ("policy.sensitive=[null]", "[0]: is not text; a list of columns, such as [income]"),
        ("policy.sensitive=null", "privacy.l: asks for diversity, but policy.sensitive names no column"),
        ("policy.subject=''", ": is empty; a column, or null"),
        ("policy.subject=pay", ": column 'pay' has the role 'quasi_identifiers' already"),
        ("policy.event_time=null", "castle.delay.event_time: policy.event_time names no column"),
        ("policy.event_time_limit=soon", ": must be a duration such as '1 h', or null"),
        ("policy.hidden={}", ": is unknown; known here: quasi_identifiers,"),
        ("sinks.released=null", ": is missing; the options of a Flink connector"),
        ("sinks.audit={path: x}", ": the option 'connector' is missing; the options of"),
        ("sinks.audit.path=null", ": is not text; the options of a Flink connector"),
        ("sinks.audits={connector: blackhole}", ": is unknown (did you mean 'audit'?)"),
        ("flink={a: {b: 1}, a.b: 2}", ": the option 'a.b' is given twice"),
        ("seed=-1", ": is too small; a whole number from 0 to 2^63 - 1, or null"),
        ("subject_key=''", ": is empty; text, best as ${CRENEL_SUBJECT_KEY}"),
        ("source=null", ": must be a mapping with ddl"),
        ("accept_duplicates=perhaps", ": must be true or false"),
        ("accept_duplicates=[true]", ": must be true or false"),
        ("castles={}", ": is unknown (did you mean 'castle'?); known here: policy, privacy,"),
        ("castle=null", ": is missing; a mapping such as {delay: {tuples: 1000}}"),
        ("algorithm=castles", ": is not one of the choices (did you mean 'castle'?); 'castle' or '"),
        ("suhdsa={tuples: 50}", ": goes with 'algorithm: suhdsa', and the algorithm is 'castle'; remove it"),
        ("sinks.windows={connector: blackhole}", ": castle has no such output; remove it, or choose"),
    ],
)
def test_what_is_wrong_is_told_by_field_with_what_would_be_valid(tmp_path: Path, override: str, problem: str) -> None:
    (found,) = problems(tmp_path, FULL, override)
    field, _, _ = override.partition("=")
    assert found.startswith(field + problem if problem[0] in ".:[" else problem)


@pytest.mark.parametrize(("hierarchy", "problem"), [("roots.csv", "two roots"), ("none.csv", "cannot be read")])
def test_a_hierarchy_that_is_none_is_told_by_field_and_file(tmp_path: Path, hierarchy: str, problem: str) -> None:
    field = "policy.quasi_identifiers.education.level.hierarchy"
    (found,) = problems(tmp_path, FULL, f"{field}={hierarchy}")
    assert found.startswith(f"{field}: {tmp_path / hierarchy}: ")
    assert problem in found


@pytest.mark.parametrize(
    ("field", "override"),
    [
        ("policy.quasi_identifiers.pay.hierarchy", "policy.quasi_identifiers.pay={type: categorical, hierarchy: FILE}"),
        (
            "policy.quasi_identifiers.pay.hierarchy",
            "policy.quasi_identifiers.pay={type: categorical, hierarchy: {file: FILE}}",
        ),
        (
            "policy.quasi_identifiers.pay.hierarchy.mask.values",
            "policy.quasi_identifiers.pay={type: categorical, hierarchy: {mask: {keep: [2, 1], values: FILE}}}",
        ),
        ("privacy.sensitive.income.reference", "privacy.sensitive={income: {t: 0.2, reference: FILE}}"),
        ("privacy.sensitive.income.hierarchy", "privacy.sensitive={income: {t: 0.2, hierarchy: FILE}}"),
    ],
)
def test_a_file_that_is_not_utf_8_is_told_by_field_line_and_remedy(tmp_path: Path, field: str, override: str) -> None:
    (tmp_path / "latin.csv").write_bytes("Bern;*\nZürich;*\n".encode("latin-1"))
    (found,) = problems(tmp_path, FULL, override.replace("FILE", "latin.csv"))
    assert found == f"{field}: {tmp_path}/latin.csv: line 2 is not UTF-8 text; save the file as UTF-8"


def test_missing_sections_are_all_named(tmp_path: Path) -> None:
    found = [problem.split(":")[0] for problem in problems(tmp_path, "seed: 3")]
    assert found == ["castle", "policy", "privacy", "source", "sinks"]


def test_all_problems_are_listed_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CRENEL_TEST_UNSET", raising=False)
    overrides = [
        "oops",
        "source.query=${CRENEL_TEST_UNSET}",
        "policy.quasi_identifiers.education.level.hierarchy=roots.csv",
        "privacy.l=11",
        "castle.max_cluster=1",
        "castle.delay={}",
        "sinks.audit={}",
    ]
    found = [problem.split(":")[0] for problem in problems(tmp_path, FULL, *overrides)]
    assert sorted(found) == [
        "--set",
        "castle.delay",
        "castle.max_cluster",
        "policy.quasi_identifiers.education.level.hierarchy",
        "privacy.l",
        "sinks.audit",
        "source.query",
    ]


@pytest.mark.parametrize(
    ("text", "overrides"),
    [
        (FULL, ["subject_key={a: hunter2}"]),
        (FULL, ["subject_key=hunter2", "privacy.k=0"]),
        (FULL, ["sinks.audit.password=[hunter2]"]),
        (FULL, ["sinks.audit={password: hunter2}"]),
        (FULL, ["sinks.audit=hunter2"]),
        (FULL, ["flink=hunter2", "source=hunter2", "shards=hunter2", "castle=hunter2"]),
        (FULL, ["subject_key=*hunter2"]),
        (FULL, ["subject_key=!hunter2", "source.ddl=!hunter2!x"]),
        (FULL, ["subject_key=hunter2: hunter2: hunter2"]),
        (FULL, ["hunter2"]),
        ("subject_key: *hunter2\n", []),
        ("subject_key: !hunter2 x\n", []),
        ("subject_key: &hunter2 x\nseed: &hunter2 x\n", []),
        ("subject_key: 'hunter2\n", []),
        ("subject_key: hunter2: x\n", []),
        ("subject_key: !hunter2!x y\n", []),
    ],
)
def test_no_error_shows_a_secret(tmp_path: Path, text: str, overrides: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        configured(tmp_path, text, *overrides)
    assert "hunter2" not in repr(error.value) + str(error.value)
    # The cause of an error is printed with it.
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__ or error.value.__context__ is None


def test_a_configuration_shows_no_secret(tmp_path: Path) -> None:
    config = configured(tmp_path, FULL, "subject_key=hunter2", "sinks.audit.password=hunter2", "source.ddl=hunter2")
    assert "hunter2" not in repr(config)


ONCE = "sink.delivery-guarantee: exactly-once"
RECORDS = ("released", "audit", "suppressed", "rejected")


@pytest.mark.parametrize("output", RECORDS)
@pytest.mark.parametrize(
    "options",
    [
        *(f"connector: {name}, path: /out" for name in ("filesystem", "hive", "iceberg", "paimon", "blackhole")),
        f"connector: kafka, {ONCE}, sink.transactional-id-prefix: audit",
        "connector: kafka, sink: {delivery-guarantee: Exactly-Once, transactional-id-prefix: audit}",
    ],
)
def test_a_sink_that_publishes_once_is_taken(tmp_path: Path, output: str, options: str) -> None:
    config = configured(tmp_path, SMALL, f"sinks.{output}={{{options}}}")
    assert not config.accept_duplicates
    assert config.sinks[output]["connector"] in options


@pytest.mark.parametrize("output", RECORDS)
@pytest.mark.parametrize(
    ("options", "field"),
    [
        *(
            (f"connector: {name}, sink.delivery-guarantee: exactly-once, sink.transactional-id-prefix: a", "connector")
            for name in ("print", "jdbc", "elasticsearch-7", "upsert-kafka", "Filesystem", "mine")
        ),
        ("connector: kafka", "sink.delivery-guarantee"),
        ("connector: kafka, sink.delivery-guarantee: at-least-once", "sink.delivery-guarantee"),
        ("connector: kafka, sink.semantic: exactly-once", "sink.delivery-guarantee"),
        (f"connector: kafka, {ONCE}", "sink.transactional-id-prefix"),
        (f"connector: kafka, {ONCE}, sink.transactional-id-prefix: ''", "sink.transactional-id-prefix"),
    ],
)
def test_a_sink_that_may_publish_twice_is_refused_unless_duplicates_are_accepted(
    tmp_path: Path, output: str, options: str, field: str
) -> None:
    sink = f"sinks.{output}={{{options}}}"
    (problem,) = problems(tmp_path, SMALL, sink)
    assert problem.startswith(f"sinks.{output}.{field}: ")
    if field != "sink.transactional-id-prefix":
        assert "can be intersected; " in problem
        assert "'accept_duplicates: true'" in problem
    assert configured(tmp_path, SMALL, sink, "accept_duplicates=true").accept_duplicates
    assert len(problems(tmp_path, SMALL, sink, "accept_duplicates=false")) == 1


def kafka(prefix: str, *more: str) -> str:
    return "{" + ", ".join(("connector: kafka", ONCE, f"sink.transactional-id-prefix: {prefix}", *more)) + "}"


def test_a_misspelled_connector_of_a_sink_is_told_with_the_near_one(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, SMALL, "sinks.released.connector=filesytem")
    assert problem.startswith(
        "sinks.released.connector: is not known to be exactly-once (did you mean 'filesystem'?), so after a failure"
    )


@pytest.mark.parametrize("accepted", ["true", "false"])
def test_kafka_sinks_that_share_a_prefix_are_refused_by_both_names(tmp_path: Path, accepted: str) -> None:
    shared = [f"sinks.released={kafka('one')}", f"sinks.audit={kafka('two')}", f"sinks.summary={kafka('one')}"]
    (problem,) = problems(tmp_path, SMALL, *shared, f"accept_duplicates={accepted}")
    assert problem.startswith("sinks.summary.sink.transactional-id-prefix: is that of sinks.released, ")
    assert configured(tmp_path, SMALL, *shared[:2], f"sinks.summary={kafka('three')}").sinks.keys() >= {"summary"}
    loose = "sinks.summary={connector: kafka, sink.transactional-id-prefix: one}"
    assert configured(tmp_path, SMALL, shared[0], loose).sinks  # it has no transactions


@pytest.mark.parametrize("strategy", ["POOLING", "pooling"])
def test_pooled_transactions_are_refused_with_the_reason(tmp_path: Path, strategy: str) -> None:
    pooled = f"sinks.audit={kafka('a', f'sink.transaction-naming-strategy: {strategy}')}"
    (problem,) = problems(tmp_path, SMALL, pooled)
    assert problem.startswith("sinks.audit.sink.transaction-naming-strategy: POOLING may leave a transaction open")
    assert "read_committed" in problem
    assert problem.endswith("INCREMENTING, or leave it out")
    named = f"sinks.audit={kafka('a', 'sink.transaction-naming-strategy: INCREMENTING')}"
    assert configured(tmp_path, SMALL, named).sinks["audit"]


def test_files_of_parquet_hold_timestamps_in_utc_unless_the_sink_says_otherwise(tmp_path: Path) -> None:
    sinks = configured(
        tmp_path,
        SMALL,
        "sinks.released={connector: filesystem, path: /out/released, format: parquet}",
        "sinks.audit={connector: filesystem, path: /out/audit, format: parquet, parquet.utc-timezone: false}",
        "sinks.suppressed={connector: filesystem, path: /out/suppressed, format: json}",
    ).sinks
    of = {
        name: {key: value for key, value in sink.items() if key.startswith("parquet.")} for name, sink in sinks.items()
    }
    utc = {"parquet.utc-timezone": "true", "parquet.write.int64.timestamp": "true"}
    assert (of["released"], of["audit"], of["suppressed"]) == (utc, utc | {"parquet.utc-timezone": "false"}, {})


@pytest.mark.parametrize("catalog", ["catalog-type: REST", "catalog-impl: org.apache.iceberg.rest.RESTCatalog"])
def test_iceberg_through_a_rest_catalog_is_refused_unless_duplicates_are_accepted(tmp_path: Path, catalog: str) -> None:
    sink = f"sinks.released={{connector: iceberg, catalog-name: c, {catalog}}}"
    (problem,) = problems(tmp_path, SMALL, sink)
    assert problem.startswith("sinks.released.catalog-type: Iceberg may commit the same files twice on recovery")
    assert "apache/iceberg 14425" in problem
    assert configured(tmp_path, SMALL, sink, "accept_duplicates=true").accept_duplicates
    assert configured(tmp_path, SMALL, "sinks.released={connector: iceberg, catalog-type: hive}").sinks


REPLAYED = ("filesystem", "hive", "iceberg", "paimon", "kafka", "datagen")


@pytest.mark.parametrize("connector", REPLAYED)
def test_a_source_that_goes_on_where_a_checkpoint_was_is_taken(connector: str) -> None:
    assert [*repeating_source({"connector": connector, "path": "/in"})] == []


@pytest.mark.parametrize("options", [{"connector": "jdbc"}, {"connector": "socket"}, {"connector": "Kafka"}, {}, None])
def test_a_source_that_may_deliver_a_row_twice_is_told(options: dict[str, str] | None) -> None:
    (problem,) = repeating_source(options)
    assert problem.startswith("source.ddl: ")
    assert "can be intersected; " in problem
    assert problem.endswith("or accept that with 'accept_duplicates: true'")
    assert options is None or ", ".join(REPLAYED) in problem


def test_what_kafka_and_flink_would_refuse_at_each_start_is_told_before(tmp_path: Path) -> None:
    timeout = "properties.transaction.timeout.ms"
    once = f"sinks.audit={kafka('a')}"
    assert configured(tmp_path, SMALL, once).sinks["audit"][timeout] == "900000"
    found = problems(tmp_path, SMALL, once, f"sinks.audit.{timeout}=1 h", "flink.execution.checkpointing.dir=/kept")
    assert [problem.split(": ")[0] for problem in found] == [
        f"sinks.audit.{timeout}",
        "flink.execution.checkpointing.dir",
    ]


@pytest.mark.parametrize("connector", ["upsert-kafka", "mysql-cdc"])
def test_a_connector_of_changes_is_told_the_way(connector: str) -> None:
    (problem,) = repeating_source({"connector": connector})
    assert problem.startswith("source.ddl: gives rows that are updated or deleted later")
    assert problem.endswith("with the connector kafka and a format such as json or raw")


def test_every_sink_that_may_publish_twice_is_named_and_a_summary_may(tmp_path: Path) -> None:
    sinks = [f"sinks.{output}={{connector: print}}" for output in (*RECORDS, "summary")]
    found = [problem.split(": ")[0] for problem in problems(tmp_path, SMALL, *sinks)]
    assert found == [f"sinks.{output}.connector" for output in RECORDS]
    assert configured(tmp_path, SMALL, sinks[-1]).sinks["summary"] == {"connector": "print"}


@pytest.mark.parametrize(
    ("setting", "valid"),
    [
        ("execution.checkpointing.mode=AT_LEAST_ONCE", "EXACTLY_ONCE"),
        ("execution.checkpointing.mode=at_least_once", "EXACTLY_ONCE"),
        ("execution.checkpointing.interval=0", "'30 s'"),
        ("execution.checkpointing.interval=0 ms", "'30 s'"),
        ("execution.checkpointing.interval=PT0S", "'30 s'"),
        ("execution.checkpointing.checkpoints-after-tasks-finish=false", "true"),
        ("execution.checkpointing.checkpoints-after-tasks-finish.enabled=false", "true"),
        ("execution.runtime-mode=BATCH", "STREAMING"),
        ("execution.runtime-mode=automatic", "STREAMING"),
    ],
)
def test_settings_without_checkpoints_that_hold_once_are_refused_too(tmp_path: Path, setting: str, valid: str) -> None:
    (problem,) = problems(tmp_path, SMALL, f"flink.{setting}")
    assert problem.startswith(f"flink.{setting.split('=')[0]}: ")
    assert f"; {valid}" in problem or f"as {valid}" in problem
    assert configured(tmp_path, SMALL, f"flink.{setting}", "accept_duplicates=true").accept_duplicates


@pytest.mark.parametrize("value", ["64", "256", "1", "many"])
def test_the_number_of_key_groups_cannot_be_overridden(tmp_path: Path, value: str) -> None:
    setting = f"flink.pipeline.max-parallelism={value}"
    for accepted in ("true", "false"):
        (problem,) = problems(tmp_path, SMALL, setting, f"accept_duplicates={accepted}")
        assert problem.startswith("flink.pipeline.max-parallelism: is 128 in every job, as the keys of shards are")
    assert configured(tmp_path, SMALL, "flink.pipeline.max-parallelism=128").flink


@pytest.mark.parametrize(
    "setting",
    [
        "execution.checkpointing.mode=exactly_once",
        "execution.checkpointing.interval=10 min",
        "execution.checkpointing.interval=PT10S",
        "execution.checkpointing.checkpoints-after-tasks-finish=true",
        "execution.runtime-mode=STREAMING",
    ],
)
def test_settings_that_hold_once_are_taken(tmp_path: Path, setting: str) -> None:
    name, _, value = setting.partition("=")
    assert configured(tmp_path, SMALL, f"flink.{setting}").flink == {name: value}


FORGET = "{ddl: CREATE TEMPORARY TABLE forget (who STRING) WITH ('connector' = 'datagen')}"


def test_requests_to_forget_are_read_and_need_a_subject(tmp_path: Path) -> None:
    assert configured(tmp_path, FULL).source.forget is None
    forget = configured(tmp_path, FULL, f"source.forget={FORGET}", "source.forget.query=SELECT who FROM forget")
    assert forget.source.forget is not None
    assert forget.source.forget.ddl.startswith("CREATE TEMPORARY TABLE forget")
    assert forget.source.forget.query == "SELECT who FROM forget"
    (problem,) = problems(tmp_path, SMALL, f"source.forget={FORGET}")
    assert problem.startswith("source.forget: asks to forget persons, and policy.subject names no column")
    assert problems(tmp_path, FULL, "source.forget={query: SELECT 1}") == [
        "source.forget.ddl: is missing; a statement CREATE TEMPORARY TABLE forget (...) WITH (...)"
    ]


@pytest.mark.parametrize("field", ["subject_key", "audit_chain.key"])
def test_a_key_may_be_named_by_its_place(tmp_path: Path, field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = (FULL, "sinks.audit={connector: blackhole}", "policy.pseudonym={column: who, scope: release}")
    monkeypatch.setenv("CRENEL_TEST_KEY", "hunter2 and more")
    (tmp_path / "key").write_text("hunter2\n")
    config = configured(tmp_path, *given, f"{field}={{environment: CRENEL_TEST_KEY}}")
    secret = config.subject_key if field == "subject_key" else config.audit_chain
    assert secret is not None
    assert secret.read() == b"hunter2 and more"
    short = f"{field}={{file: {tmp_path / 'key'}}}"
    if field == "subject_key":
        assert problems(tmp_path, *given, short)[0].startswith("subject_key: is shorter than 16 bytes, and the")
    else:
        assert any(
            text.startswith("audit_chain.key: is shorter") for text in configured(tmp_path, *given, short).warnings
        )
    for value, problem in (
        ("{environment: CRENEL_TEST_UNSET}", "the environment variable CRENEL_TEST_UNSET is not set; set it where"),
        ("{environment: 'A B'}", "environment: is no name of a variable"),
        ("{file: key}", "file: is not absolute; workers have other folders"),
        ("{provider: vault}", "provider: is not of the form 'module:function'"),
        ("{provider: 'no_such_vault:key'}", "the provider no_such_vault:key raised ModuleNotFoundError"),
        ("{vault: a}", "names no place; one of {environment: NAME}"),
        ("{file: /a, environment: A}", "is neither text nor one place; text, or one of {environment"),
        ("[a]", "is neither text nor one place"),
        ("''", "is empty; text, best as ${CRENEL_"),
    ):
        (found,) = problems(tmp_path, *given, f"{field}={value}")
        assert found.startswith(f"{field}: {problem}"), found


def test_a_chain_goes_through_an_audit_log_and_its_key_is_shown_nowhere(tmp_path: Path) -> None:
    audit = "sinks.audit={connector: blackhole}"
    (problem,) = problems(tmp_path, SMALL, "audit_chain={}")
    assert problem.startswith("sinks.audit: is missing, and audit_chain goes through it")
    assert configured(tmp_path, SMALL, audit).audit_chain is None
    unkeyed = configured(tmp_path, SMALL, audit, "audit_chain={}")
    assert unkeyed.audit_chain is not None
    assert not unkeyed.audit_chain
    assert any(warning.startswith("audit_chain.key: is not given") for warning in unkeyed.warnings)
    long = configured(tmp_path, SMALL, audit, "audit_chain.key=sixteen bytes or more")
    assert not any("audit_chain" in warning for warning in long.warnings)
    config = configured(tmp_path, SMALL, audit, "audit_chain.key=hunter2")
    assert config.audit_chain == Secret("audit_chain.key", b"hunter2")
    assert any(warning.startswith("audit_chain.key: is shorter") for warning in config.warnings)
    assert "hunter2" not in repr(config)
    (problem,) = problems(tmp_path, SMALL, audit, "audit_chain=hunter2")
    assert problem.startswith("audit_chain: ")
    assert "hunter2" not in problem
