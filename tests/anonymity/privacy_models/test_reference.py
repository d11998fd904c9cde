"""Files of reference distributions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.compiled.jit import Int, entry
from crenel.anonymity.model.reference import DistributionError, Reference, load
from crenel.anonymity.privacy_models.lookup import UNKNOWN, Lookup, lookup_of, note_number, with_numbers
from tests.support.example_counts import LAWS


def written(folder: Path, text: str) -> Path:
    path = folder / "values.csv"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "values", "shares"),
    [
        ('value,count\nflu,6\n"cancer, lung",2\n\nnone,0\n', ("flu", "cancer, lung", "none"), (0.75, 0.25, 0)),
        ("\ufeffvalue,share\r\nflu,0.25\r\n,0.25\r\n", ("flu", ""), (0.5, 0.5)),
    ],
)
def test_a_file_tells_the_share_of_each_value(tmp_path: Path, text: str, values: tuple[str], shares: object) -> None:
    assert load(written(tmp_path, text)) == Reference(values, shares)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "line 1: must be 'value,share' or 'value,count'"),
        ("flu,3\nnone,2\n", "line 1: must be 'value,share' or 'value,count'"),
        ("value,count\n", "holds no value with a count above 0"),
        ("value,count\nflu,0\n", "holds no value with a count above 0"),
        ("value,share\nflu,1\n\nnone,-1\n", "line 4: its share must be a number from 0 to 10^18"),
        ("value,share\nflu,half\n", "line 2: its share must be a number from 0 to 10^18"),
        ("value,share\nflu,1_0\n", "line 2: its share must be a number from 0 to 10^18"),
        ("value,share\nflu,inf\n", "line 2: its share must be a number from 0 to 10^18"),
        ("value,share\nflu,1e19\n", "line 2: its share must be a number from 0 to 10^18"),
        ("value,count\nflu,1,2\n", "line 2: must hold a value and its count, separated by a comma"),
        ("value,count\nflu,1\nnone,3\nflu,2\n", "line 4: has the value of line 2 again; give each once"),
        ('value,count\n"flu,1\n', "not CSV: unexpected end of data"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_by_line_and_without_a_value(tmp_path: Path, text: str, problem: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(DistributionError) as error:
        load(path)
    assert problem in str(error.value)
    assert str(path) in str(error.value)
    assert "flu" not in str(error.value)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DistributionError, match=r"none\.csv: cannot be read: No such file"):
        load(tmp_path / "none.csv")
    (tmp_path / "odd.csv").write_bytes(b"value,share\n\xff,1\n")
    with pytest.raises(DistributionError, match=r"odd\.csv: line 2 is not UTF-8 text; save the file as UTF-8"):
        load(tmp_path / "odd.csv")


@entry
def _noted(lookup: Lookup, attribute: Int, codes: np.ndarray) -> None:  # type: ignore[type-arg]
    for number in range(len(codes)):
        note_number(lookup, attribute, np.int64(number), codes[number])


codes = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20, unique=True)


@given(codes, st.lists(st.integers(0, 2**64 - 1), max_size=20), st.randoms(use_true_random=False))
@LAWS
def test_a_number_stands_for_the_row_of_its_value(known: list[int], others: list[int], random: object) -> None:
    given = [*known, *others, 2**64 - 1, 0]
    random.shuffle(given)  # type: ignore[attr-defined]
    shares = (1 / len(known),) * len(known)
    of = Reference(tuple(map(str, known)), shares, tuple(known))
    lookup = with_numbers(lookup_of([None, of]), len(given))
    for attribute in (0, 1):
        _noted(lookup, np.int64(attribute), np.array(given, np.uint64))
    assert lookup.row[0].tolist() == [UNKNOWN] * len(given)
    assert lookup.row[1].tolist() == [known.index(code) if code in known else UNKNOWN for code in given]
    assert with_numbers(lookup, 2 * len(given)).row[1, : len(given)].tolist() == lookup.row[1].tolist()
    assert with_numbers(lookup_of([None, None]), 5).row.size == 0


def test_a_reference_without_codes_is_an_error() -> None:
    with pytest.raises(ValueError, match="needs the code of each of its values"):
        lookup_of([Reference(("a", "b"), (0.5, 0.5))])
