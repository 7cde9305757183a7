#!/usr/bin/env bash
# Trains detectors, instance segmenters and semantic segmenters on generated scenes: train_scenes.sh BUILD OUT RESULTS
# Writes OUT/{detector,instances,segmenter}_{key_only,aewin,dense}/ and RESULTS/*.csv.
#
# One recipe for every attention. A detector learns from fresh weights; the other two of its attention start from its
# backbone. Each training has one core, and two run at a time.
set -euo pipefail
cd "$(dirname "$0")/../.."
binary=$1/bin/fovea-train
out=$2
results=$3
mkdir -p "$out" "$results"

# name, then options. One thread inside an operator: sums in one order.
train() {
  "$binary" --scenes --threads 1 --arithmetic bf16 --out "$out/$1" --csv "$results/$1.csv" --backbone linglo_demo \
    --image-size 128 --images-per-epoch 1600 --batch-size 8 "${@:2}"
}

# Of an attention.
detector() {
  train "detector_$1" --attention "$1" --head retinanet --head-channels 64 --score-threshold 0.1 \
    --detections-per-image 50 --epochs 22 --learning-rate 2e-3
}
segmenter() {
  train "segmenter_$1" --attention "$1" --head semantic_fpn --head-channels 64 --from "$out/detector_$1" \
    --epochs 16 --learning-rate 2e-3
}
instances() {
  train "instances_$1" --attention "$1" --head mask_rcnn --head-channels 48 --from "$out/detector_$1" \
    --conventions MMDETECTION --score-threshold 0.1 --detections-per-image 50 --epochs 8 --learning-rate 1e-3
}

# Each line a model, in this order, two at a time. What starts from a detector stands at least two lines behind it.
export -f train detector segmenter instances
export binary out results
run() { xargs -P 2 -L 1 bash -c 'set -euo pipefail; "$0" "$1" > "$results/$0_$1.log"'; }
run << 'END'
detector dense
detector aewin
detector key_only
segmenter dense
instances dense
segmenter aewin
instances aewin
END
run << 'END'
segmenter key_only
instances key_only
END
tail -qn 1 "$results"/*.log
