// Options that several commands share.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "absl/time/time.h"
#include "client/cpp/client.h"

namespace fovea::client {

// A number in [low, high]; the help does not repeat the bounds.
CLI::Validator InRange(int low, int high);

// One value behind each of its names.
CLI::Option* Repeatable(CLI::Option* option, const char* type);

void AddTime(CLI::App& command, const std::string& option, absl::Duration& time,
             const std::string& what);
void AddTimeout(CLI::App& command, CallOptions& call, const std::string& what);
void AddJson(CLI::App& command, bool& json);

}  // namespace fovea::client
