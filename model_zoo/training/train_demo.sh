#!/usr/bin/env bash
# Trains the bundled demo models again: train_demo.sh BUILD
# Writes model_zoo/demo/{shapes,shapes_with_knn}/ and docs/results/demo_training/. shapes_knn has no weights of its own:
# it runs those of shapes with k-NN attention.
set -euo pipefail
cd "$(dirname "$0")/../.."
train=$1/bin/fovea-train
results=docs/results/demo_training
mkdir -p "$results"

# As near to the same models as machines come: one thread inside an operator, for sums in one order, and products of one
# precision.
# Pictures are drawn on another thread.
train() { "$train" --threads 1 --arithmetic bf16 --keep last "$@"; }
train --out model_zoo/demo/shapes --csv "$results/shapes.csv"
# k-NN attention learns from the dense weights on: its gradient goes through the reference, which sorts every row.
train --out model_zoo/demo/shapes_with_knn --attention knn:k=0.5 --start-from model_zoo/demo/shapes \
  --epochs 6 --learning-rate 3e-4 --csv "$results/shapes_with_knn.csv"

{
  for model in shapes shapes_knn shapes_with_knn; do "$train" --evaluate "model_zoo/demo/$model"; done
  "$train" --linear-baseline
} | tee "$results/accuracy.txt"
