// A port with the whole api behind it, whose models are fakes.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>

#include "base/limits.h"
#include "server/transport/http/http_api.h"
#include "server/transport/http/http_server.h"
#include "tests/server/api/fakes.h"
#include "tests/server/transport/http/http_testing.h"

namespace fovea {

struct HttpApiAnswer {
  int status = 0;
  std::string head, body;

  nlohmann::json Json() const {
    return nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  }
  std::string Field(const std::string& name) const {
    const size_t at = head.find("\r\n" + name + ": ");
    if (at == head.npos) return "";
    const size_t begin = at + name.size() + 4;
    return head.substr(begin, head.find("\r\n", begin) - begin);
  }
  std::string Reason() const { return Json().value("reason", ""); }
};

class HttpApiTest : public ::testing::Test {
 protected:
  HttpApiTest() { Start({}); }
  ~HttpApiTest() override {
    Transport* const transports[] = {server_.get()};
    api_->Drain(transports, 0);
  }

  void Start(const ServerApiOptions& options, size_t max_answer_bytes = limits::kMaxAnswerBytes,
             int threads = limits::kHttpThreads) {
    server_.reset();
    context_.reset();
    api_ = *ServerApi::Create(options, catalog_, catalog_, &observer_, SteadyClock());
    context_ = std::make_unique<HttpContext>(
        HttpContext{*api_, 16 << 20, max_answer_bytes, groups_, metrics_});
    server_ = *HttpServer::Create({.port = 0,
                                   .threads = threads,
                                   .max_body_bytes = 16 << 20,
                                   .check = MakeHttpCheck(*context_)},
                                  api_->memory(), SteadyClock(), MakeHttpApi(*context_));
    api_->SetServing(true);
  }

  // Of memory for requests, soon: an answer is there before its connection has ended.
  void ExpectNothingIsHeld() const {
    const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (api_->memory().held() > 0 && std::chrono::steady_clock::now() < late) {
      std::this_thread::yield();
    }
    EXPECT_EQ(api_->memory().held(), 0);
  }

  HttpApiAnswer Ask(std::string_view method_and_target, std::string_view body = "",
                    std::string_view fields = "") {
    const std::string text = AskHttp(server_->port(), HttpMessage(method_and_target, body, fields));
    const size_t end = text.find("\r\n\r\n");
    if (end == text.npos) return {};
    return {.status = std::stoi(text.substr(9, 3)),
            .head = text.substr(0, end + 2),
            .body = text.substr(end + 4)};
  }
  HttpApiAnswer Infer(const nlohmann::json& request) {
    return Ask("POST /v2/models/vit/infer", request.dump());
  }

  // Of the next Start.
  ApiGroups groups_ = ApiGroups::All();
  std::function<std::string()> metrics_;

  FakeInference inference_;
  FakeCatalog catalog_{inference_};
  RecordingObserver observer_;
  std::unique_ptr<ServerApi> api_;
  std::unique_ptr<HttpContext> context_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace fovea
