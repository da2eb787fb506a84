from __future__ import annotations

import ast
from importlib.metadata import version

import pytest
import yaml

from msattn.app.command import main
from msattn.errors import UserError


def test_a_space_is_three_files(tmp_path, capsys):
    folder = tmp_path / "space"
    main(["me/tagger", "me/parser", "--lang", "en", "--space", str(folder)])
    assert capsys.readouterr().out == f"{folder}: a Space of me/tagger, me/parser\n"
    assert {path.name for path in folder.iterdir()} == {"README.md", "app.py", "requirements.txt"}
    _, front_matter, text = (folder / "README.md").read_text().split("---\n")
    card = yaml.safe_load(front_matter)
    assert (card["sdk"], card["sdk_version"], card["app_file"]) == ("gradio", version("gradio"), "app.py")
    assert card["models"] == ["me/tagger", "me/parser"] and "me/parser" in text
    assert (folder / "requirements.txt").read_text() == f"msattn[app]=={version('msattn')}\n"
    imported, call = ast.parse((folder / "app.py").read_text()).body
    assert (imported.module, imported.names[0].name, call.value.func.id) == ("msattn.app", "launch", "launch")
    assert ast.unparse(call.value) == "launch(['me/tagger', 'me/parser'], lang='en')"
    main(["me/tagger", "--space", str(folder)])  # writes it again
    assert "parser" not in (folder / "app.py").read_text()


def test_the_page_takes_its_options(monkeypatch):
    calls = []
    monkeypatch.setattr("msattn.app.command.launch", lambda *given, **options: calls.append((*given, options)))
    main(["me/tagger"])
    main(["me/tagger", "me/parser", "--lang", "en", "--host", "0.0.0.0", "--port", "7000", "--share"])
    assert calls == [
        (["me/tagger"], None, {"server_name": None, "server_port": None, "share": False}),
        (["me/tagger", "me/parser"], "en", {"server_name": "0.0.0.0", "server_port": 7000, "share": True}),
    ]


def test_a_space_of_something_else_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    for name in ("outputs/a/b", "here"):
        with pytest.raises(UserError, match=f"{name}: a Space loads its checkpoints from the Hub"):
            main([name, "--space", str(tmp_path / "space")])


@pytest.mark.parametrize("option", [("--host", "0.0.0.0"), ("--port", "7000"), ("--share",)])
def test_options_of_the_page_have_no_use_for_a_space(tmp_path, option):
    with pytest.raises(UserError, match=f"{option[0]}: the Hub serves a Space"):
        main(["me/tagger", "--space", str(tmp_path / "space"), *option])


def test_other_files_are_not_written_over(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(UserError, match="the folder has other files"):
        main(["me/tagger", "--space", str(tmp_path)])
