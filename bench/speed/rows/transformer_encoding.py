"""Passages to normalised vectors by a transformer on a CPU, tokenising included: the same weights and truncation.

sentence-transformers' OpenVINO backend wants older packages than noisyir locks; they are installed for its sides alone.
OpenVINO computes in bf16 there wherever the processor can, which is its own default.  Its 8 bits are calibrated on 300
of the passages, its default number.
"""

import json
from typing import Any, ClassVar

from bench.speed import encoding
from bench.speed.row import Line, Row, Taken, Work
from bench.speed.texts import Texts

_OLDER = (
    "sentence-transformers==6.2.0", "optimum-intel==2.2.0", "optimum==2.3.0", "transformers==5.5.4",
    "tokenizers==0.22.2", "huggingface-hub==1.21.0", "datasets==4.4.2",
)  # fmt: skip
_WHAT, _PEER, _CALIBRATED = "transformer encoding, CPU", "sentence-transformers", 300


class TransformerEncoding(Row):
    lines = (
        Line(f"{_WHAT}, openvino in bf16", "openvino", "fp32", f"{_PEER} fp32", at_least=4, unit="passages"),
        Line(f"{_WHAT}, openvino in bf16", "openvino", "peers_qint8", f"{_PEER} openvino-qint8", at_least=1,
             unit="passages"),
        Line(f"{_WHAT}, openvino in bf16", "openvino", "peers_openvino", f"{_PEER} openvino", unit="passages"),
        Line(f"{_WHAT}, openvino-qint8", "qint8", "fp32", f"{_PEER} fp32", at_least=4, unit="passages"),
        Line(f"{_WHAT}, openvino-qint8", "qint8", "peers_qint8", f"{_PEER} openvino-qint8", at_least=1,
             unit="passages"),
        Line(f"{_WHAT}, torch in bf16", "bf16", "fp32", f"{_PEER} fp32", unit="passages"),
        Line(f"{_WHAT}, torch in fp32", "noisyir", "fp32", f"{_PEER} fp32", unit="passages"),
    )  # fmt: skip
    size = 300
    turns = 3
    needs: ClassVar = {"openvino": ("openvino",), **dict.fromkeys(("qint8", "peers_qint8"), ("openvino", "nncf"))}
    overlays: ClassVar = dict.fromkeys(("peers_openvino", "peers_qint8"), _OLDER)

    def prepare(self, work: Work) -> None:
        encoding.save_model(work, backbone="transformer")

    def openvino(self, work: Work) -> Taken:
        return encoding.ours_by_openvino(work, "bf16")

    def qint8(self, work: Work) -> Taken:
        return encoding.ours_by_openvino(work, "bf16", quantised=True)

    def noisyir(self, work: Work) -> Taken:
        return encoding.ours(work)

    def bf16(self, work: Work) -> Taken:
        return encoding.ours(work, precision="bf16")

    def fp32(self, work: Work) -> Taken:
        return encoding.theirs(work, batch_size=32, device="cpu")

    def peers_openvino(self, work: Work) -> Taken:
        return _by_openvino(work, "openvino_model.xml")

    def peers_qint8(self, work: Work) -> Taken:
        return _by_openvino(work, "openvino_model_qint8_quantized.xml")


def _by_openvino(work: Work, file: str) -> Taken:
    """The peer's encoding by one of its exported models, which are made when they are first wanted."""
    from noisyir.models.openvino_encoder import without_telemetry

    without_telemetry()
    from sentence_transformers import SentenceTransformer, export_static_quantized_openvino_model

    folder = work.folder / "peer"
    how: dict[str, Any] = {"backend": "openvino", "device": "cpu"}
    if not folder.exists():
        model = SentenceTransformer(str(work.folder / "model"), **how)
        model.save_pretrained(str(folder))
        (calibration := work.folder / "calibration").mkdir()
        lines = [json.dumps({"sentence": text}) for text in Texts.read(work.texts).some_passages(_CALIBRATED)]
        (calibration / "train.jsonl").write_text("\n".join(lines))
        export_static_quantized_openvino_model(
            model, None, str(folder), dataset_name=str(calibration), dataset_config_name="default",
            dataset_split="train", column_name="sentence",
        )  # fmt: skip
    return encoding.theirs(work, batch_size=32, folder=folder, model_kwargs={"file_name": f"openvino/{file}"}, **how)
