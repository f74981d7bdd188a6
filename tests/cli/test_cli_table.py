import builtins
import gzip
import os
import re
from pathlib import Path

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest

from solvable.cli.table import read


def written(tmp_path: Path, content: str | bytes, name: str = "runs.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def numbers(path: Path, text: str) -> list[float]:
    table = read(path)
    source = table.source("x", text)
    return table.numbers(source, table.complete([source])[0]).tolist()


@pytest.mark.parametrize(
    "content",
    [
        "n,loss\n1,3.5\n2,2.5\n",
        "n;loss\r\n1;3.5\r\n2;2.5\r\n",
        "n\tloss\n1\t3.5\n2\t2.5",
        "\ufeffn,loss\n1,3.5\n2,2.5\n",
        '"n","loss"\n"1","3.5"\n"2","2.5"\n',
        "n, loss\n 1, 3.5\n\n2 ,2.50\n\n",
        ",n,loss\n0,1,3.5\n1,2,2.5\n",  # as pandas writes its index
        '"n",loss,note\n1,3.5,"a, ""b""\nc"\n2,2.5,\n',
        '"n","loss;raw, or not",loss\n1,0,3.5\n2,0,2.5\n',
    ],
)
def test_a_table_is_the_same_however_it_is_written(tmp_path, content):
    path = written(tmp_path, content)
    assert (numbers(path, "n"), numbers(path, "loss")) == ([1.0, 2.0], [3.5, 2.5])


@pytest.mark.parametrize("number", ["1000000000", "1e9", "1E+9", "+1.0e9", "1000000000.", ".1e10"])
def test_a_number_is_the_same_however_it_is_written(tmp_path, number):
    assert numbers(written(tmp_path, f"n,m\n{number},1\n"), "n") == [1e9]


def test_a_name_with_signs_in_it_is_a_column_before_it_is_an_arithmetic(tmp_path):
    path = written(tmp_path, "val,loss,val-loss,val loss\n5,2,7,9\n")
    assert numbers(path, "val-loss") == [7.0]
    assert numbers(path, "val - loss") == [3.0]
    assert numbers(path, "val loss") == [9.0]


def test_columns_are_computed_from_columns(tmp_path):
    path = written(tmp_path, "flops,params\n6e20,1e9\n1.2e21,2e9\n")
    assert numbers(path, "flops/(6*params)") == [1e11, 1e11]
    assert numbers(path, "(flops/6)**0.5") == [1e10, 2e20**0.5]


def test_only_rows_that_are_empty_in_what_is_used_are_left_out(tmp_path):
    table = read(written(tmp_path, "n,loss,note\n1,2,\n2, ,x\n,3,y\n4,1,\n"))
    sources = [table.source("x", "2*n"), table.source("y", "loss")]
    rows, empty = table.complete(sources)
    assert (rows, empty) == ([0, 3], {"n": 1, "loss": 1})
    assert table.numbers(sources[0], rows).tolist() == [2.0, 8.0]


CELLS = [
    ("fast", "loss must hold numbers such as 0.25 or 1e9, not 'fast' (line 4)"),
    ("nan", "not 'nan' (line 4)"),
    ("inf", "not 'inf' (line 4)"),
    ("-inf", "not '-inf' (line 4)"),
    ("1e999", "not '1e999' (line 4)"),
    ("1_000", "not '1_000' (line 4); digits are written without underscores"),
    ('"1,000"', "not '1,000' (line 4); thousands are written without commas"),
    ('"1,5"', "not '1,5' (line 4); decimals need a point"),
    ("1 000", "not '1 000' (line 4)"),
    ("0x10", "not '0x10' (line 4)"),
    ("٣", "not '٣' (line 4)"),
    ("0", "loss must hold positive finite numbers, not 0 (line 4)"),
    ("-2.5", "loss must hold positive finite numbers, not -2.5 (line 4)"),
]


@pytest.mark.parametrize(("cell", "sentence"), CELLS)
def test_what_is_no_positive_number_is_told_with_its_column_line_and_value(
    tmp_path, cell, sentence
):
    path = written(tmp_path, f"n,loss\n1,2\n\n2,{cell}\n3,1\n")
    with pytest.raises(ValueError, match=re.escape(sentence)):
        numbers(path, "loss")


def test_a_cell_after_quoted_line_breaks_is_told_by_the_line_it_is_on(tmp_path):
    path = written(tmp_path, 'note,n\n"a\nb\nc",1\nd,x\n')
    with pytest.raises(ValueError, match=r"not 'x' \(line 5\)"):
        numbers(path, "n")


def test_an_arithmetic_may_use_any_number_but_must_give_positive_ones(tmp_path):
    path = written(tmp_path, "a,b\n1,-1\n2,0\n")
    assert numbers(path, "a-b") == [2.0, 2.0]
    with pytest.raises(ValueError, match=r"x \(a\*b\) must hold .* not -1 \(line 2\)"):
        numbers(path, "a*b")
    with pytest.raises(ValueError, match=r"x \(a/b\+2\) must hold .* not inf \(line 3\)"):
        numbers(path, "a/b+2")


NAMES = [
    ("parms", "'parms', which is no column of runs.csv; did you mean params?; runs.csv has the"),
    ("PARAMS", "did you mean params?"),
    ("6*parms", "x names 'parms'"),
    ("zzz", "x names 'zzz', which is no column of runs.csv; runs.csv has the columns params, loss"),
    ("val lss", "x must be a column or an arithmetic of numbers"),
    ("__import__('os')", "x must be a column or an arithmetic"),
    ("params.real", "x must be a column or an arithmetic"),
    ("params if loss else 1", "x must be a column or an arithmetic"),
    ("9**9**9**9", "x must name a column, not '9**9**9**9'"),
    ("6", "x must name a column"),
    ("", "x must be a column"),
    ("same", "x names 'same', of which runs.csv has 2 columns: names must differ"),
]


@pytest.mark.parametrize(("text", "sentence"), NAMES)
def test_a_column_that_is_not_there_is_told_with_those_that_are(tmp_path, text, sentence):
    path = written(tmp_path, "params,loss,same,same\n1,2,3,4\n")
    with pytest.raises(ValueError, match=re.escape(sentence)):
        numbers(path, text)


FILES = [
    (b"", "is empty"),
    (b"\n\n \n", "is empty"),
    ("\ufeff".encode(), "is empty"),
    (b"n,loss\n", "has only a line of column names"),
    (b"1,2\n3,4\n", "must begin with a line of column names, but line 1"),
    (b"n,2.5\n3,4\n", "must begin with a line of column names"),
    (b"n,loss\n1,2\n3\n", "line 3 of"),
    (b"n,loss\n1,2\n3,4,5\n", "has 3"),
    (b'n,loss\n1,"2\n3,4\n', "its quotes or cells are broken"),
    (b"n,loss\n1,\x00\n", "it is not text"),
    (b"n,loss\n1,\xff\xfa\n", "it is not text in UTF-8: byte 10"),
    ("n,loss\n1,2\n".encode("utf-16"), "it is UTF-16; save it as UTF-8"),
    (gzip.compress(b"n,loss\n1,2\n", mtime=0), "it is compressed; unpack it first"),
    (b"PK\x03\x04 and so on", "it is a spreadsheet or an archive; save it as CSV"),
    (b"PAR1 and so on", "it is not Parquet"),
]


@pytest.mark.parametrize(("content", "sentence"), FILES)
def test_a_file_without_a_table_is_told_in_one_sentence(tmp_path, content, sentence):
    path = written(tmp_path, content)
    with pytest.raises(ValueError, match=re.escape(sentence)) as told:
        read(path)
    assert "runs.csv" in str(told.value)
    assert "\n" not in str(told.value)


def test_a_file_that_cannot_be_read_is_told(tmp_path):
    with pytest.raises(ValueError, match=r"absent.csv' \(No such file or directory\)"):
        read(tmp_path / "absent.csv")
    with pytest.raises(ValueError, match="Is a directory"):
        read(tmp_path)
    if os.geteuid() != 0:
        path = written(tmp_path, "n\n1\n")
        path.chmod(0)
        with pytest.raises(ValueError, match="Permission denied"):
            read(path)


def stored(tmp_path: Path, columns: dict, name: str = "runs.parquet") -> Path:
    path = tmp_path / name
    parquet.write_table(arrow.table(columns), path)
    return path


def test_parquet_holds_the_same_table(tmp_path):
    path = stored(
        tmp_path,
        {
            "n": arrow.array([1, 2, 3], arrow.int32()),
            "loss": arrow.array([2.5, None, 1.5], arrow.float32()),
            "run": ["a", "b", "a"],
        },
    )
    table = read(path)
    sources = [table.source("x", "n"), table.source("y", "loss")]
    group = table.label_source("group", "run")
    rows, empty = table.complete([*sources, group])
    assert (rows, empty) == ([0, 2], {"loss": 1})
    assert table.numbers(sources[1], rows).tolist() == [2.5, 1.5]
    assert table.labels(group, rows) == ["a", "a"]


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        ([1.0, np.nan], "n must hold numbers such as 0.25 or 1e9, not 'nan' (row 2)"),
        ([1.0, 0.0], "n must hold positive finite numbers, not 0 (row 2)"),
        ([True, False], "not 'True' (row 1)"),
        (["a", "b"], "not 'a' (row 1)"),
        ([[1.0], [2.0]], "not '[1.0]' (row 1)"),
    ],
)
def test_parquet_with_other_things_than_numbers_is_refused(tmp_path, column, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        numbers(stored(tmp_path, {"n": column}), "n")


def test_a_parquet_file_is_known_by_its_content_too(tmp_path):
    assert numbers(stored(tmp_path, {"n": [1.0, 2.0]}, "runs.data"), "n") == [1.0, 2.0]
    with pytest.raises(ValueError, match="it is not Parquet"):
        read(written(tmp_path, "n,loss\n1,2\n", "text.parquet"))
    with pytest.raises(ValueError, match="has none"):
        read(stored(tmp_path, {"n": arrow.array([], arrow.float64())}))


def test_without_pyarrow_the_sentence_says_what_to_install(tmp_path, monkeypatch):
    path = stored(tmp_path, {"n": [1.0, 2.0]})
    known = builtins.__import__

    def lacking(name, *args, **options):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return known(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", lacking)
    with pytest.raises(ValueError, match=r"needs pyarrow: pip install 'solvable\[parquet\]'"):
        read(path)
