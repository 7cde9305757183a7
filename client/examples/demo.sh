#!/usr/bin/env bash
# The demonstration behind `make demo`: demo.sh BUILD [IMAGE] [MODEL]
#   IMAGE   a picture file; one of client/examples by default
#   MODEL   a bundled model (shapes by default), or the folder of a model of your own, for example one that
#           `fovea import` wrote
# Starts fovea-server on free ports of the loopback interface, classifies the picture, tells what it cost, and measures
# what k-NN attention over the same weights would cost and change. With the bundled models it then compares models that were trained with
# each attention, and finds, outlines and segments the shapes of the picture, or of a scene where none was given. A MODEL that is a
# detector or a segmenter finds what is there, and is compared likewise. What is drawn stays in BUILD/demo. Stops the server at the end.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1
image=${2:-}
model=${3:-}
scene=${image:-client/examples/scenes/scene_1.jpg}
[ -n "$image" ] || image=$(ls client/examples/*.jpg | head -n 1)
[ -n "$model" ] || model=shapes
work=$(mktemp -d)
server=
finish() {
  if [ -n "$server" ]; then
    kill "$server" 2> /dev/null || true
    wait "$server" || true
  fi
  rm -rf "$work"
}
trap finish EXIT
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

if [ ! -r "$image" ]; then
  echo "there is no picture at $image" >&2
  exit 2
fi

# Of the model whose folder this is; a description without a task is a classifier's.
task_of() { sed -nE 's/^[[:space:]]*task:[[:space:]]*([A-Z]+).*/\1/p' "$1/model.textproto"; }
# Its attention, where it says one.
attention_of() { sed -nE 's/^[[:space:]]*attention:[[:space:]]*"(.*)".*/\1/p' "$1/model.textproto"; }

if [ -d "$model" ]; then
  folder=$model
  task=$(task_of "$folder")
  model=$(basename "$(readlink -f "$folder")")
  repository=$work/models
  mkdir "$repository"
  cp -r "$(readlink -f "$folder")" "$repository/$model"
else
  folder=
  repository=model_zoo/demo
  if [ ! -d "$repository/$model" ]; then
    echo "there is no model $model: give one of $(ls $repository | tr '\n' ' ')or the folder of a model" >&2
    exit 2
  fi
  task=$(task_of "$repository/$model")
fi
task=${task:-CLASSIFICATION}

say "Starting fovea-server"
"$build/bin/fovea-server" --model-repository "$repository" --grpc-port 0 --http-port 0 --metrics-port 0 --enable-experiments > "$work/server.log" 2>&1 &
server=$!
is_ready() { grep -q 'ready: ' "$work/server.log"; }
for _ in $(seq 6000); do # ten minutes: a busy machine loads the models slowly
  if is_ready; then break; fi
  if ! kill -0 "$server" 2> /dev/null; then
    cat "$work/server.log" >&2
    server=
    exit 1
  fi
  sleep 0.1
done
if ! is_ready; then
  cat "$work/server.log" >&2
  echo "the server has not loaded its models in ten minutes" >&2
  exit 1
fi
address=$(sed -n 's/.*listening: grpc=\([^ ]*\).*/\1/p' "$work/server.log")
fovea() { "$build/bin/fovea" --server "$address" "$@"; }
echo "listening on $address"
fovea models

drawn=$build/demo
compare() { fovea compare "$@" --max-time 2s; }
compare_with_knn() { # PICTURE
  case $(attention_of "${folder:-$repository/$model}") in
    *key_only* | *ska* | *conv*) return ;; # whose weights lack queries or keys
  esac
  say "What would k-NN attention cost and change? The model as it is, and the same weights with half of the keys"
  compare "$1" --model "$model" --attention knn:k=0.5
}
with_each_attention() { # KIND
  printf -- '--model %s ' "$1"_{dense,aewin,cska,key_only}
}
show_bundled_models() {
  say "Another frame, in which each attention was trained by the same recipe (docs/results/attention_families)"
  compare "$image" $(with_each_attention frame) --model frame_conv
  say "Detectors of $scene, trained alike but for the attention"
  compare "$scene" $(with_each_attention detector)
  say "And segmenters"
  compare "$scene" $(with_each_attention segmenter)

  mkdir -p "$drawn"
  say "Which shapes are where in $scene? The same recipe with dense, AEWin and key-only attention"
  for model in detector_dense detector_aewin detector_key_only; do
    fovea detect --model "$model" --receipt "$scene" --output "$drawn/$model.png"
  done
  say "Their outlines"
  fovea detect --model instances_key_only --receipt "$scene" --output "$drawn/instances_key_only.png"
  say "The class of each pixel"
  fovea segment --model segmenter_key_only --receipt "$scene" --output "$drawn/segmenter_key_only.png"
  say "Drawn"
  ls "$drawn"/{detector_dense,detector_aewin,detector_key_only,instances_key_only,segmenter_key_only}.png
}
draw() { # COMMAND of the task, and what it answers
  mkdir -p "$drawn"
  say "$2"
  fovea "$1" --model "$model" --receipt "$scene" --output "$drawn/$model.png"
  say "Drawn"
  ls "$drawn/$model.png"
}
case $task in
  DETECTION)
    draw detect "What is where in $scene?"
    compare_with_knn "$scene"
    ;;
  SEGMENTATION)
    draw segment "Of which class is each pixel of $scene?"
    compare_with_knn "$scene"
    ;;
  *)
    say "What is in $image?"
    fovea classify --model "$model" --top-k 3 --receipt "$image"
    compare_with_knn "$image"
    if [ -z "$folder" ]; then show_bundled_models; fi
    ;;
esac

kill "$server"
code=0
wait "$server" || code=$?
server=
say "The server has drained and stopped (exit code $code)"
exit $code
