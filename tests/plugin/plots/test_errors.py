"""The browser of errors: the wrong answers and nothing else, harmless whatever the text, used by keyboard."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from msattn import UserError
from msattn.data.inputs.entity_markers import add_entity_markers
from msattn.plots import FusedAttention, error_browser
from tests.tiny_models import tiny_relation_extractor

TEXT = "the author wrote a book ."
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


def prediction(identifier="1", text=TEXT, head=(4, 10), tail=(19, 23), gold="Other", answer="makes", score=0.5):
    entities = {
        role: {"start": start, "end": end, "text": text[start:end]}
        for role, (start, end) in {"head": head, "tail": tail}.items()
    }
    known = {"id": identifier, "text": text, **entities, "gold": gold}
    return {**known, "prediction": answer, "probability": score}


def page_of(tmp_path, *rows, **model) -> tuple[list[dict], str]:
    file, output = tmp_path / "test_predictions.jsonl", tmp_path / "errors.html"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    count = error_browser(file, output, **model)
    page = output.read_text(encoding="utf-8")
    examples = json.loads(re.search(r'<script type="application/json" id="examples">(.*?)</script>', page, re.S)[1])
    assert count == len(examples)
    return examples, page


def test_errors_come_most_probable_first(tmp_path):
    rows = [prediction("a"), prediction("b", score=0.9), prediction("c", answer="Other", score=1.0)]
    examples, page = page_of(tmp_path, *rows)
    assert [example["id"] for example in examples] == ["b", "a"]
    parts = [["the ", ""], ["author", "head"], [" wrote a ", ""], ["book", "tail"], [" .", ""]]
    assert examples[0] == {"id": "b", "gold": "Other", "prediction": "makes", "score": 0.9, "text": parts}
    assert "<title>test_predictions.jsonl: 2 of 3 are wrong</title>" in page


def test_a_model_without_errors(tmp_path):
    examples, page = page_of(tmp_path, prediction(answer="Other"))
    assert examples == [] and "<title>test_predictions.jsonl: 0 of 1 are wrong</title>" in page


def test_nested_entities_and_characters_outside_of_the_basic_plane(tmp_path):
    (example,), _ = page_of(tmp_path, prediction(text="😀 a book", head=(2, 8), tail=(4, 8)))
    assert example["text"] == [["😀 ", ""], ["a ", "head"], ["book", "head tail"]]


def test_texts_and_labels_are_text_only(tmp_path):
    evil = "</script><script>alert(1)</script><img src=x>"
    _, page = page_of(tmp_path, prediction(evil, evil, (0, 9), (9, 17), f"{evil}1", f"{evil}2"))
    assert page.count("<script") == page.count("</script") == 2
    assert "<img" not in page and "innerHTML" not in page
    assert "default-src 'none'" in page and not re.search(r"https?://(?!www.w3.org)|\bsrc\s*=\s*[\"'h]|<link", page)


@pytest.mark.parametrize("style", ["plain", "typed", "typed-punct"])
def test_the_attention_is_that_of_the_model(tmp_path, style):
    model, tokenizer = tiny_relation_extractor(scales=[3], entity_markers=style)
    add_entity_markers(tokenizer, style, ["book", "dog"])
    tokenizer.add_tokens(list("@#*^"))
    model.resize_token_embeddings(len(tokenizer))
    row = prediction()
    for role, of in (("head", "dog"), ("tail", "book")):
        row[role]["label"] = of
    (example,), _ = page_of(tmp_path, row, model=model, tokenizer=tokenizer)
    attention = FusedAttention.from_model(model, tokenizer, TEXT, (4, 10), (19, 23), ("dog", "book"))
    np.testing.assert_allclose(example["words"], attention.words, atol=5e-5)
    np.testing.assert_allclose(example["scales"][0]["weights"], attention.phrases[3], atol=5e-5)
    shown = [" ".join(example["tokens"][start:end]) for start, end in example["entities"]]
    assert (
        shown
        == {
            "plain": ["[E1] author [/E1]", "[E2] book [/E2]"],
            "typed": ["[E1:dog] author [/E1:dog]", "[E2:book] book [/E2:book]"],
            "typed-punct": ["@ * dog * author @", "# ^ book ^ book #"],
        }[style]
    )


def test_a_pair_that_the_model_cannot_read_has_no_attention(tmp_path):
    model, tokenizer = tiny_relation_extractor()
    row = prediction()
    text = f"{row['text']} {'the book ' * 60}dog"
    far = {**row, "text": text, "tail": {"start": len(text) - 3, "end": len(text)}}
    unread = prediction("unread", score=None)
    examples, _ = page_of(tmp_path, unread, row, far, model=model, tokenizer=tokenizer)
    assert ["tokens" in example for example in examples] == [True, False, False]
    assert (examples[-1]["id"], examples[-1]["score"]) == ("unread", None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gold": None}, r'test_predictions.jsonl:1: there must be the labels "gold" and "prediction"'),
        ({"probability": "high"}, 'and the number "probability"'),
        ({"text": None}, "an example needs"),
        ({"head": {"start": 0, "end": 99}}, r"the head span \[0, 99\) is wrong"),
    ],
)
def test_wrong_files(tmp_path, change, message):
    with pytest.raises(UserError, match=message):
        page_of(tmp_path, {**prediction(), **change})


# Drives the page and leaves what it shows in the title. The first Tab of a browser may focus the picture itself.
DRIVER = """
<script>
const seen = [];
const press = (key, on = document.body) => on.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
addEventListener("error", event => seen.push(event.message));
const look = () => seen.push([find("output").textContent, find("#id").textContent, find("mark").textContent].join());
const choose = (select, value) => { select.value = value; select.dispatchEvent(new Event("change", {bubbles: 1})); };
look();
press("ArrowRight"); look();
press("ArrowRight"); press("ArrowRight"); look();
press("ArrowLeft"); look();
svg.dispatchEvent(new FocusEvent("focusin", {bubbles: true}));
press("ArrowDown", svg);
const token = svg.querySelector('[tabindex="0"]');
token.focus(); press("ArrowDown", token); press("Enter", document.activeElement);
seen.push(document.activeElement.getAttribute("aria-label"), document.activeElement.getAttribute("aria-pressed"));
choose(filters[0], "b"); look(); seen.push([...filters[1].options].map(option => option.textContent).join());
seen.push(document.documentElement.scrollWidth <= innerWidth ? "fits" : "too wide");
document.body.dataset.seen = seen.join(";");
</script>
"""


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
def test_a_browser_steps_filters_and_draws(tmp_path):
    model, tokenizer = tiny_relation_extractor(scales=[3])
    rows = [
        prediction("1", gold="a", answer="c", score=0.9),
        prediction("2", gold="b", answer="c", score=0.8),
        prediction("3", "the <b> dog", (4, 7), (8, 11), "b", "a" * 90, 0.7),
    ]
    page_of(tmp_path, *rows, model=model, tokenizer=tokenizer)
    with open(tmp_path / "errors.html", "a", encoding="utf-8") as page:
        page.write(DRIVER)
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--window-size=360,800",
        f"--user-data-dir={tmp_path}/user",
    ]
    command = [CHROMIUM, *options, "--dump-dom", (tmp_path / "errors.html").as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert html.unescape(re.search(r'data-seen="([^"]*)"', dom)[1]).split(";") == [
        "1 of 3,1,author",
        "2 of 3,2,author",
        "1 of 3,1,author",
        "3 of 3,3,<b>",
        "token 1, the",
        "true",
        "2 of 2,3,<b>",
        f"all (2),{'a' * 90} (1),c (1)",
        "fits",
    ]
