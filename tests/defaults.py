"""The defaults of every stage and every variant, with their versions: written down by `python -m tests.defaults`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noisyir.base.settings import Params
from noisyir.base.variants import Variant
from noisyir.engine.known_stages import known_stages
from noisyir.engine.stage import Stage

SNAPSHOT = Path(__file__).with_name("defaults.json")


def defaults_now(stages: Mapping[str, Stage] | None = None) -> dict[str, dict[str, Any]]:
    """`stage NAME` and `FAMILY KIND` to the version and the defaults, as JSON."""
    import noisyir.audits.model_judges.judges
    import noisyir.methods.plans.planning  # noqa: F401 - the two load every family

    found = {
        f"stage {name}": {"version": stage.version, "defaults": _defaults(stage.params)}
        for name, stage in (stages or known_stages()).items()
        if not issubclass(stage.params, Variant)
    }
    for family in families():
        for kind, variant in family.variants().items():
            if variant.__module__.startswith("noisyir."):
                found[f"{family.family()} {kind}"] = {"version": variant.version, "defaults": _defaults(variant)}
    return found


def families() -> list[type[Variant]]:
    """The base classes of all families."""
    return sorted((one for one in Variant.__subclasses__() if one.is_family()), key=lambda one: one.family())


def _defaults(params: type[Params]) -> dict[str, Any]:
    """Groups are told by what differs from their own defaults, as keys do."""
    values = {name: field.get_default() for name, field in params.model_fields.items() if not field.is_required()}
    return json.loads(json.dumps({name: _plain(value) for name, value in values.items()}, default=str))


def _plain(value: Any) -> Any:
    if isinstance(value, Params):
        return {**value.key_values(), "class": type(value).__name__}
    return [_plain(one) for one in value] if isinstance(value, tuple | list) else value


def changed_without_a_version(written: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The defaults that are not as written, although the version is: old builds would be taken for new ones."""
    return [
        f"{name}: {setting} was {value!r}, is {now[name]['defaults'].get(setting, 'gone')!r}"
        for name, entry in written.items()
        if name in now and now[name]["version"] == entry["version"]
        for setting, value in entry["defaults"].items()
        if now[name]["defaults"].get(setting, "gone") != value
    ]


if __name__ == "__main__":
    if changed := changed_without_a_version(json.loads(SNAPSHOT.read_text()), defaults_now()):
        raise SystemExit("bump the version first, nothing was written:\n" + "\n".join(changed))
    SNAPSHOT.write_text(json.dumps(defaults_now(), indent=1, sort_keys=True) + "\n")
