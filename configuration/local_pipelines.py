"""Pipelines that a checkpoint brings along are for those who have not installed this package."""

from typing import Any


class LocalPipelines:
    """
    Hides the pipelines of a checkpoint's own code (`custom_pipelines`) where this package is installed. `pipeline`
    would ask for `trust_remote_code=True` otherwise, although the package has the same pipelines.
    """

    @property
    def custom_pipelines(self) -> dict[str, Any]:
        is_remote = __name__.startswith("transformers_modules.")
        return vars(self).get("custom_pipelines", {}) if is_remote else {}

    @custom_pipelines.setter
    def custom_pipelines(self, pipelines: dict[str, Any]) -> None:
        vars(self)["custom_pipelines"] = pipelines


__all__ = ["LocalPipelines"]
