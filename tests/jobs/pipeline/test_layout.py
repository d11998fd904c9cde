"""Columns on the way from the source to the sinks."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date
from fractions import Fraction
from ipaddress import IPv4Network
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.model.attributes import Categorical, Noised, Numeric, by_name
from crenel.anonymity.model.builders.addresses import Ip
from crenel.anonymity.model.builders.builder import Builder
from crenel.anonymity.model.builders.dates import Dates
from crenel.anonymity.model.builders.mask import Mask
from crenel.anonymity.model.builders.numbers import Numbers
from crenel.anonymity.model.errors import ConfigError
from crenel.anonymity.model.fields import Instant
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.policy import Policy, Pseudonym
from crenel.anonymity.model.privacy import NoiseWithinRelease, Privacy
from crenel.anonymity.model.secret import Secret, SubjectKey
from crenel.jobs.pipeline.layout import Layout
from crenel.jobs.pipeline.packing import packing_functions
from crenel.jobs.pipeline.sink_columns import lines_of, written_null
from crenel.jobs.pipeline.sql_expressions import quote
from crenel.operators.bounds import integer_bounds
from crenel.operators.column_types import parse
from crenel.operators.encode.columns import EARLIEST, LATEST
from crenel.operators.output_columns import REJECTED, SUPPRESSED
from tests.support.layouts import NOISE, TIMED, layout_of

AREA = from_paths([("north", "*"), ("south", "*")])
POLICY = Policy(
    quasi_identifiers={"age": Numeric((0, 120)), "area": Categorical(AREA), "pay": Numeric()},
    sensitive=("income",),
    passthrough=("trip", "share"),
    subject="person",
    event_time="ts",
    reference="line",
    drop=("name",),
)
COLUMNS = {
    "line": "BIGINT",
    "name": "ARRAY<STRING>",
    "person": "VARCHAR(20)",
    "age": "INT",
    "area": "STRING",
    "pay": "DECIMAL(10, 2)",
    "income": "STRING NOT NULL",
    "trip": "BIGINT NOT NULL",
    "share": "DOUBLE",
    "ts": "TIMESTAMP_LTZ(3) *ROWTIME*",
}

WITHIN = Privacy(2, noise_within_release=NoiseWithinRelease(1))
OBSERVED = replace(NOISE, range="observed")
STAMP = "TIMESTAMP '1970-01-01 00:00:00.000' + INTERVAL '0.001' SECOND * m0"


def names(found: Layout, sink: str) -> list[str]:
    return [column.name for column in found.sinks[sink]]


def problems(policy: Policy, columns: dict[str, str], **settings: Any) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        layout_of(policy, columns, "job.yaml", **settings)
    assert "job.yaml" in str(caught.value)
    return caught.value.problems


def one(name: str, sql: str, **policy: Any) -> tuple[Policy, dict[str, str]]:
    """Return a policy in which the column ``x`` is categorical, and another has the role in question."""
    base = Policy(quasi_identifiers={"x": Categorical(AREA)})
    return replace(base, **policy), {"x": "STRING", name: sql}


def test_released_columns_come_in_the_order_of_the_policy_with_their_own_types() -> None:
    released = layout_of(POLICY, COLUMNS).sinks["released"]
    assert [(column.name, column.sql_type) for column in released] == [
        ("age_min", "INT"),
        ("age_max", "INT"),
        ("area", "STRING"),
        ("pay_min", "DECIMAL(10, 2)"),
        ("pay_max", "DECIMAL(10, 2)"),
        ("income", "STRING"),
        ("trip", "BIGINT"),
        ("share", "DOUBLE"),
    ]


def test_an_audit_row_is_a_release_without_its_members() -> None:
    found = layout_of(POLICY, COLUMNS)
    assert [(column.name, column.sql_type) for column in found.sinks["audit"]] == [
        ("release_id", "BIGINT"),
        ("shard", "INT"),
        ("event_time", "TIMESTAMP_LTZ(3)"),
        ("kind", "STRING"),
        ("subjects", "BIGINT"),
        ("tuples", "BIGINT"),
        ("diversity_income", "BIGINT"),
        ("loss", "DOUBLE"),
        ("in_force", "STRING"),
        ("k", "BIGINT"),
        ("l", "BIGINT"),
        ("sample_rate", "DOUBLE"),
        ("phi", "DOUBLE"),
        ("age_min", "INT"),
        ("age_max", "INT"),
        ("area", "STRING"),
        ("pay_min", "DECIMAL(10, 2)"),
        ("pay_max", "DECIMAL(10, 2)"),
    ]
    members = {column.row for column in found.members}
    assert not members & {column.expression for column in found.sinks["audit"]}


def test_an_audit_row_tells_what_is_in_force_before_its_generalization() -> None:
    found = layout_of(POLICY, COLUMNS, privacy=Privacy(10, 2), sampling_and_noise=None)
    audit = names(found, "audit")
    assert audit[audit.index("loss") + 1 : audit.index("age_min")] == ["in_force", "k", "l", "sample_rate", "phi"]
    (k,) = (column for column in found.sinks["audit"] if column.name == "k")
    assert (k.sql_type, k.expression) == ("BIGINT", "CAST(10 AS BIGINT)")
    (settings,) = (column for column in found.sinks["audit"] if column.name == "in_force")
    assert settings.expression == f"CAST('{found.plan.in_force}' AS STRING)"
    assert "k" not in names(found, "released")


def test_suppressed_and_rejected_rows_hold_no_column_of_the_source() -> None:
    found = layout_of(POLICY, COLUMNS)
    assert names(found, "suppressed") == ["reason", "shard", "position", "event_time"]
    assert names(found, "rejected") == ["column", "reason", "event_time", "reference"]


def test_rejected_rows_have_a_reference_only_where_the_policy_names_one() -> None:
    columns = {name: sql for name, sql in COLUMNS.items() if name != "line"}
    assert "reference" not in names(layout_of(replace(POLICY, reference=None), columns), "rejected")


@pytest.mark.parametrize(
    ("sql", "shown"), [("BIGINT", "BIGINT"), ("TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(3)"), (None, "BIGINT")]
)
def test_event_time_is_shown_as_the_source_has_it(sql: str | None, shown: str) -> None:
    policy, columns = one("ts", sql or "BIGINT", **({"drop": ("ts",)} if sql is None else {"event_time": "ts"}))
    found = layout_of(policy, columns)
    for sink in ("audit", "suppressed", "rejected"):
        assert [column.sql_type for column in found.sinks[sink] if column.name == "event_time"] == [shown]


def test_names_of_the_source_never_meet_our_own() -> None:
    ours = layout_of(POLICY, COLUMNS)
    inner = [*ours.release, *ours.members, *SUPPRESSED, *REJECTED]
    taken = sorted({column.row for column in inner} - {"release_id", "shard", "kind", "subjects", "tuples", "loss"})
    policy = Policy(
        quasi_identifiers=by_name(tuple(Numeric().named(name) for name in taken)),
        sensitive=("members", "q0"),
        subject="q9",
        drop=("m9",),
    )
    columns = dict.fromkeys([*taken, "members", "q0", "q9", "m9"], "BIGINT")
    found = layout_of(policy, columns)
    assert len(set(names(found, "released"))) == 2 * len(taken) + 2
    assert [column.expression for column in found.sinks["released"]][-2:] == ["m0", "m1"]


def test_identifiers_are_quoted() -> None:
    name = "a `b` c\n, d"
    policy = Policy(quasi_identifiers={name: Numeric()})
    found = layout_of(policy, {name: "BIGINT NOT NULL"})
    assert found.arguments == ("`a ``b`` c\n, d`",)
    assert found.sinks["released"][0].selection == "q0_min AS `a ``b`` c\n, d_min`"
    assert found.sinks["released"][0].declaration == "`a ``b`` c\n, d_min` BIGINT"
    assert quote("`") == "````"


@pytest.mark.parametrize(
    ("sql", "arguments"),
    [
        ("INT", ["`c`"]),
        ("DECIMAL(15, 2)", ["CAST(`c` AS DOUBLE)"]),
        ("DOUBLE", ["`c`", "`c` IS NULL"]),
        ("FLOAT", ["CAST(`c` AS DOUBLE)", "`c` IS NULL"]),
        ("DOUBLE NOT NULL", ["`c`"]),
        ("STRING", ["`c`"]),
        ("CHAR(4)", ["CAST(`c` AS STRING)"]),
    ],
)
def test_a_numeric_quasi_identifier_comes_as_a_number_or_as_text(sql: str, arguments: list[str]) -> None:
    found = layout_of(Policy(quasi_identifiers={"c": Numeric()}), {"c": sql})
    assert list(found.arguments) == arguments


@pytest.mark.parametrize(
    ("sql", "arguments", "carried", "back"),
    [
        ("STRING", ["`c`"], pa.string(), "m0"),
        ("VARCHAR(20)", ["`c`"], pa.string(), "CAST(m0 AS VARCHAR(20))"),
        ("CHAR(3)", ["CAST(`c` AS STRING)"], pa.string(), "CAST(m0 AS CHAR(3))"),
        ("BOOLEAN", ["`c`"], pa.bool_(), "m0"),
        ("BIGINT NOT NULL", ["`c`"], pa.int64(), "m0"),
        ("BIGINT", ["COALESCE(`c`, CAST(0 AS BIGINT))", "`c` IS NULL"], pa.int64(), "m0"),
        (
            "TINYINT",
            ["COALESCE(CAST(`c` AS BIGINT), CAST(0 AS BIGINT))", "`c` IS NULL"],
            pa.int64(),
            "CAST(m0 AS TINYINT)",
        ),
        ("DOUBLE", ["`c`", "`c` IS NULL"], pa.float64(), "m0"),
        ("FLOAT NOT NULL", ["CAST(`c` AS DOUBLE)"], pa.float64(), "CAST(m0 AS FLOAT)"),
        ("DECIMAL(38, 18)", ["CAST(`c` AS STRING)"], pa.string(), "CAST(m0 AS DECIMAL(38, 18))"),
        # Flink cannot read its own '0.5' as such a type.
        ("DECIMAL(5, 5)", ["CAST(`c` AS STRING)"], pa.string(), "CAST(REPLACE(m0, '0.', '.') AS DECIMAL(5, 5))"),
        ("DATE", ["CAST(`c` AS STRING)"], pa.string(), "CAST(m0 AS DATE)"),
        ("TIME(0)", ["CAST(`c` AS STRING)"], pa.string(), "CAST(m0 AS TIME(0))"),
        ("TIMESTAMP(9)", ["CAST(`c` AS STRING)"], pa.string(), "CAST(m0 AS TIMESTAMP(9))"),
        ("TIMESTAMP(3)", ["CAST(`c` AS TIMESTAMP(3))"], pa.timestamp("ms"), STAMP),
        ("TIMESTAMP(0)", ["CAST(`c` AS TIMESTAMP(3))"], pa.timestamp("ms"), f"CAST({STAMP} AS TIMESTAMP(0))"),
        ("TIMESTAMP_LTZ(3) *ROWTIME*", ["CAST(`c` AS STRING)"], pa.string(), "CAST(m0 AS TIMESTAMP_LTZ(3))"),
    ],
)
def test_a_published_column_comes_back_in_its_own_type(
    sql: str, arguments: list[str], carried: pa.DataType, back: str
) -> None:
    policy, columns = one("c", sql, passthrough=("c",))
    found = layout_of(policy, columns)
    assert list(found.arguments[1:]) == arguments
    assert found.plan.context.members == pa.schema([("c", carried)])
    column = found.sinks["released"][-1]
    assert (column.expression, column.sql_type) == (back, parse(sql).text)
    assert found.plan.types["c"].text == column.sql_type


@pytest.mark.parametrize(
    ("passed", "sql"),
    [((), "m0 ARRAY<BOOLEAN>"), (("a",), "m0 ARRAY<BIGINT>"), (("a", "b"), "m0 ARRAY<BIGINT>, m1 ARRAY<STRING>")],
)
def test_a_release_has_an_array_of_each_published_column(passed: tuple[str, ...], sql: str) -> None:
    policy = Policy(quasi_identifiers={"q": Numeric()}, passthrough=passed, drop=tuple({"a", "b"} - set(passed)))
    release = layout_of(policy, {"q": "INT", "a": "INT", "b": "STRING"}).release_type(with_members=True)
    assert release.endswith(f", q0_max BIGINT, {sql}>")


def test_every_problem_is_listed_with_what_would_be_valid() -> None:
    columns = {**COLUMNS, "icnome": "STRING", "pay": "DECIMAL(20, 2)", "trip": "INTERVAL SECOND(3)", "ts": "INT"}
    del columns["income"]
    found = problems(POLICY, columns)
    assert len(found) == 4
    for field, hint in (
        ("policy.sensitive: the source has no column 'income'", "did you mean 'icnome'?"),
        ("policy.quasi_identifiers.pay", "DECIMAL(15, 2)"),
        ("policy.passthrough: column 'trip'", "text, BOOLEAN, whole numbers"),
        ("policy.event_time: column 'ts'", "BIGINT (epoch milliseconds) or TIMESTAMP_LTZ(3)"),
    ):
        assert any(field in problem and hint in problem for problem in found), field


@pytest.mark.parametrize(
    ("role", "name", "given"),
    [
        ("subject", "persn", "person"),
        ("event_time", "t", "ts"),
        ("reference", "LINES", "line"),
        ("sensitive", "incom", "income"),
        ("passthrough", "tirp", "trip"),
        ("drop", "Name", "name"),
        ("quasi_identifiers", "aeg", "age"),
        ("quasi_identifiers", "arae", "area"),
        ("noised", "heigth", "height"),
    ],
)
def test_a_misspelled_column_of_a_role_is_one_problem_which_suggests_the_column_of_the_source(
    role: str, name: str, given: str
) -> None:
    policy = replace(POLICY, noised={"height": Noised((100, 220), 1)})
    columns = {**COLUMNS, "height": "INT"}
    assert layout_of(policy, columns, privacy=WITHIN)
    now = getattr(policy, role)
    wrong: Any = name
    if isinstance(now, dict):
        wrong = {name if each == given else each: of.named("") for each, of in now.items()}
    elif isinstance(now, tuple):
        wrong = tuple(name if each == given else each for each in now)
    [problem] = problems(replace(policy, **{role: wrong}), columns, privacy=WITHIN)
    meant = f"policy.{role}: the source has no column {name!r}; did you mean {given!r}?"
    assert problem == f"{meant} It has {', '.join(columns)}"


def test_a_column_of_a_role_that_is_like_none_of_the_source_is_told_beside_those_without_a_role() -> None:
    columns = {**COLUMNS, "phone": "STRING"}
    del columns["person"]
    lacking, spare = problems(POLICY, columns)
    assert lacking == f"policy.subject: the source has no column 'person'; it has {', '.join(columns)}"
    assert spare.startswith("policy: the source's column 'phone' has no role; give it one of ")


def test_a_column_without_a_role_is_not_dropped_in_silence() -> None:
    [problem] = problems(POLICY, {**COLUMNS, "phone": "STRING"})
    assert "'phone' has no role" in problem
    assert "drop" in problem


@pytest.mark.parametrize(
    ("sql", "role"),
    [
        ("BYTES", "quasi"),
        ("BOOLEAN", "quasi"),
        ("TIME(3)", "quasi"),
        ("DECIMAL(16, 0)", "quasi"),
        *(
            (sql, role)
            for sql in ("BYTES", "ARRAY<INT>", "MAP<STRING, INT>", "ROW<a INT>")
            for role in ("sensitive", "area")
        ),
        ("INTERVAL SECOND(3)", "passthrough"),
        ("FLOAT", "subject"),
        ("DOUBLE NOT NULL", "subject"),
        ("MAP<STRING, INT>", "subject"),
        ("TIMESTAMP(3) *ROWTIME*", "event_time"),
        ("TIMESTAMP_LTZ(6)", "event_time"),
        ("TIMESTAMP_LTZ(3) NOT NULL *PROCTIME*", "event_time"),
        ("STRING", "event_time"),
        ("INT", "event_time"),
        ("ROW<a INT>", "reference"),
    ],
)
def test_a_type_that_a_role_cannot_have_is_refused_with_the_column_and_the_type(sql: str, role: str) -> None:
    if role == "quasi":
        policy, columns = Policy(quasi_identifiers={"c": Numeric()}), {"c": sql}
    elif role == "area":
        policy, columns = Policy(quasi_identifiers={"c": Categorical(AREA)}), {"c": sql}
    else:
        policy, columns = one("c", sql, **{role: ("c",) if role in ("sensitive", "passthrough") else "c"})
    [problem] = problems(policy, columns)
    assert "c" in problem.split(":")[0] or "'c'" in problem
    assert parse(sql).text in problem or "processing time" in problem


@pytest.mark.parametrize(
    ("sql", "argument", "back"),
    [
        ("BYTES NOT NULL", "`c`", "m0"),
        ("BINARY(4)", "CAST(`c` AS BYTES)", "CAST(m0 AS BINARY(4))"),
        ("ARRAY<INT>", "crenel_pack_H(`c`)", "crenel_unpack_H(m0)"),
        ("MAP<STRING, INT NOT NULL> NOT NULL", "crenel_pack_H(`c`)", "crenel_unpack_H(m0)"),
        ("ROW<`a` ROW<`b` DATE>>", "crenel_pack_H(`c`)", "crenel_unpack_H(m0)"),
    ],
)
def test_a_nested_column_is_passed_through_as_bytes(sql: str, argument: str, back: str) -> None:
    policy, columns = one("c", sql, passthrough=("c",))
    found = layout_of(policy, columns)
    assert found.plan.context.members.types == [pa.binary()]
    [column] = found.sinks["released"][1:]
    assert column.sql_type == parse(sql).text
    functions = [function.name for function in packing_functions([parse(sql)])]
    of_type = functions[0].rpartition("_")[2] if functions else ""
    assert (found.arguments[1], column.expression) == (argument.replace("H", of_type), back.replace("H", of_type))
    assert len(functions) == (2 if "H" in argument else 0)
    assert lines_of({"connector": "kafka", "format": "json"}, found.sinks["released"]) is None


def test_a_sink_of_text_and_a_chain_of_hashes_hold_no_nested_column() -> None:
    policy, columns = one("c", "MAP<STRING, INT>", passthrough=("c",))
    for sink in ({"connector": "filesystem", "format": "csv"}, {"connector": "jdbc"}):
        with pytest.raises(ConfigError, match=r"'c' has the type MAP<STRING, INT>, which the sink of released does"):
            layout_of(policy, columns, sinks={"released": sink})
    with pytest.raises(ConfigError, match=r"audit_chain\.key hashes each published value"):
        layout_of(policy, columns, audit_chain=Secret("audit_chain.key", b"a key of sixteen bytes"))
    assert layout_of(policy, columns, audit_chain=Secret("audit_chain.key"))


def test_released_may_have_the_shape_of_the_source() -> None:
    policy = Policy(
        quasi_identifiers={"p.age": Numeric(), "p.home.zip": Categorical(AREA), "n": Numeric()},
        sensitive=("v.ill",),
        passthrough=("p.tests",),
    )
    columns = {"p.age": "INT", "p.home.zip": "STRING", "n": "DOUBLE", "v.ill": "STRING", "p.tests": "ARRAY<INT>"}
    found = layout_of(policy, columns, is_nested=True).sinks
    patient = "ROW<`age` ROW<`min` INT, `max` INT>, `home` ROW<`zip` STRING>, `tests` ARRAY<INT>>"
    assert [column.declaration for column in found["released"]] == [
        f"`p` {patient}",
        "`n` ROW<`min` DOUBLE, `max` DOUBLE>",
        "`v` ROW<`ill` STRING>",
    ]
    assert found["released"][2].expression == "CAST(ROW(m0) AS ROW<`ill` STRING>)"
    assert found["audit"] == layout_of(policy, columns).sinks["audit"]
    with pytest.raises(ConfigError, match="shape: 'nested' needs ROW, which the sink of released does not hold"):
        layout_of(policy, columns, is_nested=True, sinks={"released": {"format": "csv"}})


def test_fields_of_the_rows_of_an_array_are_published_in_rows() -> None:
    columns = {"n": "INT", "p.v[*].ill": "ARRAY<CHAR(3)>", "p.v[*].at.ward": "ARRAY<STRING>", "p.x": "ARRAY<INT>"}
    policy = Policy(
        quasi_identifiers={"n": Numeric()},
        sensitive=("p.v[*].ill",),
        arrays={"p.v[*].ill": 3},
        passthrough=("p.v[*].at.ward", "p.x"),
    )
    found = layout_of(policy, columns, is_nested=True).sinks["released"]
    rows = "ARRAY<ROW<`ill` CHAR(3), `at` ROW<`ward` STRING>>>"
    assert [column.declaration for column in found][1:] == [f"`p` ROW<`v` {rows}, `x` ARRAY<INT>>"]
    [function] = found[1].functions
    assert f"{function.name}(crenel_unpack_" in found[1].expression
    assert "GenericRowData.of(new Object[] {value(0, i), GenericRowData.of(new Object[] {value(1, i)})})" in (
        function.source
    )
    assert layout_of(policy, columns).sinks["released"][2].declaration == "`p.v[*].ill` ARRAY<CHAR(3)>"
    for other in ("p.v", "p.v.ill"):
        clash = replace(policy, passthrough=(*policy.passthrough, other))
        with pytest.raises(ConfigError, match=rf"shape: '{re.escape(other)}' has the place of another column"):
            layout_of(clash, columns | {other: "INT"}, is_nested=True)
        clash = replace(policy, sensitive=(other, *policy.sensitive))
        with pytest.raises(ConfigError, match=r"shape: 'p.v\[\*\].ill' has the place of another column"):
            layout_of(clash, columns | {other: "INT"}, is_nested=True)
    alone = replace(policy, sensitive=(), arrays={}, passthrough=("p.v[*].ill",))
    with pytest.raises(ConfigError, match=r"shape: 'p.v\[\*\].ill' is a column of INT, and '\[\*\]' in its name"):
        layout_of(alone, {"n": "INT", "p.v[*].ill": "INT"}, is_nested=True)


def test_two_columns_of_one_place_have_no_nested_shape() -> None:
    policy, columns = one("n.a", "INT", passthrough=("n.a", "n"))
    with pytest.raises(ConfigError, match=r"shape: 'n' has the place of another column"):
        layout_of(policy, columns | {"n": "INT"}, is_nested=True)
    policy, columns = one("x.a", "INT", passthrough=("x.a",))
    with pytest.raises(ConfigError, match=r"shape: 'x\.a' has the place of another column"):
        layout_of(policy, columns, is_nested=True)


def test_a_sensitive_array_is_refused_with_a_row_for_each_value_as_the_remedy() -> None:
    [problem] = problems(*one("c", "ARRAY<STRING>", sensitive=("c",)))
    assert "'c' has the type ARRAY<STRING>" in problem
    assert problem.endswith(
        "With CROSS JOIN UNNEST in the source's query, or explode of a DataFrame, each value is a record of the same "
        "person"
    )


@pytest.mark.parametrize("sql", ["STRING", "BIGINT", "DECIMAL(38, 0)", "BOOLEAN", "DATE", "TIMESTAMP(6)", "CHAR(8)"])
def test_a_subject_is_hashed_as_text(sql: str) -> None:
    policy, columns = one("c", sql, subject="c")
    assert layout_of(policy, columns).arguments[1] == ("`c`" if sql == "STRING" else "CAST(`c` AS STRING)")


@pytest.mark.parametrize(
    ("sql", "domain", "fits"),
    [
        ("TINYINT", (-128, 127), True),
        ("TINYINT", (0, 128), False),
        ("INT", (-(2.0**31) - 1, 0), False),
        ("BIGINT", (-(2.0**63), 2.0**63), True),
        ("BIGINT", (0, 2.0**64), False),
        ("DECIMAL(4, 2)", (-99.99, 99.99), True),
        ("DECIMAL(4, 2)", (0, 99.996), False),
        ("FLOAT", (0, 1e39), False),
        ("DOUBLE", (0, 1e300), True),
        ("STRING", (0, 1e300), True),
    ],
)
def test_a_domain_lies_within_the_type_of_its_column(sql: str, domain: tuple[float, float], fits: bool) -> None:
    # The whole domain may be published, and would overflow.
    policy = Policy(quasi_identifiers={"c": Numeric(domain)})
    if fits:
        assert layout_of(policy, {"c": sql}).sinks["released"]
    else:
        [problem] = problems(policy, {"c": sql})
        assert problem.startswith("policy.quasi_identifiers.c.domain: ")


@pytest.mark.parametrize(
    ("quasi", "passed", "sink", "name"),
    [
        (Numeric().named("age"), "age_min", "released", "age_min"),
        (Categorical(AREA).named("loss"), "x", "audit", "loss"),
        (Categorical(AREA).named("diversity_pay"), "x", "audit", "diversity_pay"),
    ],
)
def test_a_sink_with_two_columns_of_one_name_is_refused(quasi: Any, passed: str, sink: str, name: str) -> None:
    policy = Policy(quasi_identifiers=by_name((quasi,)), sensitive=("pay",), passthrough=(passed,))
    [problem] = problems(policy, {quasi.name: "BIGINT", "pay": "BIGINT", passed: "BIGINT"})
    assert f"sinks.{sink}" in problem
    assert repr(name) in problem


def test_the_plan_reads_what_the_arguments_hold() -> None:
    found = layout_of(POLICY, COLUMNS)
    plan = found.plan
    reads = [*plan.quasi_identifiers, *plan.sensitive, *plan.passthrough, plan.subject, plan.event_time, plan.reference]
    for read in reads:
        assert read is not None
        assert quote(read.name) in found.arguments[read.value]
        if read.missing is not None:
            assert found.arguments[read.missing] == f"{quote(read.name)} IS NULL"
    used = [p for read in reads if read is not None for p in (read.value, read.missing) if p is not None]
    assert sorted(used) == list(range(len(found.arguments)))
    assert plan.checked == ("age", "area", "pay", "income", "person", "ts", *POLICY.passthrough, None)
    assert found.plan.context.members.names == list(POLICY.members)
    assert found.plan.generalization.integers == {"age"}


def test_keys_stay_out_of_representations() -> None:
    plan = layout_of(POLICY, COLUMNS, subject_key=SubjectKey.of(b"hunter2")).plan
    assert plan.subject_key.hash_key not in repr(plan)
    assert "hunter2" not in repr(plan)


int64 = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.integers(0, 63).flatmap(lambda i: st.integers(-3, 3).map(lambda d: 2**i + d))
).filter(lambda i: -(2**63) <= i < 2**63)


@given(int64, st.sampled_from((1, -1)))
def test_integer_ends_cover_the_value_behind_them(value: int, sign: int) -> None:
    value = min(max(sign * value, -(2**63)), 2**63 - 1)
    held = np.array([float(value)])
    [lower], [upper] = integer_bounds(held, held)
    assert -(2**63) <= lower <= value <= upper < 2**63
    assert isinstance(lower, int)
    if abs(value) < 2**53:
        assert lower == upper == value


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e18, max_value=1e18)))
def test_integer_ends_are_rounded_outwards(ends: list[float]) -> None:
    lower, upper = integer_bounds(np.array(ends), np.array(ends))
    for low, end, high in zip(lower, ends, upper, strict=True):
        assert low <= Fraction(end) <= high


@pytest.mark.parametrize(
    ("text", "name", "declared", "nullable"),
    [
        ("STRING NOT NULL", "STRING", "STRING", False),
        ("VARCHAR(2147483647)", "STRING", "STRING", True),
        ("VARCHAR(7) NOT NULL", "VARCHAR", "VARCHAR(7)", False),
        ("DECIMAL(10,2)", "DECIMAL", "DECIMAL(10, 2)", True),
        ("NUMERIC", "DECIMAL", "DECIMAL(10, 0)", True),
        ("INTEGER", "INT", "INT", True),
        ("DOUBLE PRECISION", "DOUBLE", "DOUBLE", True),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP_LTZ", "TIMESTAMP_LTZ(3)", True),
        ("TIMESTAMP(3) NOT NULL *ROWTIME*", "TIMESTAMP", "TIMESTAMP(3)", False),
        ("ROW<a INT, b STRING NOT NULL>", "ROW", "ROW<a INT, b STRING NOT NULL>", True),
    ],
)
def test_types_are_read_as_flink_prints_them(text: str, name: str, declared: str, nullable: bool) -> None:
    found = parse(text)
    assert (found.name, found.text, found.nullable) == (name, declared, nullable)


@pytest.mark.parametrize(
    ("sql", "given", "filled"),
    [
        *((sql, None, 1.0) for sql in ("TINYINT", "SMALLINT NOT NULL", "INT", "BIGINT")),
        ("INT", 5.0, 5.0),
        ("DOUBLE", 0.25, 0.25),
        ("STRING", 0.1, 0.1),
        ("FLOAT", 3.0, 3.0),
        ("DECIMAL(10, 2)", 0.07, 0.07),
        ("DECIMAL(10, 0)", 2.0, 2.0),
    ],
)
def test_noise_has_a_step_that_fits_its_column(sql: str, given: float | None, filled: float) -> None:
    policy = Policy({"q": Numeric((0, 100), given), "x": Categorical(AREA)})
    columns = {"q": sql, "x": "STRING"}
    assert layout_of(policy, columns, sampling_and_noise=NOISE).plan.policy == Policy(
        {"q": Numeric((0, 100), filled), "x": Categorical(AREA)}
    )
    assert layout_of(policy, columns).plan.policy == policy


@pytest.mark.parametrize(
    ("sql", "attribute", "problem"),
    [
        *((sql, Numeric(), f"is missing; sampling_and_noise draws noise on a grid, and a column of type {sql} ")
          for sql in ("DOUBLE", "STRING", "FLOAT", "DECIMAL(10, 2)")),
        ("INT", Numeric(step=0.5), "is not a whole number, and the column's type is INT; give a whole number"),
        ("BIGINT", Numeric(step=1.5), "is not a whole number, and the column's type is BIGINT"),
        ("INT", Numeric((3, 3)), "is wider than the domain; the domain must hold at least one step"),
        ("BIGINT", Numeric((0, 2.0**41)), "is too small; the domain may hold 2^40 steps at most"),
        ("DECIMAL(10, 2)", Numeric(step=0.005), "is finer than the column's type, DECIMAL(10, 2); give a multiple "
         "of 0.01"),
        ("DECIMAL(10, 2)", Numeric(step=0.015), "is finer than the column's type, DECIMAL(10, 2)"),
    ],
)  # fmt: skip
def test_a_step_that_does_not_fit_is_told_with_what_would(sql: str, attribute: Numeric, problem: str) -> None:
    noise = OBSERVED if attribute.domain is None else NOISE
    with pytest.raises(ConfigError) as caught:
        layout_of(Policy({"q": attribute}), {"q": sql}, sampling_and_noise=noise)
    (found,) = caught.value.problems
    assert found.startswith(f"policy.quasi_identifiers.q.step: {problem}")
    assert layout_of(Policy({"q": attribute}), {"q": sql})


@pytest.mark.parametrize(
    ("sql", "ends", "problem"),
    [
        ("INT", 2.5, "is not a whole number, and the column's type is INT; give a whole number"),
        ("DECIMAL(10, 2)", 0.005, "is finer than the column's type, DECIMAL(10, 2); give a multiple of 0.01"),
        ("DATE", 3_600_000, "is finer than the column's type, DATE; give a multiple of 86400000 ms"),
        ("TIMESTAMP(0)", 1500, "is finer than the column's type, TIMESTAMP(0); give a multiple of 1000 ms"),
        ("TIMESTAMP_LTZ(2)", 5, "is finer than the column's type, TIMESTAMP_LTZ(2); give a multiple of 10 ms"),
        ("TIMESTAMP(3)", 0.5, "is finer than the column's type, TIMESTAMP(3); give a multiple of 1 ms"),
    ],
)
def test_ends_that_a_column_cannot_hold_are_told(sql: str, ends: float, problem: str) -> None:
    policy = Policy({"q": Numeric(ends=ends)})
    with pytest.raises(ConfigError) as caught:
        layout_of(policy, {"q": sql})
    (found,) = caught.value.problems
    assert found.startswith(f"policy.quasi_identifiers.q.ends: {problem}")
    assert layout_of(policy, {"q": "DOUBLE"})


@pytest.mark.parametrize("sql", ["DATE", "TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP_LTZ(1)", "TIMESTAMP_LTZ(3)"])
def test_a_time_is_read_as_a_timestamp_and_its_interval_has_its_type(sql: str) -> None:
    found = layout_of(Policy({"q": Numeric(ends=86_400_000)}, missing="value"), {"q": sql})
    (read,) = found.plan.quasi_identifiers
    wanted = "TIMESTAMP_LTZ(3)" if sql.startswith("TIMESTAMP_LTZ") else "TIMESTAMP(3)"
    assert (read.form, found.arguments[read.value]) == ("time", f"CAST(`q` AS {wanted})")
    columns = {column.name: column for column in found.sinks["released"]}
    assert columns["q_min"].sql_type == columns["q_max"].sql_type == sql
    assert found.plan.generalization.integers == {"q"}
    assert found.plan.generalization.extremes == {"q": (-62_135_596_800_000, 253_402_300_799_999)}


@pytest.mark.parametrize("sql", ["TIMESTAMP(6)", "TIMESTAMP_LTZ(9)"])
def test_a_time_finer_than_milliseconds_is_told(sql: str) -> None:
    with pytest.raises(ConfigError) as caught:
        layout_of(Policy({"q": Numeric()}), {"q": sql})
    (found,) = caught.value.problems
    assert found.startswith(f"policy.quasi_identifiers.q: the type {sql} is finer than milliseconds")
    assert f"CAST it to {sql.split('(')[0]}(3) in the source's query" in found


def test_problems_of_steps_are_told_with_all_others() -> None:
    policy = Policy({"q": Numeric(), "r": Numeric(step=0.5), "gone": Numeric()})
    with pytest.raises(ConfigError) as caught:
        layout_of(policy, {"q": "DOUBLE", "r": "INT", "more": "INT"}, sampling_and_noise=OBSERVED)
    assert [problem.split(": ")[0] for problem in caught.value.problems] == [
        "policy.quasi_identifiers",
        "policy",
        "policy.quasi_identifiers.q.step",
        "policy.quasi_identifiers.r.step",
    ]


TIMES = "TIMESTAMP_LTZ(3) *ROWTIME*"


@pytest.mark.parametrize("sql", ["TIMESTAMP_LTZ(3)", "BIGINT", "BIGINT NOT NULL"])
@pytest.mark.parametrize("watermark", [True, False])
def test_a_delay_in_event_time_needs_a_watermark(sql: str, watermark: bool) -> None:
    columns = COLUMNS | {"ts": sql}
    with pytest.raises(ConfigError) as caught:
        layout_of(POLICY, columns, algorithm=TIMED, has_watermark=watermark)
    (problem,) = caught.value.problems
    assert problem.startswith("castle.delay.event_time: counts event time, and ")
    assert problem.endswith("name it in policy.drop")
    if watermark:  # on a column that the query does not select
        assert "the source's query does not select the column with the watermark" in problem
    else:
        stamp = "TO_TIMESTAMP_LTZ(`ts`, 3)" if "BIGINT" in sql else "`ts`"
        assert f"passed AS COALESCE({stamp}, TO_TIMESTAMP_LTZ(0, 3)), WATERMARK FOR passed AS passed - " in problem
    assert layout_of(POLICY, columns, has_watermark=watermark)  # nothing counts it


def test_a_column_of_a_wrong_type_is_told_once() -> None:
    with pytest.raises(ConfigError) as caught:
        layout_of(POLICY, COLUMNS | {"ts": "TIMESTAMP_LTZ(3) *PROCTIME*"}, algorithm=TIMED)
    (problem,) = caught.value.problems
    assert "is processing time" in problem


def test_a_limit_of_event_time_reads_the_watermark_beside_the_time() -> None:
    limited = replace(POLICY, event_time_limit=60_000)
    found = layout_of(limited, COLUMNS)
    assert found.plan.watermark is not None
    assert found.arguments[found.plan.watermark.value] == "CURRENT_WATERMARK(`ts`)"
    assert layout_of(POLICY, COLUMNS).plan.watermark is None
    for sql in ("BIGINT", "TIMESTAMP_LTZ(3)"):
        beside = layout_of(replace(limited, drop=(*POLICY.drop, "at")), COLUMNS | {"ts": sql, "at": TIMES})
        assert beside.plan.watermark is not None
        assert beside.arguments[beside.plan.watermark.value] == "CURRENT_WATERMARK(`at`)"
        (problem,) = problems(limited, COLUMNS | {"ts": sql})
        assert problem.startswith("policy.event_time_limit: the column 'ts' has no watermark to be ahead of; declare")


@pytest.mark.parametrize(
    ("further", "argument"),
    [
        ({"ts": TIMES}, "`ts`"),
        ({"ts": "BIGINT", "at": "TIMESTAMP(3) *ROWTIME*"}, "`at`"),
        ({"ts": "TIMESTAMP_LTZ(3)", "at": TIMES}, "`at`"),  # the time may be missing, and a watermark may not
    ],
)
def test_what_counts_event_time_reads_the_watermark(further: dict[str, str], argument: str) -> None:
    policy = replace(POLICY, drop=(*POLICY.drop, "at")) if "at" in further else POLICY
    found = layout_of(policy, COLUMNS | further, algorithm=TIMED, has_watermark=True)
    assert found.plan.watermark is not None
    assert found.arguments[found.plan.watermark.value] == f"CURRENT_WATERMARK({argument})"


def test_a_pseudonym_is_the_last_of_what_a_released_row_has_of_its_own() -> None:
    coded = replace(POLICY, pseudonym=Pseudonym("person", "stream", accept_linkable=True))
    key = SubjectKey.of(bytes(16))
    before, found = layout_of(POLICY, COLUMNS, subject_key=key), layout_of(coded, COLUMNS, subject_key=key)
    (code,) = set(found.sinks["released"]) - set(before.sinks["released"])
    assert found.sinks["released"][-1] == code
    assert (code.name, code.sql_type) == ("person", "STRING")
    assert found.members[:-1] == before.members
    assert (found.members[-1].row, found.members[-1].kind) == (code.expression, "STRING")
    assert found.plan.context.members == before.plan.context.members
    # The hash of the settings in force counts the pseudonym.
    assert {
        name: [column for column in columns if column.name != "in_force"]
        for name, columns in found.sinks.items()
        if name != "released"
    } == {
        name: [column for column in columns if column.name != "in_force"]
        for name, columns in before.sinks.items()
        if name != "released"
    }
    alone = Policy({"age": Numeric()}, subject="person", pseudonym=Pseudonym("code", "release"))
    (code,) = layout_of(alone, {"age": "INT", "person": "STRING"}, subject_key=key).members
    assert (code.row, code.kind) == ("m0", "STRING")


def test_the_type_of_the_subject_is_told() -> None:
    kind = "type of the subject person"
    types = ("VARCHAR(20)", "STRING")
    prints = [layout_of(POLICY, COLUMNS | {"person": of}).plan.context.fingerprint for of in types]
    assert prints[0].keys() == prints[1].keys()
    assert [name for name in prints[0] if prints[0][name] != prints[1][name]] == [kind]
    alone = {name: sql for name, sql in COLUMNS.items() if name != "person"}
    assert kind not in layout_of(replace(POLICY, subject=None), alone).plan.context.fingerprint


def test_what_is_wrong_with_the_source_already_is_told_first() -> None:
    with pytest.raises(ConfigError) as caught:
        layout_of(POLICY, COLUMNS | {"more": "INT"}, problems=("source.ddl: so",))
    assert [problem.split(":")[0] for problem in caught.value.problems] == ["source.ddl", "policy"]


@pytest.mark.parametrize(
    ("sql", "limits"),
    [
        ("DECIMAL(10, 2)", (-99_999_999.99, 99_999_999.99)),
        ("TINYINT", (-128, 127)),
        ("FLOAT", (-3.4028234663852886e38, 3.4028234663852886e38)),
        ("DATE", (EARLIEST, LATEST)),
        ("STRING", None),
    ],
)
def test_published_ends_are_bounded_by_the_type_of_the_column(sql: str, limits: tuple[float, float] | None) -> None:
    zero = Instant(0) if sql == "DATE" else 0.0
    for attribute in (
        Numeric().named("pay"),
        Numeric((zero, zero)).named("pay"),
        Numeric(step=86_400_000, ends=86_400_000).named("pay"),
    ):
        found = layout_of(Policy(by_name((attribute,))), {"pay": sql}).plan.generalization
        assert dict(found.extremes) == ({} if limits is None else {"pay": limits})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"connector": "filesystem", "format": "csv"}, ""),
        ({"connector": "filesystem", "format": "csv", "csv.null-literal": "n/a"}, "n/a"),
        ({"connector": "kafka", "value.format": "csv", "value.csv.null-literal": "-"}, "-"),
        ({"connector": "kafka", "format": "json"}, ""),
    ],
)
def test_how_a_missing_value_is_written_is_known(options: dict[str, str], text: str) -> None:
    assert written_null(options) == text
    assert layout_of(POLICY, COLUMNS, sinks={"released": options}).plan.null_text == text


@pytest.mark.parametrize(
    ("builder", "sql", "problem"),
    [
        (
            Numbers((0, 9), (1,)),
            "DATE",
            "has the type DATE; one with a hierarchy of numbers is of whole numbers, DECIMAL",
        ),
        (
            Numbers((0, 9), (1,)),
            "DECIMAL(20, 2)",
            "the type DECIMAL(20, 2) has more than 15 digits, too many for float64",
        ),
        (
            Dates((date(2024, 1, 1), date(2024, 1, 2))),
            "BIGINT",
            "has the type BIGINT; one with a hierarchy of dates is",
        ),
        (Ip((IPv4Network("10.0.0.0/30"),)), "BYTES", "has the type BYTES; one with a hierarchy of addresses is"),
        (Mask((1,), length=1), "ARRAY<INT>", "has the type ARRAY<INT>; a categorical one is of text, BOOLEAN"),
    ],
)
def test_a_column_that_a_builder_cannot_read_is_told(builder: Builder, sql: str, problem: str) -> None:
    policy = Policy({"x": Categorical(builder)})
    (found,) = problems(policy, {"x": sql})
    assert found.startswith(f"policy.quasi_identifiers.x: {problem}")
