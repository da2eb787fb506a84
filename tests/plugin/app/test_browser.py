"""The page in a browser without a window: used by keyboard alone, on a phone, in the dark, and without the network."""

from __future__ import annotations

import re
import shutil
import socket

import gradio
import httpx
import pytest
from playwright.sync_api import expect, sync_playwright

from msattn.app import launch

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium or google-chrome on this machine"),
]
TEXT = "the author wrote a book ."
# Gradio loads its parts one by one, and machines may be busy.
PATIENCE = 120_000


@pytest.fixture(scope="module")
def address(checkpoints):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    names = [str(checkpoints / name) for name in ("relations", "parser")]
    launch(names, server_port=port, prevent_thread_lock=True, quiet=True)
    yield f"http://127.0.0.1:{port}/"
    gradio.close_all()


@pytest.fixture
def visit(address):
    """Opens the page, and fails afterwards if it has asked another server or written an error to the console."""
    asked, errors = [], []

    def answer(route):
        if route.request.url.startswith(address):
            route.continue_()
        else:
            asked.append(route.request.url)
            route.abort()

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])

        def visit(**options):
            page = browser.new_context(**options).new_page()
            page.set_default_timeout(PATIENCE)
            page.route("**/*", answer)
            page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.goto(address)
            return page

        yield visit
        browser.close()
    assert not asked and not errors


def test_the_server_takes_no_files(address):
    answer = httpx.post(f"{address}gradio_api/upload", files={"files": ("a.bin", b"a" * 1000)})
    assert answer.status_code == 413


def written(page):
    """The area with the text."""
    area = page.locator("#text textarea")
    while area.input_value() != TEXT:  # while it builds the page, Gradio sets the text anew
        area.fill(TEXT)
        page.wait_for_timeout(5000)
    return area


def test_a_paragraph_becomes_a_graph_and_a_tree(visit):
    expect.set_options(timeout=PATIENCE)
    page = visit(viewport={"width": 360, "height": 3000}, color_scheme="dark", has_touch=True)
    area, keys = written(page), page.keyboard
    area.focus()
    for steps, length in ((4, 6), (19, 4)):  # author, book
        keys.press("Control+Home")
        for _ in range(steps):
            keys.press("ArrowRight")
        for _ in range(length):
            keys.press("Shift+ArrowRight")
        keys.press("Tab")
        expect(page.get_by_role("button", name="Mark as entity")).to_be_focused()
        keys.press("Enter")
        expect(page.locator(".tags")).to_contain_text(re.compile(rf"{TEXT[steps : steps + length]}\s*entity"))
        keys.press("Shift+Tab")
    keys.press("Shift+Enter")
    graph, tree = page.get_by_label("Graph of the relations"), page.get_by_label("Dependency trees; they")
    expect(graph).to_contain_text("Product-Producer(e2,e1)")
    expect(tree).to_contain_text("wrote")
    heads = page.get_by_text("How far the heads look")
    expect(page.get_by_text("relations: mean distance")).to_be_hidden()
    heads.focus()
    keys.press("Enter")
    expect(page.get_by_text("relations: mean distance")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="Save SVG").first.click()
    assert download.value.suggested_filename == "relations.svg"
    token = page.frame_locator("iframe.fused").get_by_role("button", name="wrote")
    token.click()
    expect(token).to_have_attribute("aria-pressed", "true")
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert sum(map(int, background.strip("rgb()").split(", "))) < 150
    ground = graph.locator("svg > rect").evaluate("(shape) => getComputedStyle(shape).fill")
    assert sum(map(int, ground.strip("rgb()").split(", "))) < 150
    page.get_by_role("button", name="The flood was caused").click()
    expect(area).to_have_value(re.compile("The flood"))
    expect(tree).to_contain_text("flood")
