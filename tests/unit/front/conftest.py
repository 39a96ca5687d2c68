"""Calls of the front door keep their results in a folder of the tests' own."""

import pytest

import noisyir

VERBS = ("open", "wash", "fill", "sell", "paint", "move")
NOUNS = {"box": "hands", "jar": "care", "bag": "force", "cup": "soap", "door": "luck", "car": "oil"}
PAIRS = [
    {"query": f"how to {verb} a {noun}", "document": f"to {verb} it, take the {noun} and {verb} it, with {tool}"}
    for verb in VERBS
    for noun, tool in NOUNS.items()
]
WRONG = {3, 17, 29}  # pairs that have another one's document
CHEAP = {"detectors": {"bm25": {"kind": "bm25_margin"}}}  # words alone, in no time


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def at_home(home, monkeypatch):
    monkeypatch.setenv("NOISYIR_HOME", str(home))


@pytest.fixture
def pairs():
    documents = [row["document"] for row in PAIRS]
    return [
        {**row, "document": documents[(number + 7) % len(PAIRS)] if number in WRONG else row["document"]}
        for number, row in enumerate(PAIRS)
    ]


@pytest.fixture
def found(pairs):
    """An audit, made once and then taken from the store."""
    return noisyir.audit(pairs, settings=CHEAP)
