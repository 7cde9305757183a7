// Inference requests over HTTP: between an exchange and the server's api.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "server/api/api_methods.h"
#include "server/api/server_api.h"
#include "server/core/vision_task.h"
#include "server/transport/http/http_exchange.h"

namespace fovea {

// What the requests of one port share. Outlives them.
struct HttpContext {
  ServerApi& api;
  const int64_t max_message_bytes;
  const size_t max_answer_bytes;
  const ApiGroups groups = ApiGroups::All();  // that the port answers
  std::function<std::string()> metrics = {};  // in Prometheus' format; null: there are none
};

// Answers an inference request of the Open Inference Protocol: JSON, with Triton's binary tensors,
// or one image as the whole body (Inference-Header-Content-Length: 0). `version` is empty where the
// path names none.
void StartInfer(HttpContext& context, std::shared_ptr<HttpExchange> exchange, std::string model,
                std::string version);

// Answers a request of `task` as people type it: the images are the body, or the parts "image" of a
// form; options, under the names of the task's request in vision.proto, are the query's or further
// parts of the form ("model" and "version" stand for model_name and model_version; timeout_us is
// how long the answer is of use).
void StartVision(HttpContext& context, std::shared_ptr<HttpExchange> exchange, VisionTask task);

}  // namespace fovea
