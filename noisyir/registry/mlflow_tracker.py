"""A pipeline run in MLflow: the parent of its stages' runs, with measures, report and models."""

import logging
import tempfile
import time
from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from noisyir.base.errors import ConfigError
from noisyir.engine.known_stages import known_stages
from noisyir.engine.meta import Meta, Ref
from noisyir.engine.outside_errors import one_line
from noisyir.engine.stage import Stage, Step
from noisyir.engine.store import Store
from noisyir.methods.plans.experiment import Experiment
from noisyir.registry.backend import check_embedded, exclusive
from noisyir.registry.stage_runs import StageRuns, unless_lost

if TYPE_CHECKING:
    from noisyir.registry.card import Card
    from noisyir.registry.evaluation import Evaluation
    from noisyir.registry.kinds import Kind


log = logging.getLogger("noisyir")

_ASK_AGAIN_SECONDS = 2.0


class MlflowTracker(StageRuns):
    """Tracks one pipeline run in MLflow."""

    opens = True

    def __init__(self, experiment: Experiment, home: Path, patience: float = 0.0) -> None:
        super().__init__(home)
        self.experiment = experiment
        self._patience = patience
        self._seen: dict[str, Stage] = {}  # this run's stages, other packages' included

    def ready(self, new: bool) -> None:
        """Check the database, and wait for a server that may be starting, if anything is new.

        Raises:
            ConfigError: If the database is damaged, or MLflow cannot be reached in time.
        """
        _, database = check_embedded(self.home)
        until, warned = time.monotonic() + (0.0 if database else self._patience), False
        while new:
            try:
                assert self._backend
                return
            except ConfigError as error:
                if time.monotonic() >= until:
                    raise
                if not warned:
                    log.warning("waiting for MLflow, for %.0f s at most: %s", self._patience, error)
                warned = True
                time.sleep(_ASK_AGAIN_SECONDS)

    @unless_lost
    def run_id(self, begin: bool = True) -> str | None:
        """The parent run's id, created if `begin`."""
        return self.parent if begin or "parent" in vars(self) else None

    @cached_property
    def parent(self) -> str:
        """The run's id; reading it creates the run."""
        name = " · ".join(filter(None, (self.experiment.name, self.tags.get("only"))))
        run = self._client.create_run(self.experiment_id, run_name=name, tags=self._common_tags)
        self._log_params(run.info.run_id, self.experiment.model_dump(mode="json"))
        return str(run.info.run_id)

    @cached_property
    def experiment_id(self) -> str:
        """The id of the MLflow experiment `noisyir-NAME`."""
        return self._backend.experiment_id(f"noisyir-{self.experiment.name}")

    def finished(self, step: Step, meta: Meta, cached: bool) -> None:
        """Close the stage's run; and remember the stage for the card's story."""
        self._seen[step.stage.name] = step.stage
        super().finished(step, meta, cached)

    def abort(self, error: BaseException) -> None:
        """Close the parent run as failed, if a stage executed."""
        if "parent" in vars(self):
            self._fail(self.parent, error)

    def finish(self, store: Store, results: Mapping[str, Ref]) -> dict[str, str]:
        """Keep measures and report in the parent run, and register the models; without results or a run do nothing."""
        return (self._conclude(store, results) or {}) if results or self.run_id(begin=False) else {}

    @unless_lost
    def _conclude(self, store: Store, results: Mapping[str, Ref]) -> dict[str, str]:
        from noisyir.registry.card import run_note, write_card
        from noisyir.registry.evaluation import read_evaluation
        from noisyir.registry.kinds import kinds
        from noisyir.registry.registry import champion_of

        parent, evaluation = self.parent, read_evaluation(store, results.get("comparison"))
        stages = {**known_stages(), **self._seen}
        exp, of = self.experiment, partial(champion_of, self._backend, experiment=self.experiment.name)
        cards = {
            kind: write_card(exp, store, results, evaluation, kind, of(kind.name), stages)
            for kind in kinds()
            if kind.kept in results
        }
        first = next(iter(cards.values()), None)
        self._measure(
            evaluation, {"mlflow.note.content": first.text if first else run_note(self.experiment, evaluation)}
        )
        if own := evaluation.own(self.experiment.kept):
            name = f"{self.experiment.name} · {self.experiment.kept} · {own[0]['mean']:.3f}"
            self._client.update_run(parent, name=name)
        self._keep_files(store, results, evaluation)
        facts = {"mlflow_run": parent, **self._register(store, results, cards)}
        if page := self._backend.page(self.experiment_id, parent):
            facts["mlflow_page"] = page
        self._client.set_terminated(parent, "FINISHED")
        return facts

    def repeat(self, store: Store, results: Mapping[str, Ref], earlier: str | None, cached: int) -> None:
        """Keep a row of a run that built nothing; without MLflow there is none, for nothing is lost with it."""
        from noisyir.registry.evaluation import read_evaluation

        try:
            tags = {"cached_steps": str(cached)} | ({"repeats": earlier} if earlier else {})
            self._measure(read_evaluation(store, results.get("comparison")), tags)
            self._client.update_run(self.parent, name=f"{self.experiment.name} · 0 built, {cached} cached")
            self._client.set_terminated(self.parent, "FINISHED")
        except Exception as error:  # as in `unless_lost`
            log.warning("this run has no row in MLflow: %s", one_line(error))

    def _measure(self, evaluation: "Evaluation", tags: Mapping[str, str]) -> None:
        from noisyir.registry.card import metric_name

        for row in evaluation.rows:
            self._add(self.parent, f"{row['system']}.{metric_name(row)}", row["mean"])
        self._send(self.parent, tags)

    def _keep_files(self, store: Store, results: Mapping[str, Ref], evaluation: "Evaluation") -> None:
        """Log the report, and every system's values per query, so that models compare without the store."""
        import pyarrow.parquet as pq

        from noisyir.registry.evaluation import PER_QUERY, per_query

        if report := results.get("report"):
            self._client.log_artifacts(self.parent, str(store.builds.folder(report)), "report")
        if evaluation.scored:
            folder, _, name = PER_QUERY.rpartition("/")
            with tempfile.TemporaryDirectory() as temporary:
                path = Path(temporary) / name
                pq.write_table(per_query(store, evaluation), path)
                self._client.log_artifact(self.parent, str(path), folder)

    def _register(self, store: Store, results: Mapping[str, Ref], cards: "Mapping[Kind, Card]") -> dict[str, str]:
        from noisyir.registry.registry import Origin, register

        made, refused, origin = [], [], Origin(self.parent, self.experiment_id, self._common_tags)
        with exclusive(self.home):
            for kind, card in cards.items():
                if card.against and self.experiment.register_if == "better":
                    refused.append(kind.name)
                    continue
                model = results[kind.kept]
                number = register(self._backend, kind, model, store.builds.folder(model), card, origin)
                made.append(f"{kind.name} v{number}")
        facts = {"registered": ", ".join(made), "refused": ", ".join(refused)}
        return {name: text for name, text in facts.items() if text}
