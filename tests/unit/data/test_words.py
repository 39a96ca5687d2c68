"""Words of scripts without spaces between them: near copies, held-out groups and pages see them as English words."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import noisyir.base.pages
from noisyir.app.recommending import profile_of
from noisyir.audits.texts import overlap, shared_words
from noisyir.data.formats.pairs import Pairs
from noisyir.data.held_out import near_duplicates
from noisyir.data.settings import HeldOutParams
from noisyir.data.stages.ingest import INGEST
from noisyir.data.words import words

SENTENCES = {
    "Chinese": ("怎样用白醋把电热水壶里面的水垢清洗干净", "呢", "鸡蛋放在冰箱里可以保存多少个星期"),
    "Japanese": (
        "やかんの水垢をお酢できれいにするにはどうすればいいですか",
        "ね",
        "卵は冷蔵庫で何週間くらい保存できるでしょうか",
    ),
    "Thai": ("วิธีทำความสะอาดกาต้มน้ำด้วยน้ำส้มสายชู", "ครับ", "ไข่เก็บในตู้เย็นได้นานกี่สัปดาห์"),
    "Lao": ("ວິທີທຳຄວາມສະອາດກາຕົ້ມນ້ຳດ້ວຍນ້ຳສົ້ມ", "ແດ່", "ໄຂ່ເກັບໄວ້ໃນຕູ້ເຢັນໄດ້ດົນປານໃດ"),
    "Khmer": ("របៀបសម្អាតកំសៀវទឹកដោយទឹកខ្មេះ", "ទេ", "ស៊ុតអាចទុកក្នុងទូទឹកកកបានប៉ុន្មានសប្តាហ៍"),
    "Burmese": ("ရှာလကာရည်နဲ့ရေနွေးအိုးကိုဘယ်လိုသန့်ရှင်းရမလဲ", "ရှင်", "ကြက်ဥကိုရေခဲသေတ္တာထဲမှာဘယ်လောက်ကြာကြာထားလို့ရမလဲ"),
}


@pytest.mark.parametrize("language", SENTENCES)
def test_a_near_copy_is_found_and_another_sentence_is_none(language):
    sentence, more, other = SENTENCES[language]
    assert [*near_duplicates([sentence, other, sentence + more], 0.8)] == [(0, 2)]
    assert overlap(sentence, sentence + more) > 0.8 > 0.6 > overlap(sentence, other)
    assert shared_words(sentence, sentence + more, set()) >= {*words(sentence)} > set()
    assert profile_of([(sentence, sentence + more)]).overlap == 1


def test_words_between_spaces_stay_what_they_were():
    found = words("Straße_7: don't; हिन्दी 水壶x9")
    assert found == ["strasse", "7", "don", "t", "हिन्दी", "水", "壶", "x9"]
    assert [*near_duplicates(["parse_date a b c", "parse date a b c"], 0.8)] == []  # an underscore joins, as before


def test_held_out_queries_have_no_near_copy_in_training(run_stage_on, tmp_path):
    rng, rows = np.random.default_rng(0), []
    for number in range(60):
        things = "".join(map(chr, rng.integers(0x4E00, 0x9000, 12)))
        rows += [{"query": f"{things}{more}", "document": f"{things}{number}{more}"} for more in ("", "呢")]
    path = tmp_path / "zh.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    data = Pairs(path=str(path), hold_out=HeldOutParams())
    queries = run_stage_on(INGEST, data, {})["queries"].to_pylist()
    split_of = {row["text"]: row["split"] for row in queries}
    assert sum(split != "train" for split in split_of.values()) == 24
    assert not [text for text, split in split_of.items() if split != split_of[text.removesuffix("呢")]]
    assert data.marks() == "signs" and INGEST.digests(data)["marks"] == "signs"


def test_pages_find_the_words_that_python_finds():
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node")
    source = (Path(noisyir.base.pages.__file__).parent / "templates/texts.js").read_text(encoding="utf-8")
    ours = source[source.index("const fold") : source.index("function marked")]
    texts = [*(text for texts in SENTENCES.values() for text in texts), "Straße_7: don't; हिन्दी 水壶x9 カップラーメン"]
    code = f"{ours}\nconsole.log(JSON.stringify({json.dumps(texts)}.map((text) => [...wordsOf(text)])))"
    found = json.loads(subprocess.run([node, "-e", code], capture_output=True, check=True).stdout)
    assert [{*one} for one in found] == [{*words(text)} for text in texts]
