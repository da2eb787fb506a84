"""Two processes train as one process does with the doubled batch."""

from __future__ import annotations

import json
import shutil
import sys

import pytest
import torch
import yaml
from transformers import AutoModelForTokenClassification, EsmConfig, EsmModel

import run_tagging
from msattn import AutoModelForRelationExtraction
from msattn.data.demo_corpus import DemoPaths
from tests.scripts.command_line import command_line
from tests.scripts.relation_runs import ROOT, arguments, launch, logged, read_json, run
from tests.tiny_encoders import saved_tiny_encoder
from tests.tiny_models import SIZES, labelled, saved_encoder

pytestmark = pytest.mark.heavy

SCRIPT = str(ROOT / "run_re.py")
CONFIGS = ROOT / "accelerate_configs"
ACCELERATE = [sys.executable, "-m", "accelerate.commands.launch", "--config_file"]

# accelerate shards on GPUs only; everything behind that decision works on a CPU as well.
AS_IF_ON_GPUS = """
import run_re
import torch.distributed.fsdp
from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import DistributedType

initialise = AcceleratorState.__init__

def initialise_as_if_on_gpus(self, *args, **kwargs):
    if not AcceleratorState._shared_state:
        PartialState(cpu=True)
        PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU
    initialise(self, *args, **kwargs)

AcceleratorState.__init__ = initialise_as_if_on_gpus
shard = torch.distributed.fsdp.fully_shard

def named(module, *args, **kwargs):
    print("sharded", type(module).__name__)
    return shard(module, *args, **kwargs)

torch.distributed.fsdp.fully_shard = named
run_re.main()
"""


@pytest.fixture(scope="module")
def no_dropout(demo, tmp_path_factory) -> DemoPaths:
    """Dropout draws other numbers in another split of the batch."""
    encoder = shutil.copytree(demo.encoder, tmp_path_factory.mktemp("no_dropout") / "encoder")
    config = read_json(encoder / "config.json")
    without = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (encoder / "config.json").write_text(json.dumps(config | without))
    return DemoPaths(demo.train_file, demo.validation_file, demo.test_file, encoder)


def options(demo, **others) -> dict:
    """A test set that two processes cannot share evenly."""
    return {
        "head": "multiscale",
        "test_file": demo.test_file,
        "max_predict_samples": 21,
        "seed": 2,
        **others,
    }


@pytest.fixture(scope="module")
def one_process(no_dropout, tmp_path_factory):
    folder = tmp_path_factory.mktemp("one_process")
    run(
        arguments(
            no_dropout,
            folder,
            "do_train",
            "do_predict",
            per_device_train_batch_size=16,
            **options(no_dropout),
        )
    )
    return folder


def assert_same_run(folder, expected):
    assert len(logged(expected)) == 4
    assert logged(folder) == pytest.approx(logged(expected), abs=1e-5)
    assert logged(folder, "grad_norm") == pytest.approx(logged(expected, "grad_norm"), rel=1e-4)
    predictions = "test_predictions.tsv"
    assert (folder / predictions).read_text() == (expected / predictions).read_text()
    for name in ("test_f1", "test_accuracy", "test_samples"):
        assert read_json(folder / "all_results.json")[name] == read_json(expected / "all_results.json")[name]


def test_gradient_accumulation(one_process, no_dropout, tmp_path):
    batches = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4}
    run(arguments(no_dropout, tmp_path, "do_train", "do_predict", **options(no_dropout, **batches)))
    assert_same_run(tmp_path, one_process)


def test_accelerate_launch(one_process, no_dropout, tmp_path):
    batch = options(no_dropout, per_device_train_batch_size=8)
    launch(
        [*ACCELERATE, str(CONFIGS / "ddp_cpu.yaml"), SCRIPT],
        arguments(no_dropout, tmp_path, "do_train", "do_predict", **batch),
    )
    assert_same_run(tmp_path, one_process)


def test_the_loss_of_words_in_two_processes(tmp_path):
    torch.manual_seed(0)
    folder, data = saved_encoder(tmp_path / "tagger", layers=1), tmp_path / "test.conll"
    model = AutoModelForTokenClassification.from_pretrained(folder, **labelled("X", "Y"))
    model.save_pretrained(folder)
    data.write_text("".join("cat X\ndog Y\n" * length + "\n" for length in (9, 1, 2, 1, 1, 1, 2)))
    values = {"model_name_or_path": folder, "test_file": data, "per_device_eval_batch_size": 2}
    one, two = (command_line(("do_predict", "use_cpu"), {**values, "output_dir": tmp_path / name}) for name in "12")
    run_tagging.main(one)
    launch([*ACCELERATE, str(CONFIGS / "ddp_cpu.yaml"), str(ROOT / "run_tagging.py")], two)
    losses = [read_json(tmp_path / name / "test_results.json")["test_loss"] for name in "12"]
    assert losses[1] == pytest.approx(losses[0], rel=0.05)  # accelerate repeats the first sentence


def test_parameters_without_a_gradient_in_two_processes(tmp_path):
    folder, data = saved_encoder(tmp_path / "esm", layers=1), tmp_path / "train.conll"
    EsmModel(EsmConfig(**SIZES, pad_token_id=0)).save_pretrained(folder)  # nobody asks for its contacts
    data.write_text("cat X\ndog Y\n\n" * 16)
    values = {"model_name_or_path": folder, "train_file": data, "output_dir": tmp_path / "out", "max_steps": 2}
    command = [*ACCELERATE, str(CONFIGS / "ddp_cpu.yaml"), str(ROOT / "run_tagging.py")]
    launch(command, command_line(("do_train", "use_cpu"), {**values, "report_to": "none"}))
    assert len(logged(tmp_path / "out")) == 2


@pytest.mark.slow
def test_the_loss_of_a_tagger_from_scratch_in_two_processes(tmp_path):
    """Its loss divides by the words of all processes in a step."""
    data = tmp_path / "data.conll"
    data.write_text("".join("cat X\ndog Y\n" * length + "\n" for length in (9, 1, 1, 1, 9, 1, 1, 1)))
    files = {"train_file": data, "validation_file": data, "model_type": "bilstm", "max_steps": 1}
    values = {**files, "per_device_eval_batch_size": 2, "report_to": "none", "seed": 1}
    one, two = (
        command_line(("do_train", "do_eval", "use_cpu"), {**values, "output_dir": tmp_path / name}) for name in "12"
    )
    run_tagging.main([*one, "--per_device_train_batch_size", "8"])
    script = [*ACCELERATE, str(CONFIGS / "ddp_cpu.yaml"), str(ROOT / "run_tagging.py")]
    launch(script, [*two, "--per_device_train_batch_size", "4"])
    losses = [read_json(tmp_path / name / "eval_results.json")["eval_loss"] for name in "12"]
    assert losses[1] == pytest.approx(losses[0], rel=0.01)


@pytest.mark.slow
def test_processes_wait_for_the_encoder_that_one_of_them_saves(tmp_path):
    folder, data = saved_encoder(tmp_path / "encoder", layers=1), tmp_path / "train.conllu"
    data.write_text("1\tdog\t_\t_\t_\t_\t2\tnsubj\t_\t_\n2\tsleeps\t_\t_\t_\t_\t0\troot\t_\t_\n\n" * 4)
    values = {"model_name_or_path": folder, "train_file": data, "output_dir": tmp_path / "out", "max_steps": 1}
    command = [*ACCELERATE, str(CONFIGS / "ddp_cpu.yaml"), str(ROOT / "run_parsing.py")]
    launch(command, command_line(("do_train", "use_cpu"), {**values, "mlm_epochs": 1, "report_to": "none"}))
    assert (tmp_path / "out" / "model.safetensors").exists()


@pytest.mark.slow
def test_guided_in_two_processes_that_accumulate(no_dropout, tmp_path):
    guiding = {"mdg_weight": 0.1, "pdg_weight": 0.01, "max_predict_samples": 4, "max_train_samples": 32}
    batch = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}
    for folder, sizes in (("one", {"per_device_train_batch_size": 16}), ("two", batch)):
        argv = arguments(no_dropout, tmp_path / folder, "do_train", **options(no_dropout, **guiding, **sizes))
        if folder == "one":
            run(argv)
            continue
        launch([*ACCELERATE, str(CONFIGS / "ddp_cpu.yaml"), SCRIPT], argv)
    for name in ("loss", "task_loss", "mdg_loss", "pdg_loss", "grad_norm"):
        one, two = (logged(tmp_path / folder, name) for folder in ("one", "two"))
        assert len(one) == 2 and two == pytest.approx(one, rel=1e-3)


@pytest.fixture
def fsdp2_on_cpu(tmp_path) -> list[str]:
    """The command that starts `run_re.py` with fsdp2.yaml, as if on GPUs."""
    config = yaml.safe_load((CONFIGS / "fsdp2.yaml").read_text())
    on_cpu, script = tmp_path / "fsdp2.yaml", tmp_path / "as_if_on_gpus.py"
    on_cpu.write_text(yaml.safe_dump({**config, "use_cpu": True, "main_process_port": 0}))
    script.write_text(AS_IF_ON_GPUS)
    return [*ACCELERATE, str(on_cpu), str(script)]


@pytest.mark.slow
def test_fsdp2_shards_and_saves_a_whole_checkpoint(one_process, no_dropout, fsdp2_on_cpu, tmp_path):
    launch(
        fsdp2_on_cpu,
        arguments(
            no_dropout,
            tmp_path / "model",
            "do_train",
            "do_predict",
            **options(no_dropout, per_device_train_batch_size=8, save_strategy="epoch"),
        ),
    )
    # What only a sharded run leaves.
    assert (tmp_path / "model" / "checkpoint-4" / "pytorch_model_fsdp.bin").exists()
    assert_same_run(tmp_path / "model", one_process)

    for folder in (tmp_path / "model", tmp_path / "model" / "checkpoint-4"):
        model, report = AutoModelForRelationExtraction.from_pretrained(folder, output_loading_info=True)
        assert not report["missing_keys"] and not report["unexpected_keys"]
        assert model.config.auto_map["AutoModelForRelationExtraction"] == (
            "modeling_multiscale.MultiScaleForRelationExtraction"
        )
        assert (folder / "modeling_multiscale.py").exists()


@pytest.mark.slow
def test_fsdp2_predicts_without_training(one_process, no_dropout, fsdp2_on_cpu, tmp_path):
    trained = {"model_name_or_path": one_process, "train_file": None, "max_train_samples": None}
    given = {**options(no_dropout), **trained, "head": None}
    launch(fsdp2_on_cpu, arguments(no_dropout, tmp_path / "out", "do_predict", **given))
    predictions = "test_predictions.tsv"
    assert (tmp_path / "out" / predictions).read_text() == (one_process / predictions).read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "head", "blocks"),
    [
        ("roberta", "multiscale", {"RobertaLayer", "MultiScaleFusion"}),
        ("modernbert", "pairwise", {"ModernBertEncoderLayer"}),
        ("t5", "cls", {"T5Block"}),
    ],
)
def test_fsdp2_wraps_the_blocks_of_any_family(family, head, blocks, demo, fsdp2_on_cpu, tmp_path):
    argv = arguments(
        demo,
        tmp_path / "model",
        "do_train",
        model_name_or_path=saved_tiny_encoder(family, tmp_path / "encoder"),
        head=head,
        on_overflow="skip",  # the tiny vocabulary makes many tokens
        max_steps=2,
        per_device_train_batch_size=4,
        save_strategy="epoch",
    )
    done = launch(fsdp2_on_cpu, argv)
    sharded = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("sharded")}
    assert blocks <= sharded
    _, report = AutoModelForRelationExtraction.from_pretrained(tmp_path / "model", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]


@pytest.mark.parametrize("path", sorted(CONFIGS.iterdir()), ids=lambda path: path.name)
def test_every_configuration_is_one_that_accelerate_reads(path):
    from accelerate.commands.config.config_args import load_config_from_file

    assert load_config_from_file(str(path)).num_processes == 2
