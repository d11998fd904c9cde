"""The values of reference distributions as encode codes those of the stream."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.errors import ConfigError
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy, Sensitive
from crenel.anonymity.model.reference import Reference
from crenel.anonymity.model.secret import SubjectKey
from crenel.operators.encode.columns import members_schema
from crenel.operators.encode.encoder import Encoder
from crenel.state.block import Block
from tests.support.encoding import arguments
from tests.support.layouts import layout_of

KEY = SubjectKey.of(b"secret")


def privacy_of(*values: str) -> Privacy:
    reference = Reference(values, (1 / len(values),) * len(values))
    return Privacy(2, sensitive={"illness": Sensitive(t=0.5, reference=reference)})


def _writing(null_text: str) -> dict[str, dict[str, str]]:
    return {"released": {"csv.null-literal": null_text}}


def coded(kind: str, values: list[str], *, missing: Any = "reject", null_text: str = "") -> tuple[int, ...]:
    policy = Policy({"age": Numeric()}, sensitive=("illness",), missing=missing)
    privacy, sinks = privacy_of(*values), _writing(null_text)
    found = layout_of(policy, {"age": "INT", "illness": kind}, subject_key=KEY, sinks=sinks, privacy=privacy)
    reference = found.plan.context.privacy.reference_of("illness")
    assert reference is not None
    return reference.codes


def encoded(kind: str, values: list[Any], *, missing: Any = "reject", null_text: str = "") -> tuple[int, ...]:
    """Return the codes of what comes in."""
    policy = Policy({"age": Numeric()}, sensitive=("illness",), missing=missing)
    plan = layout_of(policy, {"age": "INT", "illness": kind}, subject_key=KEY, sinks=_writing(null_text)).plan
    _, blobs = Encoder(plan).encode(*arguments(plan, [{"age": 1, "illness": value} for value in values]))
    (blob,) = [blob for blob in blobs if blob is not None]
    return tuple(Block.from_bytes(blob, members_schema(plan.sensitive)).sensitive[:, 0].tolist())


@pytest.mark.parametrize(
    ("kind", "texts", "values"),
    [
        ("STRING", ["flu", "Zürich", "a,b", ""], ["flu", "Zürich", "a,b", ""]),
        ("VARCHAR(3)", ["flu", "can"], ["flu", "cancer"]),
        ("CHAR(4)", ["flu", "none"], ["flu ", "none"]),
        ("INT", ["7", "-1", "007000"], [7, -1, 7000]),
        ("BIGINT", ["9007199254740993"], [9007199254740993]),
        ("DOUBLE", ["0.1", "1e3", "-0"], [0.1, 1000.0, 0.0]),
        ("FLOAT", ["0.1", "3"], [0.10000000149011612, 3.0]),
        ("BOOLEAN", ["true", "false"], [True, False]),
    ],
)
def test_a_value_has_the_code_that_encode_gives_it(kind: str, texts: list[str], values: list[Any]) -> None:
    assert coded(kind, texts) == encoded(kind, values)


@pytest.mark.parametrize(("kind", "value"), [("STRING", "flu"), ("INT", 7), ("BOOLEAN", True)])
def test_an_empty_text_is_a_missing_value_where_these_are_kept(kind: str, value: Any) -> None:
    text = str(value).lower()
    assert coded(kind, [text, ""], missing="value") == encoded(kind, [value, None], missing="value")
    assert coded(kind, [text, "null"], missing="value", null_text="null") == encoded(
        kind, [value, None], missing="value", null_text="null"
    )


@pytest.mark.parametrize(
    ("kind", "values", "problem"),
    [
        ("INT", ["1", "flu"], "value 2 is none of a column of type INT; write it as the column does"),
        ("INT", [""], "value 1 is none of a column of type INT"),
        ("FLOAT", ["flu"], "value 1 is none of a column of type FLOAT"),
        ("BOOLEAN", ["yes"], "value 1 is none of a column of type BOOLEAN"),
        ("INT", ["3", "1", "01"], "values 2 and 3 are the same in a column of type INT; add them up"),
        ("VARCHAR(3)", ["cancer", "candida"], "values 1 and 2 are the same in a column of type VARCHAR(3)"),
    ],
)
def test_a_value_that_the_column_has_not_got_is_told_by_place(kind: str, values: list[str], problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        coded(kind, values)
    (found,) = error.value.problems
    assert found.startswith(f"privacy.sensitive.illness.reference: {problem}")


@pytest.mark.parametrize(
    ("kind", "order"),
    [("INT", ("-2", "9", "10")), ("DOUBLE", ("-2", "9", "10")), ("DECIMAL(4, 1)", ("-2", "9", "10"))],
)
def test_numbers_are_in_their_order_where_the_distance_is_ordered_and_texts_in_that_of_the_file(
    kind: str, order: tuple[str, ...]
) -> None:
    policy = Policy({"age": Numeric()}, sensitive=("illness",))
    reference = Reference(("10", "9", "-2"), (0.5, 0.3, 0.2))
    privacy = Privacy(2, sensitive={"illness": Sensitive(t=0.5, reference=reference, distance="ordered")})
    for sql, values in ((kind, order), ("STRING", reference.values)):
        found = layout_of(policy, {"age": "INT", "illness": sql}, privacy=privacy)
        made = found.plan.context.privacy.reference_of("illness")
        assert made is not None
        assert made.values == values
        assert dict(zip(made.values, made.shares, strict=True)) == {"10": 0.5, "9": 0.3, "-2": 0.2}


def test_columns_without_a_reference_stay_as_they_are() -> None:
    policy = Policy({"age": Numeric()}, sensitive=("illness",))
    plain = replace(privacy_of("flu"), sensitive={"illness": Sensitive(l=2)})
    assert layout_of(policy, {"age": "INT", "illness": "STRING"}, privacy=plain).plan.context.privacy == plain
