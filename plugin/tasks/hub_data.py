"""Loads datasets from the Hub."""

from __future__ import annotations

from datasets import DatasetDict, load_dataset

from msattn.arguments.data_arguments import HubDataArguments
from msattn.arguments.pretrained import ModelArguments
from msattn.errors import UserError


def load_hub_dataset(data_args: HubDataArguments, model_args: ModelArguments) -> DatasetDict:
    """
    Loads the dataset of `--dataset_name`.

    Args:
        data_args (`HubDataArguments`): Names the dataset and its configuration.
        model_args (`ModelArguments`): Cache folder and access token.

    Returns:
        `datasets.DatasetDict`: The splits; empty without `--dataset_name`.

    Raises:
        UserError: The dataset cannot be loaded.
    """
    name = data_args.dataset_name
    if name is None:
        return DatasetDict()
    try:
        return load_dataset(
            name, data_args.dataset_config_name, cache_dir=model_args.cache_dir, token=model_args.token
        )
    except (OSError, ValueError) as error:
        raise UserError(f"--dataset_name {name}: {error}") from error
