"""Checkpoints that carry their own code.

The Hub's remote code must lie flat in one folder, while the package keeps configurations and models apart. The mixin
below bridges the two whenever a model is saved.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

_HUB_ARGUMENTS = (
    "repo_id",
    "commit_message",
    "commit_description",
    "private",
    "token",
    "revision",
    "create_pr",
    "tags",
)
_SHARD = re.compile(r".+-\d{5}-of-\d{5}\.safetensors")


def flat_sources(path: str | os.PathLike) -> dict[str, str]:
    """Collect a source file and all that it imports relatively, rewritten to lie side by side in one folder.

    Args:
        path: the file that defines the model.

    Returns:
        The text of each file by its name.

    Raises:
        ValueError: two of the files have the same name.
    """
    pending = [Path(path)]
    origins: dict[str, Path] = {}
    sources: dict[str, str] = {}
    imports: dict[str, list[str]] = {}
    while pending:
        file = pending.pop()
        if origins.setdefault(file.name, file) != file:
            raise ValueError(f"{file} and {origins[file.name]} would share one place in a flat folder; rename one.")
        if file.name in sources:
            continue
        text = file.read_text(encoding="utf-8")
        lines = text.splitlines(keepends=True)
        imports[file.name] = []
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.level:
                parts = (node.module or "").split(".")
                pending.append(file.parents[node.level - 1].joinpath(*parts).with_suffix(".py"))
                line = node.lineno - 1
                lines[line] = re.sub(r"\bfrom\s+\.[.\w]*", f"from .{parts[-1]}", lines[line], count=1)
                imports[file.name].append(f"{parts[-1]}.py")
        sources[file.name] = "".join(lines)
    for name in sources:
        needed = list(imports[name])
        for other in needed:
            needed += [further for further in imports[other] if further not in (name, *needed)]
        for other in sorted({*needed} - {*imports[name]}):
            # The first 5.x versions of Transformers fetch only the files that the class's own file imports.
            sources[name] += f"from .{Path(other).stem} import __name__ as _  # noqa: E402, F401\n"
    return sources


@contextmanager
def replaced_when_complete(folder: str | os.PathLike) -> Iterator[Path]:
    """Yield an empty folder whose files move into `folder` when the block ends without an error.

    A write that fails half-way, on a full disk for example, thus leaves the files of the last good save untouched.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="_saving-", dir=target) as name:
        staging = Path(name)
        yield staging
        files = list(staging.iterdir())
        for file in files:
            os.replace(file, target / file.name)
        if any(file.suffix == ".safetensors" for file in files):
            written = {file.name for file in files}
            for file in target.iterdir():
                if _SHARD.fullmatch(file.name) and file.name not in written:
                    file.unlink()


class HubExportMixin:
    """Makes `save_pretrained` and `push_to_hub` write checkpoints that load without this package.

    Put it before the `PreTrainedModel` class. Beside the weights, the folder receives the source files that the class
    needs, and `config.json` an `auto_map` that names them for `trust_remote_code=True`. All files are written aside
    first and moved into place when complete.

    Classes defined outside this file's package are saved as Transformers does by default.
    """

    #: Names of the Auto classes that load this class. `AutoModel` loads the base model unless it is among them.
    _hub_auto_classes: ClassVar[tuple[str, ...]] = ()

    def save_pretrained(
        self,
        save_directory: str | os.PathLike,
        is_main_process: bool = True,
        state_dict: dict | None = None,
        push_to_hub: bool = False,
        **kwargs: Any,
    ) -> None:
        """Save the model, its configuration and its code; see [`~transformers.PreTrainedModel.save_pretrained`].

        Args:
            save_directory: folder to save to, created if needed.
            is_main_process: only the main process writes.
            state_dict: the weights to save, if not the model's own.
            push_to_hub: upload the model after saving it.
            kwargs: further arguments of `save_pretrained` and, with `push_to_hub`, of `push_to_hub`; `repo_id`
                defaults to the folder's name.
        """
        # Transformers 5.5 would give the layer norms of a loaded BERT the names that they had in TensorFlow, and miss
        # them when a run is resumed.
        kwargs.setdefault("save_original_format", False)
        if kwargs.get("distributed_checkpoint") or not is_main_process or os.path.isfile(save_directory):
            return super().save_pretrained(  # type: ignore[misc]
                save_directory, is_main_process, state_dict, push_to_hub, **kwargs
            )

        hub_arguments = {name: kwargs.pop(name) for name in _HUB_ARGUMENTS if name in kwargs}
        with replaced_when_complete(save_directory) as folder, self._exported_code(folder):
            super().save_pretrained(folder, state_dict=state_dict, **kwargs)  # type: ignore[misc]
        if push_to_hub:
            hub_arguments.setdefault("repo_id", Path(save_directory).resolve().name)
            self.push_to_hub(**hub_arguments)  # type: ignore[attr-defined]

    @contextmanager
    def _exported_code(self, folder: Path) -> Iterator[None]:
        """Write the sources to `folder` and name them in the configuration while the block saves it."""
        cls = _model_class(self)
        if cls.__module__.rpartition(".")[0] != __name__.rpartition(".")[0]:
            yield
            return
        for name, text in flat_sources(sys.modules[cls.__module__].__file__ or "").items():
            (folder / name).write_text(text, encoding="utf-8")

        config = self.config  # type: ignore[attr-defined]
        base_model = _model_class(self.base_model)  # type: ignore[attr-defined]
        loaded = {"AutoConfig": type(config), "AutoModel": base_model, **dict.fromkeys(self._hub_auto_classes, cls)}
        before = vars(config).get("auto_map")
        config.auto_map = {
            auto_class: f"{target.__module__.rpartition('.')[2]}.{target.__name__}"
            for auto_class, target in loaded.items()
        }
        try:
            yield
        finally:
            if before is None:
                del config.auto_map
            else:
                config.auto_map = before


def _model_class(model: Any) -> type:
    """The class of a model. FSDP2 gives what it shards a class of torch, derived from that."""
    return next(cls for cls in type(model).__mro__ if not cls.__module__.startswith("torch."))
