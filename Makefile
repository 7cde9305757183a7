# Fovea's commands. Each does its own set-up; `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PRESET ?= release
BUILD := build/$(PRESET)
IMAGE ?=
MODEL ?=
PREFIX ?= /opt/fovea
SECONDS ?= 600
ARRIVALS ?= poisson

.PHONY: help setup build install deb deb-check test-deploy demo docs test sanitize fuzz test-full bench bench-imaging bench-kernels bench-models bench-neighbours bench-serving soak bench-detection bench-attentions simulate capacity eval-demo format lint peers train-demo train-families clean

help:  ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:  ## Install what a build needs (Debian packages; .venv with LibTorch)
	@deploy/setup/setup.sh build

build: setup  ## Build everything into build/release (PRESET=cpu: without CUDA)
	@deploy/setup/build.sh $(PRESET)

install: setup  ## Install commands, libraries and bundled models into PREFIX (/opt/fovea), for any user
	@deploy/setup/build.sh $(PRESET) fovea-server fovea fovea-train fovea_models fovea_documents
	@rm -f "$(BUILD)/install_manifest.txt"  # root's, where sudo installed before
	@at="$(PREFIX)"; while [ ! -e "$$at" ]; do at=$$(dirname "$$at"); done; \
	  as_root=; [ -w "$$at" ] || as_root=sudo; \
	  $$as_root cmake --install "$(BUILD)" --prefix "$(PREFIX)"

deb: setup  ## Build the Debian package, for the CPU, into build/cpu
	@deploy/setup/build.sh cpu fovea-server fovea fovea-train fovea_models fovea_documents
	@cd build/cpu && cpack --config CPackConfig.cmake

deb-check: deb  ## Ask lintian about the package, and install, run and boot it in a Debian that has nothing else (as root)
	@deploy/setup/setup.sh test
	@deploy/debian/check.sh build/cpu/fovea_*.deb

test-deploy: deb  ## Build the container image of the package; run, compose, play and balance it (podman, and an image debian:12 or a registry)
	@deploy/setup/setup.sh deploy
	@FOVEA_REQUIRE_CONTAINERS=1 FOVEA_BUILD=build/cpu .venv/bin/python -m pytest -q -p no:cacheprovider --containers \
	  tests/deploy/test_image.py tests/deploy/test_compose.py tests/deploy/test_kube_play.py \
	  tests/deploy/test_kubernetes.py tests/deploy/test_replicas.py

demo: setup  ## Classify a picture, find and draw what is in a scene, see what it cost and how other attentions do (IMAGE= MODEL=)
	@FOVEA_CUDA_TYPES=ONE deploy/setup/build.sh $(PRESET) fovea-server fovea  # runs on the CPU
	@client/examples/demo.sh "$(BUILD)" "$(IMAGE)" "$(MODEL)"

docs:  ## Build the site of docs/ into build/docs; a link to nothing fails it
	@deploy/setup/docs.sh

test:  ## Every test: ctest and pytest
	@tests/run.sh

sanitize:  ## The tests of what is ours under AddressSanitizer, UBSan and ThreadSanitizer
	@tests/sanitize.sh

fuzz:  ## Feed what reads callers' bytes with bytes that nobody meant, by libFuzzer, SECONDS for each target (600)
	@tests/fuzz/run.sh $(SECONDS)

test-full:  ## Besides, what does not fit into CI: 100,000 requests under a memory bound, every CUDA instantiation
	@tests/run.sh --full
	@tests/sanitize.sh

bench: setup  ## Measure against the floors of tests/bench/targets.csv; exits 1 when one is missed
	@deploy/setup/setup.sh test
	@deploy/setup/build.sh $(PRESET)
	@tests/bench/run.sh "$(BUILD)"

bench-kernels: setup  ## Measure the kernels alone: table, CSV and a plot of time and memory against tokens
	@deploy/setup/setup.sh bench
	@deploy/setup/build.sh $(PRESET) bench_kernels
	@tests/bench/kernels/run.sh "$(BUILD)"

bench-imaging: setup  ## Measure JPEGs to pixels: against torchvision and Pillow, exactly and with fast_decode
	@deploy/setup/setup.sh test
	@deploy/setup/build.sh $(PRESET) imaging_dump
	@.venv/bin/python tests/bench/imaging/decode_resize.py --build "$(BUILD)"

bench-serving: setup  ## Measure the server: against the raw model and Triton (make peers), its tail, and twice the load that it can carry
	@deploy/setup/setup.sh test
	@deploy/setup/build.sh $(PRESET) fovea-server bench_echo bench_load bench_raw_model
	@tests/bench/serving/run.sh "$(BUILD)"

bench-neighbours: setup  ## Measure what busy programs beside it cost the server and a training (4 minutes of a machine that is quiet otherwise)
	@deploy/setup/setup.sh test
	@deploy/setup/build.sh $(PRESET) fovea-server fovea-train bench_load
	@.venv/bin/python tests/bench/serving/neighbours.py --build "$(BUILD)"

soak: setup  ## Half an hour of mixed, bad and abandoned requests while models are reloaded and the server is killed
	@deploy/setup/setup.sh test
	@deploy/setup/build.sh $(PRESET) fovea-server
	@.venv/bin/python tests/load/soak.py

simulate: setup  ## Run the scheduler in virtual time against a fixed delay: 100 models, 10,000 requests/s; table, CSV and plot
	@deploy/setup/setup.sh bench
	@FOVEA_CUDA_TYPES=ONE deploy/setup/build.sh $(PRESET) bench_simulate  # the CPU alone
	@tests/bench/simulation/run.sh "$(BUILD)"

capacity: setup  ## Replicas for a rate and a p99, by the scheduler in virtual time (RATE= P99= SWEEP=batches.csv [ARRIVALS=])
	@FOVEA_CUDA_TYPES=ONE deploy/setup/build.sh $(PRESET) fovea-capacity  # the CPU alone
	@"$(BUILD)/bin/fovea-capacity" "$(RATE)" "$(P99)" "$(SWEEP)" "$(ARRIVALS)"

bench-models: setup  ## Measure whole models: against PyTorch eager, OpenVINO, ONNX Runtime and the library of the processor's vendor (make peers), in fp32, bf16 and int8
	@deploy/setup/setup.sh test
	@deploy/setup/build.sh $(PRESET) fovea_models
	@.venv/bin/python tests/bench/models/models.py

bench-detection: setup  ## Measure detectors: against torchvision, served, and with each attention from 400 to 1,333 pixels
	@deploy/setup/setup.sh test
	@deploy/setup/build.sh $(PRESET) fovea-server fovea_models bench_paste_masks
	@.venv/bin/python tests/bench/detection/detection.py --build "$(BUILD)"

eval-demo: setup  ## Measure the bundled detectors and segmenters on scenes that no training saw
	@deploy/setup/setup.sh test
	@FOVEA_CUDA_TYPES=ONE deploy/setup/build.sh $(PRESET) fovea-server fovea-train
	@.venv/bin/python tests/bench/accuracy/accuracy.py --build "$(BUILD)"

bench-attentions: setup  ## Compare the papers' attentions on the bundled models of each task: costs, answers, and how costs grow (3 minutes)
	@deploy/setup/setup.sh test
	@deploy/setup/setup.sh bench
	@FOVEA_CUDA_TYPES=ONE deploy/setup/build.sh $(PRESET) fovea-server fovea-train
	@.venv/bin/python tests/bench/comparison/attentions.py --build "$(BUILD)"

peers:  ## Install what Fovea is measured against (Triton, OpenVINO, the processor's vendor's library), outside the checkout
	@tests/peers/install.sh

train-demo: setup  ## Train the bundled demo models again (77 minutes on two cores, without static keys)
	@FOVEA_CUDA_TYPES=ONE deploy/setup/build.sh $(PRESET) fovea-train  # trains on the CPU
	@model_zoo/training/train_demo.sh "$(BUILD)"

train-families: setup  ## Train a small model per family of attention, three seeds each, and compare them (about two hours on two cores)
	@deploy/setup/setup.sh bench
	@deploy/setup/build.sh $(PRESET) fovea-train fovea_models
	@.venv/bin/python model_zoo/training/comparison/train_families.py "$(BUILD)" "$(BUILD)/families" docs/results/attention_families \
	  --bundle model_zoo/demo
	@.venv/bin/python model_zoo/training/comparison/plot_families.py docs/results/attention_families

format:  ## Format C++ and Python
	@git ls-files '*.h' '*.cc' '*.cu' | xargs clang-format-14 -i
	@.venv/bin/ruff format -q $$(git ls-files '*.py') && .venv/bin/ruff check -q --fix $$(git ls-files '*.py')

lint: setup  ## Formatting, thread-safety annotations, clang-tidy of the torch-free parts, ruff
	@deploy/setup/setup.sh test
	@tests/lint.sh "$(BUILD)"

clean:  ## Remove build/
	@rm -rf build
