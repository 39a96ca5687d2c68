"""Models and rankers as folders."""

from noisyir.base.artifact import Artifact

MODEL = Artifact("model", 1)
LOWER_STATES = Artifact("lower_states", 1)  # as models.kept_states writes it
RANKER = Artifact("ranker", 1)  # a sequence classifier of one label as Hugging Face saves it, and ranker.json
