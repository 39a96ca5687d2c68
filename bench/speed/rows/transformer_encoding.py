"""Passages to normalised vectors by a transformer on a CPU, tokenising included: the same weights and truncation."""

from bench.speed import encoding
from bench.speed.row import Line, Row, Taken, Work


class TransformerEncoding(Row):
    lines = (Line("transformer encoding, CPU", "noisyir", "fp32", "sentence-transformers fp32", unit="passages"),)
    size = 200
    turns = 3

    def prepare(self, work: Work) -> None:
        encoding.save_model(work, backbone="transformer")

    def noisyir(self, work: Work) -> Taken:
        return encoding.ours(work)

    def fp32(self, work: Work) -> Taken:
        return encoding.theirs(work, batch_size=32, device="cpu")
