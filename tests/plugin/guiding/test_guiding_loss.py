from __future__ import annotations

import pytest
import torch

from msattn import GuidingArguments, Reading, UserError, guiding_loss, mdg_loss, pdg_loss

BOTH = {"mdg_weight": 0.5, "pdg_weight": 0.01}


def readings(forward: int, layers: int, batch: int, tokens: int, requires_grad: bool = True) -> list[Reading]:
    torch.manual_seed(forward)
    real = torch.arange(tokens) < torch.randint(1, tokens + 1, (batch, 1))
    return [
        Reading(
            forward,
            layer,
            real,
            {"received": torch.rand(batch, 2, tokens, dtype=torch.float64, requires_grad=requires_grad)},
        )
        for layer in range(layers)
    ]


def test_passes_are_not_mixed():
    """The mean over the samples of all passes, of the losses of each."""
    first, second = readings(0, 2, 3, 5), readings(1, 2, 1, 7)
    guiding = GuidingArguments(**BOTH)
    loss, terms = guiding_loss([*first, *second], guiding)
    expected = {
        name: sum(
            term(torch.cat([reading["received"] for reading in one], 1), one[0].real) * len(one[0].real)
            for one in (first, second)
        )
        / 4
        for name, term in (("mdg_loss", mdg_loss), ("pdg_loss", pdg_loss))
    }
    assert terms.keys() == expected.keys()
    for name, term in terms.items():
        torch.testing.assert_close(term, expected[name])
    torch.testing.assert_close(loss, 0.5 * expected["mdg_loss"] + 0.01 * expected["pdg_loss"])


def test_passes_without_gradients_do_not_count_beside_others():
    trained, reference = readings(0, 2, 2, 5), readings(1, 2, 2, 5, requires_grad=False)
    guiding = GuidingArguments(mdg_weight=1.0)
    torch.testing.assert_close(guiding_loss([*trained, *reference], guiding), guiding_loss(trained, guiding))
    with torch.no_grad():
        assert guiding_loss(reference, guiding)[0] > 0
    with pytest.raises(UserError, match="the guided attention has no gradient"):
        guiding_loss(reference, guiding)


def test_frozen_layers_are_maps_of_their_pass():
    frozen, *trained = readings(0, 3, 2, 5)
    frozen.statistics["received"].requires_grad_(False)
    guiding = GuidingArguments(mdg_weight=1.0)
    maps = torch.cat([reading["received"] for reading in (frozen, *trained)], dim=1)
    torch.testing.assert_close(guiding_loss([frozen, *trained], guiding)[0], mdg_loss(maps, frozen.real))


def test_guided_layers():
    read = readings(0, 3, 2, 5)
    last = GuidingArguments(mdg_weight=1.0, guided_layers=[-1])
    torch.testing.assert_close(guiding_loss(read, last), guiding_loss(read[2:], GuidingArguments(mdg_weight=1.0)))
    with pytest.raises(UserError, match="guided_layers: layer 0 was not read"):
        guiding_loss(read[1:], GuidingArguments(mdg_weight=1.0, guided_layers=[0]))
    with pytest.raises(UserError, match="guided_layers: there is no layer 3"):
        guiding_loss(read, GuidingArguments(mdg_weight=1.0, guided_layers=[3]))


def test_nothing_to_guide():
    with pytest.raises(UserError, match="no attention was read"):
        guiding_loss([], GuidingArguments(**BOTH))
    with pytest.raises(UserError, match="attend to different tokens"):
        guiding_loss([readings(0, 1, 2, 5)[0], readings(0, 2, 2, 7)[1]], GuidingArguments(**BOTH))
    loss, terms = guiding_loss(readings(0, 2, 2, 5), GuidingArguments())
    assert loss == 0 and not terms


@pytest.mark.parametrize(
    ("given", "unknown"),
    [
        ({"guiding": "official"}, "guiding_axis=official"),
        ({"patterns": ["next"], "pattern_weight": 1.0}, "pattern_weight=1.0"),
        ({"guiding_kwargs": {"guiding_tokens": "words"}}, "guiding_tokens=words"),
        ({"guiding_kwargs": {"guide_every": 4}}, "guide_every=4"),
        ({"guiding_kwargs": {"guiding_decay": "linear"}}, "guiding_decay=linear"),
    ],
)
def test_what_the_trainer_alone_can_do(given, unknown):
    with pytest.raises(UserError, match=f"guiding_loss does not know {unknown}: use GuidedTrainer"):
        guiding_loss(readings(0, 2, 2, 5), GuidingArguments(**BOTH, **given))
