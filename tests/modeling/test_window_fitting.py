from __future__ import annotations

import math

import pytest
import torch
from transformers import AutoModel

from msattn import fit_windows, set_windows
from msattn.modeling.window_fitting import Reach, head_reach
from tests.attention_contract import tiny_model
from tests.tiny_encoders import batch, randomized, tiny_encoder

SPECIAL = (7, 31)


def batches_of(family: str) -> list[dict[str, torch.Tensor]]:
    """Two lengths; each text starts with a special token, one has another in the middle."""
    found = [batch(family, right=3), {name: tensor[:, :5] for name, tensor in batch(family).items()}]
    for inputs in found:
        inputs["input_ids"][:, 0] = SPECIAL[0]
        inputs["input_ids"][1, 3] = SPECIAL[1]
    return found


def least_windows(model, batches, mass) -> list[list[int]]:
    """By the definition, row by row of whole maps."""
    model.set_attn_implementation("eager")
    kept: dict[tuple[int, int, int], list[float]] = {}
    for inputs in batches:
        maps = torch.stack(model(**inputs, output_attentions=True).attentions)
        special = torch.isin(inputs["input_ids"], torch.tensor(SPECIAL))
        texts, tokens = special.shape
        for text in range(texts):
            for i in range(tokens):
                if special[text, i] or not inputs["attention_mask"][text, i]:
                    continue
                for window in range(tokens):
                    near = (torch.arange(tokens) - i).abs() <= window
                    share = (maps[:, text, :, i] * (near | special[text])).sum(dim=-1)
                    for layer, head in torch.cartesian_prod(*map(torch.arange, share.shape)).tolist():
                        kept.setdefault((layer, head, window), []).append(share[layer, head].item())
    longest = max(inputs["input_ids"].shape[1] for inputs in batches)
    rows = len(kept[0, 0, 0])
    # A short text keeps everything in a window beyond it.
    share = {key: (sum(values) + rows - len(values)) / rows for key, values in kept.items()}
    layers, heads = (1 + max(key[place] for key in share) for place in (0, 1))
    return [
        [next(w for w in range(longest) if share[layer, head, w] >= mass - 1e-6) for head in range(heads)]
        for layer in range(layers)
    ]


@pytest.mark.parametrize("mass", [0.5, 0.9, 1.0])
@pytest.mark.parametrize("family", ["bert", "llama", "mpnet"])
def test_the_least_window_that_keeps_the_mass(family, mass):
    torch.manual_seed(0)
    model, batches = randomized(AutoModel.from_config(tiny_encoder(family))), batches_of(family)
    expected = least_windows(model, batches, mass)
    model.train()
    frozen = model.get_input_embeddings().eval()
    reach = head_reach(model, batches, SPECIAL)
    assert model.training and not frozen.training
    assert reach._replace(tokens=math.inf).windows(mass) == expected
    real = sum(int(inputs["attention_mask"].sum()) for inputs in batches)
    assert reach.tokens == real / 6
    windows = fit_windows(model, batches, mass, SPECIAL)
    assert windows == [[w if w <= real / 12 else None for w in row] for row in expected]
    set_windows(model, windows, SPECIAL)


def test_layers_may_differ_in_heads():
    beyond = [torch.tensor([[0.5, 0.0], [0.0, 0.0], [0.3, 0.2]]), torch.tensor([[0.0, 0.0]])]
    assert Reach(beyond, tokens=2.0).windows(0.9) == [[1, 0, None], [0]]


def test_a_model_inside_of_a_module():
    model, batches = randomized(AutoModel.from_config(tiny_encoder("bert"))), batches_of("bert")
    assert fit_windows(torch.nn.Sequential(model), batches, 0.9) == fit_windows(model, batches, 0.9)


def test_special_tokens_of_a_tokenizer():
    model, batches = randomized(AutoModel.from_config(tiny_encoder("bert"))), batches_of("bert")
    masked = [{**b, "special_tokens_mask": torch.isin(b["input_ids"], torch.tensor(SPECIAL)).long()} for b in batches]
    found, expected = head_reach(model, masked), head_reach(model, batches, SPECIAL)
    torch.testing.assert_close(found.beyond, expected.beyond, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("make", "rows"),
    [
        (
            lambda: AutoModel.from_config(tiny_encoder("albert", num_hidden_layers=4, num_hidden_groups=2)),
            [0, 0, 1, 1],
        ),
        (lambda: tiny_model("lfm2", num_hidden_layers=4, layer_types=["conv", "full_attention"] * 2), [0, 1]),
    ],
    ids=["used in a row", "between other layers"],
)
def test_readings_go_to_their_layers(make, rows):
    model, inputs = randomized(make()), batch("albert", right=3)
    model.set_attn_implementation("eager")
    maps = [found for found in model(**inputs, output_attentions=True).attentions if found is not None]
    beyond, real = head_reach(model, [inputs]).beyond, inputs["attention_mask"]
    assert len(beyond) == max(rows) + 1 and not any(module._forward_pre_hooks for module in model.modules())
    for row, found in enumerate(beyond):
        own = [1 - maps[place].diagonal(dim1=-2, dim2=-1) for place, number in enumerate(rows) if number == row]
        others = (sum(own) / len(own) * real[:, None]).sum(dim=(0, 2)) / real.sum()  # what is not given to itself
        torch.testing.assert_close(found[:, 0].float(), others, rtol=0, atol=1e-5)


def test_bad_input():
    model = AutoModel.from_config(tiny_encoder("bert"))
    for mass in (0, 1.01, -1):
        with pytest.raises(ValueError, match="mass must be above 0 and at most 1, got"):
            fit_windows(model, batches_of("bert"), mass)
    with pytest.raises(ValueError, match="batches must have input_ids"):
        fit_windows(model, [{"inputs_embeds": torch.zeros(1, 2, 32)}])
    for batches in ([], [{"input_ids": torch.full((1, 4), 7)}]):
        with pytest.raises(ValueError, match="batches must have tokens that are not special"):
            fit_windows(model, batches, special_token_ids=SPECIAL)
