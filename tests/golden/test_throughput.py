"""Rates of training, spelt out."""

from noisyir.training.throughput import Meter, Work, rates


def test_rates_are_work_by_seconds():
    work = Work(pairs=1000, tokens=64_000)
    assert rates(work, 2.0) == {"pairs_per_second": 500.0, "tokens_per_second": 32_000.0}
    assert rates(work, 2.0, "lists") == {"lists_per_second": 500.0, "tokens_per_second": 32_000.0}


def test_a_meter_counts_neither_what_came_before_a_restart_nor_anything_twice():
    now = [0.0]
    meter = Meter(clock=lambda: now[0])
    now[0] = 5.0
    meter.restart()
    for _ in range(2):
        now[0] += 1.0
        meter.add(Work(10, 300))
    assert meter.rates() == {"pairs_per_second": 10.0, "tokens_per_second": 300.0}
    now[0] += 4.0
    meter.add(Work(10, 300))
    assert meter.rates() == {"pairs_per_second": 2.5, "tokens_per_second": 75.0}
    assert meter.means() == {"pairs_per_second": 5.0, "tokens_per_second": 150.0}
