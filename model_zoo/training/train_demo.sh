#!/usr/bin/env bash
# Trains the bundled demo models again: train_demo.sh BUILD
# Writes model_zoo/demo/{shapes,shapes_with_knn}/ and docs/results/demo_training/. shapes_knn has no weights of its own:
# it runs those of shapes with k-NN attention.
set -euo pipefail
cd "$(dirname "$0")/../.."
train=$1/bin/fovea-train
results=docs/results/demo_training
mkdir -p "$results"

# The vector units are the bottleneck, and the pictures are drawn on a thread of their own.
export OMP_WAIT_POLICY=passive
"$train" --out model_zoo/demo/shapes --csv "$results/shapes.csv"
# k-NN attention is learned from the dense weights: the reference, through which its gradient goes, sorts every row.
"$train" --out model_zoo/demo/shapes_with_knn --attention knn:k=0.5 --start-from model_zoo/demo/shapes \
  --epochs 6 --learning-rate 3e-4 --csv "$results/shapes_with_knn.csv"

{
  for model in shapes shapes_knn shapes_with_knn; do "$train" --evaluate "model_zoo/demo/$model"; done
  "$train" --linear-baseline
} | tee "$results/accuracy.txt"
