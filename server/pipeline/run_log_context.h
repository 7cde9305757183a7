// Whose requests a thread works for, in the lines that it logs meanwhile.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "server/core/log.h"
#include "server/core/model_catalog.h"
#include "server/core/request.h"
#include "server/executor/inference_task.h"

namespace fovea {

// Ends lines with the model and with the ids that callers gave their requests, at most eight: "(the
// model shapes, version 1; requests 'a', 'b' and 3 more)". Where a batch fails, lines about its
// halves name all of its requests; the log of requests tells which of them failed. `model` outlives
// this, the requests need not.
class RunLogContext final : public LogContext {
 public:
  RunLogContext(const ModelView& model, std::span<const std::unique_ptr<InferenceTask>> tasks);
  RunLogContext(const ModelView& model, const InferenceRequest& request);

  std::string About() const override;

 private:
  void Add(const InferenceRequest& request);

  const ModelView& model_;
  size_t requests_ = 0;
  std::vector<std::string> ids_;  // of some of them, none empty
};

}  // namespace fovea
