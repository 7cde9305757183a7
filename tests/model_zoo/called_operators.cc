#include "tests/model_zoo/called_operators.h"

#include <ATen/record_function.h>

#include <memory>

#include "absl/cleanup/cleanup.h"

namespace fovea::models {
namespace {

thread_local std::multiset<std::string>* called = nullptr;

std::unique_ptr<at::ObserverContext> Enter(const at::RecordFunction& function) {
  called->emplace(function.name());
  return nullptr;
}

}  // namespace

std::multiset<std::string> CalledOperators(const std::function<void()>& work) {
  std::multiset<std::string> names;
  called = &names;
  const auto watching = absl::MakeCleanup(
      [callback = at::addThreadLocalCallback(
           at::RecordFunctionCallback(Enter).scopes({at::RecordScope::FUNCTION}))] {
        at::removeCallback(callback);
        called = nullptr;
      });
  work();
  return names;
}

}  // namespace fovea::models
