"""Reading tables: every form people have them in, and a sentence for what is no table."""

import bz2
import gzip
import io
import lzma
import sys
import types
import zipfile

import numpy as np
import pandas as pd
import pytest
from tests.cli.tables import frame, write

from cavity.tables import TableError, read_table

TEXT = "a,b\n1,x\n2,y\n"


def same(read, expected):
    pd.testing.assert_frame_equal(read.frame, expected, check_dtype=False)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize(
    ("ending", "pack"),
    [("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)],
)
def test_delimiters_and_compression(tmp_path, delimiter, ending, pack):
    table = frame()
    packed = pack(table.to_csv(index=False, sep=delimiter).encode())
    same(read_table(write(tmp_path / f"t.csv{ending}", packed)), table)


def test_a_zip_with_one_file(tmp_path):
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("t.csv", frame().to_csv(index=False))
        archive.writestr("__MACOSX/t.csv", b"junk")
    same(read_table(str(tmp_path / "t.zip")), frame())


def test_parquet_and_its_extra(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    path = tmp_path / "t.parquet"
    frame().to_parquet(path)
    same(read_table(str(path)), frame())
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(TableError, match=r'pip install "cavity\[parquet\]"'):
        read_table(str(path))


def test_pandas_is_an_extra(tmp_path, monkeypatch):
    path = write(tmp_path / "t.csv", TEXT)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(TableError, match=r'pip install "cavity\[cli\]"'):
        read_table(path)


def test_standard_input(monkeypatch):
    stdin = types.SimpleNamespace(buffer=io.BytesIO(TEXT.encode()), isatty=lambda: False)
    monkeypatch.setattr(sys, "stdin", stdin)
    read = read_table("-")
    assert list(read.frame["a"]) == [1, 2]
    assert read.name == "standard input"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_encodings(tmp_path, encoding):
    read = read_table(write(tmp_path / "t.csv", "größe,ort\n1,Ylä\n2,Älv\n".encode(encoding)))
    assert list(read.frame.columns) == ["größe", "ort"]
    assert read.frame["ort"][1] == "Älv"
    assert bool(read.notes) == (encoding == "latin-1")
    assert all("byte 0xf6 in line 1" in note for note in read.notes)


def test_mixed_encodings_name_byte_and_line(tmp_path):
    raw = "a,b\n1,Ylä\n2,".encode() + "Ylä".encode("latin-1") + b"\n"
    path = write(tmp_path / "t.csv", raw)
    with pytest.raises(TableError, match=r"mixes encodings.*byte 0xe4 in line 3.*--encoding latin-1"):
        read_table(path)
    assert read_table(path, encoding="latin-1").frame["b"][1] == "Ylä"
    with pytest.raises(TableError, match="not written in ascii: see byte 0xc3 in line 2"):
        read_table(path, encoding="ascii")
    with pytest.raises(TableError, match="'klingon' is no encoding"):
        read_table(path, encoding="klingon")


def test_undefined_bytes_are_refused(tmp_path):
    with pytest.raises(TableError, match=r"neither UTF-8 nor Latin-1.*byte 0x81 in line 2"):
        read_table(write(tmp_path / "t.csv", b"a,b\n1,\x81\n"))


def zipped(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/").replace("_", "."), content)
    return buffer.getvalue()


def arrays():
    buffer = io.BytesIO()
    np.savez(buffer, a=np.zeros(2))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (gzip.compress(b""), "is empty"),
        (b"\xd0\xcf\x11\xe0 and so on", "is an Excel workbook.*save the sheet as CSV"),
        (zipped(xl__workbook_xml=b""), "is a spreadsheet.*save the sheet as CSV"),
        (zipped(a_csv=b"", b_csv=b""), r"holds 2 files \(a.csv, b.csv\)"),
        (arrays(), "holds arrays"),
        (b"%PDF-1.7", "is a PDF document"),
        (b"\x80\x04\x95 and so on", "is a Python pickle.*never opened"),
        (b"\x28\xb5\x2f\xfd", "zstd -d"),
        (b'{"a": 1}', "looks like JSON"),
        (b"<!DOCTYPE html>", "looks like HTML"),
        (b"a,b\n\x00\x01", "binary file.*position 4"),
        (b"PAR1 and then nothing", "damaged Parquet file"),
        (gzip.compress(TEXT.encode())[:-9], "compressed but damaged"),
        (b"\x1f\x8bnonsense", "compressed but damaged"),
        (b"1,2\n3,4\n", "holds '1', '2' where the column names should be"),
        (b"a,b,a\n1,2,3\n", "more than one column called 'a'"),
        (b"a,b\n1,2\n3,4,5\n", "line 3 holds 3 values, but there are 2 columns"),
        (b"a,b\n1,2,3\n3,4,5\n", "more values than its first line"),
        (b'a,b\n1,"x\n2,y\n', "quotation mark opened in data row 1 is never closed"),
        (b"a,\n1,x\n2,y\n", "Column 2 of t.csv has no name"),
    ],
)
def test_what_is_no_table_is_refused_in_a_sentence(tmp_path, content, sentence):
    with pytest.raises(TableError, match=sentence) as caught:
        read_table(write(tmp_path / "t.csv", content))
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(TableError, match=r"There is no file .*nowhere\.csv"):
        read_table(str(tmp_path / "nowhere.csv"))
    with pytest.raises(TableError, match="is a folder"):
        read_table(str(tmp_path))


def test_columns_without_a_name_that_do_no_harm(tmp_path):
    read = read_table(write(tmp_path / "t.csv", ",a,b,\n0,5,x,\n1,7,y,\n"))
    assert list(read.frame.columns) == ["a", "b"]
    assert len(read.notes) == 2


def test_a_single_column(tmp_path):
    assert list(read_table(write(tmp_path / "t.csv", "a\n1\n2\n")).frame["a"]) == [1, 2]


def test_signs_of_missing_values(tmp_path):
    read = read_table(write(tmp_path / "t.csv", "a,b\n1,NA\n?,y\n,x\n"), missing=["?"])
    assert list(read.frame["a"].isna()) == [False, True, True]
    assert list(read.frame["b"].isna()) == [True, False, False]


def test_text_columns_stay_as_written(tmp_path):
    read = read_table(write(tmp_path / "t.csv", "zip,b\n00120,1\n02150,2\n"), text_columns=["zip"])
    assert list(read.frame["zip"]) == ["00120", "02150"]
