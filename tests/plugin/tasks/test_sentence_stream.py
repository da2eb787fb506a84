"""Files are predicted in chunks, and an interrupted run goes on with the chunk that it was at."""

from __future__ import annotations

import gzip
from types import SimpleNamespace

import pytest
import torch

from msattn.errors import UserError
from msattn.tasks import sentence_stream
from msattn.tasks.dependency_parsing import DependencyParsing
from msattn.tasks.sentence_stream import SentenceStream, stream_key


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(sentence_stream, "SENTENCES", 3)


@pytest.fixture
def stream(tmp_path):
    path = tmp_path / "sentences.txt"
    path.write_text("".join(f"sentence {number}\n" for number in range(8)), encoding="utf-8")
    return SentenceStream(str(path))


class Predictor:
    """Repeats the words, and stops before a chunk."""

    def __init__(self, stops_before: int | None = None):
        self.stops_before, self.sizes = stops_before, []

    def __call__(self, rows, folder):
        if len(self.sizes) == self.stops_before:
            raise KeyboardInterrupt
        self.sizes.append(len(rows))
        (folder / "out.conllu").write_text("".join(" ".join(row["words"]) + "\n" for row in rows), encoding="utf-8")
        return {"mean": sum(int(row["words"][-1]) for row in rows) / len(rows)}


@pytest.mark.parametrize("packed", [False, True])
def test_chunks_are_joined_in_order_and_means_are_those_of_all_sentences(stream, tmp_path, packed):
    target, predictor = tmp_path / ("out.conllu.gz" if packed else "out.conllu"), Predictor()
    metrics, count = stream.predict(predictor, target, "key")
    content = target.read_bytes()
    assert (gzip.decompress(content) if packed else content).decode() == (tmp_path / "sentences.txt").read_text()
    assert metrics == {"mean": pytest.approx(3.5)} and count == 8 and predictor.sizes == [3, 3, 2]
    assert {path.name for path in tmp_path.iterdir()} == {"sentences.txt", target.name}


def test_an_interrupted_run_goes_on(stream, tmp_path):
    target = tmp_path / "out.conllu"
    with pytest.raises(KeyboardInterrupt):
        stream.predict(Predictor(stops_before=1), target, "key")
    assert not target.exists()
    predictor = Predictor()
    metrics, count = stream.predict(predictor, target, "key")
    assert predictor.sizes == [3, 2]
    assert metrics == {"mean": pytest.approx(3.5)} and count == 8
    assert target.read_text() == (tmp_path / "sentences.txt").read_text()


def test_chunks_of_another_run_are_thrown_away(stream, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        stream.predict(Predictor(stops_before=2), tmp_path / "out.conllu", "key")
    predictor = Predictor()
    stream.predict(predictor, tmp_path / "out.conllu", "other")
    assert predictor.sizes == [3, 3, 2]


def test_a_stream_of_some_sentences(stream, tmp_path):
    predictor = Predictor()
    some = SentenceStream(stream.path, most=4)
    assert some.predict(predictor, tmp_path / "out.conllu", "key") == ({"mean": pytest.approx(1.5)}, 4)
    assert predictor.sizes == [3, 1]


def test_hash(stream, tmp_path):
    same, other = tmp_path / "same.txt", tmp_path / "other.conllu"
    content = (tmp_path / "sentences.txt").read_bytes()
    same.write_bytes(content)
    other.write_bytes(content)
    assert SentenceStream(str(same)).hash == stream.hash
    same.write_bytes(content + b"one more\n")
    hashes = [stream.hash, *(SentenceStream(str(path)).hash for path in (same, other))]
    assert len({*hashes, SentenceStream(stream.path, most=4).hash}) == 4


def test_key_of_the_weights():
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 2)
    before = stream_key(model, {"decode": "mst"})
    assert stream_key(model, {"decode": "mst"}) == before != stream_key(model, {"decode": "greedy"})
    with torch.no_grad():
        model.bias[0] += 1
    assert stream_key(model, {"decode": "mst"}) != before
    assert stream_key(model.to(torch.bfloat16), {"decode": "mst"}) != before


def test_another_decoder_or_temperature_is_another_run(stream, tmp_path, monkeypatch):
    """Validation data choose them after training, and the arguments and weights of a run do not tell."""
    keys = set()
    monkeypatch.setattr(SentenceStream, "predict", lambda _, predict, target, key, together: (keys.add(key) or {}, 8))
    model, args = (
        torch.nn.Linear(2, 2),
        SimpleNamespace(output_dir=tmp_path, eval_batch_size=8, device=torch.device("cpu")),
    )
    trainer = SimpleNamespace(model=model, args=args, is_sharded=False)
    for decoder, temperature in (("mst", None), ("mst", 2.0), ("eisner", 2.0)):
        model.config = SimpleNamespace(calibration_temperature=temperature)
        DependencyParsing.predict_stream(SimpleNamespace(decoder=decoder), trainer, "test", stream, ["run"])
    assert len(keys) == 3


def test_a_broken_line_behind_the_first_chunk(tmp_path):
    path = tmp_path / "broken.conllu"
    row = "1\t0" + "\t_" * 8 + "\n\n"
    path.write_text(row * 4 + "2" + row[1:], encoding="utf-8")
    predictor = Predictor()
    with pytest.raises(UserError, match=r"broken.conllu:9: the word has to be number 1"):
        SentenceStream(str(path)).predict(predictor, tmp_path / "out.conllu", "key")
    assert predictor.sizes == [3] and not (tmp_path / "out.conllu").exists()
