from __future__ import annotations

import datasets
import pytest
from datasets import Dataset, DatasetDict, Value

from msattn.data import GLUE_TASKS, read_glue
from msattn.errors import UserError

STSB = "index|genre|filename|year|old_index|source1|source2|sentence1|sentence2"
PARSES = "|sentence1_binary_parse|sentence2_binary_parse|sentence1_parse|sentence2_parse"
MNLI = f"index|promptID|pairID|genre{PARSES}|sentence1|sentence2"
PAIR = "index|sentence1|sentence2|label"

# Task, file, header, row, and what is read from it: texts and label, with | for tabs.
FILES = [
    ("cola", "train", "", 'gj04|1||A "cat naps.', 'A "cat naps.|1'),
    ("cola", "test", "index|sentence", "0|A cat.", "A cat.|-1"),
    ("sst2", "train", "sentence|label", "no |0\r", "no |0"),
    ("sst2", "test", "index|sentence", "0|yes\u2028no\x85 ", "yes\u2028no\x85 |-1"),
    ("mrpc", "train", "\ufeffQuality|#1 ID|#2 ID|#1 String|#2 String", '1|7|8|" a| b "', '" a| b "|1'),
    ("mrpc", "test", "index|#1 ID|#2 ID|#1 String|#2 String", "0|7|8|a|b", "a|b|-1"),
    ("qqp", "train", "id|qid1|qid2|question1|question2|is_duplicate", "5|1|2|a?|b?|0", "a?|b?|0"),
    ("qqp", "test", "id|question1|question2", "0|a?|b?", "a?|b?|-1"),
    ("stsb", "dev", f"{STSB}|score", "0|g|f|y|1|n|n|a|b|3.250", "a|b|3.25"),
    ("stsb", "test", STSB, "0|g|f|y|1|n|n|a|b", "a|b|-1"),
    ("mnli", "train", f"{MNLI}|label1|gold_label", "0|1|1n|f|(|(|(|(|a|b|neutral|contradiction", "a|b|2"),
    ("mnli", "dev_mismatched", f"{MNLI}|label1|gold_label", "0|1|1n|f|(|(|(|(|a|b||entailment", "a|b|0"),
    ("mnli", "test_matched", MNLI, "0|1|1n|f|(|(|(|(|a|b", "a|b|-1"),
    ("qnli", "dev", "index|question|sentence|label", '0|a?|"b|not_entailment', 'a?|"b|1'),
    ("rte", "train", PAIR, "0|a|b|entailment\n", "a|b|0"),
    ("wnli", "train", PAIR, "0|a|b|1", "a|b|1"),
]
SPLITS = {"train": "train", "dev": "validation", "test": "test", "dev_mismatched": "validation_mismatched"}


@pytest.fixture
def write(tmp_path):
    def write(task, stem, content):
        path = tmp_path / GLUE_TASKS[task].folder / f"{stem}.tsv"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content.replace("|", "\t").encode())
        return path

    return write


@pytest.mark.parametrize(("task", "stem", "header", "row", "expected"), FILES, ids=[f"{f[0]}-{f[1]}" for f in FILES])
def test_own_layout(write, tmp_path, task, stem, header, row, expected):
    write(task, stem, f"{header}\n{row}\n".lstrip("\n"))
    (split,) = read_glue(task, tmp_path)
    assert split == SPLITS.get(stem, stem)
    rows = read_glue(task, tmp_path, splits=[split])[split]
    assert list(rows.column_names) == [*GLUE_TASKS[task].columns, "label", "idx"]
    *texts, label = expected.split("|")
    assert [*rows[0].values()] == [*texts, float(label), 0]
    feature = rows.features["label"]
    assert feature == Value("float32") if task == "stsb" else feature.names == list(GLUE_TASKS[task].labels)


@pytest.mark.parametrize(
    ("task", "stem", "content", "line", "message"),
    [
        ("cola", "train", "a\t1\t\tb\na\t1\tb\n", 2, "3 columns, but CoLA has 4"),
        ("sst2", "dev", "index\tsentence\n0\ta\n", 1, "lacks the column 'label'"),
        ("mrpc", "train", '"Quality"\t#1 ID\t#2 ID\t#1 String\t#2 String\n', 1, "lacks the column 'Quality'"),
        ("sst2", "dev", "sentence\tlabel\na\t2\n", 2, "'2' is not a label of SST-2; it has negative, positive"),
        ("stsb", "dev", f"{STSB}|score\n0\tg\tf\ty\t1\tn\tn\ta\tb\thigh\n", 2, "'high' is not a number"),
        (
            "stsb",
            "dev",
            f"{STSB}|score\n0\tg\tf\ty\t1\tn\tn\ta\tb\t5.1\n",
            2,
            "5.1 is out of range; STS-B has 0 to 5",
        ),
        ("stsb", "dev", f"{STSB}|score\n0\tg\tf\ty\t1\tn\tn\ta\tb\tnan\n", 2, "nan is out of range"),
    ],
)
def test_errors_name_the_line(write, tmp_path, task, stem, content, line, message):
    path = write(task, stem, content)
    with pytest.raises(UserError) as error:
        read_glue(task, tmp_path)
    assert str(error.value).startswith(f"{path}:{line}: ")
    assert message in str(error.value)


def test_missing_parts_are_named(write, tmp_path):
    path = write("qnli", "dev", "index\tquestion\tsentence\tlabel\n")
    with pytest.raises(UserError, match="QNLI/train.tsv: the file cannot be read"):
        read_glue("qnli", tmp_path, splits=["train", "validation"])
    with pytest.raises(UserError, match="no example"):
        read_glue("qnli", tmp_path)
    path.unlink()
    with pytest.raises(UserError, match="none of the files train.tsv, dev.tsv, test.tsv"):
        read_glue("qnli", tmp_path)
    with pytest.raises(UserError, match="task must be one of cola, .*not 'CoLA'"):
        read_glue("CoLA", tmp_path)
    with pytest.raises(UserError, match="splits train, validation_matched, .*not 'validation'"):
        read_glue("mnli", tmp_path, splits=["validation"])


def test_short_rows_of_qqp_are_counted(write, tmp_path, caplog):
    header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
    write("qqp", "train", header + "1\t1\t2\ta\tb\t1\n2\t3\t4\ta\n3\t1\t2\tc\td\t0\n")
    rows = read_glue("qqp", tmp_path)["train"]
    assert rows["idx"] == [0, 2]
    assert "1 rows lack columns and were left out" in caplog.text


def test_hub(monkeypatch):
    split = Dataset.from_dict({"sentence": ["a"], "label": [1], "idx": [0]})
    monkeypatch.setattr(
        datasets, "load_dataset", lambda *names: DatasetDict(train=split, validation=split, test=split)
    )
    assert set(read_glue("cola")) == {"train", "validation", "test"}
    assert set(read_glue("cola", splits=["validation"])) == {"validation"}
