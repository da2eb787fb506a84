"""
What multi-scale fusion adds to a BERT of the same shape: time of a train step and of inference, and memory.

All models run in one process and take turns, so that a slow moment of the machine touches each of them; times are
compared turn by turn. The median ratio stands beside the one that the multiply-adds predict. Needs Linux.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from tqdm import tqdm

from msattn import BertForMultiScaleSequenceClassification, MultiScaleBertConfig

SHAPES = {
    "bert-base": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
    "minilm": {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536},
}
Config = MultiScaleBertConfig
Model = BertForMultiScaleSequenceClassification
Batch = dict[str, torch.Tensor]


def multiply_adds(config: Config, tokens: int, training: bool) -> int:
    """
    Multiply-adds of the matrix products that one sentence takes; backward costs twice as much as forward.

    Per token, with width d and N tokens: an encoder layer has four projections of d^2, a feed-forward part of 2 d f,
    and N d each for the scores and for their product with the values. A fusion layer with S scales k has one query,
    1 + S keys and one projection of the weighted sum, k d^2 of convolution a scale, and (1 + S) N d each for the
    scores and the weighted sum. The hard mask adds two projections and N d, which have no backward.
    """
    d, stack = config.hidden_size, 1 + len(config.scales)
    encoder = 4 * d**2 + 2 * d * config.intermediate_size + 2 * tokens * d
    fusion = (2 + stack + sum(config.scales)) * d**2 + 2 * stack * tokens * d
    mask = 2 * d**2 + tokens * d
    learned = config.num_hidden_layers * encoder + config.fusion_layers * fusion
    return tokens * ((3 if training else 1) * learned + config.fusion_layers * mask)


def build(config: Config, arguments: argparse.Namespace) -> Model:
    torch.manual_seed(0)
    return Model(config).to(arguments.device, getattr(torch, arguments.dtype))


def random_batch(config: Config, tokens: int, arguments: argparse.Namespace) -> Batch:
    """Random sentences without padding, so that N tokens are N tokens of work."""
    torch.manual_seed(0)
    shape = (arguments.batch, tokens)
    batch = {
        "input_ids": torch.randint(config.vocab_size, shape),
        "attention_mask": torch.ones(shape, dtype=torch.long),
        "labels": torch.randint(config.num_labels, shape[:1]),
    }
    return {name: tensor.to(arguments.device) for name, tensor in batch.items()}


def train_step(model: Model, batch: Batch) -> Callable[[], None]:
    """Forward, backward and the optimizer that the Trainer takes."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)

    def step():
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def inference(model: Model, batch: Batch) -> Callable[[], None]:
    model.eval()

    def step():
        with torch.inference_mode():
            model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])

    return step


def take_turns(steps: Sequence[Callable[[], object]], arguments: argparse.Namespace, label: str) -> list[list[float]]:
    """Seconds of every step in each of `repeats` turns; every second turn goes in reverse."""
    count = arguments.steps
    clock = time.process_time if arguments.clock == "cpu" else time.perf_counter
    seconds: list[list[float]] = [[] for _ in steps]
    for turn in tqdm(range(-1, arguments.repeats), desc=label, leave=False):
        for index in range(len(steps)) if turn % 2 else reversed(range(len(steps))):
            start = clock()
            for _ in range(count):
                steps[index]()
            if arguments.device.startswith("cuda"):
                torch.cuda.synchronize()
            if turn >= 0:  # the turn before the first warms up
                seconds[index].append((clock() - start) / count)
    return seconds


def kept_bytes(model: Model, batch: Batch) -> int:
    """Bytes that the forward pass of a train step keeps for the backward pass, parameters not counted."""
    parameters = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    model.train()
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        loss = model(**batch).loss  # alive to the end, so that no address comes twice
    del loss
    return sum(kept.values())


def peak_bytes(config: Config, tokens: int, arguments: argparse.Namespace) -> int:
    """Peak of two train steps: what they allocate on a GPU, else the resident memory of the process."""
    torch.set_num_threads(arguments.threads)
    gpu = arguments.device.startswith("cuda")
    before = torch.cuda.memory_allocated() if gpu else 0
    step = train_step(build(config, arguments), random_batch(config, tokens, arguments))
    step()
    step()
    return torch.cuda.max_memory_allocated() - before if gpu else resident_peak()


def resident_peak() -> int:
    """High-water mark of this process; not ru_maxrss, which starts from that of the parent process."""
    return 1024 * int(Path("/proc/self/status").read_text(encoding="utf-8").split("VmHWM:")[1].split()[0])


def fresh_peak(measure: Callable[..., Any], *rest: Any, processes: Any = None) -> Any:
    """The peak `measure(*rest)`: in a new process or, on a GPU, after a reset of what it counts."""
    if not rest[-1].device.startswith("cuda"):
        with (processes or multiprocessing.get_context("spawn")).Pool(1) as pool:
            return pool.apply(measure, rest)
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return measure(*rest)


def time_row(seconds: list[float], plain: list[float], predicted: float) -> list[str]:
    measured = statistics.median(time / base for time, base in zip(seconds, plain, strict=True))
    return [
        f"{1000 * statistics.median(plain):,.2f} ms",
        f"{1000 * statistics.median(seconds):,.2f} ms",
        f"{measured:.3f}",
        f"{predicted:.3f}",
        f"{measured / predicted:.2f}",
        f"{(measured - 1) / (predicted - 1):.2f}",
    ]


def memory_row(kept: int, kept_plain: int, peak: int, peak_plain: int) -> list[str]:
    return [
        f"{kept_plain / 2**20:,.0f} MiB",
        f"{kept / kept_plain:.3f}",
        f"{peak_plain / 2**20:,.0f} MiB",
        f"{peak / peak_plain:.3f}",
    ]


def compare(arguments: argparse.Namespace) -> dict[str, list[list[str]]]:
    """Rows of the three tables."""
    shape = SHAPES[arguments.shape]
    configs = [Config(fusion_layers=0, **shape), *(Config(scales=scales, **shape) for scales in arguments.scales)]
    models = [build(config, arguments) for config in configs]
    rows: dict[str, list[list[str]]] = {"train step": [], "inference": [], "memory": []}
    for tokens in arguments.tokens:
        names = [[str(tokens), ", ".join(map(str, config.scales))] for config in configs]
        batch = random_batch(configs[0], tokens, arguments)
        kept = [kept_bytes(model, batch) for model in models]
        for kind, make in (("train step", train_step), ("inference", inference)):
            steps = [make(model, batch) for model in models]
            times = take_turns(steps, arguments, f"N = {tokens}, {kind}")
            counts = [multiply_adds(config, tokens, make is train_step) for config in configs]
            for i in range(1, len(configs)):
                rows[kind].append(names[i] + time_row(times[i], times[0], counts[i] / counts[0]))
        progress = tqdm(configs, desc=f"N = {tokens}, memory", leave=False)
        peaks = [fresh_peak(peak_bytes, config, tokens, arguments) for config in progress]
        for i in range(1, len(configs)):
            rows["memory"].append(names[i] + memory_row(kept[i], kept[0], peaks[i], peaks[0]))
    return rows


def markdown(columns: str, rows: list[list[str]]) -> str:
    """A table; `columns` are its headings, with " | " between them."""
    lines = [columns.split(" | "), ["---"] * len(rows[0]), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def describe(arguments: argparse.Namespace) -> str:
    """The machine and the way of measuring."""
    information = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    processor = next(
        (line.split(": ")[1] for line in information if line.startswith("model name")), platform.machine()
    )
    device = f"{processor}, {os.cpu_count()} cores, {arguments.threads} used"
    if arguments.device.startswith("cuda"):
        device = torch.cuda.get_device_name(arguments.device)
    return (
        f"{device}; torch {torch.__version__}, transformers {transformers.__version__}; {arguments.dtype}; "
        f"medians of {arguments.repeats} turns of {arguments.steps} steps, "
        f"{'processor' if arguments.clock == 'cpu' else 'wall'} time."
    )


def parse_scales(text: str) -> tuple[int, ...]:
    return tuple(int(scale) for scale in text.split(","))


def add_measurement_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repeats", type=int, default=5, help="turns that each model takes")
    parser.add_argument("--steps", type=int, default=1, help="steps of a turn; several fill the queue of a GPU")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32", help="type of the computation")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="CPU threads of torch")
    parser.add_argument(
        "--clock",
        choices=["wall", "cpu"],
        default="wall",
        help="what is measured; cpu, with --threads 1, where the machine has other work",
    )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.strip().splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--shape", choices=SHAPES, default="bert-base", help="shape of the encoder")
    parser.add_argument("--tokens", type=int, nargs="+", default=[64, 128, 256], help="sentence lengths N")
    parser.add_argument(
        "--scales",
        type=parse_scales,
        nargs="+",
        default=[(3,), (3, 5)],
        help="phrase lengths of each model to compare: 3 3,5 for two models",
    )
    parser.add_argument("--batch", type=int, default=4, help="sentences in a batch")
    add_measurement_arguments(parser)
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    rows = compare(arguments)
    times = "N | scales | plain | with fusion | ratio | predicted | ratio / predicted | added / predicted"
    memory = "N | scales | plain, kept for backward | ratio | plain, peak | ratio"
    print(f"{arguments.shape}, {arguments.batch} sentences a batch. {describe(arguments)}")
    print(f"\nTrain step (forward, backward, AdamW)\n\n{markdown(times, rows['train step'])}")
    print(f"\nInference\n\n{markdown(times, rows['inference'])}")
    print(f"\nMemory of a train step\n\n{markdown(memory, rows['memory'])}")


if __name__ == "__main__":
    main()
