"""Arguments that the scripts share, as dataclasses for [`HfArgumentParser`]."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from transformers import EarlyStoppingCallback, TrainerCallback

from msattn.errors import refuse_below


@dataclass
class ModelArguments:
    """The checkpoint, and learning rates of its parts."""

    model_name_or_path: str | None = field(
        default=None, metadata={"help": "Checkpoint: a local folder or a model name on the Hub."}
    )
    tokenizer_name: str | None = field(
        default=None, metadata={"help": "Tokenizer: a local folder or a name on the Hub. Default: the model's."}
    )
    model_revision: str = field(default="main", metadata={"help": "Branch, tag or commit of the model on the Hub."})
    trust_remote_code: bool = field(
        default=False, metadata={"help": "Allow the execution of code from the model's Hub repository."}
    )
    attn_implementation: str | None = field(
        default=None,
        metadata={"help": "Attention implementation of the encoder: eager, sdpa, msattn, flash_attention_2, ..."},
    )
    config_overrides: list[str] | None = field(
        default=None,
        metadata={
            "help": "Fields of the model's configuration, as NAME=VALUE with a JSON value: 'scales=[3, 5]' "
            "mask_mode=ste. Default: those of the checkpoint."
        },
    )
    ignore_mismatched_sizes: bool = field(
        default=False,
        metadata={"help": "Make a new classification head if that of the checkpoint has another number of labels."},
    )
    new_layers_learning_rate: str = field(
        default="auto",
        metadata={
            "help": "Learning rate of the layers above the encoder. auto: new output layers get one that fits the "
            "size of what they read, all others --learning_rate. New parsers: 2e-3 for all new layers, 1e-2 with "
            "scorer=linear."
        },
    )
    embedding_learning_rate: float | None = field(
        default=None,
        metadata={"help": "Learning rate of the token embeddings; 0 freezes them. Default: --learning_rate."},
    )

    def __post_init__(self) -> None:
        refuse_below(self, embedding_learning_rate=0)


@dataclass
class DataArguments:
    """Data files, the held-out validation split and limits on the number of examples."""

    train_file: str | None = field(default=None, metadata={"help": "File with the training data."})
    validation_file: str | None = field(default=None, metadata={"help": "File with the validation data."})
    test_file: str | None = field(default=None, metadata={"help": "File with the test data, with or without labels."})
    encoding: str = field(
        default="utf-8", metadata={"help": "Encoding of the data files, such as utf-16 or cp1252 (Windows)."}
    )
    validation_split_percentage: float | None = field(
        default=None,
        metadata={
            "help": "Hold out this percentage of the training data for validation and model selection, stratified by "
            "label for classification. Its metrics are named eval_*, those of --validation_file dev_*."
        },
    )
    split_seed: int = field(
        default=42, metadata={"help": "Random seed for --validation_split_percentage, apart from --seed."}
    )
    max_train_samples: int | None = field(default=None, metadata={"help": "Maximum number of training examples."})
    train_fraction: float | None = field(
        default=None,
        metadata={
            "help": "Train on a random part of the training data, from 0 to 1, by --split_seed. Smaller parts lie "
            "inside larger ones. Texts that list their entities stay whole."
        },
    )
    max_eval_samples: int | None = field(default=None, metadata={"help": "Maximum number of validation examples."})
    max_predict_samples: int | None = field(default=None, metadata={"help": "Maximum number of test examples."})
    preprocessing_num_workers: int | None = field(
        default=None, metadata={"help": "Number of processes for tokenization."}
    )
    early_stopping_patience: int | None = field(
        default=None,
        metadata={"help": "Stop training when --metric_for_best_model has not improved for this many evaluations."},
    )

    def __post_init__(self) -> None:
        refuse_below(self, split_seed=0, train_fraction=0, preprocessing_num_workers=0)
        refuse_below(self, max_train_samples=1, max_eval_samples=1, max_predict_samples=1, early_stopping_patience=1)

    @property
    def callbacks(self) -> list[TrainerCallback]:
        """What `--early_stopping_patience` asks for."""
        patience = self.early_stopping_patience
        return [] if patience is None else [EarlyStoppingCallback(patience)]


@dataclass
class HubDataArguments(DataArguments):
    """Data arguments for tasks that can also read a dataset from the Hub."""

    dataset_name: str | None = field(default=None, metadata={"help": "Name of a dataset on the Hub."})
    dataset_config_name: str | None = field(default=None, metadata={"help": "Configuration name of that dataset."})

    @property
    def source(self) -> str:
        """The name of the training data, without its folder: a file comes before a dataset, as in the readers."""
        return Path(self.train_file).name if self.train_file else str(self.dataset_name)
