"""A double of the Hub that takes commits and keeps their files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from huggingface_hub import CommitInfo, HfApi, RepoUrl
from huggingface_hub.utils import filter_repo_objects

ENDPOINT = "https://huggingface.co"
# Transformers calls a client since some release of version 5, and functions before.
PLACES = ("transformers.utils.hub", "transformers.trainer", "transformers.modeling_utils")


@contextmanager
def commits() -> Iterator[dict[str, list[dict[str, bytes]]]]:
    """The files of each commit inside, by repository; a name without an owner is one of `tester`."""
    kept: dict[str, list[dict[str, bytes]]] = defaultdict(list)

    def commit(repo_id: str, files: dict[str, bytes]) -> CommitInfo:
        kept[repo_id].append(files)
        return CommitInfo(f"{ENDPOINT}/{repo_id}/commit/0", "", "", "0")

    def create_repo(*args: Any, **options: Any) -> RepoUrl:
        name = options.get("repo_id") or args[-1]
        return RepoUrl(f"{ENDPOINT}/{name if '/' in name else f'tester/{name}'}")

    def create_commit(*args: Any, operations: Any, repo_id: str, **options: Any) -> CommitInfo:
        return commit(repo_id, {each.path_in_repo: Path(each.path_or_fileobj).read_bytes() for each in operations})

    def upload_folder(*args: Any, folder_path: str, repo_id: str, **options: Any) -> Any:
        root, place = Path(folder_path), options.get("path_in_repo") or ""
        names = [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()]
        names = list(filter_repo_objects(names, ignore_patterns=options.get("ignore_patterns")))
        done = commit(repo_id, {str(Path(place, name)): (root / name).read_bytes() for name in names})
        if not options.get("run_as_future"):
            return done
        future: Future[CommitInfo] = Future()
        future.set_result(done)
        return future

    with ExitStack() as stack:
        for double in (create_repo, create_commit, upload_folder):
            stack.enter_context(patch.object(HfApi, double.__name__, double))
            for place in PLACES:
                stack.enter_context(patch(f"{place}.{double.__name__}", double, create=True))
        yield kept
