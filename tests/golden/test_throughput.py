"""FLOPs, utilisation and rates, spelt out."""

import numpy as np
import pytest
import torch

from noisyir.models.text_tokenizer import Tokens
from noisyir.training.throughput import (
    Meter,
    TransformerSize,
    Work,
    encoding,
    peak_flops,
    rates,
    static_flops,
    transformer_flops,
    transformer_size,
)
from tests.tiny_models import static_encoder, tiny_bert, tiny_encoder


def tokens(*lengths):
    ids = np.full(sum(lengths), 5, np.int32)
    return Tokens(ids, np.concatenate([[0], np.cumsum(lengths)]))


def test_bert_base_has_85_of_its_109_million_parameters_outside_the_embeddings():
    from transformers import BertConfig, BertModel

    with torch.device("meta"):
        model = BertModel(BertConfig(), add_pooling_layer=False)
    # a layer: four 768 x 768 projections and two of 768 x 3072, with their biases; two layer norms
    layer = 4 * (768 * 768 + 768) + (768 * 3072 + 3072) + (3072 * 768 + 768) + 2 * 2 * 768
    embeddings = (30522 + 512 + 2) * 768
    assert sum(weight.numel() for weight in model.parameters()) == 12 * layer + embeddings + 2 * 768 == 108_891_648
    assert transformer_size(model) == TransformerSize(12 * layer + 2 * 768, 12, 768)
    assert 12 * layer + 2 * 768 == 85_056_000


def test_a_pass_of_bert_base_over_two_texts():
    size = TransformerSize(85_056_000, 12, 768)
    lengths = np.array([128, 32])
    weights = 6 * 85_056_000 * (128 + 32)
    attention = 12 * 12 * 768 * (128 * 128 + 32 * 32)
    assert transformer_flops(lengths, size) == weights + attention
    assert transformer_flops(lengths, size, backward=False) == (weights + attention) / 3
    assert transformer_flops(np.array([], np.int64), size) == 0


def test_a_static_tower_adds_a_row_for_each_distinct_token_and_no_layer():
    assert static_flops(53_138, 384) == 2 * 53_138 * 384 * 2
    encoder = static_encoder(torch.eye(4))
    read = encoder.tokenize(["w0 w1 w1", "w2"], "query")
    assert encoding(encoder)(read, read) == Work(2, 6, 2 * static_flops(3, 4))


def test_a_step_of_a_bi_encoder_is_that_of_both_its_towers(tmp_path):
    encoder = tiny_encoder(tiny_bert(tmp_path), backbone="transformer", layers=1)
    layer = 4 * (32 * 32 + 32) + (32 * 64 + 64) + (64 * 32 + 32) + 2 * 2 * 32
    size = TransformerSize(layer + 2 * 32, 1, 32)
    assert transformer_size(encoder.query_tower.encoder) == size
    done = encoding(encoder)(tokens(3, 4), tokens(10, 6, 8))
    every = np.array([3, 4, 10, 6, 8])
    assert done == Work(2, 31, transformer_flops(every, size))


@pytest.mark.parametrize(
    ("device", "peak"),
    [
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA A10", 125e12),
        ("NVIDIA H100 80GB HBM3", 989.4e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA H200", 989.4e12),
        ("NVIDIA H200 NVL", 835.5e12),
        ("NVIDIA L4", 121e12),
        ("NVIDIA L40S", 362e12),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", None),
        ("NVIDIA A10G", None),
        ("Tesla T4", None),
    ],
)
def test_peaks_go_by_the_whole_name(device, peak):
    assert peak_flops(device) == peak


def test_rates_are_work_by_seconds_and_utilisation_is_of_the_peak():
    work = Work(pairs=1000, tokens=64_000, flops=3e14)
    assert rates(work, 2.0, 312e12) == {
        "pairs_per_second": 500.0, "tokens_per_second": 32_000.0, "flop_utilisation": 3e14 / 2.0 / 312e12,
    }  # fmt: skip
    assert rates(work, 2.0, None, "lists") == {"lists_per_second": 500.0, "tokens_per_second": 32_000.0}


def test_a_meter_counts_neither_what_came_before_a_restart_nor_anything_twice():
    now = [0.0]
    meter = Meter(1e12, clock=lambda: now[0])
    now[0] = 5.0
    meter.restart()
    for _ in range(2):
        now[0] += 1.0
        meter.add(Work(10, 300, 2e11))
    assert meter.rates() == {"pairs_per_second": 10.0, "tokens_per_second": 300.0, "flop_utilisation": 0.2}
    now[0] += 4.0
    meter.add(Work(10, 300, 4e11))
    assert meter.rates() == {"pairs_per_second": 2.5, "tokens_per_second": 75.0, "flop_utilisation": 0.1}
    assert meter.means() == {"pairs_per_second": 5.0, "tokens_per_second": 150.0, "flop_utilisation": 8e11 / 6 / 1e12}
