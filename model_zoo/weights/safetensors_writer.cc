#include "model_zoo/weights/safetensors_writer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>

#include "model_zoo/weights/pending_file.h"

namespace fovea::models {
namespace {

std::string_view TypeName(c10::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return "F32";
    case at::kHalf:
      return "F16";
    case at::kBFloat16:
      return "BF16";
    default:
      TORCH_CHECK_VALUE(false, "weights are written as F32, F16 or BF16, not as ", dtype);
  }
}

// Finite numbers that F16 does not hold stay finite.
bool Overflows(const at::Tensor& tensor, c10::ScalarType dtype) {
  return dtype == at::kHalf &&
         (tensor.isfinite() & tensor.to(dtype).isfinite().logical_not()).any().item<bool>();
}

// As they are stored: wider types first, so that each tensor is aligned to its type.
std::vector<NamedTensor> Stored(const std::vector<NamedTensor>& tensors, c10::ScalarType dtype) {
  std::vector<NamedTensor> stored;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor here = tensor.detach().to(at::kCPU);
    stored.emplace_back(name, here.to(Overflows(here, dtype) ? at::kFloat : dtype).contiguous());
  }
  std::ranges::stable_sort(stored, std::ranges::greater(),
                           [](const NamedTensor& one) { return one.second.element_size(); });
  return stored;
}

// Length and header, padded with spaces so that the data are aligned to 8 bytes.
std::string Header(const std::vector<NamedTensor>& tensors,
                   const std::map<std::string, std::string>& metadata) {
  auto header = nlohmann::ordered_json::object();
  if (!metadata.empty()) {
    header["__metadata__"] = metadata;
  }
  uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    TORCH_CHECK_VALUE(!header.contains(name), "the tensor '", name, "' is written twice");
    const uint64_t end = offset + tensor.nbytes();
    header[name] = {{"dtype", TypeName(tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text;
}

}  // namespace

void WriteSafetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                      c10::ScalarType dtype, const std::map<std::string, std::string>& metadata) {
  const std::vector<NamedTensor> stored = Stored(tensors, dtype);
  const std::string header = Header(stored, metadata);
  PendingFile file(path);
  file.Write(header.data(), header.size());
  for (const auto& [name, tensor] : stored) file.Write(tensor.const_data_ptr(), tensor.nbytes());
  file.Commit();
}

}  // namespace fovea::models
