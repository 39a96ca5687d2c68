#!/bin/sh
# Take out of the installed packages what no process of noisyir reads: their own tests, C headers, torch's test programs,
# what MLflow draws with, Arrow's Flight, what Pyserini needs for dense encoders alone, symbols for debuggers, and numba,
# for there is Java here.  Then keep bytecode of what noisyir's processes import, and of no more.
set -eu
site=$(python -c "import sysconfig; print(sysconfig.get_path('purelib'))")
pip uninstall --yes --quiet cython onnxruntime openai matplotlib fonttools kiwisolver contourpy cycler numba llvmlite
find "$site" -type d \( -name tests -o -name test \) -prune -exec rm -rf {} +
find "$site/torch/bin" -type f ! -name torch_shm_manager -delete
rm -rf "$site/torch/include" "$site/pyarrow/include" "$site"/numpy/_core/include
rm -f "$site"/pyarrow/*flight*
# Not in *.libs: auditwheel has moved the sections of those libraries, which do not load once they are stripped.
find "$site" -name '*.so*' -type f -size +1M ! -path '*.libs/*' -exec strip --strip-unneeded {} +
PYTHONDONTWRITEBYTECODE='' python - <<'PY'
import faiss, ir_measures, mlflow.pyfunc, mlflow.server, pandas, prefect.server.api.server, prefect.workers.process
import prefect_kubernetes, s3fs, scipy.stats, sentence_transformers, sklearn.mixture, transformers.models.bert, uvicorn
PY
