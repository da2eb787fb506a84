"""The contract of the attention implementation `"received"`, for any text model of Transformers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from packaging.version import Version
from torch import nn
from transformers import CONFIG_MAPPING, AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

from msattn.modeling.attention_adapters import adapt

# What a configuration may call its sizes.
SMALL = {
    "vocab_size": 60,
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "embed_dim", "hidden_dim"), 32),
    **dict.fromkeys(("embedding_size", "word_embed_proj_dim", "d_embed", "embedding_dim"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(("num_decoder_layers", "num_encoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "n_head_kv", "num_kv_heads"), 2),
    **dict.fromkeys(("intermediate_size", "n_inner", "d_ff", "ffn_dim", "ffn_hidden_size", "d_inner"), 40),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim", "moe_intermediate_size"), 40),
    **dict.fromkeys(("head_dim", "d_kv", "kv_channels", "v_head_dim", "qk_rope_head_dim", "qk_nope_head_dim"), 8),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank"), 8),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "n_group", "topk_group"), 1),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len"), 64),
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 0,
}
LENGTHS = (9, 6)
# Families came to Transformers, and to its attention interface, one by one; this release has all that tests name.
HAS_ALL_FAMILIES = Version(transformers.__version__) >= Version("5.23")


class Unbuilt(Exception):
    """A generic configuration is not enough for this model."""


def text_model(model_type: str) -> type[PreTrainedModel] | None:
    """The base model, if it reads token ids."""
    names = MODEL_MAPPING_NAMES.get(model_type)
    model = getattr(transformers, names if isinstance(names, str) else (names or [""])[0], None)
    if model is None or model_type not in CONFIG_MAPPING or not issubclass(model, PreTrainedModel):
        return None  # not exported, or a placeholder for what is not installed
    reads = inspect.signature(model.forward).parameters
    return model if model.main_input_name == "input_ids" and "pixel_values" not in reads else None


def skip_if_older(sentence: str) -> None:
    """Skips a test of a family on releases that may lack it, and fails on those that have all."""
    assert not HAS_ALL_FAMILIES, sentence
    pytest.skip(sentence)


def text_models() -> list[str]:
    return sorted(model_type for model_type in MODEL_MAPPING_NAMES if text_model(model_type) is not None)


def tiny_config(config_class: type[PreTrainedConfig], **changes: Any) -> PreTrainedConfig:
    names = config_class().to_dict()
    aliases = set(names) | set(config_class.attribute_map)
    small = {name: size for name, size in SMALL.items() if name in aliases and isinstance(size, int)}
    small = {name: size for name, size in small.items() if not isinstance(names.get(name), (list, dict, bool))}
    return config_class(**{**small, **changes})


# Tried one after the other: latent attention has no grouped keys, some hybrids attend in the fourth layer only.
VARIANTS: tuple[dict[str, Any], ...] = ({}, {"num_key_value_heads": 4}, {"num_hidden_layers": 4})
# The maps that these return are not the weights that their values get.
OTHER_MAPS = {
    "granite_swa": "eager maps leave out the sinks",
    "granitemoe_swa": "eager maps leave out the sinks",
}


def tiny_model(model_type: str, **changes: Any) -> PreTrainedModel:
    """With weights that make attention uneven."""
    torch.manual_seed(0)
    try:
        config = tiny_config(CONFIG_MAPPING[model_type], **changes)
        with torch.device("meta"):
            size = sum(parameter.numel() for parameter in AutoModel.from_config(config).parameters())
        if size > 2e7:
            raise Unbuilt(f"a tiny configuration has {size:,} parameters")
        model = AutoModel.from_config(config, attn_implementation="eager")
    except Unbuilt:
        raise
    except Exception as error:
        raise Unbuilt(f"{type(error).__name__}: {error}") from error
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            nn.init.normal_(parameter, std=0.2)
        elif "sink" in name:
            nn.init.normal_(parameter, std=1.0)
    return model.eval()


def inputs_of(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """Two texts, the second with padding; for a decoder beside an encoder, texts that are padded elsewhere."""
    real = (torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS).unsqueeze(-1)).long()
    generator = torch.Generator().manual_seed(1)
    inputs = {"input_ids": torch.randint(5, 60, real.shape, generator=generator) * real, "attention_mask": real}
    if model.config.is_encoder_decoder:
        ids = torch.randint(5, 60, real.shape, generator=generator)
        inputs |= {"decoder_input_ids": ids, "decoder_attention_mask": torch.ones_like(real)}
    return inputs


def run(model: PreTrainedModel, implementation: str, attentions: bool) -> Any:
    model.set_attn_implementation(implementation)
    torch.manual_seed(0)
    with torch.no_grad():
        return model(**inputs_of(model), output_attentions=attentions)


def check(model_type: str, **changes: Any) -> str | None:
    """
    Asserts that asking for attention changes nothing, and that what comes is the column sums of eager maps.

    Returns:
        `None`, or the sentence with which the model is refused.
    """
    for variant in VARIANTS:
        try:
            model = tiny_model(model_type, **{**variant, **changes})
            eager = run(model, "eager", True)
            break
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
    else:
        raise Unbuilt(reason)
    inputs = inputs_of(model)
    kinds = [kind for kind in ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions")]
    kinds = [kind for kind in kinds if eager.get(kind) is not None and len(eager[kind])]
    if not kinds:
        return "returns no attention maps"
    adapt(model)
    try:
        unasked, asked = run(model, "received", False), run(model, "received", True)
    except ValueError as error:
        return str(error)
    if model.config._attn_implementation != "received":
        return "is outside the attention interface"
    real = inputs["attention_mask"]
    both = model.config.is_encoder_decoder
    states = [
        output[0] if both or output[0].dim() < 3 else output[0][real.bool()] for output in (eager, unasked, asked)
    ]
    size = states[0].abs().max().clamp_min(1)
    torch.testing.assert_close(states[2] / size, states[1] / size, rtol=0, atol=1e-5)
    torch.testing.assert_close(states[2] / size, states[0] / size, rtol=0, atol=1e-5)
    compared = 0
    for kind in kinds:
        assert len(asked[kind]) == len(eager[kind]), f"{len(asked[kind])} {kind}"
        for received, maps in zip(asked[kind], eager[kind], strict=True):
            if not isinstance(maps, torch.Tensor) or maps.dim() != 4 or maps.shape[-2:] != real.shape[-1:] * 2:
                continue  # linear, local or sparse attention
            rows = real if kind in ("attentions", "encoder_attentions") else torch.ones_like(real)
            expected = (maps * rows[:, None, :, None]).sum(-2)
            assert received.shape == expected.shape, f"{kind} {tuple(received.shape)}"
            if model_type not in OTHER_MAPS:
                torch.testing.assert_close(received, expected, rtol=0, atol=1e-5 * max(LENGTHS))
            compared += 1
    return None if compared else "returns nothing that is a map of tokens"


def survey(answer_of: Callable[[str], str | None]) -> dict[str | None, list[str]]:
    """All text models by the answer of a check, which none may fail. `pytest -s` prints them."""
    found: dict[str | None, list[str]] = {}
    failed = {}
    for model_type in text_models():
        try:
            answer = answer_of(model_type)
        except Unbuilt as error:
            answer = f"not built: {str(error).splitlines()[0][:100]}"
        except (AssertionError, RuntimeError) as error:
            failed[model_type] = str(error)
            continue
        found.setdefault(answer, []).append(model_type)
    for answer, names in found.items():
        print(f"{answer}: {len(names)}: {', '.join(names)}")
    assert not failed
    return found
