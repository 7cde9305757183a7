#!/usr/bin/env bash
# Trains the bundled demo models again: train_demo.sh BUILD [MODELS RESULTS]
# Writes MODELS (model_zoo/demo): shapes and shapes_with_knn, and a detector, an instance segmenter and a segmenter for each of four
# attentions; RESULTS (docs/results/demo_training): the loss and measures of each epoch, and what each training printed last.
# shapes_knn has no weights of its own: it runs those of shapes with k-NN attention.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1
models=${2:-model_zoo/demo}
results=${3:-docs/results/demo_training}
mkdir -p "$models" "$results"
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# As near to the same models as machines come: one thread inside an operator, for sums in one order, and products of one
# precision.
# Pictures are drawn on another thread.
classifiers() {
  local train="$build/bin/fovea-train --overwrite --threads 1 --arithmetic bf16 --keep last"
  # k-NN attention learns from the dense weights on: its gradient goes through the reference, which sorts every row.
  $train --out "$models/shapes" --csv "$results/shapes.csv" &&
    $train --out "$models/shapes_with_knn" --attention knn:k=0.5 --from "$models/shapes" \
      --epochs 6 --learning-rate 3e-4 --csv "$results/shapes_with_knn.csv"
}
scenes() { model_zoo/training/train_scenes.sh "$build" "$models" "$results" "$1"; }
# The last word names the log and begins each line.
logged() { "$@" 2>&1 | tee "$logs/${*: -1}.log" | sed -u "s/^/${*: -1}: /"; }

# Two lines run at a time, each on a core: about 40 minutes for an attention, 25 for the classifiers.
export -f classifiers scenes logged
export build models results logs
xargs -P 2 -L 1 bash -c 'set -o pipefail; logged "$@" || exit 255' _ << 'END'
scenes dense
scenes aewin
classifiers
scenes key_only
scenes cska
END

{
  for model in shapes shapes_knn shapes_with_knn; do
    [ ! -d "$models/$model" ] || "$build/bin/fovea-train" --evaluate "$models/$model"
  done
  "$build/bin/fovea-train" --linear-baseline
  grep -h 'as it is served' "$logs"/{dense,aewin,key_only,cska}.log
} | tee "$results/accuracy.txt"
