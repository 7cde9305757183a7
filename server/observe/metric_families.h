// Every metric of the server, by name. docs/operations/metrics.md tells what each is for.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <string>

namespace fovea {

// The families of a registry. Series of models carry the labels model, version, attention, task.
struct MetricFamilies {
  explicit MetricFamilies(prometheus::Registry& registry);

  // Of models; see ModelMeter.
  prometheus::Family<prometheus::Counter>& requests;  // + protocol, code; see RequestCounters
  prometheus::Family<prometheus::Histogram>& request_duration;  // + protocol
  prometheus::Family<prometheus::Histogram>& stage_duration;    // + stage
  prometheus::Family<prometheus::Histogram>& batch_size;
  prometheus::Family<prometheus::Histogram>& batch_threads;
  prometheus::Family<prometheus::Histogram>& batch_peak_memory;  // + resolution
  prometheus::Family<prometheus::Histogram>& batch_duration;     // + resolution
  prometheus::Family<prometheus::Histogram>& batch_padding;      // of models that fit pictures
  prometheus::Family<prometheus::Counter>& batches_closed;       // + reason
  prometheus::Family<prometheus::Counter>& images;               // + resolution
  prometheus::Family<prometheus::Counter>& cpu_seconds;          // + stage
  prometheus::Family<prometheus::Counter>& gpu_seconds;  // + device; of models that run on one
  prometheus::Family<prometheus::Counter>& gpu_steps;    // + step; likewise
  prometheus::Family<prometheus::Counter>& non_finite;
  prometheus::Family<prometheus::Counter>& rejected;        // + reason
  prometheus::Family<prometheus::Counter>& cancelled_work;  // + stage, outcome
  prometheus::Family<prometheus::Counter>& delayed;
  prometheus::Family<prometheus::Gauge>& queue_depth;
  // Of models with several priority levels.
  prometheus::Family<prometheus::Gauge>& priority_depth;       // + priority
  prometheus::Family<prometheus::Counter>& priority_run;       // + priority
  prometheus::Family<prometheus::Counter>& priority_rejected;  // + priority, reason
  prometheus::Family<prometheus::Gauge>& model_memory;         // + kind, device
  prometheus::Family<prometheus::Gauge>& model_info;           // + backbone, precision

  // Of the server.
  prometheus::Gauge& inflight_requests;
  prometheus::Counter& failed_loads;
  prometheus::Counter& failed_canaries;
  prometheus::Counter& lost_devices;
  prometheus::Family<prometheus::Counter>& key_requests;        // + key, code
  prometheus::Family<prometheus::Counter>& credential_reloads;  // + what, result
  prometheus::Family<prometheus::Gauge>& tls_expiry;            // a series where there is TLS
  // Of live comparisons; see ExperimentMeter.
  prometheus::Family<prometheus::Gauge>& experiment_running;       // experiment, model
  prometheus::Family<prometheus::Counter>& experiment_requests;    // experiment, arm, outcome
  prometheus::Family<prometheus::Gauge>& experiment_latency;       // experiment, arm, bound
  prometheus::Family<prometheus::Gauge>& experiment_disagreement;  // likewise
  prometheus::Family<prometheus::Gauge>& experiment_errors;        // likewise
  prometheus::Family<prometheus::Counter>& experiments_ended;      // reason
  // Series where there is a collector.
  prometheus::Family<prometheus::Counter>& trace_spans;  // + outcome
  prometheus::Family<prometheus::Counter>& trace_export_failures;
  prometheus::Family<prometheus::Counter>& traces_not_forced;
};

// Bucket bounds: each `factor` times the one before, from `first` to at least `last`.
prometheus::Histogram::BucketBoundaries GeometricBuckets(double first, double last, double factor);

}  // namespace fovea
