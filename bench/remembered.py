"""Texts that many runs of a bench have are read by the transformer once: that is most of their time."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from noisyir.detection import ensemble
from noisyir.models.bi_encoder import BiEncoder
from noisyir.models.text_tokenizer import Side, Tokens


class Remembered:
    """Reads each text once in a process, however many runs have it.  One encoder a process."""

    def __init__(self, read_texts: Callable[..., np.ndarray]) -> None:
        self._read_texts, self._known = read_texts, dict[tuple[str, bytes], np.ndarray]()

    def __call__(
        self, encoder: BiEncoder, tokens: Tokens, side: Side, wanted: np.ndarray, progress: Callable[..., None]
    ) -> np.ndarray:
        """As `noisyir.detection.ensemble.read_texts`."""
        if not encoder.transformers:
            return self._read_texts(encoder, tokens, side, wanted, progress)
        names = [(side, tokens.ids[start:end].tobytes()) for start, end in pairwise(tokens.offsets)]
        new = np.array([asked and name not in self._known for asked, name in zip(wanted, names, strict=True)])
        vectors = self._read_texts(encoder, tokens, side, new, progress)
        for row in np.flatnonzero(new):
            self._known[names[row]] = vectors[row].copy()
        for row in np.flatnonzero(wanted):
            vectors[row] = self._known[names[row]]
        return vectors


def remember_texts() -> None:
    """From now on, in this process."""
    ensemble.read_texts = Remembered(ensemble.read_texts)
