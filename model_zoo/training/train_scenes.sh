#!/usr/bin/env bash
# Trains a detector, an instance segmenter and a semantic segmenter with an attention, on generated scenes:
#   train_scenes.sh BUILD MODELS RESULTS ATTENTION
# Writes MODELS/{detector,instances,segmenter}_NAME/ and RESULTS/*_NAME.csv, NAME being the attention with _ for what is no letter or
# digit.
#
# One recipe for every attention. The detector learns from fresh weights, the instance segmenter goes on with its backbone, and
# the semantic segmenter with that one's. One thread inside an operator: for sums in one order, and so that two attentions
# train at a time on two cores.
set -euo pipefail
cd "$(dirname "$0")/../.."
binary=$1/bin/fovea-train
models=$2
results=$3
attention=$4
name=${attention//[^a-zA-Z0-9]/_}
mkdir -p "$models" "$results"

# What, then options.
train() {
  "$binary" --overwrite --scenes --threads 1 --arithmetic bf16 --out "$models/$1_$name" --csv "$results/$1_$name.csv" \
    --backbone linglo_demo --attention "$attention" --image-size 128 --validation-images 200 "${@:2}"
}
train detector --head retinanet --head-channels 64 --score-threshold 0.1 --detections-per-image 50 \
  --batch-size 8 --learning-rate 4e-3 --epochs 22
train instances --from "$models/detector_$name" --head mask_rcnn --head-channels 48 --conventions MMDETECTION \
  --score-threshold 0.1 --detections-per-image 50 --batch-size 8 --learning-rate 1e-3 --epochs 5
# Small batches: a segmenter learns more from each picture.
train segmenter --from "$models/instances_$name" --head semantic_fpn --head-channels 80 \
  --batch-size 4 --learning-rate 3e-3 --epochs 56
