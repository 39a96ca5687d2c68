"""A sequence classifier on this machine that reads query and document together."""

from pathlib import Path

import numpy as np

from noisyir.audits.model_judges.budget import Budget
from noisyir.audits.model_judges.judges import Answer, JudgeAnswers, JudgeUsage, MachineJudge, Question, QuestionQueue
from noisyir.base.errors import ConfigError
from noisyir.models.settings import ClassifierWeights, PairTokens

_SETTING = "--judge-model"


class Classifier(MachineJudge, kind="classifier"):
    """The probability that the document is right: the logistic function of the classifier's logit, or log odds."""

    model: ClassifierWeights = None
    max_len: PairTokens = 256

    def check(self, budget: Budget) -> None:
        """Check budget and model.

        Raises:
            ConfigError: If the budget is in tokens.
            DataError: If the model is no classifier.
        """
        from noisyir.models.weights import locate_classifier

        if budget.unit == "tokens":
            raise ConfigError("audits.classifier_token_budget", setting=_SETTING)
        locate_classifier(self._place, _SETTING)

    @property
    def _place(self) -> str | None:
        from noisyir.engine.remote.fetched import here

        return self.model and here(self.model)

    @property
    def name(self) -> str:
        """The folder's last name, or the model's name, and the beginning of the weights' digest."""
        from noisyir.models.weights import classifier_digest

        given = str(self.model)
        called = Path(given).expanduser().resolve().name if Path(given).expanduser().is_dir() else given
        digest = str(classifier_digest(self._place, _SETTING)).removeprefix("sha256:")
        return f"model:{called}@{digest[:12]}"

    def expected_tokens(self, question: Question) -> float:
        """Zero, because calls are free."""
        return 0.0

    def ask(self, asking: QuestionQueue) -> JudgeAnswers:
        """Read as many pairs as the budget allows; a pair is wrong below a probability of a half."""
        from scipy.special import expit

        from noisyir.models.cross_encoder import TextPairs, load_cross_encoder
        from noisyir.models.weights import locate_classifier

        asked = asking.questions[: asking.budget.amount]
        runtime = asking.runtime
        judge = load_cross_encoder(locate_classifier(self._place, _SETTING), self.max_len, runtime.device)
        done = 0

        def read(count: int) -> None:
            nonlocal done
            done += count
            asking.progress(done, len(asked), "pairs")

        texts = TextPairs([one.query for one in asked], [one.document for one in asked])
        p_wrong = expit(-judge.logits(texts, runtime.batch_tokens, read).astype(np.float64))
        left = len(asking.questions) - len(asked)
        answers = [*map(Answer.by_chance, p_wrong.tolist()), *[None] * left]
        return JudgeAnswers(answers, JudgeUsage(calls=len(asked), left=left), self.name)
