// Callers of the paths of experiments, whose answers the test gives while they wait.
#pragma once

#include <string>
#include <thread>
#include <utility>

#include "tests/server/transport/http/http_api_testing.h"

namespace fovea {

constexpr char kForm[] = "Content-Type: multipart/form-data; boundary=b\r\n";

// Of such a form, which ends with "--b--\r\n".
inline std::string Part(const std::string& name, const std::string& value) {
  return "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n";
}

class HttpExperimentTest : public HttpApiTest {
 protected:
  ~HttpExperimentTest() override {
    if (asking_.joinable()) asking_.join();
  }

  // Asks on a thread, until the test has had it answered.
  void StartAsking(std::string target, std::string body, std::string fields = "") {
    asking_ = std::thread([this, target = std::move(target), body = std::move(body),
                           fields = std::move(fields)] { answer_ = Ask(target, body, fields); });
  }
  const HttpApiAnswer& Answer() {
    asking_.join();
    return answer_;
  }

 private:
  std::thread asking_;
  HttpApiAnswer answer_;
};

}  // namespace fovea
