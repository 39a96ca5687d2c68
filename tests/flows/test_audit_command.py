"""`noisyir audit` from the command line: a data owner's files in, verdicts and cleaned pairs out."""

import csv
import json
import random
import re
import shlex
import shutil
from collections import Counter
from html import unescape
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from noisyir.engine.store import Store
from noisyir.front.cli import main
from tests.flows.screens import check_fits, check_recorded, plain, terminal
from tests.tiny import write_beir, write_words

pytestmark = pytest.mark.usefixtures("timed")

FILES = {"audit.html", "audit.csv", "audit.parquet"}


def read_jsonl(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read_csv(path):
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def write_csv(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


class Owner:
    """Someone with 120 pairs, a third of which have the document of another of that third, drawn at random."""

    def __init__(self, folder):
        self.beir, self.model = write_beir(folder / "beir", documents=160, train=120), write_words(folder / "words")
        self.corpus = self.beir / "corpus.jsonl"
        self.texts = {row["_id"]: row["text"] for row in read_jsonl(self.corpus)}
        queries = {row["_id"]: row["text"] for row in read_jsonl(self.beir / "queries.jsonl")}
        lines = (self.beir / "qrels" / "train.tsv").read_text().splitlines()[1:]
        self.right = dict(line.split("\t")[:2] for line in lines)
        self.wrong = random.Random(0).sample(list(self.right), len(self.right) // 3)
        moved = [self.right[query] for query in [*self.wrong[1:], self.wrong[0]]]
        paired = self.right | dict(zip(self.wrong, moved, strict=True))
        self.named = [{"query_id": query, "query": queries[query], "doc_id": doc} for query, doc in paired.items()]
        self.inline = [{**row, "document": self.texts[row["doc_id"]]} for row in self.named]


@pytest.fixture(scope="module")
def owner(tmp_path_factory):
    return Owner(tmp_path_factory.mktemp("owner"))


@pytest.fixture(scope="module")
def home(tmp_path_factory, migrated):
    """All commands of this module share a store, as those of one user do."""
    return shutil.copytree(migrated, tmp_path_factory.mktemp("owner") / "home")


@pytest.fixture
def noisyir(home, owner, tmp_path, monkeypatch, capsys):
    """`noisyir("audit", ...)`: run the command in an empty folder; (exit code, stdout, last line of stderr)."""
    monkeypatch.setenv("NOISYIR_HOME", str(home))
    monkeypatch.chdir(tmp_path)

    def run(*args, quick=(f"model.weights={owner.model}",)):
        capsys.readouterr()
        code = main([str(arg) for arg in (*args, *quick, "runtime.threads=1")])
        out, err = capsys.readouterr()
        return code, out, (err.strip().splitlines() or [""])[-1]

    return run


@pytest.fixture
def file(owner, tmp_path):
    """The owner's pairs with their texts; the same bytes each time, so that they are audited once."""
    return write_jsonl(tmp_path / "mine.jsonl", owner.inline)


def table(folder):
    return pq.read_table(folder / "audit.parquet").to_pylist()


def wrong_by(rows):
    return {row["query_id"] for row in rows if row["verdict"] in ("wrong", "suspect")}


def check_verdicts(owner, rows):
    """The most suspect pairs are those that are wrong."""
    wrong = set(owner.wrong)
    most = {row["query_id"] for row in rows[: len(wrong)]}
    assert len(rows) == len(owner.named) and len(most & wrong) >= 0.8 * len(wrong)
    assert [row["suspicion"] for row in rows] == sorted((row["suspicion"] for row in rows), reverse=True)


def test_pairs_with_their_texts_are_audited(noisyir, owner, file, tmp_path):
    code, out, err = noisyir("audit", file, "--error", 0.05)
    assert code == 0, err
    assert {path.name for path in (tmp_path / "mine-audit").iterdir()} == FILES
    rows = table(tmp_path / "mine-audit")
    check_verdicts(owner, rows)
    assert "120 training pairs\n" in out and "No pair is flagged: the scores alone cannot separate" in out
    assert {row["p_clean"] for row in rows} == {None} and "wrong" not in {row["verdict"] for row in rows}
    assert "How many are wrong?  Not known without judgements: judge 50 pairs to know it.\n" in out
    assert "--assume random shows it" in out and "if wrong pairs have neighbours" not in out
    assert re.search(r"within ± 5 points at 95 %: judge \d+ pairs", out)
    for row in rows:
        if row["better"]:
            assert "fit" in row["reason"] and row["similarity"] < row["better_similarities"][0]
    listed = read_csv(tmp_path / "mine-audit" / "audit.csv")
    assert [(row["query_id"], row["verdict"] or None) for row in listed] == [
        (row["query_id"], row["verdict"]) for row in rows
    ]
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert all(lines[int(row["row"]) - 1]["query"] == row["query"] for row in listed), "row names the line of the file"
    assert f"row {listed[0]['row']}: " in out
    page = (tmp_path / "mine-audit" / "audit.html").read_text()
    assert page.startswith("<!doctype html>") and "The scores alone cannot tell which pairs are wrong." in page
    assert not wrong_by(rows)


def test_documents_that_slipped_are_told_by_their_rows_and_no_more_when_they_are_put_back(noisyir, owner, tmp_path):
    rows = [{**row, "document": owner.texts[owner.right[row["query_id"]]]} for row in owner.inline]
    documents = [row["document"] for row in rows]
    documents[30:100] = [*documents[31:100], documents[30]]
    slipped = [{"query": row["query"], "document": text} for row, text in zip(rows, documents, strict=True)]
    code, out, err = noisyir("audit", write_jsonl(tmp_path / "owned.jsonl", slipped))
    assert code == 0, err
    told = " ".join(out.split())
    assert re.search(
        r"slipped from row 3\d to (9\d|100) .* document one row above better, and \d the one below", told
    ), out
    page = Path("owned-audit/audit.html").read_text()
    assert re.search(
        r'id="slipped"><strong>From row 3\d to (9\d|100) .* compare them with their source\.</strong>', page
    )
    right = [{"query": row["query"], "document": row["document"]} for row in rows]
    code, out, err = noisyir("audit", write_jsonl(tmp_path / "owned.jsonl", right))
    assert code == 0 and "may have slipped" not in out + Path("owned-audit/audit.html").read_text()


def test_the_screen_of_an_audit_fits_a_terminal_and_its_next_command_is_whole(monkeypatch, noisyir, owner, tmp_path):
    file, screens = write_jsonl(tmp_path / "mine.jsonl", owner.inline[:30]), {}  # few, for the packaged model is slow
    for width in (80, 120, 400):
        terminal(monkeypatch, width)
        code, out, err = noisyir("audit", file.name, quick=())
        screens[width] = plain(out)
        assert code == 0, err
    for width in (80, 120):
        check_fits(re.sub(r"\(took.*?\)", "", screens[width]), width, screens[400])
        check_recorded(re.sub(r"(?s)  1  .*?\n\n", "\n", screens[width]), f"audit.{width}")
    assert re.search(r"^next +noisyir audit mine.jsonl runtime.threads=1 --judge$", screens[80], re.MULTILINE)


def test_documents_that_models_do_not_read_whole_are_cut_by_the_setting_that_the_audit_names(noisyir, owner, tmp_path):
    rows = [row | {"document": f"{row['document']} " * (1 + n % 2 * 600)} for n, row in enumerate(owner.inline)]
    file = write_jsonl(tmp_path / "long.jsonl", rows)
    code, out, err = noisyir("audit", file)
    assert code == 0, err
    [advised] = re.findall(r"models read the beginnings; (\S+) cuts them", out)
    code, out, err = noisyir("audit", file, advised)
    assert code == 0 and "cuts them" not in out, err
    assert len(table(tmp_path / "long-audit")) == len(owner.named)


def test_columns_are_named_by_options(noisyir, owner, file, tmp_path, capsys):
    rows = [{"what he asked": row["query"], "no": row["document"]} for row in owner.inline]
    other = write_jsonl(tmp_path / "other.jsonl", rows)
    code, out, err = noisyir("audit", other, "--query", "what he asked", "--document", "no", "--out", "made")
    assert code == 0 and "query = what he asked, document = no" in out, err
    assert len(table(tmp_path / "made")) == len(rows)
    page = (tmp_path / "made" / "audit.html").read_text()
    assert "<h1>other.jsonl</h1>" in page
    command = unescape(re.search(r'<code id="command">(.*?)</code>', page)[1])
    assert shlex.split(command)[2:] == ["other.jsonl", "--query", "what he asked", "--document", "no", "--judge"]
    check = unescape(re.search(r'<code id="check-command">(.*?)</code>', page)[1])
    assert main(shlex.split(check)[1:]) == 0 and f"judgements: {len(rows)} train" in capsys.readouterr().out


def test_pairs_that_name_documents_of_a_corpus_file_are_audited(noisyir, owner, tmp_path):
    path = tmp_path / "named.csv"
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, ["qid", "question", "docid"])
        writer.writeheader()
        writer.writerows([dict(zip(writer.fieldnames, row.values(), strict=True)) for row in owner.named])
    code, _, err = noisyir("audit", path, "--corpus", owner.corpus, "--out", "made")
    assert code == 0, err
    rows = table(tmp_path / "made")
    check_verdicts(owner, rows)
    found = [row for row in rows if row["query_id"] in owner.wrong and row["replacement"]]
    hits = [row["replacement"] == owner.right[row["query_id"]] for row in found]
    assert len(found) > 30 and sum(hits) > 0.9 * len(hits)  # the right document is in the corpus, and is found


def test_columns_of_other_names_are_mapped(noisyir, owner, file, tmp_path):
    rows = [{"what he asked": row["query"], "no": row["document"], "id": row["query_id"]} for row in owner.inline]
    other = write_jsonl(tmp_path / "other.jsonl", rows)
    code, _, err = noisyir("audit", other)
    assert code == 1
    _, *typed = shlex.split(re.search("type (noisyir .*)", err)[1])
    code, _, err = noisyir(*typed, "data.columns={query_id: id}")
    assert code == 0, err
    check_verdicts(owner, table(tmp_path / "other-audit"))


def judged_sample(noisyir, owner, file, tmp_path, count=40):
    """The path of a sample of the owner's pairs, drawn by the command and filled in by her, who knows the truth.

    Of a wrong pair she names the right document, too.
    """
    code, _, err = noisyir("audit", file, "--sample", count, "--out", "drawn")
    assert code == 0, err
    path = tmp_path / "drawn" / "sample.csv"
    wrong = {query: {"verdict": "wrong", "replacement": owner.right[query]} for query in owner.wrong}
    clean = {"verdict": "clean", "replacement": ""}
    write_csv(path, [row | wrong.get(row["query_id"], clean) for row in read_csv(path)])
    return path


def test_apply_weighs_all_pairs_and_relabels_those_that_people_named_a_document_for(noisyir, owner, file, tmp_path):
    before, sample = file.read_bytes(), judged_sample(noisyir, owner, file, tmp_path)
    code, out, err = noisyir("audit", file, "--judgements", sample, "--apply", "--out", "made")
    assert code == 0, err
    made = tmp_path / "made"
    cleaned, log, rows = read_jsonl(made / "mine.cleaned.jsonl"), read_jsonl(made / "mine.changes.jsonl"), table(made)
    assert [row["query_id"] for row in cleaned] == [row["query_id"] for row in owner.inline], "none is lost"
    actions = Counter(entry["action"] for entry in log)
    assert set(actions) == {"relabel", "weigh"} and len(log) <= len(wrong_by(rows))
    assert f"relabelled {actions['relabel']:,}, gave {actions['weigh']:,} less than half of their weight" in out
    weights = {row["query_id"]: row["weight"] for row in cleaned}
    right = {row["query_id"] for row in cleaned if row["document"] == owner.texts[owner.right[row["query_id"]]]}
    assert sum(weights[query] for query in right) > 0.9 * sum(weights.values())
    for entry in log:
        assert (
            weights[entry["query_id"]] == entry["weight"] == (1.0 if entry["action"] == "relabel" else entry["weight"])
        )
    judged = {row["query_id"]: row for row in rows if row["judged"] == "clean"}
    assert judged and all(weights[query] == 1.0 for query in judged)
    assert file.read_bytes() == before and "held-out" not in out

    code, out, err = noisyir("audit", file, "--judgements", sample, "--apply", "--out", "made")
    assert code == 1 and "exists already and is not overwritten" in err and not out, "refused before any work"


def test_the_settings_that_an_audit_needed_go_on_to_the_run_of_the_cleaned_copy(noisyir, owner, tmp_path):
    rows = [*owner.inline, {**owner.inline[0], "query": "another text"}, {"query_id": "q", "query": "no document?"}]
    rows = [row | {"relevance": 2} for row in rows] + [
        owner.inline[0] | {"doc_id": text, "document": text, "relevance": grade}
        for grade, text in enumerate(["no answer", "an aside"])
    ]
    settings = ("data.columns={query_id: null}", "data.on_empty=exclude", "data.min_relevance=2")
    write_jsonl(tmp_path / "mine.jsonl", rows)
    code, out, err = noisyir(
        "audit", "mine.jsonl", *settings, "--assume", "random", "--apply", "--force", "--out", "made"
    )
    assert code == 0, err
    typed = shlex.split(re.search(r"^next +noisyir (init .*)$", out, re.MULTILINE)[1])
    assert main(typed) == 0
    code, out, err = noisyir("run", "made/mine.cleaned.yaml", "--to", "ingest", quick=())
    assert code == 0, err


def test_apply_drop_leaves_the_flagged_out_but_for_those_relabelled(noisyir, owner, file, tmp_path):
    sample = judged_sample(noisyir, owner, file, tmp_path)
    code, out, err = noisyir("audit", file, "--judgements", sample, "--apply", "--drop", "--out", "made")
    assert code == 0, err
    made = tmp_path / "made"
    cleaned, log = read_jsonl(made / "mine.cleaned.jsonl"), read_jsonl(made / "mine.changes.jsonl")
    flagged = wrong_by(table(made))
    assert {entry["query_id"] for entry in log} == flagged
    actions = Counter(entry["action"] for entry in log)
    assert actions["relabel"] > 0 and f"relabelled {actions['relabel']:,}, dropped {actions['drop']:,}" in out
    after = {row["query_id"]: row["document"] for row in cleaned}
    assert after.keys() == owner.right.keys() - {entry["query_id"] for entry in log if entry["action"] == "drop"}
    right = [text == owner.texts[owner.right[query]] for query, text in after.items()]
    assert sum(right) / len(right) > 0.95 > 2 / 3  # of the given pairs two thirds were right
    named = {row["query_id"] for row in read_csv(sample) if row["replacement"]}
    assert {entry["query_id"] for entry in log if entry["action"] == "relabel"} == named, "too few to vouch for others"


def test_apply_is_refused_until_a_random_sample_is_judged(noisyir, owner, file, tmp_path, home):
    """And what the refusal says to type works."""
    builds = len(Store(home / "store", home=home).builds.all())
    code, out, err = noisyir("audit", file, "--apply", "--out", "made")
    assert (code, out) == (1, "") and "no random sample was judged" in err
    assert not (tmp_path / "made").exists() and len(Store(home / "store", home=home).builds.all()) == builds
    page = tmp_path / "page.csv"
    pair = {name: owner.named[0][name] for name in ("query_id", "doc_id")}
    write_csv(page, [pair | {"verdict": "clean"}])
    code, out, err = noisyir("audit", file, "--judgements", page, "--apply", "--out", "made")
    assert code == 1 and "the verdicts given carry no weights" in err and not (tmp_path / "made").exists()

    assert re.search(r"or (--sample \d+) writes them", err)[1] == "--sample 50"
    sample = judged_sample(noisyir, owner, file, tmp_path, 50)
    code, out, err = noisyir("audit", file, "--judgements", sample, "--judgements", page, "--apply", "--out", "made")
    assert code == 0 and (tmp_path / "made" / "mine.cleaned.jsonl").exists(), err
    code, out, err = noisyir("audit", file, "--apply", "--force", "--out", "forced")
    (advised,) = re.findall(r"(--assume random --force) supposes that wrong pairs", err)
    assert code == 1
    code, out, err = noisyir("audit", file, "--apply", *advised.split(), "--out", "forced")
    assert code == 0 and (tmp_path / "forced" / "mine.cleaned.jsonl").exists(), err


def test_what_cleaning_costs_can_be_measured_where_there_are_held_out_queries(noisyir, owner, tmp_path):
    rows = [{**row, "split": "dev" if n % 10 == 5 else "train"} for n, row in enumerate(owner.inline)]
    file = write_jsonl(tmp_path / "split.jsonl", rows)
    code, out, err = noisyir(
        "audit", file, "--apply", "--assume", "random", "--force", "--out", "made", "train.epochs=1"
    )
    assert code == 0 and "The data has 12 held-out queries." in out, err
    commands = re.findall(r"^  noisyir (run .*)$", out, re.MULTILINE)
    assert [command.split("/")[-1] for command in commands] == ["split.given.yaml", "split.cleaned.yaml"]
    for command in commands:
        code, out, err = noisyir(*command.split(), "--to", "train_dpr", "--no-track", "--dry-run")
        assert code == 0, err
        assert ("given_weights" in out) == ("cleaned" in command)


def with_several_queries(owner, path):
    """Each row's query twice, in a list."""
    return write_jsonl(path.with_suffix(".jsonl"), [
        {"questions": [row["query"], f"please: {row['query']}"], "answer": row["document"]} for row in owner.inline
    ])  # fmt: skip


def as_feather(owner, path, **more):
    rows = [
        {"questions": row["query"], "answer": row["document"], **{name: value(n) for name, value in more.items()}}
        for n, row in enumerate(owner.inline)
    ]
    feather.write_feather(pa.Table.from_pylist(rows), path.with_suffix(".feather"))
    return path.with_suffix(".feather")


@pytest.mark.parametrize("written", [with_several_queries, as_feather], ids=["lists of queries", "feather"])
def test_a_copy_in_another_form_than_the_file_is_read_by_the_command_that_is_shown(
    noisyir, owner, tmp_path, capsys, written
):
    file, map_it = written(owner, tmp_path / "mine"), ("--query", "questions", "--document", "answer")
    code, out, err = noisyir("audit", file, *map_it, "--apply", "--assume", "random", "--force", "--out", "made")
    assert code == 0, err
    queries = {row["query"] for row in read_jsonl(tmp_path / "made" / "mine.cleaned.jsonl")}
    assert {row["query"] for row in owner.inline} <= queries, "none is lost"
    typed = shlex.split(re.search(r"^next +noisyir (init .*)$", out, re.MULTILINE)[1])
    assert main(typed) == 0
    assert f"holds {len(queries)} pairs" in capsys.readouterr().out


def test_the_held_out_queries_of_a_file_that_is_not_rewritten_measure_the_flags(noisyir, owner, tmp_path):
    file = as_feather(owner, tmp_path / "mine", split=lambda n: "dev" if n % 10 == 5 else "train")
    map_it = ("--query", "questions", "--document", "answer")
    code, out, err = noisyir("audit", file, *map_it, "--apply", "--assume", "random", "--force", "--out", "made")
    assert code == 0 and "The data has 12 held-out queries." in out, err
    assert "the effect of the machine's flags alone" in out
    (command,) = re.findall(r"^  noisyir (run .*)$", out, re.MULTILINE)
    code, out, err = noisyir(*command.split(), "train.epochs=1", "as_is={}", "--no-track")
    assert code == 0 and all(name in out for name in ("dpr", "reweight", "relabel", "drop")), err


def test_a_sample_is_judged_and_its_verdicts_are_taken_back(noisyir, owner, file, tmp_path):
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "sample.csv").write_text("query_id,doc_id,verdict\nof,elsewhere,\n")
    code, out, err = noisyir("audit", file, "--out", "first")
    assert code == 0 and re.search(r"^next .* --judge$", out, re.MULTILINE), "the sample is of other pairs"
    code, out, err = noisyir("audit", file, "--sample", 30, "--out", "first")
    assert code == 0, err
    assert re.search(r"^next .* --judgements first/sample.csv\n +after you filled in", out, re.MULTILINE), out
    sample = read_csv(tmp_path / "first" / "sample.csv")
    assert len(sample) == 30 and {row["verdict"] for row in sample} == {""}
    truth = {row["query_id"]: "wrong" if row["query_id"] in owner.wrong else "clean" for row in sample}
    lied = next(query for query, verdict in truth.items() if verdict == "clean")
    judged = tmp_path / "judged.csv"
    write_csv(judged, [row | {"verdict": truth[row["query_id"]]} for row in sample if row["query_id"] != lied])

    code, out, err = noisyir("audit", file, "--judgements", judged, "--out", "second", "--apply")
    assert code == 0, err
    assert "judged      29 pairs" in out and "by the judgements" in out
    by_hand = {row["query_id"]: row for row in table(tmp_path / "second")}
    for query, verdict in truth.items():
        if query != lied:
            assert (by_hand[query]["verdict"], by_hand[query]["p_clean"]) == (verdict, float(verdict == "clean"))
            assert by_hand[query]["reason"] == f"Judged {verdict} by hand."
    check_verdicts(owner, list(by_hand.values()))
    rate, low, high = map(float, re.search(r"noise rate +([\d.]+) % \[([\d.]+) %, ([\d.]+) %\]", out).groups())
    assert low < 100 / 3 < high and 20 < rate < 50
    logged = {entry["query_id"] for entry in read_jsonl(tmp_path / "second" / "mine.changes.jsonl")}
    assert {query for query, verdict in truth.items() if verdict == "wrong"} <= logged == wrong_by(by_hand.values())
    said = [(query, row["verdict"], row["reason"]) for query, row in by_hand.items()]
    listed = read_csv(tmp_path / "second" / "audit.csv")
    assert [(row["query_id"], row["verdict"], row["reason"]) for row in listed] == said
    page = (tmp_path / "second" / "audit.html").read_text()
    rows = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page)[1])["rows"]
    assert list(zip(rows["query_id"], rows["verdict"], rows["reason"], strict=True)) == said
    assert f"<strong>{rate} %</strong>" in page and f"between {low} and {high} %" in page
    assert "by 29 judgements" in page and f"<strong>{len(wrong_by(by_hand.values()))}</strong>" in page

    code, again, err = noisyir("audit", file, "--judgements", judged, "--out", "third", "--apply")
    assert code == 0 and "cached" in err and again.replace("third", "second") == out
    for path in (tmp_path / "second").iterdir():
        assert (tmp_path / "third" / path.name).read_bytes() == path.read_bytes()
    assert main(shlex.split(re.search(r"^next +noisyir (init second/.*)$", out, re.MULTILINE)[1])) == 0
    code, out, err = noisyir("audit", file, "--out", "fourth")
    assert code == 0 and "by the judgements" not in out, "without them the machine's verdicts are back"
    assert len(list((tmp_path / "fourth").iterdir())) == len(FILES)


def test_a_filled_in_sample_is_not_overwritten(noisyir, owner, file, tmp_path, capsys):
    code, _, err = noisyir("audit", file, "--sample", 30, "--out", "made")
    assert code == 0, err
    path = tmp_path / "made" / "sample.csv"
    rows = read_csv(path)
    write_csv(path, [row | {"verdict": "wrong" if row["query_id"] in owner.wrong else "clean"} for row in rows])
    before = path.read_bytes()
    code, _, err = noisyir("audit", file, "--sample", 30, "--judgements", "made/sample.csv", "--out", "made")
    assert code == 1 and "the judgements in made/sample.csv would be overwritten: choose another --out" in err
    for saved in (before, before.replace(b",", b";")):  # the latter as some spreadsheets save it
        path.write_bytes(saved)
        code, _, err = noisyir("audit", file, "--sample", 30, "--out", "made")
        assert code == 1 and "give --judgements made/sample.csv instead of --sample" in err
        assert path.read_bytes() == saved
        code, out, err = noisyir(
            "audit", file, *re.search("give (--judgements .*) instead", err)[1].split(), "--out", "made"
        )
        assert code == 0 and "judged      30 pairs" in out and path.read_bytes() == saved, err
    path.write_bytes(before)
    code, out, err = noisyir("audit", file, "--judgements", "made/sample.csv", "--out", "made")
    assert code == 0 and "judged      30 pairs" in out, err
    assert path.read_bytes() == before
    typed = shlex.split(re.search(r"^next +noisyir (audit .*)\n +writes a cleaned copy$", out, re.MULTILINE)[1])
    assert typed[-3:] == ["--judgements", "made/sample.csv", "--apply"] and main(typed) == 0
    assert "mine.cleaned.jsonl" in capsys.readouterr().out
    code, out, err = noisyir("audit", file, "--judgements", "made/sample.csv", "--out", "made")
    assert code == 0 and "next" not in out, "it is cleaned already, and the same command would be refused"
    code, out, err = noisyir("audit", file, "--out", "made")
    assert "--judgements made/sample.csv\n                uses the answers that you gave" in out
    path.write_bytes(before.replace(before.splitlines()[1].split(b",")[0], b'"of another file"'))
    assert "--judgements" not in noisyir("audit", file, "--out", "made")[1], "answers on other pairs would be refused"


def test_judgements_that_do_not_fit_are_refused(noisyir, owner, tmp_path, home):
    write_csv(tmp_path / "judged.csv", [{"query_id": "q", "doc_id": "d", "label": "clean"}])
    other = write_jsonl(tmp_path / "other.jsonl", owner.inline[:50])
    builds = len(Store(home / "store", home=home).builds.all())
    for name, message in [
        ("none.csv", "none.csv: set audit.judgements to one"),
        ("judged.csv", "lacks the column verdict"),
    ]:
        code, _, err = noisyir("audit", other, "--judgements", tmp_path / name)
        assert code == 1 and message in err
    assert len(Store(home / "store", home=home).builds.all()) == builds, "refused before any stage ran"


def test_answers_that_are_not_there_yet_are_asked_for_by_the_command_that_writes_them(noisyir, file, tmp_path):
    for folder, name, option in (("p-audit", "judgements.jsonl", "--judge"), ("p-audit", "sample.csv", "--sample 50"),
                                 ("other", "sample.csv", "--out other --sample 50")):  # fmt: skip
        own = shutil.copy(file, tmp_path / f"p{file.suffix}")
        code, _, err = noisyir("audit", own, "--judgements", f"{folder}/{name}", "--apply", quick=())
        command = f"noisyir audit {own} runtime.threads=1 {option}"
        assert (code, err) == (1, f"noisyir: there is no {folder}/{name} yet: {command} writes it")
        if name == "sample.csv":
            assert noisyir(*shlex.split(command)[1:])[0] == 0 and (tmp_path / folder / name).exists()


def test_pairs_that_the_data_calls_wrong_are_beside_the_unknown_rate(noisyir, owner, tmp_path):
    rows = [{**row, "label": int(number >= 20)} for number, row in enumerate(owner.inline)]
    code, out, err = noisyir("audit", write_jsonl(tmp_path / "labelled.jsonl", rows))
    assert code == 0 and "20 pairs that the data calls wrong" in out, err
    assert "The data itself calls 20 other pairs wrong" in (tmp_path / "labelled-audit" / "audit.html").read_text()
    assert "\nHow many are wrong besides the 20?\n" in out
    page = (tmp_path / "labelled-audit" / "audit.html").read_text()
    rows = json.loads(re.search(r'data-file-rows="(.*?)"', page)[1])
    assert rows == [int(row["row"]) for row in read_csv(tmp_path / "labelled-audit" / "audit.csv")] and 20 < min(rows)


def test_a_given_model_judges_without_being_trained(noisyir, owner, home, file, tmp_path):
    store = Store(home / "store", home=home)
    noisyir("audit", file, "--out", "own")
    init = next(meta for meta in store.builds.all() if meta.params.get("weights") == str(owner.model))
    folder = store.builds.folder(init.ref("model"))
    code, _, err = noisyir("audit", file, "--model", folder, "--out", "given")
    assert code == 0, err
    check_verdicts(owner, table(tmp_path / "given"))
    newest = [meta for meta in store.builds.all() if meta.stage == "score_pairs"][-2:]
    assert [meta.params.get("folds", 0) for meta in newest] == [0, 0]
    code, _, err = noisyir("audit", file, "--model", tmp_path)
    assert code == 1 and "is not a model" in err


def test_a_data_set_with_noise_put_in_is_audited_and_cleaned(noisyir, owner, tmp_path):
    code, out, err = noisyir("audit", owner.beir, "--out", "made", "--apply", "--drop", "--assume", "random",
                             "--force", "noise.rate=0.3")  # fmt: skip
    assert code == 0 and "noisyir run made/beir.treatments.yaml" in out, err
    rows = table(tmp_path / "made")
    noisy = {row["query_id"] for row in rows if owner.right[row["query_id"]] != row["doc_id"]}
    assert len(noisy) == 36 and len(wrong_by(rows) & noisy) > 25
    cleaned = read_jsonl(tmp_path / "made" / "beir.cleaned.jsonl")
    assert sum(owner.right[row["query_id"]] == row["doc_id"] for row in cleaned) > 0.85 * len(cleaned)


def one_source(owner):
    return [{**row, "source": "web"} for row in owner.inline]


def one_document(owner):
    return [{**row, "doc_id": "d", "document": "the same for all"} for row in owner.inline]


@pytest.mark.parametrize(
    ("rows", "pairs"),
    [(lambda o: o.inline[:5], 5), (lambda o: o.inline[:2], 2), (one_source, 120), (one_document, 120)],
)
def test_little_to_go_by_still_gives_an_audit(noisyir, owner, tmp_path, rows, pairs):
    path = write_jsonl(tmp_path / "few.jsonl", rows(owner))
    code, out, err = noisyir("audit", path, "--sample", 7)
    assert code == 0, err
    assert f"{pairs} training pairs" in out and len(table(tmp_path / "few-audit")) == pairs
    assert len(read_csv(tmp_path / "few-audit" / "sample.csv")) == min(7, pairs)
    if rows is one_source:
        check_verdicts(owner, table(tmp_path / "few-audit"))
        assert {row["source"] for row in table(tmp_path / "few-audit")} == {"web"}


BAD_PAIRS = {
    "no corpus": (
        lambda o: o.named,
        [],
        "names documents ('doc_id') but has no column for their texts; it has query_id, query",
    ),
    "unknown columns": (
        lambda o: [{"ask": "a", "reply": "b"}],
        [],
        "the columns of query and document apart; it has ask, reply: if 'ask' is the query, type noisyir",
    ),
    "a mapped column that is not there": (
        lambda o: o.inline,
        ["data.columns={document: body}"],
        "has no column 'body', which data.columns maps to document; it has query_id, query, doc_id, document",
    ),
    "a negative sample": (lambda o: o.inline, ["--sample", "-3"], "audit.sample: "),
    "a corpus that is not there": (lambda o: o.named, ["--corpus", "none.jsonl"], "none.jsonl: set data.corpus to one"),
    "an output that is a file": (lambda o: o.inline[:5], ["--out", "bad.jsonl"], "bad.jsonl cannot be a folder"),
}


@pytest.mark.parametrize("fault", BAD_PAIRS)
def test_bad_pairs_are_one_line_that_says_what_to_do(noisyir, owner, tmp_path, fault):
    rows, more, message = BAD_PAIRS[fault]
    code, _, err = noisyir("audit", write_jsonl(tmp_path / "bad.jsonl", rows(owner)), *more)
    assert code == 1 and err.startswith("noisyir: ") and message in err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["demoo"], "'demoo' is no experiment, file or folder (did you mean demo?)"),
        (["pairs.txt"], "there is no file and no folder pairs.txt"),
        (["."], ". is a folder of no known format: it holds none of corpus.jsonl (beir)"),
        (["demo", "--corpus", "c.jsonl"], "--corpus belongs to a file of pairs, which demo is not"),
        (["none.jsonl"], "there is no file and no folder none.jsonl"),
    ],
)
def test_what_is_no_data_is_said(noisyir, args, message):
    code, out, err = noisyir("audit", *args)
    assert (code, out) == (1, "") and message in err


def test_a_gate_for_ci_goes_by_the_upper_end_and_json_holds_everything(noisyir, owner, file, tmp_path):
    code, out, err = noisyir("audit", file, "--out", "made", "--json")
    unjudged = json.loads(out)
    assert code == 0 and unjudged["pairs"] == 120 and unjudged["rate"] is unjudged["judgements"] is None, err
    assert "made/audit.csv" in unjudged["files"]
    sample = judged_sample(noisyir, owner, file, tmp_path)
    gate = ["audit", file, "--judgements", sample, "--out", "made", "--fail-over"]
    code, out, _ = noisyir(*gate, 0.2)
    assert code == 3 and "more than 20.0 % may be wrong: the interval ends at" in out
    code, out, _ = noisyir(*gate, 0.7, "--json")
    found = json.loads(out)
    assert code == 0 and found["over"] is False and found["rate"]["judged"] == 40
    assert found["rate"]["low"] < 1 / 3 < found["rate"]["high"] < 0.7


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--fail-over", "0.1"], "--fail-over needs the rate, and no random sample was judged"),
        (["--fail-over", "1.5"], "--fail-over 1.5 is not between 0 and 1"),
        (["--json", "--judge"], "--json prints the findings of an audit: judge first"),
        (["--assume", "nothing"], "nothing"),
        (["--error", "nan"], "nan is no error of a noise rate"),
        (["--drop"], "add --apply"),
        (["--out", "mine.jsonl/made"], "a file is in its way"),
        (["--query", "query", "--document", "query"], "is mapped to query and to document"),
    ],
)
def test_a_gate_without_a_ground_is_refused_before_work(noisyir, file, tmp_path, more, said):
    code, _, err = noisyir("audit", file, "--out", "made", *more)
    assert code == 1 and said in err and not (tmp_path / "made").exists()


def test_what_follows_from_an_assumption_names_it_in_the_same_sentence(noisyir, file, tmp_path):
    code, out, err = noisyir("audit", file, "--assume", "random", "--keep-wrong-below", "0.3", "--out", "made")
    assert code == 0, err
    numbers = [line for line in out.splitlines() if re.search(r"\d ?%", line)]
    assert numbers and all("if wrong pairs have" in line or "if they have any of these" in line for line in numbers)
    rows = table(tmp_path / "made")
    assert {row["rests_on"] for row in rows} == {"random"} and {row["verdict"] for row in rows} <= {"suspect", None}
    page = (tmp_path / "made" / "audit.html").read_text()
    text = re.sub(r"\s+", " ", page[: page.index('<script type="application/json"')])
    assert "p(clean), if random documents" in text and "right if wrong pairs have random documents" in text
    assert re.search(
        r"Flagged as suspect</dt> <dd><strong>\d+</strong> <span class=\"muted\">if wrong pairs have", text
    )
    assert not re.search(r"<strong>[^<]*%", text), "no number under an assumption is bold"
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page)[1])
    assert data["keeping"]["condition"] == "if wrong pairs have random documents, "
    assert data["condition"] == " if wrong pairs have random documents"
    assert not any("chance" in row["reason"] for row in rows)


BOUND = re.compile(
    r"at (most|least) [\d.]+ ?%|\[[\d.]+ ?%?, [\d.]+ ?%?\]|between [\d.]+ and|[\d.]+ to [\d.]+ ?%|any rate"
)


def bounds_in(out, page):
    """Every sentence of terminal and page that holds a bound; a term and its description are one sentence."""
    shown = re.sub(r"<(style|script)\b.*?</\1>", "", page, flags=re.DOTALL)
    shown = re.sub(r"</dt>\s*<dd>", " ", shown)
    parts = re.split(r"</(?:p|dd|td|h1|h2|figcaption|summary|option|label)>", shown)
    texts = [re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", part)) for part in parts]
    sentences = [one for text in [*out.splitlines(), *texts] for one in re.split(r"(?<=\.) ", text)]
    return [one for one in sentences if BOUND.search(one)]


@pytest.mark.parametrize("assumed", [[], ["--assume", "random"]])
def test_a_bound_without_judgements_names_its_condition_in_the_same_sentence(noisyir, file, tmp_path, assumed):
    code, out, err = noisyir("audit", file, "--out", "made", "--keep-wrong-below", "0.3", *assumed)
    assert code == 0, err
    page = (tmp_path / "made" / "audit.html").read_text()
    stated = bounds_in(out, page)
    assert all(re.search(r"\b[Ii]f (wrong pairs have|they have)", one) for one in stated), stated
    assert len(stated) >= 3, "those that follow from an assumption, one fold away"
    open_at_once = re.sub(r"<details>.*?</details>", "", page, flags=re.DOTALL)
    assert assumed or not bounds_in(out, open_at_once)


def test_a_bound_by_judgements_names_its_confidence_and_what_was_judged(noisyir, owner, file, tmp_path):
    sample = judged_sample(noisyir, owner, file, tmp_path)
    said = ["--judgements", sample, "--out", "judged", "--keep-wrong-below", "0.3"]
    code, out, err = noisyir("audit", file, *said)
    assert code == 0, err
    stated = bounds_in(out, (tmp_path / "judged" / "audit.html").read_text())
    sure = r"\d %( interval| confidence| by the judgements:)"
    assert len(stated) >= 4 and all(re.search(sure, one) for one in stated), stated
    typed = re.search(r"^next +noisyir (.*)\n +writes an experiment on the kept pairs\n*\Z", out, re.MULTILINE)
    assert typed, out
    assert main(shlex.split(typed[1])) == 0 and (tmp_path / "judged/kept.yaml").exists()


def test_how_many_to_judge_is_not_said_by_a_rate_that_nobody_vouches_for(noisyir, owner, file, tmp_path):
    _, out, _ = noisyir("audit", file, "--error", 0.15, "--out", "made")
    assert "judge 32 pairs" in out, "enough at any rate: 43 of many pairs, and 32 of 120"
    sample = judged_sample(noisyir, owner, file, tmp_path)
    _, out, _ = noisyir("audit", file, "--error", 0.15, "--judgements", sample, "--out", "judged")
    assert 25 < int(re.search(r"judge (\d+) pairs", out)[1]) <= 32, "by the interval's end that takes most"


@pytest.fixture(scope="module")
def judged_set(tmp_path_factory):
    """A folder whose test split has 30 queries with two relevant documents each; 9 of the 60 judgements are wrong."""
    folder = write_beir(tmp_path_factory.mktemp("judged") / "judged", documents=100, train=20, held_out=30)
    rows = [line.split("\t")[:2] for line in (folder / "qrels/test.tsv").read_text().splitlines()[1:]]
    texts = {row["_id"]: row for row in read_jsonl(folder / "corpus.jsonl")}
    twins = [{**texts[doc], "_id": f"{doc}b", "text": texts[doc]["text"].rpartition(" ")[0]} for _, doc in rows]
    with (folder / "corpus.jsonl").open("a") as out:
        out.writelines(json.dumps(row) + "\n" for row in {row["_id"]: row for row in twins}.values())
    of = dict(rows)
    wrong = random.Random(0).sample(list(of), 9)
    moved = dict(zip(wrong, [of[query] for query in [*wrong[4:], *wrong[:4]]], strict=True))
    lines = [f"{query}\t{doc}\t1" for query, doc in rows] + [
        f"{query}\t{moved.get(query, f'{doc}b')}\t1" for query, doc in rows
    ]
    lines += [f"{query}\t{of[query]}b\t0" for query in wrong[:3]]  # judged not relevant, and fit as well
    (folder / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "\n".join(lines) + "\n")
    return folder, set(moved.items())


def test_the_judgements_of_a_test_split_are_audited_and_never_changed(noisyir, judged_set, tmp_path):
    folder, wrong = judged_set
    before = (folder / "qrels/test.tsv").read_bytes()
    static = "detectors={ensemble: {kind: ensemble, encoder: {backbone: static}}}"  # in no time
    code, out, err = noisyir("audit", folder, "--split", "test", static, "--sample", 20, "--out", "made")
    assert code == 0, err
    rows = table(tmp_path / "made")
    assert len(rows) == 60 and {row["query_id"][:4] for row in rows} == {"test"}
    most = {(row["query_id"], row["doc_id"]) for row in rows[:9]}
    assert len(most & wrong) >= 7
    right = {(row["query_id"], row["doc_id"]) for row in rows}
    assert not [row for row in rows for other in row["better"] if (row["query_id"], other) in right], "all are known"
    assert "60 relevant judgements of test" in out and "unchanged     test is neither cleaned" in out
    assert "Which relevant judgements of test are wrong" in (tmp_path / "made/audit.html").read_text()
    listed = {(row["query_id"], row["doc_id"]) for row in read_csv(tmp_path / "made/negatives.csv")}
    assert len(listed) >= 2 and {doc[-1] for _, doc in listed} == {"b"}, "those judged 0 that fit as well"
    assert not (tmp_path / "made/extra_positives.jsonl").exists(), "it would be trained on"

    verdicts = [
        row | {"verdict": "wrong" if (row["query_id"], row["doc_id"]) in wrong else "clean"}
        for row in read_csv(tmp_path / "made/sample.csv")
    ]
    write_csv(tmp_path / "verdicts.csv", verdicts)
    judged = ["audit", folder, static, "--split", "test", "--judgements", tmp_path / "verdicts.csv"]
    code, out, err = noisyir(*judged, "--out", "judged", "--fail-over", 0.9, "--json")
    assert code == 0, err
    said = json.loads(out)
    assert said["split"] == "test" and said["rate"]["low"] <= 9 / 60 <= said["rate"]["high"] and said["over"] is False
    for asked in ("--apply", "--keep-wrong-below=0.1"):
        code, _, err = noisyir(*judged, asked, "--out", "cleaned")
        assert code == 1 and "test is never changed" in err and not (tmp_path / "cleaned").exists()
    page = (tmp_path / "judged/audit.html").read_text()
    assert "<code>mended.qrels</code>" in page and (tmp_path / "judged/mended.qrels").exists()
    assert "<code>--apply</code>" not in page and "<code>--keep-wrong-below" not in page, "both are refused"
    assert (folder / "qrels/test.tsv").read_bytes() == before


def test_a_split_that_is_not_there_is_named_with_those_that_are(noisyir, judged_set, tmp_path):
    folder = tmp_path / "no_dev"
    shutil.copytree(judged_set[0], folder)
    (folder / "qrels/dev.tsv").unlink()
    code, _, err = noisyir("audit", folder, "--split", "dev")
    assert code == 1 and "no pair of split dev is judged relevant; splits that can be audited: train, test" in err
    (folder / "qrels/train.tsv").unlink()
    code, _, err = noisyir("audit", folder)
    assert code == 1 and "there are no training pairs" in err and "--split" in err
