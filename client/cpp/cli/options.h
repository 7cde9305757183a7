// Kinds of options that several commands have.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "absl/time/time.h"
#include "client/cpp/client.h"

namespace fovea::client {

// A number in [low, high]; the help does not repeat the bounds.
CLI::Validator InRange(int low, int high);
CLI::Validator InRange(double low, double high);

// Given once for each of its values.
CLI::Option* Repeatable(CLI::Option* option, const std::string& type);

// `what` ends with how a time is written, and with `time` as the default where it has one.
void AddTime(CLI::App& command, const std::string& option, absl::Duration& time,
             const std::string& what);
void AddTimeout(CLI::App& command, CallOptions& call, const std::string& what);
void AddJson(CLI::App& command, bool& json);

}  // namespace fovea::client
