# In a container, as its user: Prefect's server, a worker for each pool, and the smallest experiment through them, each
# flow run a fork of a process that has imported what it needs; then a transformer by somebody who has an empty home, an
# empty cache of Hugging Face, and a store into which it was fetched.
set -eu
export PREFECT_API_URL=http://127.0.0.1:4271/api PREFECT_FLOWS_HEARTBEAT_FREQUENCY=30 MLFLOW_TRACKING_URI=sqlite:////data/mlflow.db
prefect server start --host 127.0.0.1 --port 4271 >/tmp/server.log 2>&1 &
server=$!
workers=
trap 'kill -9 $server $workers 2>/dev/null || true' EXIT # a worker that is asked to end waits for its server
waited=0
until python -c "import urllib.request as u; u.urlopen('$PREFECT_API_URL/health')" 2>/dev/null; do
    waited=$((waited + 1))
    [ $waited -lt 90 ] || { tail -n 20 /tmp/server.log; exit 1; }
    sleep 1
done
python -m infra.bootstrap
export NOISYIR_WARM=/tmp/warm.socket
python -m infra.warm >/tmp/warm.log 2>&1 &
workers=$!
until [ -S $NOISYIR_WARM ]; do
    kill -0 $workers || { cat /tmp/warm.log; exit 1; }
    sleep 1
done
for pool in driver cpu gpu; do
    python -m infra.worker start --pool $pool --type process >/tmp/$pool.log 2>&1 &
    workers="$workers $!"
done
prefect deployment run train_retriever/on-demand --watch --watch-timeout 900 \
    -p 'overrides=["data.dev_queries=100", "data.test_queries=200", "methods=[dpr]", "train.epochs=1"]' || { for log in /tmp/*.log; do tail -n 30 "$log"; done; exit 1; }
if grep "starts from nothing" /tmp/warm.log; then exit 1; fi
noisyir status

python -c 'from noisyir.models.weights import locate_weights as at; import shutil; shutil.copytree(at("minilm"), "/tmp/bert")'
noisyir fetch /tmp/bert --as models/bert --store /data/fetched
rm -r /tmp/bert
mkdir /tmp/empty
env -u MLFLOW_TRACKING_URI -u PREFECT_API_URL HOME=/tmp/empty NOISYIR_HOME=/tmp/empty/noisyir HF_HOME=/tmp/empty/hf noisyir run demo --store /data/fetched --no-track \
    model.backbone=transformer model.weights=models/bert model.layers=1 'methods=[dpr]' train.epochs=1 data.max_documents=400 data.dev_queries=50 data.test_queries=100 'detectors={bm25: {kind: bm25_margin}}'
