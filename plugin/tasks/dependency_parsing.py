"""Dependency parsing: predicts the head of every word and its dependency relation."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from transformers import EvalPrediction, PreTrainedModel, TrainingArguments
from transformers.trainer_utils import speed_metrics
from transformers.utils import logging

from msattn.arguments.masked_lm_arguments import MaskedLMArguments
from msattn.arguments.parsing_arguments import PARSER_FIELDS, ParserArguments, ParsingDataArguments
from msattn.arguments.pretrained import (
    ModelArguments,
    check_model,
    family_class,
    load_config,
    load_model,
    load_tokenizer,
)
from msattn.data.corpora.treebanks import read_treebank, to_treebank, treebank_chunks
from msattn.data.files.conllu_lines import with_tree
from msattn.data.inputs.parser_inputs import WINDOW_COLUMNS, encode_treebank
from msattn.data.inputs.parser_windows import ParserCollator, has_root
from msattn.errors import UserError
from msattn.guiding.guiding_arguments import GuidingArguments
from msattn.metrics.parsing import score_trees, tree_shapes
from msattn.modeling.modeling_bert_pairwise import BertPairwiseParser
from msattn.modeling.modeling_pairwise import PairwiseParser
from msattn.tasks.identity import versions
from msattn.tasks.labels import label_fields
from msattn.tasks.masked_lm import train_masked_lm
from msattn.tasks.model_card import ModelCardFacts
from msattn.tasks.sentence_stream import SentenceStream, stream_key
from msattn.tasks.splits import read_each
from msattn.tasks.task import GuidedFineTuningTrainer, Task
from msattn.trainers.piece_batched_mixin import PieceBatchedMixin
from msattn.trees.parses import Parses, parse_batch, sentence_parses

logger = logging.get_logger(__name__)

METRIC_NAMES = {
    "uas": "UAS",
    "las": "LAS",
    "clas": "CLAS",
    "label_accuracy": "Label accuracy",
    "root_accuracy": "Root accuracy",
    "uas_no_punct": "UAS without punctuation",
    "las_no_punct": "LAS without punctuation",
}


_DESCRIPTIONS = {
    "emb": "an encoder whose hidden states of two words are the features of their pair",
    "att": "an encoder whose attention between two words, in all layers and heads, is the feature of their pair",
    "emb+att": "an encoder whose attention between words, in all layers and heads, is a feature beside their hidden "
    "states",
}


class ParsingTrainer(PieceBatchedMixin, GuidedFineTuningTrainer):
    """
    A Trainer for a parser that decodes each batch during evaluation.

    Its predictions are the columns of [`Parses`], `(rows, words, 4)`; its label ids are the column `place` of the
    dataset, `(rows, 2)`: the number of the set and the row in it.

    Args:
        *args: Positional arguments of [`FineTuningTrainer`].
        decoder (`str`): The decoder, `"mst"` or `"greedy"`; see [`~msattn.trees.parses.parse_batch`].
        **kwargs: Keyword arguments of [`FineTuningTrainer`].
    """

    def __init__(self, *args: Any, decoder: str, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.decoder = decoder

    def _set_signature_columns_if_needed(self) -> None:
        super()._set_signature_columns_if_needed()
        if "place" not in self._signature_columns:
            self._signature_columns = [*self._signature_columns, "place"]

    def prediction_step(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        prediction_loss_only: bool,
        ignore_keys: list[str] | None = None,
    ) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
        inputs = self._prepare_inputs(inputs)
        places = inputs.pop("place")
        if isinstance(model, torch.nn.DataParallel):
            model = model.module  # decoding is not split over replicas
        with torch.no_grad(), self.compute_loss_context_manager():
            outputs, parses = parse_batch(model, inputs, self.decoder)
        answers = torch.from_numpy(np.stack(parses, axis=-1).astype(np.float32)).to(places.device)
        return outputs["loss"] if "loss" in outputs else None, answers, places


@dataclass
class ParsedSet:
    """
    The sentences of a split, and the windows that they were encoded as.

    Args:
        trees (`datasets.Dataset`): The sentences; see [`read_treebank`].
        windows (`datasets.Dataset`): The columns `WINDOW_COLUMNS` of [`encode_treebank`], one row per window.
    """

    trees: Dataset
    windows: Dataset

    def parses(self, answers: Iterable[np.ndarray], decoder: str) -> list[Parses]:
        """
        Merges the predictions for windows into one parse per sentence.

        Args:
            answers (`Iterable[np.ndarray]`): The predictions of a [`ParsingTrainer`], one per window, in order.
            decoder (`str`): The decoder that made them.
        """
        return sentence_parses(answers, self.windows.to_list(), decoder)


class DependencyParsing(Task):
    """
    Dependency parsing with pairwise attention: the head of every word and its relation.

    Raises:
        UserError: `--mlm_epochs` has nothing to train on.
    """

    argument_classes = (ParserArguments, ParsingDataArguments, MaskedLMArguments)
    guided = False
    unit = "sentence"

    model_args: ParserArguments
    data_args: ParsingDataArguments

    def __init__(
        self,
        model_args: ParserArguments,
        data_args: ParsingDataArguments,
        mlm_args: MaskedLMArguments,
        args: TrainingArguments,
        guiding: GuidingArguments,
    ):
        super().__init__(model_args, data_args, args, guiding)
        if mlm_args.mlm_epochs is not None and not args.do_train:
            raise UserError("--mlm_epochs trains on the text of the training data: give --train_file and --do_train.")
        self.mlm_args = mlm_args
        self.tokenizer = load_tokenizer(model_args)
        self.model_class = family_class(model_args, PairwiseParser, BertPairwiseParser)
        self.root = "token" if has_root(self.tokenizer) else "learned"
        check_model(self.model_class, model_args, root=self.root)
        most = self.tokenizer.model_max_length
        self.max_length = min(data_args.max_seq_length or most, most)
        self.sets: dict[str, ParsedSet] = {}
        self.features = ""  # of the model, once it is made

    @property
    def trainer_class(self) -> Callable[..., GuidedFineTuningTrainer]:
        return partial(ParsingTrainer, decoder=self.data_args.decode)

    def read(self, splits: Collection[str]) -> dict[str, Any]:
        return read_each(splits, self._read)

    def prepare(self, data: Mapping[str, Dataset]) -> None:
        self.labels = _labels(data, self.model_args)

    def first(self, data: Any, count: int) -> Any:
        return replace(data, most=count) if isinstance(data, SentenceStream) else super().first(data, count)

    def encode(self, prefix: str, data: Any) -> Any:
        if isinstance(data, SentenceStream):
            return data
        numbers = {label: number for number, label in enumerate(self.labels)}
        workers = self.data_args.preprocessing_num_workers
        rows = encode_treebank(data, self.tokenizer, numbers, self.max_length, workers)
        self.sets[prefix] = ParsedSet(data, rows.select_columns(WINDOW_COLUMNS))
        _report(prefix, self.sets[prefix], self.labels, self.max_length, self.data_args.long_sentences)
        encoded = rows.remove_columns(WINDOW_COLUMNS)
        if prefix == "train":
            return encoded
        number = self.scored.index(prefix)
        return encoded.add_column("place", [[number, row] for row in range(len(encoded))])

    def load(self) -> dict[str, Dataset]:
        encoded = super().load()
        if self.mlm_args.mlm_epochs is not None and "train" in self.sets:
            words = self.sets["train"].trees["words"]
            self.model_args = train_masked_lm(self.model_args, self.tokenizer, words, self.mlm_args, self.args)
        return encoded

    @property
    def collator_class(self) -> Callable[..., Any]:
        return ParserCollator

    def train_groups(self) -> Sequence | None:
        return self.sets["train"].windows["sentence"][:] if "train" in self.sets else None

    def model(self) -> PreTrainedModel:
        model = load_model(
            self.model_class,
            self.model_args,
            len(self.tokenizer),
            root=self.root,
            **label_fields(self.labels),
        )
        self.features = model.config.features
        return model

    def metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        sets = {number: self.sets[prefix] for number, prefix in enumerate(self.scored) if prefix in self.sets}
        return parsing_metrics(prediction, sets, self.labels, self.data_args.decode)

    def write_predictions(self, prefix: str, predictions: np.ndarray, folder: Path) -> None:
        """Writes `<prefix>_predictions.conllu`: the input sentences with predicted heads and relations."""
        data = self.sets[prefix]
        parses = data.parses(predictions, self.data_args.decode)
        with open(folder / f"{prefix}_predictions.conllu", "w", encoding="utf-8", newline="") as file:
            for lines, parse in zip(data.trees["lines"], parses, strict=True):
                file.write(with_tree(lines, parse.heads, [self.labels[relation] for relation in parse.relations]))

    def predict_stream(
        self, trainer: ParsingTrainer, prefix: str, stream: SentenceStream, depends_on: Sequence
    ) -> dict[str, float]:
        args, begin = trainer.args, time.time()

        def predict(rows: list[dict[str, Any]], folder: Path) -> dict[str, float]:
            predictions, places = trainer.predict_alone(self.encode(prefix, to_treebank(rows)))
            self.write_predictions(prefix, predictions, folder)
            return self.metrics(EvalPrediction(predictions=predictions, label_ids=places))

        key = stream_key(trainer.model, *depends_on, versions(), args.eval_batch_size, args.device.type)
        target = Path(args.output_dir, f"{prefix}_predictions.conllu{'.gz' if stream.path.endswith('.gz') else ''}")
        metrics, count = stream.predict(predict, target, key, together=trainer.is_sharded)
        named = {f"{prefix}_{name}": value for name, value in metrics.items()}
        return {**named, f"{prefix}_samples": count, **speed_metrics(prefix, begin, count)}

    def card(self) -> ModelCardFacts:
        name = Path(str(self.data_args.train_file)).name
        return ModelCardFacts(
            # No pipeline_tag: the Hub has no tag for dependency parsing.
            task_type="dependency-parsing",
            task_name="Dependency Parsing",
            dataset_type=name,
            dataset_name=name,
            splits=self.card_splits(),
            scored_data={prefix: Path(file).name for prefix, file in self._scored_files().items() if file},
            metrics=METRIC_NAMES,
            description=f"A dependency parser: {_DESCRIPTIONS[self.features]}.",
            usage=_usage,
            tags=["dependency-parsing", *(["pairwise-attention"] if "att" in self.features else [])],
            config_fields=PARSER_FIELDS,
            carries_pipeline=True,
            language=_language(name),
        )

    def _scored_files(self) -> dict[str, str | None]:
        """The file of each set that is scored, by metric prefix."""
        data = self.data_args
        held_out = data.validation_split_percentage is not None
        return {
            "eval": data.train_file if held_out else data.validation_file,
            "dev": data.validation_file,
            "test": data.test_file,
        }

    def _read(self, split: str) -> Dataset | SentenceStream | None:
        path = self.file(split)
        if path is None:
            return None
        if split == "test" and "heads" not in to_treebank(next(treebank_chunks(path, 1))).column_names:
            return SentenceStream(path)
        dataset = read_treebank(path)
        if "heads" not in dataset.column_names:
            raise UserError(f"{path}: the sentences have no trees; only test data may come without.")
        return dataset


def parsing_metrics(
    prediction: EvalPrediction, sets: Mapping[int, ParsedSet], labels: Sequence[str], decoder: str
) -> dict[str, float]:
    """
    The scores of predicted parses, in percent.

    Args:
        prediction (`EvalPrediction`): The output of a [`ParsingTrainer`]. Each label id is a pair of set and row.
        sets (`Mapping[int, ParsedSet]`): The scored sets by their number.
        labels (`Sequence[str]`): The relations in the order of their ids.
        decoder (`str`): The decoder of the predictions.

    Returns:
        `dict[str, float]`: The share of non-projective trees, and of sentences whose greedy heads have a cycle or not
        exactly one root. With gold trees, also the scores of [`score_trees`] and the share of gold trees that are
        non-projective.
    """
    number, rows = prediction.label_ids[0, 0], prediction.label_ids[:, 1]
    trees = sets[number].trees
    parses: list[Any] = sets[number].parses(prediction.predictions[rows.argsort()], decoder)
    shapes = tree_shapes([parse.heads for parse in parses])
    greedy = tree_shapes([parse.greedy for parse in parses])
    metrics = {
        "nonprojective": shapes["nonprojective"],
        "greedy_cyclic": greedy["cyclic"],
        "greedy_several_roots": greedy["several_roots"],
    }
    if "heads" not in trees.column_names:
        return metrics
    predicted = [(parse.heads, [labels[relation] for relation in parse.relations]) for parse in parses]
    true = list(zip(trees["heads"][:], trees["relations"][:], strict=True))
    return {
        **score_trees(predicted, true),
        **metrics,
        "true_nonprojective": tree_shapes([heads for heads, _ in true])["nonprojective"],
    }


def _labels(trees: Mapping[str, Dataset], model_args: ModelArguments) -> list[str]:
    """The relations of the training data, or those of the checkpoint."""
    if "train" in trees:
        return sorted(set(chain.from_iterable(trees["train"]["relations"])))
    config = load_config(model_args)
    if not {PairwiseParser.__name__, BertPairwiseParser.__name__}.intersection(config.architectures or ()):
        raise UserError("the relations are not known: give training data, or a parser that was trained here.")
    return [config.id2label[number] for number in range(config.num_labels)]


def _report(prefix: str, data: ParsedSet, labels: Sequence[str], max_length: int, long_sentences: str) -> None:
    """Warns about sentences longer than `max_length` and unknown relations; with `"error"`, raises for the former."""
    sentence, cut = (np.array(data.windows[name]) for name in ("sentence", "cut"))
    long = np.union1d(np.flatnonzero(np.bincount(sentence) > 1), sentence[cut])
    if len(long):
        first = data.trees[int(long[0])]["where"]
        if long_sentences == "error":
            raise UserError(
                f"{first}: the sentence has more than {max_length} tokens; --long_sentences window would read it in "
                "parts."
            )
        logger.warning(
            f"{prefix}: {len(long)} sentences of more than {max_length} tokens, the first at {first}, are read in "
            f"windows; of {cut.sum()} words only the first tokens are read."
        )
    if "relations" not in data.trees.column_names:
        return
    known = set(labels)
    unknown = [
        (name, where)
        for names, where in zip(data.trees["relations"], data.trees["where"], strict=True)
        for name in names
        if name not in known
    ]
    if unknown:
        name, where = unknown[0]
        logger.warning(
            f"{prefix}: {len(unknown)} words have a relation that the parser does not know, such as {name!r} in the "
            f"sentence at {where}; they count as errors."
        )


def _language(name: str) -> str | None:
    """The language of a treebank of Universal Dependencies, which its file is named by."""
    named = re.match("([a-z]{2,3})_[a-z0-9]+-ud-", name)
    return named[1] if named else None


def _usage(name: str) -> str:
    return f'''from transformers import pipeline

parse = pipeline("dependency-parsing", model="{name}", trust_remote_code=True)
for sentence in parse("Dogs sleep. Cats eat mice."):
    for word in sentence:
        print(word["word"], word["head"], word["relation"])'''
