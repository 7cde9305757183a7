// The models of a fake server, as its services look them up.
#pragma once

#include <grpcpp/support/status.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/client/fake_server.h"

namespace fovea::client {

// Null: none of that name is ready.
inline const FakeModel* Find(const std::vector<FakeModel>& models, const std::string& name) {
  for (const FakeModel& model : models) {
    if (model.name == name && model.state == "READY") return &model;
  }
  return nullptr;
}

inline grpc::Status NoSuchModel(const std::string& name) {
  return {grpc::StatusCode::NOT_FOUND, absl::StrCat("model '", name, "' is not loaded")};
}

}  // namespace fovea::client
