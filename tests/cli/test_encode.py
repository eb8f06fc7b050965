"""The encoder: raw tables become numbers the same way every time, and what cannot is refused by name."""

import decimal
import json

import numpy as np
import pandas as pd
import pytest
from tests.cli.tables import fitted, frame, write

from cavity.tables import Table, TableEncoder, TableError, read_table


def table(data):
    return Table(pd.DataFrame(data), "t.csv", ())


def refusal(data, target="y", **options):
    with pytest.raises(TableError) as caught:
        TableEncoder.fit(table(data), target, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


Y = [1.0, 2.0, 4.0, 3.0]


def test_kinds_names_and_values(tmp_path):
    encoder, rows, notes = fitted(tmp_path / "t.csv", frame())
    assert [c.kind for c in encoder.columns] == ["number", "category", "category", "boolean", "number"]
    assert encoder.features == [
        "size", "colour=blue", "colour=green", "colour=red", "sex=m", "paid", "count",
    ]  # fmt: skip
    assert len(rows) == 24
    assert not notes
    X = encoder.encode(Table(frame(), "t.csv", ())).X
    np.testing.assert_array_equal(X["colour=red"], frame()["colour"] == "red")
    np.testing.assert_array_equal(X["sex=m"], frame()["sex"] == "m")
    np.testing.assert_array_equal(X["paid"], frame()["paid"])
    np.testing.assert_array_equal(X["size"], frame()["size"])


def test_json_brings_the_encoder_back(tmp_path):
    encoder, _, _ = fitted(tmp_path / "t.csv", frame(), missing="impute")
    assert TableEncoder.from_json(json.loads(json.dumps(encoder.to_json()))) == encoder


@pytest.mark.parametrize(
    ("key", "value"), [("columns", 3), ("columns", [{"name": "a"}]), ("missing", "guess"), ("version", None)]
)
def test_damaged_json_is_refused(tmp_path, key, value):
    stored = fitted(tmp_path / "t.csv", frame())[0].to_json()
    with pytest.raises(TableError, match="damaged"):
        TableEncoder.from_json({**stored, key: value})
    with pytest.raises(TableError, match="damaged"):
        TableEncoder.from_json([])
    with pytest.raises(TableError, match="newer cavity"):
        TableEncoder.from_json({**stored, "version": 99})


def test_columns_in_any_order_and_extra_ones(tmp_path):
    encoder, _, _ = fitted(tmp_path / "t.csv", frame())
    straight = encoder.encode(Table(frame(), "t.csv", ()))
    shuffled = frame()[["y", "count", "paid", "sex", "colour", "size"]].assign(more=1, yet=2)
    turned = encoder.encode(Table(shuffled, "t.csv", ()))
    pd.testing.assert_frame_equal(straight.X, turned.X)
    assert straight.notes == ()
    assert turned.notes == ("not used by the model: 'more', 'yet'.",)


def test_missing_columns_are_named(tmp_path):
    encoder, _, _ = fitted(tmp_path / "t.csv", frame())
    with pytest.raises(TableError, match="lacks 2 columns that the model needs: 'colour', 'count'; "):
        encoder.encode(Table(frame().drop(columns=["colour", "count"]), "t.csv", ()))
    with pytest.raises(TableError, match="lacks the column 'size' .*did you mean 'Size'?"):
        encoder.encode(Table(frame().rename(columns={"size": "Size"}), "t.csv", ()))


def test_unseen_levels(tmp_path):
    encoder, _, _ = fitted(tmp_path / "t.csv", frame())
    new = frame()
    new.loc[[2, 5], "colour"] = "purple"
    with pytest.raises(TableError) as caught:
        encoder.encode(Table(new, "new.csv", ()))
    assert "'colour' of new.csv holds 'purple' in data row 3 and 1 more row" in str(caught.value)
    assert "(it saw 'blue', 'green', 'red')" in str(caught.value)
    assert "--unseen ignore" in str(caught.value)
    ignored = encoder.encode(Table(new, "new.csv", ()), unseen="ignore")
    np.testing.assert_allclose(ignored.X.loc[2, ["colour=blue", "colour=green", "colour=red"]], 1 / 3)
    assert ignored.X.loc[0, "colour=red"] == 1.0
    assert "2 value(s)" in ignored.notes[0]


def test_missing_target_and_other_columns():
    assert refusal(frame(), "Y") == "t.csv has no target column 'Y'; did you mean 'y'?"
    assert "its other columns are 'size', 'colour'" in refusal(frame(), "price in euro")
    assert "no weights column 'w'" in refusal(frame(), weights="w")
    assert "no column 'id'" in refusal(frame(), ignore=["id"])
    assert "no column 'kind'" in refusal(frame(), categorical=["kind"])
    assert "as well" in refusal(frame(), weights="y")
    assert "no input columns" in refusal({"y": Y})


def test_text_in_a_numeric_column_names_row_and_value():
    message = refusal({"a": ["1", "2", "x9", "4"], "y": Y})
    assert "'a' of t.csv should hold numbers (3 of its values are)" in message
    assert "the text 'x9' in data row 3" in message
    assert "--missing x9" in message
    assert "--categorical a" in message
    assert "'y' of t.csv should hold numbers" in refusal({"a": [1, 2, 3, 5], "y": ["1", "2", "?", "3"]})
    encoder, _, _ = TableEncoder.fit(table({"a": ["1", "2", "x9", "2"], "y": Y}), "y", categorical=["a"])
    assert encoder.columns[0].levels == ("1", "2", "x9")


def test_text_in_a_numeric_column_at_predict(tmp_path):
    encoder, _, _ = fitted(tmp_path / "t.csv", frame())
    with pytest.raises(TableError, match="'size' of new.csv should hold numbers.*'big' in data row 1"):
        encoder.encode(Table(frame().assign(size="big"), "new.csv", ()))
    with pytest.raises(TableError, match="'paid' of new.csv was true or false.*'maybe' in data row 1"):
        encoder.encode(Table(frame().assign(paid="maybe"), "new.csv", ()))


def test_constant_target_and_too_few_rows():
    assert "'y' is 3 in every row of t.csv: there is nothing to learn" in refusal({"a": [1, 2], "y": [3, 3]})
    assert "has 1 data row(s): a fit needs at least 2" in refusal({"a": [1], "y": [3]})
    assert "has 0 data row(s)" in refusal({"a": [], "y": []})
    assert "1 row(s) without missing" in refusal({"a": [1, np.nan], "y": [3, 4]}, missing="drop")
    assert "No input column of t.csv varies" in refusal({"a": [1, 1], "y": [3, 4]})


def test_infinite_values():
    message = refusal({"a": [1.0, np.inf, 2.0, -np.inf], "y": Y})
    assert "'a' of t.csv is infinite in data row 2 (2 such rows)" in message
    assert "'y' of t.csv is infinite in data row 1" in refusal({"a": Y, "y": [np.inf, 1.0, 2.0, 3.0]})


def test_weights():
    data = {"a": Y, "y": Y, "w": [1.0, 2.0, -0.5, 1.0]}
    assert "'w' of t.csv is negative (-0.5) in data row 3" in refusal(data, weights="w")
    assert "are all zero" in refusal({**data, "w": 0.0}, weights="w")
    encoder, _, _ = TableEncoder.fit(table({**data, "w": 1.0}), "y", weights="w")
    assert encoder.features == ["a"]


@pytest.mark.parametrize(
    "when",
    [
        ["2024-01-05", "2024-02-01", "2024-03-09", "2024-04-01"],
        ["5.1.2024", "1.2.2024", "9.3.2024", "1.4.2024"],
        pd.to_datetime(["2024-01-05", "2024-02-01", "2024-03-09", "2024-04-01"]),
        pd.to_datetime(["2024-01-05", "2024-02-01", "2024-03-09", "2024-04-01"]).date,
        pd.to_timedelta([1, 2, 3, 4], unit="D"),
    ],
)
def test_dates_are_refused(when):
    message = refusal({"when": when, "y": Y})
    assert "'when' of t.csv holds dates or times" in message
    assert "data row 1" in message
    assert "--ignore when" in message


def test_other_kinds_are_refused():
    assert "complex numbers" in refusal({"a": [1j, 2, 3, 4], "y": Y})
    assert "holds list values" in refusal({"a": [[1], [2], [3], [4]], "y": Y})
    assert "is true or false" in refusal({"a": Y, "y": [True, False, True, False]}, task="regression")


def test_row_names_are_refused_with_a_cure(tmp_path):
    data = frame().assign(name=[f"case {i}" for i in range(24)])
    message = refusal(data)
    assert "24 different values in 24 rows ('case 0', 'case 1', …)" in message
    assert "--ignore name" in message
    assert "name" not in TableEncoder.fit(table(data), "y", ignore=["name"])[0].features
    assert len(TableEncoder.fit(table(data), "y", categorical=["name"])[0].columns) == 6
    _, _, notes = TableEncoder.fit(table(frame().assign(id=range(100, 124))), "y")
    assert notes == ["column 'id' counts the rows; leave it out with --ignore id if it is only a number."]


def test_missing_values_need_a_choice():
    data = frame()
    data.loc[[0, 1, 2], "size"] = np.nan
    data.loc[[2, 3], "colour"] = None
    message = refusal(data)
    assert "'size' 3, 'colour' 2 of 24 rows" in message
    assert "--impute" in message
    assert "--drop-missing keeps the 20 complete rows" in message
    encoder, rows, notes = TableEncoder.fit(table(data), "y", missing="drop")
    np.testing.assert_array_equal(rows, np.arange(4, 24))
    assert "4 of 24 rows have missing values" in notes[0]
    encoder, rows, notes = TableEncoder.fit(table(data), "y", missing="impute")
    assert len(rows) == 24
    assert "filled with the median or most frequent" in notes[0]
    X = encoder.encode(table(data)).X
    assert X.loc[0, "size"] == data["size"].median()
    # blue and green are left with eight and seven rows, red with seven
    assert X.loc[2, "colour=blue"] == float(data["colour"].value_counts().idxmax() == "blue")


def test_a_missing_target_is_never_filled():
    data = frame()
    data.loc[5, "y"] = np.nan
    message = refusal(data)
    assert "'y' 1 of 24 rows" in message
    assert "--impute" not in message
    _, rows, notes = TableEncoder.fit(table(data), "y", missing="impute")
    assert 5 not in rows
    assert "never filled" in notes[0]


def test_a_missing_weight_is_called_by_its_name():
    data = frame().assign(w=np.r_[1.0, np.nan, np.ones(22)])
    with pytest.raises(TableError, match=r"missing values \('w' 1 of 24 rows\)"):
        TableEncoder.fit(table(data), "y", weights="w")
    _, rows, notes = TableEncoder.fit(table(data), "y", weights="w", missing="impute")
    assert len(rows) == 23 and "'w' 1" in notes[0]


def test_missing_values_at_predict_follow_the_fit():
    data = frame()
    new = data.copy()
    new.loc[1, "size"] = np.nan
    plain, _, _ = TableEncoder.fit(table(data), "y")
    with pytest.raises(TableError, match="'size' 1 of 24 rows"):
        plain.encode(table(new))
    assert plain.encode(table(new), missing="impute").X.loc[1, "size"] == data["size"].median()
    np.testing.assert_array_equal(plain.encode(table(new), missing="drop").rows, np.delete(np.arange(24), 1))
    willing, _, _ = TableEncoder.fit(table(data), "y", missing="impute")
    assert len(willing.encode(table(new)).X) == 24


def test_columns_that_do_not_vary_are_left_out():
    data = frame().assign(same=3, void=np.nan, word="a")
    encoder, _, notes = TableEncoder.fit(table(data), "y")
    assert [c.name for c in encoder.columns] == ["size", "colour", "sex", "paid", "count"]
    assert len(notes) == 3


def test_fill_values_of_a_fold():
    data = frame()
    encoder, _, _ = TableEncoder.fit(table(data), "y", missing="impute")
    part = data.iloc[:10]
    assert encoder.refilled(part).columns[0].fill == part["size"].median()
    assert encoder.refilled(part).features == encoder.features


def test_decimal_commas(tmp_path):
    path = write(tmp_path / "t.csv", "a;y\n1,5;2,5\n2;3,5\n-0,5;1\n")
    encoder, _, _ = TableEncoder.fit(read_table(path), "y")
    np.testing.assert_array_equal(encoder.encode(read_table(path)).X["a"], [1.5, 2.0, -0.5])


def test_levels_that_look_like_numbers_survive_a_change_of_type():
    data = {"code": [1.0, 2.0, 3.0, 1.0], "y": Y}
    encoder, _, _ = TableEncoder.fit(table(data), "y", categorical=["code"])
    X = encoder.encode(table({"code": ["3", "2", "1", "1"]})).X
    np.testing.assert_array_equal(X["code=3"], [1.0, 0.0, 0.0, 0.0])


def test_types_that_only_data_frames_have():
    data = {
        "whole": pd.array([1, 2, 3, None], dtype="Int64"),
        "real": pd.array([0.5, 1.5, None, 2.5], dtype="Float64"),
        "truth": pd.array([True, False, None, True], dtype="boolean"),
        "maybe": [True, None, False, True],
        "kind": pd.Categorical(["a", "b", None, "a"]),
        "code": pd.Categorical([1, 2, 1, 3]),
        "exact": [decimal.Decimal("0.1"), decimal.Decimal(2), decimal.Decimal(3), None],
        "y": Y,
    }
    encoder, _, _ = TableEncoder.fit(table(data), "y", missing="impute")
    assert {c.name: c.kind for c in encoder.columns} == {
        "whole": "number", "real": "number", "truth": "boolean", "maybe": "boolean",
        "kind": "category", "code": "category", "exact": "number",
    }  # fmt: skip
    X = encoder.encode(table(data)).X
    np.testing.assert_array_equal(X["whole"], [1.0, 2.0, 3.0, 2.0])
    np.testing.assert_array_equal(X["truth"], [1.0, 0.0, 1.0, 1.0])
    np.testing.assert_array_equal(X["maybe"], [1.0, 1.0, 0.0, 1.0])
    np.testing.assert_array_equal(X["kind=b"], [0.0, 1.0, 0.0, 0.0])
    np.testing.assert_array_equal(X["code=3"], [0.0, 0.0, 0.0, 1.0])
    np.testing.assert_array_equal(X["exact"], [0.1, 2.0, 3.0, 2.0])


def test_two_inputs_of_one_name_are_refused():
    data = {"c": ["a", "b", "c", "a"], "c=a": Y, "y": Y}
    assert "Two inputs would be called 'c=a'" in refusal(data)
