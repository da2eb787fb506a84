"""Dependency parsing: predicts the head of every word and its dependency relation."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from datasets import Dataset, concatenate_datasets
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
from msattn.command_line import existing_file
from msattn.data.files.conllu_lines import tag_columns, with_tree
from msattn.data.inputs.parser_inputs import WINDOW_COLUMNS, encode_treebank
from msattn.data.inputs.parser_windows import ParserCollator, has_root
from msattn.data.inputs.word_labels import learn_labels, tag_words
from msattn.data.treebanks import UNKNOWN, has_trees, read_treebank, to_treebank
from msattn.errors import UserError
from msattn.guiding.guiding_arguments import GuidingArguments
from msattn.metrics.parsing import Tree, score_trees, tree_shapes
from msattn.metrics.tag_scores import score_conll18
from msattn.metrics.tree_confidence import ScoredSentence, compare_decoders, fit_tree_temperature, tree_calibration
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
from msattn.trees.parses import DECODERS, Parses, decoder_of, parse_batch, sentence_parses, temperature_of

logger = logging.get_logger(__name__)

METRIC_NAMES = {
    "uas": "UAS",
    "las": "LAS",
    "clas": "CLAS",
    "label_accuracy": "Label accuracy",
    "root_accuracy": "Root accuracy",
    "uas_no_punct": "UAS without punctuation",
    "las_no_punct": "LAS without punctuation",
    "upos": "UPOS",
    "xpos": "XPOS",
    "ufeats": "UFeats",
    "alltags": "AllTags",
    "lemmas": "Lemmas",
    "mlas": "MLAS",
    "blex": "BLEX",
    "ece": "Expected calibration error of heads (%)",
    "tree_ece": "Expected calibration error of trees (%)",
}
# What is known of predicted trees without the gold ones: shares of sentences.
SHAPES = ("nonprojective", "greedy_cyclic", "greedy_several_roots")
# Configuration fields that turn scores into trees and probabilities.
ANSWER_FIELDS = ("tree_decoder", "calibration_temperature")


_DESCRIPTIONS = {
    "emb": "an encoder whose hidden states of two words are the features of their pair",
    "att": "an encoder whose attention between two words, in all layers and heads, is the feature of their pair",
    "emb+att": "an encoder whose attention between words, in all layers and heads, is a feature beside their hidden "
    "states",
}


class ParsingTrainer(PieceBatchedMixin, GuidedFineTuningTrainer):
    """
    A Trainer for a parser that decodes each batch during evaluation, as the parser's configuration says.

    Its predictions are those of [`Parses.stacked`]; its label ids are the column `place` of the dataset, `(rows, 2)`:
    the number of the set and the row in it. It keeps the arc scores of rows with gold heads.

    Args:
        *args: Positional arguments of [`FineTuningTrainer`].
        **kwargs: Keyword arguments of [`FineTuningTrainer`].
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._kept: dict[tuple[int, int], ScoredSentence] = {}

    def take_scores(self, number: int) -> list[ScoredSentence]:
        """The rows of a set, by its number, that were predicted with their gold heads; they are kept no longer."""
        rows = [place for place in self._kept if place[0] == number]
        found = [(place[1], self._kept.pop(place)) for place in rows]
        if self.args.world_size > 1:
            found = gather_object(found)
        # The last batch repeats rows where the processes would not have as many.
        return [sentence for _, sentence in sorted(dict(found).items())]

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
        config = self.model.config
        with torch.no_grad(), self.compute_loss_context_manager():
            outputs, parses = parse_batch(model, inputs, decoder_of(config), temperature_of(config))
        if "heads" in inputs:
            arcs, heads = outputs["arc_scores"].float().cpu().numpy(), inputs["heads"].cpu().numpy()
            sizes = inputs["word_index"].amax(dim=1).tolist()
            for place, size, scores, gold in zip(places.tolist(), sizes, arcs, heads, strict=True):
                self._kept[tuple(place)] = ScoredSentence(scores[: size + 1, : size + 1].copy(), gold[:size])
        answers = torch.from_numpy(parses.stacked().astype(np.float32)).to(places.device)
        return outputs["loss"] if "loss" in outputs else None, answers, places


@dataclass
class ParsedSet:
    """
    The sentences of a split, and the windows that they were encoded as.

    Args:
        trees (`datasets.Dataset`): The sentences; see [`read_treebank`].
        windows (`datasets.Dataset`): The columns `WINDOW_COLUMNS` of [`encode_treebank`], one row per window.
        tags (`Mapping[str, Sequence[str]]`, *optional*, defaults to `{}`): The labels that the parser tags, by column.
    """

    trees: Dataset
    windows: Dataset
    tags: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def parses(self, answers: Iterable[np.ndarray], decoder: str) -> list[Parses]:
        """
        Merges the predictions for windows into one parse per sentence.

        Args:
            answers (`Iterable[np.ndarray]`): The predictions of a [`ParsingTrainer`], one per window, in order.
            decoder (`str`): The decoder that made them.
        """
        return sentence_parses(answers, self.windows.to_list(), decoder, [*self.tags])

    def tag_cells(self, parses: Iterable[Parses]) -> list[dict[str, list[str]]]:
        """What the parser writes into the columns of each sentence that it tags."""
        return [
            tag_words(self.tags, parse.tags, words) for parse, words in zip(parses, self.trees["words"], strict=True)
        ]

    def tag_scores(self, parses: Sequence[Parses], trees: Sequence[Tree]) -> dict[str, float]:
        """The scores of [`score_conll18`] for parses and their trees, as far as the sentences have gold columns."""
        if not self.tags:
            return {}
        predicted: list[dict[str, Any]] = [*self.tag_cells(parses)]
        true: list[dict[str, Any]] = [tag_columns(lines, self.tags) for lines in self.trees["lines"]]
        if "heads" in self.trees.column_names:
            gold = zip(self.trees["heads"], self.trees["relations"], strict=True)
            for columns, (heads, relations) in chain(zip(predicted, trees, strict=True), zip(true, gold, strict=True)):
                columns |= {"heads": heads, "relations": relations}
        return score_conll18(predicted, true)


class DependencyParsing(Task):
    """
    Dependency parsing with pairwise attention: the head of every word and its relation.

    Raises:
        UserError: `--mlm_epochs` has nothing to train on.
    """

    argument_classes = (ParserArguments, ParsingDataArguments, MaskedLMArguments)
    calibrates = True
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
        self.decoder = "mst"
        self.compared: dict[str, float] = {}
        self.features = ""  # of the model, once it is made

    @property
    def trainer_class(self) -> Callable[..., GuidedFineTuningTrainer]:
        return ParsingTrainer

    def read(self, splits: Collection[str]) -> dict[str, Any]:
        return read_each(splits, self._read)

    def prepare(self, data: Mapping[str, Dataset]) -> None:
        self.labels = _labels(data, self.model_args)
        self.tags = _tags(data, self.model_args, self.data_args)

    def first(self, data: Any, count: int) -> Any:
        return replace(data, most=count) if isinstance(data, SentenceStream) else super().first(data, count)

    def encode(self, prefix: str, data: Any) -> Any:
        if isinstance(data, SentenceStream):
            return data
        numbers = {label: number for number, label in enumerate(self.labels)}
        workers = self.data_args.preprocessing_num_workers
        rows = encode_treebank(data, self.tokenizer, numbers, self.max_length, workers, self.tags)
        self.sets[prefix] = ParsedSet(data, rows.select_columns(WINDOW_COLUMNS), self.tags)
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
            word_tags=self.tags or None,
            **label_fields(self.labels),
        )
        decoder, temperature = (
            None if self.args.do_train else getattr(model.config, name, None) for name in ANSWER_FIELDS
        )
        self._answer(model.config, self._asked or decoder, temperature)
        self.compared = {}
        self.features = model.config.features
        return model

    def calibrate(self, trainer: GuidedFineTuningTrainer, dataset: Dataset) -> None:
        """Fits the temperature of arc scores and, with `--decode auto`, takes the decoder with the best UAS."""
        assert isinstance(trainer, ParsingTrainer)
        trainer.predict(dataset)
        sentences = trainer.take_scores(0)
        temperature = fit_tree_temperature(sentences)
        self.compared = compare_decoders(sentences, temperature)
        # The first one of equal ones. Greedy heads may be no tree, and are taken on demand only.
        best = max((name for name in DECODERS if name != "greedy"), key=self.compared.__getitem__)
        self._answer(trainer.model.config, self._asked or best, temperature)
        scores = ", ".join(f"{name} {score:.2f}" for name, score in self.compared.items())
        logger.info(f"UAS by decoder: {scores}. The parser decodes by {self.decoder}.")

    def recall(self, trainer: GuidedFineTuningTrainer, folder: Path) -> None:
        saved, _ = trainer.model.config_class.get_config_dict(folder)
        self._answer(trainer.model.config, *(saved.get(name) for name in ANSWER_FIELDS))

    def _answer(self, config: Any, decoder: str | None, temperature: float | None) -> None:
        config.tree_decoder, config.calibration_temperature = decoder, temperature
        self.decoder = decoder_of(config)

    @property
    def _asked(self) -> str | None:
        return None if self.data_args.decode == "auto" else self.data_args.decode

    def metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        sets = {number: self.sets[prefix] for number, prefix in enumerate(self.scored) if prefix in self.sets}
        return parsing_metrics(prediction, sets, self.labels, self.decoder)

    def further_metrics(self, trainer: GuidedFineTuningTrainer, prefix: str) -> dict[str, float]:
        """Calibration errors and, of the set that chose the decoder, the UAS of each decoder."""
        assert isinstance(trainer, ParsingTrainer)
        number = self.scored.index(prefix)
        sentences = trainer.take_scores(number)
        if not any((sentence.heads >= 0).any() for sentence in sentences):
            return {}
        compared = {} if number else {f"uas_{name}": score for name, score in self.compared.items()}
        return {**compared, **tree_calibration(sentences, self.decoder, temperature_of(trainer.model.config))}

    def write_predictions(self, prefix: str, predictions: np.ndarray, folder: Path) -> None:
        """Writes `<prefix>_predictions.conllu`: the input sentences with predicted heads, relations and tags."""
        data = self.sets[prefix]
        parses = data.parses(predictions, self.decoder)
        with open(folder / f"{prefix}_predictions.conllu", "w", encoding="utf-8", newline="") as file:
            for lines, parse, cells in zip(data.trees["lines"], parses, data.tag_cells(parses), strict=True):
                relations = [self.labels[relation] for relation in parse.relations]
                file.write(with_tree(lines, parse.heads, relations, **cells))

    def predict_stream(
        self, trainer: ParsingTrainer, prefix: str, stream: SentenceStream, depends_on: Sequence
    ) -> dict[str, float]:
        args, begin = trainer.args, time.time()

        def predict(rows: list[dict[str, Any]], folder: Path) -> dict[str, float]:
            predictions, places = trainer.predict_alone(self.encode(prefix, to_treebank(rows)))
            self.write_predictions(prefix, predictions, folder)
            metrics = self.metrics(EvalPrediction(predictions=predictions, label_ids=places))
            # Means over sentences. Tags that a file without trees may hold are not scored.
            return {name: value for name, value in metrics.items() if name in SHAPES}

        answers = self.decoder, temperature_of(trainer.model.config)
        key = stream_key(trainer.model, *depends_on, answers, versions(), args.eval_batch_size, args.device.type)
        target = Path(args.output_dir, f"{prefix}_predictions.conllu{'.gz' if stream.path.endswith('.gz') else ''}")
        metrics, count = stream.predict(predict, target, key, together=trainer.is_sharded)
        named = {f"{prefix}_{name}": value for name, value in metrics.items()}
        return {**named, f"{prefix}_samples": count, **speed_metrics(prefix, begin, count)}

    def card(self) -> ModelCardFacts:
        name = _names(self.data_args.train_file)
        return ModelCardFacts(
            # No pipeline_tag: the Hub has no tag for dependency parsing.
            task_type="dependency-parsing",
            task_name="Dependency Parsing",
            dataset_type=name,
            dataset_name=name,
            splits=self.card_splits(),
            scored_data={prefix: _names(files) for prefix, files in self._scored_files().items() if files},
            metrics=METRIC_NAMES,
            description=f"A dependency parser: {_DESCRIPTIONS[self.features]}."
            + (f" It also tags {', '.join(self.tags)}." if self.tags else ""),
            usage=_usage,
            tags=["dependency-parsing", *(["pairwise-attention"] if "att" in self.features else [])],
            config_fields=(*PARSER_FIELDS, *ANSWER_FIELDS),
            carries_pipeline=True,
            language=_language(name),
        )

    def _scored_files(self) -> dict[str, str | list[str] | None]:
        """The files of each set that is scored, by metric prefix."""
        data = self.data_args
        held_out = data.validation_split_percentage is not None
        return {
            "eval": data.train_file if held_out else data.validation_file,
            "dev": data.validation_file,
            "test": data.test_file,
        }

    def _read(self, split: str) -> Dataset | SentenceStream | None:
        given = getattr(self.data_args, f"{split}_file") or []
        files = [given] if isinstance(given, str) else given
        if len(set(files)) < len(files):
            raise UserError(f"--{split}_file names a treebank twice, among {', '.join(files)}.")
        paths = [str(existing_file(file, f"{split}_file")) for file in files]
        if split == "test" and paths and not has_trees(paths[0]):
            return SentenceStream(paths[0])
        treebanks = [read_treebank(path) for path in paths]
        for path, treebank in zip(paths, treebanks, strict=True):
            if "heads" not in treebank.column_names:
                raise UserError(f"{path}: the sentences have no trees; only test data may come without.")
        return concatenate_datasets(treebanks) if treebanks else None


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
        non-projective; of several treebanks, also the UAS and LAS of each, such as `en_ewt-ud-dev_uas`. With gold
        tags, those of [`score_conll18`].
    """
    number, rows = prediction.label_ids[0, 0], prediction.label_ids[:, 1]
    scored, trees = sets[number], sets[number].trees
    parses = scored.parses(prediction.predictions[rows.argsort()], decoder)
    heads = [parse.heads.tolist() for parse in parses]
    shapes, greedy = tree_shapes(heads), tree_shapes([parse.greedy.tolist() for parse in parses])
    metrics = {
        "nonprojective": shapes["nonprojective"],
        "greedy_cyclic": greedy["cyclic"],
        "greedy_several_roots": greedy["several_roots"],
    }
    relations = [[labels[relation] for relation in parse.relations] for parse in parses]
    predicted: list[Tree] = list(zip(heads, relations, strict=True))
    metrics |= scored.tag_scores(parses, predicted)
    if "heads" not in trees.column_names:
        return metrics
    true = list(zip(trees["heads"][:], trees["relations"][:], strict=True))
    if whole := [gold for gold, _ in true if min(gold) > UNKNOWN]:
        metrics["true_nonprojective"] = tree_shapes(whole)["nonprojective"]
    places = treebank_rows(trees["where"])
    for name, rows in places.items() if len(places) > 1 else ():
        if any(head > UNKNOWN for row in rows for head in true[row][0]):
            scores = score_trees([predicted[row] for row in rows], [true[row] for row in rows])
            metrics |= {f"{name}_{score}": scores[score] for score in ("uas", "las")}
    return {**score_trees(predicted, true), **metrics}


def treebank_rows(places: Iterable[str]) -> dict[str, list[int]]:
    """
    The rows of each treebank, by the name of its file without extensions; a second file of that name gets a number.

    Args:
        places (`Iterable[str]`): The column `where` of [`read_treebank`].
    """
    files: dict[str, list[int]] = {}
    for row, where in enumerate(places):
        files.setdefault(where.rpartition(":")[0], []).append(row)
    found: dict[str, list[int]] = {}
    for path, rows in files.items():
        stem = Path(path).name.partition(".")[0]
        names = (stem if number == 1 else f"{stem}_{number}" for number in count(1))
        found[next(name for name in names if name not in found)] = rows
    return found


def _labels(trees: Mapping[str, Dataset], model_args: ModelArguments) -> list[str]:
    """The relations of the training data, or those of the checkpoint."""
    if "train" in trees:
        columns = (trees["train"][name][:] for name in ("heads", "relations"))
        return sorted(set(chain.from_iterable(map(_known_relations, *columns))))
    config = load_config(model_args)
    if not {PairwiseParser.__name__, BertPairwiseParser.__name__}.intersection(config.architectures or ()):
        raise UserError("the relations are not known: give training data, or a parser that was trained here.")
    return [config.id2label[number] for number in range(config.num_labels)]


def _tags(
    trees: Mapping[str, Dataset], model_args: ParserArguments, data_args: ParsingDataArguments
) -> dict[str, list[str]]:
    """The labels of the columns that are tagged: those of the training data, or those of the checkpoint."""
    known = getattr(load_config(model_args), "word_tags", None) or {}
    names = [*known] if model_args.tag is None else model_args.tag
    if "train" in trees:
        return learn_labels(trees["train"]["lines"], names, " + ".join(_files(data_args.train_file)))
    if unknown := [name for name in names if name not in known]:
        raise UserError(
            f"--tag {' '.join(unknown)}: the labels are not known; give training data, or a parser that tags them."
        )
    return {name: known[name] for name in names}


def _known_relations(heads: Sequence[int], relations: Sequence[str]) -> list[str]:
    """The relations of the words whose head is known."""
    return [name for head, name in zip(heads, relations, strict=True) if head > UNKNOWN]


def _names(files: str | Sequence[str] | None) -> str:
    """The names of files, without folders."""
    return " + ".join(Path(path).name for path in _files(files))


def _files(files: str | Sequence[str] | None) -> Sequence[str]:
    return [files] if isinstance(files, str) else files or ["None"]


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
    sentences = [*zip(*(data.trees[name][:] for name in ("heads", "relations", "where")), strict=True)]
    partial = [where for heads, _, where in sentences if min(heads) == UNKNOWN]
    if partial:
        missing = [head == UNKNOWN for heads, _, _ in sentences for head in heads]
        logger.warning(
            f"{prefix}: {len(partial)} of {len(sentences)} sentences, the first at {partial[0]}, have words without a "
            f"head. These {sum(missing)} of {len(missing)} words have no loss, and do not count in scores."
        )
    known = set(labels)
    unknown = [
        (name, where)
        for heads, names, where in sentences
        for name in _known_relations(heads, names)
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
