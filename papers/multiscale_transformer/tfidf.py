"""
The baseline that a model of sentences should beat: TF-IDF of words and pairs of words, and logistic regression.

Reads what `run_glue.py` reads. The regularisation is chosen by cross-validation on the training data; the test data
are used once. The texts of a pair have features of their own.
"""

from __future__ import annotations

import argparse
import time

from datasets import Dataset
from mtl16 import MTL16_DOMAINS, read_mtl16
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline

from msattn.data import read_sentences
from msattn.plots.style import markdown_table


def baseline(columns: list[str], folds: int) -> GridSearchCV:
    """A classifier of a table of texts, not trained."""
    # Words in capitals and signs such as `!` count, as a sentiment may be in them.
    vectorizers = (
        (TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\w+|[^\w\s]"), c) for c in columns
    )
    model: Pipeline = make_pipeline(make_column_transformer(*vectorizers), LogisticRegression(max_iter=1000))
    return GridSearchCV(model, {"logisticregression__C": [1, 10, 100]}, cv=folds)


def texts(data: Dataset) -> list[str]:
    return [column for column in data.column_names if column not in ("label", "in_train")]


def row(name: str, train: Dataset, test: Dataset, folds: int) -> list[str]:
    columns = texts(train)
    begin = time.process_time()
    model = baseline(columns, folds).fit(train.to_pandas()[columns], list(train["label"]))
    trained = time.process_time() - begin
    found = model.predict(test.to_pandas()[columns])
    right = [one == other for one, other in zip(found, test["label"], strict=True)]
    strength = next(iter(model.best_params_.values()))
    return [name, f"{len(train):,}", f"{strength}", f"{100 * sum(right) / len(right):.1f}", f"{trained:.0f} s"]


def cut(data: Dataset, words: int) -> Dataset:
    """The first words of each text."""
    return data.map(lambda example: {name: " ".join(example[name].split()[:words]) for name in texts(data)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mtl16_dir", help="folder of MTL-16: all its domains")
    parser.add_argument("--train_file")
    parser.add_argument("--test_file")
    parser.add_argument("--train_phrases", action="store_true", help="train on all phrases of SST-5's trees")
    parser.add_argument("--text_column_names", nargs="+", help="default: as run_glue.py chooses them")
    parser.add_argument("--label_column_name", default="label")
    parser.add_argument("--max_words", type=int, help="cut off texts, to compare with a model that reads only so many")
    parser.add_argument("--folds", type=int, default=5, help="of the cross-validation (default: 5)")
    arguments = parser.parse_args()
    if (arguments.mtl16_dir is None) == (arguments.train_file is None or arguments.test_file is None):
        parser.error("give either --mtl16_dir, or --train_file and --test_file")
    parts: list[tuple[str, Dataset, Dataset]] = []
    if arguments.mtl16_dir is not None:
        for domain in MTL16_DOMAINS:
            data = read_mtl16(arguments.mtl16_dir, domain)
            parts.append((domain, data["train"], data["test"]))
    else:
        columns = (arguments.text_column_names, arguments.label_column_name)
        train = read_sentences(arguments.train_file, *columns, phrases=arguments.train_phrases)
        parts.append((arguments.test_file, train, read_sentences(arguments.test_file, *columns)))
    if arguments.max_words is not None:
        parts = [(name, *(cut(part, arguments.max_words) for part in both)) for name, *both in parts]
    rows = [row(name, train, test, arguments.folds) for name, train, test in parts]
    if len(rows) > 1:
        mean = sum(float(cells[3]) for cells in rows) / len(rows)
        rows.append([f"average of {len(rows)}", "", "", f"{mean:.1f}", ""])
    header = ["data", "training examples", "C", "test accuracy", "training, processor time"]
    print(markdown_table(header, rows))


if __name__ == "__main__":
    main()
