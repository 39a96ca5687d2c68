"""Passages to normalised vectors by a transformer on a GPU: bf16 here; fp16, FlashAttention and no padding there.

The peer is as its efficiency page advises: with FlashAttention it leaves the padding out by itself.
"""

from typing import ClassVar

from bench.speed import encoding
from bench.speed.row import Line, Row, Taken, Work


class EncodingGpu(Row):
    lines = (
        Line(
            "transformer encoding, GPU", "noisyir", "flash", "sentence-transformers fp16, FlashAttention, unpadded",
            at_least=1.0, unit="passages",
        ),
    )  # fmt: skip
    size = 40_000
    needs: ClassVar = {"flash": ("flash_attn",)}

    def lacking(self, side: str) -> str | None:
        import torch

        return super().lacking(side) if torch.cuda.is_available() else "no GPU here"

    def prepare(self, work: Work) -> None:
        encoding.save_model(work, backbone="transformer")

    def noisyir(self, work: Work) -> Taken:
        return encoding.ours(work, device="cuda", precision="bf16")

    def flash(self, work: Work) -> Taken:
        how = {"dtype": "float16", "attn_implementation": "flash_attention_2"}
        return encoding.theirs(work, batch_size=512, device="cuda", model_kwargs=how)
