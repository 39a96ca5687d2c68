"""What the server of processes imports, once, so that each of its children begins within milliseconds."""

from importlib import import_module
from pkgutil import iter_modules, walk_packages

import noisyir

_INSIDE_FUNCTIONS = (
    "accelerate", "bm25s", "faiss", "ir_measures", "jinja2", "pyarrow.parquet", "pytrec_eval", "safetensors.torch",
    "scipy.optimize", "scipy.sparse.linalg", "scipy.stats", "sklearn.isotonic", "sklearn.linear_model",
    "sklearn.mixture", "tokenizers", "torch._dynamo", "transformers", "transformers.modeling_utils",
    "transformers.models.bert.modeling_bert",
)  # fmt: skip

_WITHOUT_PREFECT = [room for room in iter_modules(noisyir.__path__) if room.name not in ("flows", "tasks")]
for _room in _WITHOUT_PREFECT:
    _inside = getattr(import_module(f"noisyir.{_room.name}"), "__path__", ())
    for _module in walk_packages(_inside, f"noisyir.{_room.name}."):
        if not _module.name.rpartition(".")[2].startswith(("pyfunc_", "mlflow_")):
            import_module(_module.name)
for _name in _INSIDE_FUNCTIONS:
    import_module(_name)
