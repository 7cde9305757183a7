#include "server/executor/gpus.h"

#include "absl/strings/str_cat.h"
#include "server/executor/gpu.h"

namespace fovea {

std::string TextOf(const Gpus& gpus) {
  std::string text;
  for (const auto& gpu : gpus) absl::StrAppend(&text, text.empty() ? "" : ", ", gpu->name());
  return text.empty() ? "no GPU" : text;
}

}  // namespace fovea
