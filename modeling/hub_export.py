"""
Checkpoints that carry their own code.

Remote code on the Hub lies in a few files of one folder; the package has many small ones in several. The mixin below
joins them whenever a model is saved: one file for the configuration, one for the model, and one for each pipeline.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar

_PACKAGE = Path(__file__).parents[1]
_LINE = f"# {'-' * 117}\n"
_HEADING = """\
# Code of msattn, so that this model loads without it (trust_remote_code=True): the source files of the model and what
# they import, each behind a line with its name, after those that it needs. The last one is the file to begin with.

"""


def joined_sources(paths: Mapping[str, str | os.PathLike]) -> dict[str, str]:
    """
    Join each of some source files with all files of this package that it imports.

    A file is joined to the first that needs it, behind what it imports itself; later ones import it from there.
    Imports of joined files go, wherever they are, and the other imports at the top of files are merged; the rest stays
    as it is. So no two joined files may use one name for two things.

    Args:
        paths (`dict[str, str or os.PathLike]`): The source files by the names, without `.py`, of the joined ones.

    Returns:
        `dict[str, str]`: The text of each joined file by its name, without `.py`.

    Raises:
        OSError: An imported file does not exist.
    """
    places: dict[Path, str] = {}
    joined = {}
    for name, path in paths.items():
        trees: dict[Path, ast.Module] = {}
        _add_needed(Path(path), trees, places)
        places.update(dict.fromkeys(trees, name))
        joined[name] = _joined(trees, places, name)
    return joined


@cache
def _joined_once(*paths: tuple[str, Path]) -> dict[str, str]:
    """[`joined_sources`], kept: a run saves the same files with each checkpoint."""
    return joined_sources(dict(paths))


def _add_needed(file: Path, trees: dict[Path, ast.Module], places: Mapping[Path, str]) -> None:
    """Parse a file and, before it, all that it imports and that has no place yet."""
    if file in trees or file in places:
        return
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if imported := _imported_file(node, file):
            _add_needed(imported, trees, places)
    trees[file] = tree


def _imported_file(node: ast.AST, file: Path) -> Path | None:
    """The file of this package that a statement imports from."""
    if not isinstance(node, ast.ImportFrom):
        return None
    parts = (node.module or "").split(".")
    if node.level:
        return file.parents[node.level - 1].joinpath(*parts).with_suffix(".py")
    return _PACKAGE.joinpath(*parts[1:]).with_suffix(".py") if parts[0] == _PACKAGE.name else None


def _joined(trees: Mapping[Path, ast.Module], places: Mapping[Path, str], name: str) -> str:
    """The text of several files, with the imports of all before it."""
    imports: dict[str, set[str]] = {}
    sections = []
    for file, tree in trees.items():
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        for node in ast.walk(tree):
            imported = _imported_file(node, file)
            if isinstance(node, ast.Import | ast.ImportFrom) and (imported or node in tree.body):
                module = f".{places[imported]}" if imported else getattr(node, "module", "")
                if module != f".{name}":
                    imports.setdefault(module, set()).update(map(ast.unparse, node.names))
                end = node.end_lineno or node.lineno
                lines[node.lineno - 1 : end] = [""] * (end - node.lineno + 1)
        label = "/".join(file.parts[-2:])
        sections.append(f"{_LINE}# {label}\n{_LINE}\n{''.join(lines).strip()}\n")
    return re.sub(r"\n{4,}", "\n\n\n", "\n\n".join([_HEADING + _import_statements(imports), *sections]))


def _import_statements(imports: Mapping[str, set[str]]) -> str:
    """Imports as statements, in the usual order, from names by module; those of the module "" are modules."""
    blocks: dict[int, list[str]] = {}
    for module, names in imports.items():
        for imported in [", ".join(sorted(names))] if module else names:
            line = f"from {module} import {imported}" if module else f"import {imported}"
            if len(line) > 119:
                line = line.replace(" import ", " import (\n    ").replace(", ", ",\n    ") + ",\n)"
            package = (module or imported).partition(".")[0]
            place = 0 if package == "__future__" else 1 if package in sys.stdlib_module_names else 2 if package else 3
            blocks.setdefault(place, []).append(line)
    ordered = [sorted(lines, key=lambda line: (line.startswith("from"), line)) for _, lines in sorted(blocks.items())]
    return "\n\n".join(map("\n".join, ordered)) + "\n"


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
    # The weights that the checkpoint lacked, or had in another size, until they are loaded or training starts. Our
    # pipelines refuse a model that has some.
    _random_weights: tuple[str, ...] = ()
    # Whether the model was loaded from a repository of the Hub, and not from a folder.
    _from_hub = False

    @classmethod
    def from_pretrained(cls, *args: Any, output_loading_info: bool = False, **kwargs: Any) -> Any:
        model, info = super().from_pretrained(*args, output_loading_info=True, **kwargs)  # type: ignore[misc]
        resized = {name for name, *_ in info["mismatched_keys"]}
        model._random_weights = tuple(sorted({*info["missing_keys"], *resized}))
        model._from_hub = not os.path.isdir(model.name_or_path)
        model._after_loading()
        return (model, info) if output_loading_info else model

    def _after_loading(self) -> None:
        """Called by `from_pretrained`, which replaces the parameters and so undoes `requires_grad_`."""

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        loaded = super().load_state_dict(state_dict, *args, **kwargs)  # type: ignore[misc]
        self._random_weights = tuple(name for name in self._random_weights if name not in state_dict)
        return loaded

    def train(self, mode: bool = True) -> Any:
        self._random_weights = () if mode else self._random_weights
        return super().train(mode)  # type: ignore[misc]

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

        folder = Path(save_directory)
        folder.mkdir(parents=True, exist_ok=True)
        weights = copy(state_dict) if push_to_hub else None  # saving empties it
        with self._exported_code(folder):
            super().save_pretrained(folder, state_dict=state_dict, **kwargs)  # type: ignore[misc]
        if push_to_hub:
            push: Any = self.push_to_hub  # type: ignore[attr-defined]
            own = {name: kwargs.pop(name) for name in inspect.signature(push).parameters if name in kwargs}
            # It saves the model again, with the size of files as its only argument.
            vars(self)["save_pretrained"] = partial(self.save_pretrained, state_dict=weights, **kwargs)
            try:
                push(**{"repo_id": folder.resolve().name, **own})
            finally:
                del vars(self)["save_pretrained"]

    @contextmanager
    def _exported_code(self, folder: Path) -> Iterator[None]:
        """Write the sources to `folder`, and name them in the configuration until the block ends."""
        cls = _model_class(self)
        if cls.__module__.rpartition(".")[0] != __name__.rpartition(".")[0]:
            yield
            return
        config = self.config  # type: ignore[attr-defined]
        base_model = _model_class(self.base_model)  # type: ignore[attr-defined]
        loaded = {"AutoConfig": type(config), "AutoModel": base_model, **dict.fromkeys(self._hub_auto_classes, cls)}
        pipelines = self._pipeline_files()
        modules = [sys.modules[defined.__module__] for defined in (type(config), cls)]
        paths = {module.__name__.rpartition(".")[2]: Path(module.__file__ or "") for module in modules}
        paths |= {name: path for name, path, _, _ in pipelines.values()}
        # Files that were joined once are copied: this one is then part of the model's.
        copied = cls.__module__ == __name__
        sources = (
            {name: path.read_text("utf-8") for name, path in paths.items()} if copied else _joined_once(*paths.items())
        )
        for name, text in sources.items():
            (folder / f"{name}.py").write_text(text, encoding="utf-8")

        # Transformers fetches no pipeline with a model from the Hub: it stays there.
        there = {}
        for task, entry in vars(config).get("custom_pipelines", {}).items():
            impl = entry["impl"]
            if self._from_hub and "--" not in impl:
                impl = f"{config.name_or_path}--{impl}"
            if task in self._hub_pipelines and "--" in impl:
                there[task] = {**entry, "impl": impl}
        entries: dict[str, dict] = {
            "auto_map": {
                auto_class: f"{target.__module__.rpartition('.')[2]}.{target.__name__}"
                for auto_class, target in loaded.items()
            },
            "custom_pipelines": there
            | {
                task: {"impl": f"{name}.{pipeline}", "pt": [auto_class], "type": "text"}
                for task, (name, _, pipeline, auto_class) in pipelines.items()
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

    def _pipeline_files(self) -> dict[str, tuple[str, Path, str, str]]:
        """`_hub_pipelines` with names and paths of the files; joined ones lie beside the model's."""
        # Transformers copies remote code from a local folder file by file.
        folders = (Path(__file__).parent, Path(self.config.name_or_path))  # type: ignore[attr-defined]
        found = {}
        for task, (path, pipeline, auto_class) in self._hub_pipelines.items():
            name = f"pipeline_{task.replace('-', '_')}"
            files = (_PACKAGE / path, *(folder / f"{name}.py" for folder in folders))
            if file := next(filter(Path.is_file, files), None):
                found[task] = (name, file, pipeline, auto_class)
        return found


def _model_class(model: Any) -> type:
    """The class of a model. FSDP2 replaces it by a class of torch that derives from it."""
    return next(cls for cls in type(model).__mro__ if not cls.__module__.startswith("torch."))
