"""
Checkpoints that carry their own code.

Remote code on the Hub must lie flat in one folder, while the package keeps configurations and models in two. The mixin
below flattens the files whenever a model is saved.
"""

from __future__ import annotations

import ast
import os
import re
import sys
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
_PACKAGE = Path(__file__).parents[1]


def flat_sources(*paths: str | os.PathLike) -> dict[str, str]:
    """
    Collect source files and all files of this package that they import, rewritten to lie side by side in one folder.

    Args:
        *paths (`str` or `os.PathLike`): The file that defines the model, and those of its pipelines.

    Returns:
        `dict[str, str]`: The text of each file by its name.

    Raises:
        ValueError: Two files of the same name differ.
        OSError: An imported file does not exist.
    """
    pending = [Path(path) for path in paths]
    origins: dict[str, Path] = {}
    sources: dict[str, str] = {}
    imports: dict[str, list[str]] = {}
    while pending:
        file = pending.pop()
        first = origins.setdefault(file.name, file)
        # Transformers copies remote code to its cache: the two are the same file then.
        if first != file and first.read_bytes() != file.read_bytes():
            raise ValueError(f"{file} and {first} would share one place in a flat folder; rename one.")
        if file.name in sources:
            continue
        sources[file.name], imported = _flattened(file)
        imports[file.name] = [other.name for other in imported]
        pending += imported
    for name in sources:
        needed = list(imports[name])
        for other in needed:
            needed += [further for further in imports[other] if further not in (name, *needed)]
        for other in sorted({*needed} - {*imports[name]}):
            # The first 5.x versions of Transformers fetch only the files that the file of the class imports itself.
            sources[name] += f"from .{Path(other).stem} import __name__ as _  # noqa: E402, F401\n"
    return sources


def _flattened(file: Path) -> tuple[str, list[Path]]:
    """The text of a file whose imports of this package point to the same folder, and the files that it imports."""
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    imported = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            package, *parts = (node.module or "").split(".")
            if node.level:
                parts = [package, *parts]
            elif package != _PACKAGE.name:
                continue
            folder = file.parents[node.level - 1] if node.level else _PACKAGE
            imported.append(folder.joinpath(*parts).with_suffix(".py"))
            line = node.lineno - 1
            lines[line] = re.sub(r"\bfrom\s+[.\w]+", f"from .{parts[-1]}", lines[line], count=1)
    return "".join(lines), imported


class HubExportMixin:
    """
    Make `save_pretrained` and `push_to_hub` write checkpoints that load without this package.

    Derive from it before the `PreTrainedModel` class. The checkpoint then holds the source files that the class needs,
    and an `auto_map` in `config.json` that names them for `trust_remote_code=True`.

    Classes defined outside of the package of this file are saved as Transformers does.
    """

    #: Names of the Auto classes that load this class. `AutoModel` loads the base model unless it is listed.
    _hub_auto_classes: ClassVar[tuple[str, ...]] = ()
    #: The pipelines that travel with the model, by task: the file in the package, the class, and the Auto class of
    #: Transformers that loads the model.
    _hub_pipelines: ClassVar[dict[str, tuple[str, str, str]]] = {}

    def save_pretrained(
        self,
        save_directory: str | os.PathLike,
        is_main_process: bool = True,
        state_dict: dict | None = None,
        push_to_hub: bool = False,
        **kwargs: Any,
    ) -> None:
        """
        Save the model, its configuration and its code; see [`~transformers.PreTrainedModel.save_pretrained`].

        Args:
            save_directory (`str` or `os.PathLike`): Folder to save to, created if needed.
            is_main_process (`bool`, *optional*, defaults to `True`): Whether this is the main process, which writes.
            state_dict (`dict`, *optional*): Weights to save instead of those of the model.
            push_to_hub (`bool`, *optional*, defaults to `False`): Upload the model after saving it.
            **kwargs: Further arguments of `save_pretrained` and, with `push_to_hub`, of `push_to_hub`. `repo_id`
                defaults to the name of the folder.
        """
        # Transformers 5.5 would save the layer norms of a loaded BERT under the names of TensorFlow, and not find them
        # when a run is resumed.
        kwargs.setdefault("save_original_format", False)
        if kwargs.get("distributed_checkpoint") or not is_main_process or os.path.isfile(save_directory):
            return super().save_pretrained(  # type: ignore[misc]
                save_directory, is_main_process, state_dict, push_to_hub, **kwargs
            )

        hub_arguments = {name: kwargs.pop(name) for name in _HUB_ARGUMENTS if name in kwargs}
        folder = Path(save_directory)
        folder.mkdir(parents=True, exist_ok=True)
        with self._exported_code(folder):
            super().save_pretrained(folder, state_dict=state_dict, **kwargs)  # type: ignore[misc]
        if push_to_hub:
            hub_arguments.setdefault("repo_id", Path(save_directory).resolve().name)
            self.push_to_hub(**hub_arguments)  # type: ignore[attr-defined]

    @contextmanager
    def _exported_code(self, folder: Path) -> Iterator[None]:
        """Write the sources to `folder`, and name them in the configuration until the block ends."""
        cls = _model_class(self)
        if cls.__module__.rpartition(".")[0] != __name__.rpartition(".")[0]:
            yield
            return
        pipelines = self._pipeline_files()
        source = sys.modules[cls.__module__].__file__ or ""
        for name, text in flat_sources(source, *(file for file, _, _ in pipelines.values())).items():
            (folder / name).write_text(text, encoding="utf-8")

        config = self.config  # type: ignore[attr-defined]
        base_model = _model_class(self.base_model)  # type: ignore[attr-defined]
        loaded = {"AutoConfig": type(config), "AutoModel": base_model, **dict.fromkeys(self._hub_auto_classes, cls)}
        entries: dict[str, dict] = {
            "auto_map": {
                auto_class: f"{target.__module__.rpartition('.')[2]}.{target.__name__}"
                for auto_class, target in loaded.items()
            },
            "custom_pipelines": {
                task: {"impl": f"{file.stem}.{name}", "pt": [auto_class], "type": "text"}
                for task, (file, name, auto_class) in pipelines.items()
            },
        }
        before = {name: vars(config).pop(name) for name in entries if name in vars(config)}
        vars(config).update({name: entry for name, entry in entries.items() if entry})
        try:
            yield
        finally:
            for name in entries:
                vars(config).pop(name, None)
            vars(config).update(before)

    def _pipeline_files(self) -> dict[str, tuple[Path, str, str]]:
        """`_hub_pipelines` with the paths of the files; remote code has those that lie beside it."""
        # Transformers copies remote code from a local folder file by file.
        folders = (Path(__file__).parent, Path(self.config.name_or_path))  # type: ignore[attr-defined]
        found = {}
        for task, (path, name, auto_class) in self._hub_pipelines.items():
            files = (_PACKAGE / path, *(folder / Path(path).name for folder in folders))
            if file := next(filter(Path.is_file, files), None):
                found[task] = (file, name, auto_class)
        return found


def _model_class(model: Any) -> type:
    """The class of a model. FSDP2 replaces it by a class of torch that derives from it."""
    return next(cls for cls in type(model).__mro__ if not cls.__module__.startswith("torch."))
