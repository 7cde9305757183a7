// A server in the test's own process that speaks the services and answers what the test wrote.
#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/fovea/v1/comparison.pb.h"

namespace fovea::client {

// What a fake model makes of an image. The image's bytes decide:
//   "bad ...": INVALID_ARGUMENT; "busy ...": UNAVAILABLE; "flaky ...": UNAVAILABLE the first two
//   times that a model is asked about such an image; "slow ...": no answer before the deadline;
//   anything else: the model's classes.
struct FakeModel {
  struct Class {
    int index = 0;
    std::string label;
    float confidence = 0;
  };
  std::string name;
  std::string version = "1";
  std::string state = "READY";
  std::string reason;
  std::string task = "classification";
  std::string attention = "dense";
  bool untrained = false;
  std::string mask_runs;  // a detector's mask of each object; empty: it has none
  // Of a segmenter's pictures. Their first column is of the first class, the rest of the second;
  // the confidence of each pixel is 40 more than of the one before it, modulo 256.
  int picture_height = 2, picture_width = 3;
  std::vector<Class> classes = {{0, "circle", 0.75f}, {1, "square", 0.2f}, {2, "star", 0.05f}};
  int64_t compute_ns = 2'000'000;
  bool doubt = false;  // a comparison has no verdict on it, because its interval is too wide
  int64_t peak_bytes = 3 << 20;
  int batch_size = 1;
};

class FakeServer {
 public:
  FakeServer(std::initializer_list<FakeModel> models);
  ~FakeServer();

  const std::string& address() const { return address_; }

  // The models that were asked to classify, one a request, in order of arrival.
  std::vector<std::string> classified() const;
  // When each image came to be classified, by its bytes: of a request its first.
  std::map<std::string, std::vector<absl::Time>> classified_at() const;
  // What comparisons were asked for.
  std::vector<fovea::v1::CompareRequest> compared() const;
  // What sweeps were asked for.
  std::vector<fovea::v1::SweepRequest> swept() const;
  // The models that were to be loaded, one a call, in order of arrival. "busy": UNAVAILABLE.
  std::vector<std::string> loaded() const;
  // The most Classify calls that were running at one time.
  int most_at_once() const;

  // Every Classify waits until so many run at one time, or a second has passed.
  void WaitForCompany(int calls);

  // Ends the server; calls that are running are cancelled.
  void Stop();

 private:
  struct Services;
  std::unique_ptr<Services> services_;
  std::string address_;
};

}  // namespace fovea::client
