"""Data arguments shared by all tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from msattn.argument_values import Count, Range, Seed


@dataclass
class DataArguments:
    """Data files, the held-out validation split and limits on the number of examples."""

    train_file: str | None = field(default=None, metadata={"help": "File with the training data."})
    validation_file: str | None = field(default=None, metadata={"help": "File with the validation data."})
    test_file: str | None = field(default=None, metadata={"help": "File with the test data, with or without labels."})
    validation_split_percentage: Annotated[float, Range(0, 100, above=True, below=True)] | None = field(
        default=None,
        metadata={
            "help": "Hold out this percentage of the training data for validation and model selection, stratified by "
            "label for classification. Its metrics are named eval_*, those of --validation_file dev_*."
        },
    )
    split_seed: Seed = field(
        default=42,
        metadata={"help": "Random seed for --validation_split_percentage; one split for all --seeds."},
    )
    max_train_samples: Count | None = field(default=None, metadata={"help": "Maximum number of training examples."})
    max_eval_samples: Count | None = field(default=None, metadata={"help": "Maximum number of validation examples."})
    max_predict_samples: Count | None = field(default=None, metadata={"help": "Maximum number of test examples."})
    language: str | None = field(
        default=None,
        metadata={
            "help": "Code of the language of the data, such as en, for the model card. Default: none, or that of "
            "a data set that is known."
        },
    )
    preprocessing_num_workers: Annotated[int, Range(1, 1024)] | None = field(
        default=None, metadata={"help": "Number of processes for tokenization."}
    )


@dataclass
class HubDataArguments(DataArguments):
    """Data arguments for tasks that can also read a dataset from the Hub."""

    dataset_name: str | None = field(default=None, metadata={"help": "Name of a dataset on the Hub."})
    dataset_config_name: str | None = field(default=None, metadata={"help": "Configuration name of that dataset."})
