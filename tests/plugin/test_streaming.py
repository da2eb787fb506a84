"""Large files are answered block by block, and an interrupted run goes on with the block that it was at."""

from __future__ import annotations

import gzip
import subprocess
import sys

import pytest
import torch

from msattn.errors import UserError
from msattn.streaming import predict_stream, stream_key

ITEMS = [f"item {number}\n" for number in range(8)]


class Answers:
    """Repeats the items, and stops before a block."""

    def __init__(self, stops_before: int | None = None, error: type[BaseException] = KeyboardInterrupt):
        self.stops_before, self.error, self.sizes = stops_before, error, []

    def __call__(self, items):
        if len(self.sizes) == self.stops_before:
            raise self.error("stopped")
        self.sizes.append(len(items))
        return items


@pytest.mark.parametrize("name", ["out.txt", "out.txt.gz"])
def test_a_file_is_whole_and_in_order(tmp_path, name):
    answers = Answers()
    assert predict_stream(iter(ITEMS), answers, tmp_path / name, size=3) == 8
    content = (tmp_path / name).read_bytes()
    assert (gzip.decompress(content) if name.endswith(".gz") else content).decode() == "".join(ITEMS)
    assert answers.sizes == [3, 3, 2] and [path.name for path in tmp_path.iterdir()] == [name]


def test_standard_output(capsys):
    assert predict_stream(ITEMS, Answers(), size=1) == 8
    assert capsys.readouterr().out == "".join(ITEMS)


def test_no_items_make_an_empty_file(tmp_path):
    assert predict_stream([], Answers(), tmp_path / "out.txt") == 0
    assert (tmp_path / "out.txt").read_bytes() == b""


@pytest.mark.parametrize(("key", "sizes"), [("key", [3, 2]), ("other", [3, 3, 2]), (None, [3, 3, 2])])
def test_an_interrupted_run_goes_on_if_nothing_else_has_changed(tmp_path, key, sizes):
    target = tmp_path / "out.txt"
    target.write_text("of an earlier run")
    with pytest.raises(KeyboardInterrupt):
        predict_stream(ITEMS, Answers(stops_before=1), target, size=3, key="key")
    assert target.read_text() == "of an earlier run"
    with (tmp_path / "out.txt.part").open("a") as part:
        part.write("torn")  # killed between the text and the record of it
    answers = Answers()
    assert predict_stream(ITEMS, answers, target, size=3, key=key) == 8
    assert answers.sizes == sizes and target.read_text() == "".join(ITEMS)
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]


def test_what_is_answered_before_a_wrong_item_is_written(capsys):
    with pytest.raises(UserError, match="stopped"):
        predict_stream(ITEMS, Answers(1, UserError), size=3)
    assert capsys.readouterr().out == "".join(ITEMS[:3])


def test_the_key_is_that_of_weights_file_and_options(tmp_path):
    file = tmp_path / "in.txt"
    file.write_text("a")
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 2)
    keys = [stream_key(model, file, "mst"), stream_key(model, file, "eisner")]
    assert stream_key(model, file, "mst") == keys[0]
    file.write_text("ab")
    keys.append(stream_key(model, file, "mst"))
    with torch.no_grad():
        model.bias[0] += 1
    keys += [stream_key(model, file, "mst"), stream_key(model.to(torch.bfloat16), file, "mst")]
    assert len({*keys}) == 5


PROGRAM = """
import os, socket, sys
from accelerate import PartialState
from msattn.errors import UserError
from msattn.streaming import predict_stream

# As two processes of torchrun, but what takes seconds is imported once.
with socket.create_server(("127.0.0.1", 0)) as server:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(server.getsockname()[1]), "WORLD_SIZE": "2"}
child = os.fork()
os.environ |= dict.fromkeys(("RANK", "LOCAL_RANK"), "0" if child else "1")
number = PartialState(cpu=True).process_index

def answer(items):
    if "wrong" in items:
        raise UserError("an item is wrong")
    return [f"{item} {number}\\n" for item in items]

predict_stream(map(str, range(11)), answer, "right.txt", size=2)
try:
    predict_stream(["right", "right", "right", "wrong"], answer, "wrong.txt", size=2)
except UserError as error:
    print(f"{number}: {error}\\n", end="")
PartialState().destroy_process_group()
if child:
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.heavy
def test_two_processes(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    expected = "".join(f"{number} {process}\n" for number, process in enumerate("00110011001"))
    assert (tmp_path / "right.txt").read_text() == expected
    assert sorted(done.stdout.splitlines()) == ["0: an item is wrong", "1: an item is wrong"]
    assert not [*tmp_path.glob("wrong.txt*")]
