// Families that are made when they are read, for what nobody counts meanwhile.
#pragma once

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>
#include <prometheus/metric_type.h>

#include <string>
#include <utility>
#include <vector>

#include "server/observe/series.h"

namespace fovea {

// Adds a series of a counter or a gauge to a family.
inline void AddSeries(prometheus::MetricFamily& family, const MetricLabels& labels, double value) {
  prometheus::ClientMetric& metric = family.metric.emplace_back();
  for (const auto& [name, text] : labels) metric.label.push_back({name, text});
  const bool counter = family.type == prometheus::MetricType::Counter;
  (counter ? metric.counter.value : metric.gauge.value) = value;
}

// A family of one series without labels.
inline prometheus::MetricFamily SingleSeries(std::string name, std::string help,
                                             prometheus::MetricType type, double value) {
  prometheus::MetricFamily family{std::move(name), std::move(help), type, {}};
  AddSeries(family, {}, value);
  return family;
}

}  // namespace fovea
