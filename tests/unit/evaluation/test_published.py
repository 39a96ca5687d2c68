from noisyir.evaluation.artifacts import COMPARISON
from noisyir.evaluation.pages.settings import PublishedParams
from noisyir.evaluation.pages.summary import published_rows


def test_each_number_stands_beside_the_same_systems_mean_and_a_dash_where_there_is_none():
    row = dict.fromkeys(COMPARISON.columns) | {"system": "ar2", "measure": "RR@10", "split": "dev", "queries": 9}
    comparison = COMPARISON.schema.empty_table().from_pylist([row | {"mean": 0.40449, "low": 0.3, "high": 0.5}])
    published = [
        PublishedParams(system="ar2", split="dev", measure="RR@10", value=0.395, source="AR2, Table 1"),
        PublishedParams(system="ar2", split="test", measure="RR@10", value=0.5, source="elsewhere"),
    ]
    head, *rows = published_rows(comparison, published)
    assert head == ["system", "split", "measure", "measured", "published", "source"]
    assert rows == [
        ["ar2", "dev", "RR@10", "0.404", "0.395", "AR2, Table 1"],
        ["ar2", "test", "RR@10", "\N{EN DASH}", "0.500", "elsewhere"],
    ]
    assert published_rows(comparison, []) == []
