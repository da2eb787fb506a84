"""Arguments about data that all tasks share."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class DataArguments:
    """Files, the part that is held out for development, and how much is used."""

    train_file: str | None = field(default=None, metadata={"help": "Training examples."})
    validation_file: str | None = field(default=None, metadata={"help": "Development examples."})
    test_file: str | None = field(default=None, metadata={"help": "Test examples, with or without labels."})
    validation_split_percentage: float | None = field(
        default=None,
        metadata={
            "help": "Hold out this share of the training data, stratified by label if an example has one, and choose "
            "with it: it is called eval, and development data of their own dev."
        },
    )
    split_seed: int = field(default=42, metadata={"help": "Seed of that split, the same for every --seeds."})
    max_train_samples: int | None = field(default=None, metadata={"help": "Use at most so many training examples."})
    max_eval_samples: int | None = field(default=None, metadata={"help": "The same for development."})
    max_predict_samples: int | None = field(default=None, metadata={"help": "The same for the test."})
    preprocessing_num_workers: int | None = field(default=None, metadata={"help": "Processes that tokenize."})


@dataclass
class HubDataArguments(DataArguments):
    """The same, for tasks that also read data sets of the Hub."""

    dataset_name: str | None = field(default=None, metadata={"help": "Name of a data set on the Hub."})
    dataset_config_name: str | None = field(default=None, metadata={"help": "Its configuration."})
