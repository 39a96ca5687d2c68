"""Formats of raw data: each takes its own settings and no others, and a package may bring more."""

import subprocess
import sys
from pathlib import Path

import pytest

from noisyir.base.errors import ConfigError, DataError
from noisyir.data.formats import Format
from noisyir.data.formats.beir import Beir
from noisyir.data.stages.ingest import INGEST
from noisyir.methods import experiments

OWN = {
    "pydocs": {"dev_queries", "test_queries"},
    "beir": {"path"},
    "squad": {"path"},
    "tables": {"path"},
    "dpr_json": {"path", "columns"},
    "tevatron": {"path", "corpus", "columns"},
    "llama_index": {"path"},
    "nemo": {"path", "corpus"},
    "swift": {"path"},
    "ms_marco_qa": {"path"},
    "flagembedding": {"path", "corpus", "columns"},
    "sentence_transformers": {"path", "corpus", "columns"},
    "triples": {"path", "queries", "corpus"},
    "staqc": {"path"},
    "so_ds": {"path"},
    "line_pairs": {"path", "corpus"},
    "topics": {"path", "split"},
    "trec": {"path", "queries", "corpus", "run", "split"},
    "ir_datasets": {"id", "split"},
    "msmarco": {"path"},
    "pairs": {"path", "corpus", "columns"},
    "dpr": {"path", "subset", "positives"},
}
VALUES = {
    "dev_queries": 1,
    "test_queries": 1,
    "path": "x",
    "corpus": "x",
    "columns": {},
    "subset": "nq",
    "positives": "all",
    "queries": "x",
    "run": "x",
    "split": "test",
    "id": "x",
}


def test_every_format_has_its_own_settings_beside_those_of_all():
    shared = set(Format.model_fields)
    assert {kind: set(given.model_fields) - shared for kind, given in Format.variants().items()} == OWN


@pytest.mark.parametrize("kind", OWN)
def test_settings_of_other_formats_are_refused(kind):
    for name in set(VALUES) - OWN[kind]:
        owners = ", ".join(other for other in Format.variants() if name in OWN[other])
        with pytest.raises(
            ConfigError, match=rf"unknown key data\.{name}.*; {name} is a setting of {owners}, not of {kind}$"
        ):
            experiments.from_settings({"name": "x", "data": {"kind": kind, name: VALUES[name]}}, [])


@pytest.mark.parametrize("kind", ["beir", "msmarco"])
@pytest.mark.parametrize("path", [None, "/no/such/folder"])
def test_a_missing_folder_is_named_when_planning(kind, path):
    with pytest.raises(DataError, match=r"data\.path"):
        Format.of_kind(kind)(path=path).digest()


def test_an_unknown_kind_is_refused_with_a_suggestion():
    with pytest.raises(ConfigError, match=r"data: there is no 'squat' \(did you mean squad\?\); there are beir, dpr"):
        experiments.load("demo", ["data.kind=squat"])


@pytest.mark.parametrize(
    ("override", "now"),
    [
        ("data.dataset=squad", "data.kind"),
        ("detectors={sim: {detector: similarity}}", "detectors.sim.kind"),
        ("noise.mechanism=group", "noise.kind"),
        ("hide.mechanism=positives", "hide.kind"),
        ("mine.simans.a=0.5", "mine.sampler={kind: simans, ...}"),
    ],
)
def test_names_that_were_given_up_lead_to_the_new_ones(override, now):
    with pytest.raises(ConfigError) as error:
        experiments.load("demo", [override])
    assert f" (it is {now} now)" in str(error.value)


def test_a_name_alone_is_a_format():
    assert experiments.from_settings({"name": "x", "data": "pydocs"}, ["data.test_queries=7"]).data.test_queries == 7
    assert experiments.load("demo", ["data.path=/data", "data.kind=beir"]).data == Beir(path="/data")
    assert experiments.load("demo", ["data.test_queries=7"]).data.max_documents == 12_000


def test_the_key_holds_nothing_of_other_formats_and_nothing_that_stands_at_its_default():
    assert Beir(path="/here").key_values() == {"kind": "beir/1"}
    assert Beir(path="/here", min_relevance=2).key_values() == {"kind": "beir/1", "min_relevance": 2}


def test_settings_come_back_from_json():
    given = Beir(path="/here", on_empty="exclude")
    assert INGEST.params.parse(given.model_dump(mode="json")) == given


LINES = '''
"""A format of one file: query, tab, document."""

from pathlib import Path
from typing import Literal

from noisyir.data.formats import Format
from noisyir.data.formats.pairs import Pairs
from noisyir.base.settings import Location


class Lines(Format):
    """A file without a header."""

    kind: Literal["lines"] = "lines"
    path: Location = None

    def open(self, workers=None):
        """As pairs, with a header in front."""
        headed = Path(self.path).with_suffix(".headed.tsv")
        headed.write_text("query\\tdocument\\n" + Path(self.path).read_text())
        return Pairs(path=str(headed)).open()
'''
RUN = """
import sys
from noisyir.methods import experiments
from noisyir.front.cli import main
sys.exit(main(["run", "demo", "data.kind=lines", "data.path=" + sys.argv[1], "--to", "ingest", "--no-track"]))
"""


def test_a_package_brings_a_format(tmp_path: Path):
    about = tmp_path / "lines_format-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: lines-format\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[noisyir.formats]\nlines = lines_format\n")
    (tmp_path / "lines_format.py").write_text(LINES)
    data = tmp_path / "data.tsv"
    data.write_text("".join(f"question {n}\tanswer {n}\n" for n in range(50)))
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{RUN}"
    done = subprocess.run(
        [sys.executable, "-c", code, str(data)], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "corpus 50, queries 50" in done.stderr, done
