#include "server/observe/metric_families.h"

#include <cmath>

#include "server/core/version.h"

namespace fovea {
namespace {

template <typename Metric>
prometheus::Family<Metric>& Declare(prometheus::Registry& registry, const std::string& name,
                                    const std::string& help) {
  if constexpr (std::is_same_v<Metric, prometheus::Counter>) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  } else if constexpr (std::is_same_v<Metric, prometheus::Gauge>) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
  } else {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
  }
}

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;

}  // namespace

prometheus::Histogram::BucketBoundaries GeometricBuckets(double first, double last, double factor) {
  prometheus::Histogram::BucketBoundaries bounds;
  for (int i = 0; bounds.empty() || bounds.back() < last; ++i) {
    // Rounded to five digits, so that the text of the bounds is short and the same everywhere, and
    // the factor is kept within a hundredth of a percent.
    const double bound = first * std::pow(factor, i);
    const double unit = std::pow(10, std::floor(std::log10(bound)) - 4);
    bounds.push_back(std::round(bound / unit) * unit);
  }
  return bounds;
}

MetricFamilies::MetricFamilies(prometheus::Registry& registry)
    : requests(Declare<Counter>(registry, "fovea_requests_total",
                                "Answered inference requests by status code; those that named no "
                                "loaded model are model=\"other\"")),
      request_duration(
          Declare<Histogram>(registry, "fovea_request_duration_seconds",
                             "From the arrival of a request's message to its encoded answer")),
      stage_duration(
          Declare<Histogram>(registry, "fovea_stage_duration_seconds",
                             "Time of a request in each stage; the stages add up to the request")),
      batch_size(
          Declare<Histogram>(registry, "fovea_batch_size", "Images in a batch that was run")),
      batch_threads(Declare<Histogram>(registry, "fovea_batch_threads",
                                       "Threads of the CPU that ran a batch")),
      batch_peak_memory(Declare<Histogram>(
          registry, "fovea_batch_peak_memory_bytes",
          "Most bytes that a batch's tensors held at one time, weights not counted")),
      batch_duration(Declare<Histogram>(registry, "fovea_batch_duration_seconds",
                                        "Copying a batch's pixels together and running the model")),
      batch_padding(Declare<Histogram>(
          registry, "fovea_batch_padding_ratio",
          "Of a batch's pixels, the share that shows nothing: pictures that keep their shape are "
          "filled up to one of the model's sizes")),
      batches_closed(Declare<Counter>(registry, "fovea_batch_close_reason_total",
                                      "Batches by why they were closed")),
      images(Declare<Counter>(registry, "fovea_images_total", "Images that were run")),
      cpu_seconds(Declare<Counter>(
          registry, "fovea_cpu_seconds_total",
          "Seconds of one core that were taken for a model's requests, by what they were for")),
      gpu_seconds(Declare<Counter>(registry, "fovea_gpu_seconds_total",
                                   "Seconds that a GPU was taken for a model's requests")),
      gpu_steps(Declare<Counter>(
          registry, "fovea_gpu_step_seconds_total",
          "What GPUs did for a model's batches, by their own clock: h2d copies pixels to them, "
          "kernels run the model, d2h copies results back")),
      non_finite(
          Declare<Counter>(registry, "fovea_non_finite_outputs_total",
                           "Requests that failed because their output held a NaN or an infinity")),
      rejected(Declare<Counter>(
          registry, "fovea_queue_rejected_total",
          "Requests that were refused a place in the queue or left it without being run")),
      cancelled_work(Declare<Counter>(
          registry, "fovea_cancelled_work_seconds_total",
          "Time of work that nobody waited for any more: saved, by forecast, or wasted")),
      delayed(Declare<Counter>(registry, "fovea_queue_delayed_total",
                               "Requests that waited for the timeout of their queue policy and "
                               "then stood behind the others, where its action is DELAY")),
      queue_depth(
          Declare<Gauge>(registry, "fovea_queue_depth", "Requests that hold a place in the queue")),
      priority_depth(Declare<Gauge>(registry, "fovea_priority_queue_depth",
                                    "Requests of a priority level that hold a place in the queue")),
      priority_run(Declare<Counter>(registry, "fovea_priority_run_total",
                                    "Requests of a priority level that left the queue to be run")),
      priority_rejected(Declare<Counter>(
          registry, "fovea_priority_rejected_total",
          "Requests of a priority level that were refused a place in the queue or left it without "
          "being run")),
      model_memory(
          Declare<Gauge>(registry, "fovea_model_memory_bytes", "Memory of a loaded model by kind")),
      model_info(Declare<Gauge>(registry, "fovea_model_info", "1 for each loaded model version")),
      inflight_requests(
          Declare<Gauge>(registry, "fovea_inflight_requests",
                         "Inference requests that have arrived and are not yet answered")
              .Add({})),
      failed_loads(Declare<Counter>(registry, "fovea_model_load_failures_total",
                                    "Loads and reloads that failed")
                       .Add({})),
      failed_canaries(
          Declare<Counter>(registry, "fovea_model_canary_failures_total",
                           "Times that a version was taken out of service by its canary")
              .Add({})),
      lost_devices(Declare<Counter>(registry, "fovea_model_device_losses_total",
                                    "Times that a version was taken out of service because the "
                                    "device that it runs on was lost")
                       .Add({})),
      key_requests(Declare<Counter>(registry, "fovea_key_requests_total",
                                    "Answered inference requests by API key and status code")),
      credential_reloads(Declare<Counter>(
          registry, "fovea_credential_reloads_total",
          "Changes of the files of TLS and of API keys, by whether they were taken")),
      tls_expiry(Declare<Gauge>(registry, "fovea_tls_certificate_expiry_seconds",
                                "When the server's certificate ends, in seconds since 1970")),
      experiment_running(Declare<Gauge>(registry, "fovea_experiment_running",
                                        "1 while an experiment has a model's traffic, 0 once it "
                                        "has ended; none of one that is forgotten")),
      experiment_requests(Declare<Counter>(
          registry, "fovea_experiment_requests_total",
          "Requests that an experiment sent to an arm, by outcome: ok, failed, or copies of the "
          "baseline's, shadow, and those that were not made, shadow_skipped")),
      experiment_latency(Declare<Gauge>(
          registry, "fovea_experiment_latency_ratio",
          "Latency of an arm over the baseline's: the estimate, and the ends of an interval that "
          "holds the truth at all times")),
      experiment_disagreement(
          Declare<Gauge>(registry, "fovea_experiment_disagreement",
                         "Share of an arm's answers that differ from the baseline's, likewise")),
      experiment_errors(
          Declare<Gauge>(registry, "fovea_experiment_error_excess",
                         "Share of failures of an arm less the baseline's, likewise")),
      experiments_ended(Declare<Counter>(registry, "fovea_experiments_ended_total",
                                         "Experiments that have ended, by why")),
      trace_spans(Declare<Counter>(registry, "fovea_trace_spans_total",
                                   "Spans by what became of them: taken by the collector, dropped "
                                   "before they were sent, or sent and not taken")),
      trace_export_failures(
          Declare<Counter>(registry, "fovea_trace_export_failures_total",
                           "Attempts to send spans to the collector that did not succeed")),
      traces_not_forced(Declare<Counter>(
          registry, "fovea_trace_forced_refused_total",
          "Requests that asked to be traced and were not, because there were too many")) {
  Declare<Gauge>(registry, "fovea_build_info", "1; the labels say what runs")
      .Add({{"version", kVersion}})
      .Set(1);
}

}  // namespace fovea
