// The calls of one client: they run at the same time, and end together. Internal to the library.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace fovea::client {

// UNAVAILABLE, and IsUnreachable.
absl::Status Unreachable(const std::string& why);

// What a server says of a failed request; `reason` may be empty.
absl::Status ServerError(int code, const std::string& message, const std::string& reason);

// The key that keeps a caller on one arm of an experiment; empty: none. INVALID_ARGUMENT: it is not
// printable ASCII.
absl::Status AddExperimentKey(const std::string& key, grpc::ClientContext& context);

std::chrono::system_clock::time_point DeadlineIn(absl::Duration timeout);

// Thread-safe.
class Connection {
 public:
  // `address` is for people. `api_key`: empty for none.
  Connection(std::string address, std::shared_ptr<grpc::Channel> channel, std::string api_key)
      : address_(std::move(address)), channel_(std::move(channel)), api_key_(std::move(api_key)) {}

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  // A call begins, and is given the API key; it ends with End. False: no more calls are made, and
  // this one does not begin.
  bool Begin(grpc::ClientContext& context);
  void End(grpc::ClientContext& context);
  // Cancels the calls that are running, and lets none begin.
  void Stop();

  // How a call with that timeout ended; `what` names the call.
  absl::Status Outcome(const char* what, absl::Duration timeout, const grpc::Status& status,
                       const grpc::ClientContext& context) const;

 private:
  const std::string address_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::string api_key_;
  std::mutex mutex_;
  bool stopped_ = false;
  std::set<grpc::ClientContext*> running_;
};

// The status of calls that a stopped client does not make.
absl::Status Stopped();

}  // namespace fovea::client
