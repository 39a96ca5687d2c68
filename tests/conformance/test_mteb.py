"""MTEB's own checks of a retrieval task, on planted faults: `noisyir check` counts as many."""

import json

import pytest

from noisyir.app.data_check import check_data


def test_planted_faults_are_counted_as_mteb_counts_them(tmp_path):
    pytest.importorskip("mteb")  # which takes seconds, so not when each process collects all tests
    from datasets import Dataset
    from mteb.abstasks._data_filter.filters import deduplicate, filter_empty, filter_train_leakage
    from mteb.abstasks._statistics_calculation import calculate_relevant_docs_statistics, calculate_text_statistics

    corpus = {f"d{n}": f"document {n} tells of subject number {n * n} and of nothing else" for n in range(40)}
    train = {f"t{n}": f"training question {n} about subject {n * 31}" for n in range(12)}
    test = {f"q{n}": f"held out enquiry {n} concerning matter {n * 57}" for n in range(20)}
    corpus |= {"d5": "", "d6": "   ", "d7": corpus["d8"], "d9": corpus["d8"]}
    test |= {"q4": "", "q5": test["q6"], "q7": train["t1"], "q8": train["t2"]}
    qrels = {query: {f"d{n + 10}": 1} for n, query in enumerate(test)}
    qrels |= {"q1": {"lost1": 1}, "q2": {"lost2": 1, "d12": 1}, "nobody": {"d13": 1}}
    _write(tmp_path, corpus, train | test, {"train": {query: {"d1": 1} for query in train}, "test": qrels})
    found: dict[str, int] = {}
    for one in check_data(str(tmp_path)).findings:
        found[f"{one.name} {one.what}"] = one.count

    def ours(name: str, word: str = "") -> int:
        (count,) = (count for said, count in found.items() if said.startswith(name) and word in said)
        return count

    docs, asked = (Dataset.from_dict({"text": list(texts.values())}) for texts in (corpus, test))
    full_docs, full_asked = filter_empty(docs, "text"), filter_empty(asked, "text")
    assert ours("texts.empty", "documents") == len(docs) - len(full_docs) == 2
    assert ours("texts.empty", "queries") == len(asked) - len(full_asked) == 1
    assert ours("same.documents") == len(full_docs) - len(deduplicate(full_docs, "text")) == 2
    assert ours("same.queries") == 1 and calculate_text_statistics(full_asked["text"])["unique_texts"] == 18
    leaks = len(asked) - len(filter_train_leakage(Dataset.from_dict({"text": list(train.values())}), asked, "text"))
    assert ours("leaks.queries") == leaks == 2
    about = calculate_relevant_docs_statistics(qrels, test, corpus)
    assert ours("ids.queries") == about["num_missing_query_ids"] == 1
    assert ours("ids.documents") == about["num_missing_corpus_ids"] == 2


def _write(folder, corpus, queries, qrels) -> None:
    (folder / "qrels").mkdir()
    for name, texts in (("corpus", corpus), ("queries", queries)):
        rows = (json.dumps({"_id": one, "text": said}) for one, said in texts.items())
        (folder / f"{name}.jsonl").write_text("\n".join(rows) + "\n")
    for split, judged in qrels.items():
        rows = [f"{q}\t{d}\t{grade}" for q, found in judged.items() for d, grade in found.items()]
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *rows]) + "\n")
