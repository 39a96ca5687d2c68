"""Passages to normalised vectors by a transformer on a CPU, tokenising included: the same weights and truncation."""

from bench.speed import encoding
from bench.speed.row import Line, Row, Taken, Work


class TransformerEncoding(Row):
    lines = (
        Line(
            "transformer encoding, CPU, bf16", "bf16", "fp32", "sentence-transformers fp32", at_least=4, unit="passages"
        ),
        Line("transformer encoding, CPU, fp32", "noisyir", "fp32", "sentence-transformers fp32", unit="passages"),
    )
    size = 200
    turns = 3

    def prepare(self, work: Work) -> None:
        encoding.save_model(work, backbone="transformer")

    def noisyir(self, work: Work) -> Taken:
        return encoding.ours(work)

    def bf16(self, work: Work) -> Taken:
        return encoding.ours(work, precision="bf16")

    def fp32(self, work: Work) -> Taken:
        return encoding.theirs(work, batch_size=32, device="cpu")
