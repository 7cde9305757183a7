// A ComparisonService for a fake server.
#pragma once

#include <mutex>
#include <vector>

#include "proto/fovea/v1/comparison.grpc.pb.h"
#include "tests/client/fake_server.h"

namespace fovea::client {

// One round's progress, then what the models' compute_ns and classes come to. Of an image that
// begins with "slow" there is nothing behind the progress, until the caller has gone.
class FakeComparisons final : public fovea::v1::ComparisonService::Service {
 public:
  explicit FakeComparisons(const std::vector<FakeModel>& models) : models_(models) {}

  grpc::Status Compare(grpc::ServerContext* context, const fovea::v1::CompareRequest* request,
                       grpc::ServerWriter<fovea::v1::CompareResponse>* writer) override;

  // A curve for each variant: milliseconds as a model's compute_ns at the first value, and twice as
  // many at each further one. A value of "13" cannot be measured.
  grpc::Status Sweep(grpc::ServerContext* context, const fovea::v1::SweepRequest* request,
                     grpc::ServerWriter<fovea::v1::SweepResponse>* writer) override;

  // What was asked for.
  std::vector<fovea::v1::CompareRequest> compared() const;
  std::vector<fovea::v1::SweepRequest> swept() const;

 private:
  void Fill(const fovea::v1::SweepRequest& request, fovea::v1::Sweep* sweep) const;
  void Fill(const fovea::v1::CompareRequest& request, fovea::v1::Comparison* comparison) const;

  const std::vector<FakeModel>& models_;
  mutable std::mutex mutex_;
  std::vector<fovea::v1::CompareRequest> compared_;
  std::vector<fovea::v1::SweepRequest> swept_;
};

}  // namespace fovea::client
