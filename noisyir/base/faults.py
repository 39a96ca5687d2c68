"""Faults of settings in words: the place, the value there, and its likely meaning."""

from collections.abc import Iterable, Sequence

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from noisyir.base.errors import did_you_mean
from noisyir.base.settings import OF_A_GROUP, Params
from noisyir.base.variants import Variant, params_in

_LONGEST = 100  # characters of a value that are shown
_PYDANTICS_OWN = ("function-", "tagged-union[")  # parts of a place that name no setting


def faults(error: ValidationError, model: type[Params], within: str = "") -> list[str]:
    """A sentence for each fault of settings that should be a `model`, perhaps as the group `within` of others."""
    found = error.errors()
    if len(found) > 1:  # pydantic does not count the items of a list that have faults of their own
        found = [one for one in found if one["type"] != "too_short" or len(one["input"]) < one["ctx"]["min_length"]]
    return [_fault(fault, model, within) for fault in found]


def _fault(fault: ErrorDetails, model: type[Params], within: str) -> str:
    *groups, last = list(map(str, fault["loc"])) or [""]
    inside, spoken = _inside(model, groups)
    spoken = [*filter(None, [within]), *spoken]
    where = ".".join(filter(None, [*spoken, *([] if last.startswith(_PYDANTICS_OWN) else [last])]))
    match fault["type"]:
        case "extra_forbidden":
            known = list(inside.model_fields)
            hint = _renamed(inside, [last], spoken) or did_you_mean(last, known, within=".".join(spoken))
            return f"unknown key {where}{hint}; known here: {', '.join(known)}{_of_others(inside, last)}"
        case "missing":
            return f"{where} is missing: set it"
        case "union_tag_invalid":
            tag, kinds = fault["ctx"]["tag"], [kind.strip("'") for kind in fault["ctx"]["expected_tags"].split(", ")]
            where = where.removesuffix(f".{last}") if last.isdecimal() else where  # of a list, counted from 0
            return f"{where}: there is no {tag!r}{did_you_mean(tag, kinds)}; there are {', '.join(kinds)}"
        case "union_tag_not_found":
            family, _ = _inside(model, [*groups, last])
            hint = _renamed(family, fault["input"], [*spoken, last])
            return f"{where}: name its kind, such as {where}.kind=NAME{hint}"
        case kind if kind == OF_A_GROUP:
            _, spoken = _inside(model, [*groups, last])
            return ".".join(filter(None, [within, *spoken, fault["msg"]]))
        case "value_error":  # of a check of our own, which says all
            return f"{within}: {fault['ctx']['error']}" if within else str(fault["ctx"]["error"])
    return f"{where}: {fault['msg']}, got {_shown(fault['input'])}"


def _shown(value: object) -> str:
    """A value in a message, cut to a helpful length."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def _renamed(model: type[Params], given: Iterable[str], spoken: Sequence[str]) -> str:
    """The present name of the first renamed setting."""
    now = next((model.renamed[name] for name in given if name in model.renamed), None)
    return f" (it is {'.'.join([*spoken, now])} now)" if now else ""


def _of_others(model: type[Params], name: str) -> str:
    """Other kinds with a setting that this kind lacks."""
    if not issubclass(model, Variant) or model.is_family():
        return ""
    having = [kind for kind, variant in model.variants().items() if name in variant.model_fields]
    kind = model.model_fields["kind"].default
    return f"; {name} is a setting of {', '.join(having)}, not of {kind}" if having else ""


def _inside(model: type[Params], groups: Sequence[str]) -> tuple[type[Params], list[str]]:
    """The settings at `groups`, and the groups as people write them: no chosen kinds, places in lists, own names."""
    spoken: list[str] = []
    for group in groups:
        if issubclass(model, Variant) and model.is_family() and group in model.variants():
            if model.named_by_kind:
                spoken[-1:] = [group]
            model = model.variants()[group]
            continue
        if group.startswith(_PYDANTICS_OWN):
            continue
        spoken.append(group)
        if group in model.model_fields:
            model = params_in(model.model_fields[group].annotation) or model
    return model, spoken
