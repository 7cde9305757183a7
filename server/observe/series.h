// Series that go when their owner does.
#pragma once

#include <prometheus/family.h>

#include <array>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/check.h"
#include "server/core/protocol.h"
#include "server/observe/metric_families.h"

namespace fovea {

using MetricLabels = std::map<std::string, std::string>;

// The series that one owner has in several families, all with its labels. No two owners may have
// the same series at a time: the first to go would take it from the other. Not thread-safe.
class OwnedSeries {
 public:
  explicit OwnedSeries(MetricLabels labels) : labels_(std::move(labels)) {}
  ~OwnedSeries() {
    for (const auto& remove : removals_) remove();
  }
  OwnedSeries(const OwnedSeries&) = delete;
  OwnedSeries& operator=(const OwnedSeries&) = delete;

  const MetricLabels& labels() const { return labels_; }

  // A series with the owner's labels and `more`; `arguments` are those of the metric's constructor.
  template <typename Metric, typename... Arguments>
  Metric& Add(prometheus::Family<Metric>& family, MetricLabels more, Arguments&&... arguments) {
    more.insert(labels_.begin(), labels_.end());
    Metric& metric = family.Add(more, std::forward<Arguments>(arguments)...);
    removals_.push_back([&family, &metric] { family.Remove(&metric); });
    return metric;
  }

 private:
  const MetricLabels labels_;
  std::vector<std::function<void()>> removals_;
};

// fovea_requests_total of one owner: a series for each protocol and status code, there from the
// start so that rates are right.
class RequestCounters {
 public:
  RequestCounters(MetricFamilies& families, OwnedSeries& series);

  void Increment(Protocol protocol, absl::StatusCode code) {
    const auto index = static_cast<size_t>(code);
    FOVEA_CHECK(index < kCodes);
    counters_[static_cast<size_t>(protocol)][index]->Increment();
  }

 private:
  static constexpr size_t kCodes = 17;  // absl's, which are gRPC's
  std::array<std::array<prometheus::Counter*, kCodes>, kProtocols.size()> counters_{};
};

}  // namespace fovea
