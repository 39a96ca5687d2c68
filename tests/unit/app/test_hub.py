"""The Hugging Face Hub, played by a server of the test: it is asked where a name or a flag says so, and never else."""

import json

import pytest

from noisyir.app.exports import pushed
from noisyir.front.cli import main
from tests.hub_server import COMMIT, serving

ROWS = "".join(
    json.dumps({"question": f"what is thing{n}?", "answer": f"thing{n} is a {n}"}) + "\n" for n in range(6)
).encode()
HELD = b'{"question": "what is held out?", "answer": "this"}\n'
FILES = {"data/train.jsonl": ROWS, "data/test.jsonl": HELD, "load.py": b"raise SystemExit", "README.md": b"# data"}


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub that huggingface_hub takes for the only one, with an empty cache."""
    constants = "huggingface_hub.constants"
    with serving(FILES) as found:
        monkeypatch.setattr(f"{constants}.ENDPOINT", found.url)
        monkeypatch.setattr(
            f"{constants}.HUGGINGFACE_CO_URL_TEMPLATE", found.url + "/{repo_id}/resolve/{revision}/{filename}"
        )
        monkeypatch.setattr(f"{constants}.HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(f"{constants}.HF_HUB_OFFLINE", False)
        monkeypatch.setenv("HF_TOKEN", "hf_test")
        yield found


@pytest.fixture
def noisyir(tmp_path, monkeypatch, capsys):
    """`noisyir("import", ...)` in an empty folder: (exit code, stderr)."""
    monkeypatch.setenv("NOISYIR_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def run(*args):
        capsys.readouterr()
        return main(list(args)), capsys.readouterr().err

    return run


def test_a_data_set_of_the_hub_is_read_where_its_name_says_so_and_its_scripts_are_not(
    hub, noisyir, tmp_path, monkeypatch
):
    code, err = noisyir("import", "hf://org/name", "--out", "mine")
    assert code == 0, err
    report = json.loads((tmp_path / "mine" / "import.json").read_text())
    assert report["format"] == "pairs" and report["pairs"] == {"train": 6, "test": 1}
    assert any("train.jsonl" in asked for asked in hub.asked) and not any("load.py" in asked for asked in hub.asked)
    # what is in the cache needs no network
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    hub.asked.clear()
    code, err = noisyir("import", "hf://org/name/data/test.jsonl", "--out", "again")
    assert code == 0 and hub.asked == [], err
    report = json.loads((tmp_path / "again" / "import.json").read_text())
    assert report["pairs"] == {"train": 1}
    code, err = noisyir("import", "hf://org/another")
    assert code == 1 and "hf download org/another --repo-type dataset" in err and hub.asked == []


def test_an_experiment_for_a_data_set_of_the_hub_names_it_and_plans(hub, noisyir, tmp_path):
    code, err = noisyir("init", "hf://org/name@main")
    assert code == 0, err
    assert 'path: "hf://org/name@main"' in (tmp_path / "name.yaml").read_text()
    code, err = noisyir("run", "name.yaml", "--dry-run")
    assert code == 0, err


def test_nothing_is_asked_of_the_hub_without_its_name(hub, noisyir, tmp_path):
    (tmp_path / "mine.jsonl").write_bytes(ROWS)
    assert noisyir("import", "mine.jsonl")[0] == 0
    for name in ("org/name", "name"):
        code, err = noisyir("import", name)
        assert code == 1 and f"{name} is no file and no folder" in err
    assert hub.asked == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hf://org/other", "the Hub does not give org/other"),
        ("hf://org", "write hf://ORG/NAME"),
        ("hf://org/name/nowhere", "holds no files that can be read"),
    ],
)
def test_what_the_hub_does_not_have_is_one_line(hub, noisyir, name, said):
    code, err = noisyir("import", name)
    assert code == 1 and said in err and err.splitlines()[-1].startswith("noisyir: "), err


def test_a_folder_is_sent_into_a_repository(hub, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "README.md").write_text("---\nlicense: mit\n---\n# mine\n")
    (folder / "weights.bin").write_bytes(bytes(range(256)))
    assert pushed(folder, "me/mine") == f"{hub.url}/me/mine/commit/{COMMIT}"
    assert hub.pushed == {path.name: path.read_bytes() for path in folder.iterdir()}
    assert [card.splitlines()[1] for card in hub.checked] == ["license: mit"]  # before anything is sent
    assert hub.created == [{"name": "mine", "organization": "me", "visibility": "private"}]
