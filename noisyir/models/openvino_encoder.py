"""The towers of a bi-encoder as OpenVINO computes them on a CPU: in 32 or 16 bits, or quantised to 8."""

import sys
import warnings
from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from noisyir.base.errors import ConfigError
from noisyir.models.bi_encoder import BiEncoder
from noisyir.models.layout import INPUTS, OUTPUT
from noisyir.models.portable import Padded, Portable, padded
from noisyir.models.text_tokenizer import SIDES, Side, Tokens
from noisyir.models.transformer_tower import quietly

_HINTS = {"fp32": "f32", "bf16": "bf16"}
_SMOOTH = 0.8  # alpha: of 0.5 to 0.95 the value with the least error of scores against torch's
_IN_FULL = r".*\.layer\.0\.output\.dense.*"  # the product that 8 bits cost most, as BERT and its kin call it


class OpenVinoEncoder:
    """A transformer that OpenVINO runs on a CPU, whatever the runtime's device; it cannot be trained.

    precision: of the arithmetic; bf16 counts if the processor has it.  threads: of the processor.
    calibration: passages by which weights and activations are quantised to 8 bits; None: they are not.
    Raises ConfigError if the model is static.
    """

    def __init__(
        self,
        encoder: BiEncoder,
        *,
        precision: Literal["fp32", "bf16"] = "fp32",
        threads: int = 1,
        calibration: Sequence[str] | None = None,
    ) -> None:
        without_telemetry()
        import openvino

        if not encoder.transformers:
            raise ConfigError("models.backend_openvino_transformers_model")
        self.encoder, self._compiled = encoder, {}
        self._never = _head_size(encoder) if calibration is not None else 0
        how = {"INFERENCE_PRECISION_HINT": _HINTS[precision], "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1}
        sides: Sequence[Side] = ("passage",) if encoder.shape.shared else SIDES
        for side in sides:
            graph = openvino_graph(encoder, side)
            if calibration is not None:
                graph = quantised(graph, [padded(encoder.tokenize([text], side)) for text in calibration])
            self._compiled[side] = openvino.compile_model(graph, "CPU", how)

    @property
    def dim(self) -> int:
        """Of the vectors."""
        return self.encoder.dim

    def tokenize(self, texts: Sequence[str], side: Side) -> Tokens:
        """As the model's own."""
        return self.encoder.tokenize(texts, side)

    def embed(self, tokens: Tokens, side: Side) -> Float[Tensor, "text dim"]:
        """Vectors of texts, float32."""
        compiled = self._compiled["passage" if self.encoder.shape.shared else side]
        return torch.from_numpy(compiled(padded(tokens, self._never))[0])


def openvino_graph(encoder: BiEncoder, side: Side) -> Any:
    """A side as a model of OpenVINO, for any number of texts and tokens: `input_ids` and `attention_mask` to vectors.

    It is traced by torch, so that attention stays one operation; by way of ONNX it would become eight.
    """
    without_telemetry()
    import openvino

    ids = torch.arange(14).reshape(2, 7)
    any_size = openvino.PartialShape([-1, -1])
    with torch.no_grad(), quietly(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the tracer, on branches that both lead to the same
        graph = openvino.convert_model(
            Portable(encoder, side).eval(),
            example_input={INPUTS[0]: ids, INPUTS[1]: torch.ones_like(ids)},
            input=[(name, any_size, openvino.Type.i64) for name in INPUTS],
        )
    graph.outputs[0].get_tensor().set_names({OUTPUT})
    return graph


def quantised(graph: Any, inputs: Sequence[Padded]) -> Any:
    """The graph with weights and activations of 8 bits, ranged by these inputs.

    Post-training quantisation of NNCF with SmoothQuant (Xiao et al., ICML 2023, Equation 4), as sentence-transformers
    has it done, but for another alpha and one product that stays as it is.
    """
    without_telemetry()
    import nncf

    nncf.set_log_level("ERROR")
    smooth = nncf.AdvancedSmoothQuantParameters(matmul=_SMOOTH)
    with redirect_stdout(StringIO()):  # its progress bars
        return nncf.quantize(
            graph,
            nncf.Dataset(inputs),
            model_type=nncf.ModelType.TRANSFORMER,
            subset_size=len(inputs),
            ignored_scope=nncf.IgnoredScope(patterns=[_IN_FULL], validate=False),
            advanced_parameters=nncf.AdvancedQuantizationParameters(smooth_quant_alphas=smooth),
        )


def _head_size(encoder: BiEncoder) -> int:
    """Numbers of an attention head.

    A batch that is as many tokens wide gets wrong vectors (cosine 0.84) of a graph in 8 bits whose rest is in bf16:
    OpenVINO 2026.4 on a processor with AMX.
    """
    config = encoder.transformers[0].config
    return int(config.hidden_size // config.num_attention_heads)


def without_telemetry() -> None:
    """Have OpenVINO and NNCF, when they are imported, not find the package by which they tell Intel of their use."""
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
