#include "kernels/contract.h"

#include <c10/util/Exception.h>

#include <cmath>
#include <string>

namespace fovea::kernels {

void Contract::HasRank(Argument argument, int64_t rank, std::string_view layout) const {
  TORCH_CHECK(argument.tensor.layout() == at::kStrided, op_, ": ", argument.name,
              " must be a strided tensor, got layout ", argument.tensor.layout());
  TORCH_CHECK(argument.tensor.dim() == rank, op_, ": ", argument.name, " must have ", rank,
              " dimensions ", layout, ", got shape ", argument.tensor.sym_sizes());
}

void Contract::IsFloating(Argument argument) const {
  const at::ScalarType type = argument.tensor.scalar_type();
  TORCH_CHECK(
      type == at::kFloat || type == at::kBFloat16 || type == at::kHalf || type == at::kDouble, op_,
      ": ", argument.name, " must be Float, BFloat16, Half or Double, got ", type);
}

void Contract::HasTypeAndDeviceOf(Argument argument, Argument model) const {
  TORCH_CHECK(argument.tensor.scalar_type() == model.tensor.scalar_type(), op_, ": ", argument.name,
              " must have ", model.name, "'s type ", model.tensor.scalar_type(), ", got ",
              argument.tensor.scalar_type());
  TORCH_CHECK(argument.tensor.device() == model.tensor.device(), op_, ": ", argument.name,
              " must be on ", model.name, "'s device ", model.tensor.device(), ", got ",
              argument.tensor.device());
}

void Contract::IsBiasOf(Argument bias, Argument model) const {
  TORCH_CHECK(bias.tensor.layout() == at::kStrided, op_, ": ", bias.name,
              " must be a strided tensor, got layout ", bias.tensor.layout());
  const at::ScalarType type = bias.tensor.scalar_type();
  TORCH_CHECK(type == at::kFloat || type == model.tensor.scalar_type(), op_, ": ", bias.name,
              " must be Float or have ", model.name, "'s type ", model.tensor.scalar_type(),
              ", got ", type);
  TORCH_CHECK(bias.tensor.device() == model.tensor.device(), op_, ": ", bias.name, " must be on ",
              model.name, "'s device ", model.tensor.device(), ", got ", bias.tensor.device());
}

void Contract::IsIndicesOf(Argument argument, Argument model) const {
  TORCH_CHECK(argument.tensor.scalar_type() == at::kLong, op_, ": ", argument.name,
              " must be Long, got ", argument.tensor.scalar_type());
  TORCH_CHECK(argument.tensor.device() == model.tensor.device(), op_, ": ", argument.name,
              " must be on ", model.name, "'s device ", model.tensor.device(), ", got ",
              argument.tensor.device());
}

void Contract::HasSizeOf(Argument argument, Argument model, int64_t dim,
                         std::string_view dim_name) const {
  TORCH_CHECK(argument.tensor.sym_size(dim) == model.tensor.sym_size(dim), op_, ": ", argument.name,
              " must have ", model.name, "'s ", dim_name, " ", model.tensor.sym_size(dim),
              ", got shape ", argument.tensor.sym_sizes());
}

void Contract::HasCount(Argument argument, int64_t dim, const c10::SymInt& count,
                        std::string_view what) const {
  TORCH_CHECK(argument.tensor.sym_size(dim) == count, op_, ": ", argument.name, " must have ",
              count, " ", what, ", got shape ", argument.tensor.sym_sizes());
}

void Contract::HasElements(Argument argument, const c10::SymInt& elements,
                           std::string_view product) const {
  TORCH_CHECK(argument.tensor.sym_numel() == elements, op_, ": ", argument.name, " must have ",
              product, " = ", elements, ", got shape ", argument.tensor.sym_sizes());
}

void Contract::IsFp32On(Argument argument, Argument model) const {
  TORCH_CHECK(argument.tensor.scalar_type() == at::kFloat, op_, ": ", argument.name,
              " must be Float, got ", argument.tensor.scalar_type());
  TORCH_CHECK(argument.tensor.device() == model.tensor.device(), op_, ": ", argument.name,
              " must be on ", model.name, "'s device ", model.tensor.device(), ", got ",
              argument.tensor.device());
}

void Contract::IsNotEmpty(Argument argument, int64_t dim, std::string_view dim_name) const {
  TORCH_CHECK(argument.tensor.sym_size(dim) > 0, op_, ": ", argument.name,
              " must have at least one ", dim_name, ", got shape ", argument.tensor.sym_sizes());
}

void Contract::IsContiguousInLastDim(Argument argument) const {
  const at::Tensor& tensor = argument.tensor;
  TORCH_CHECK(tensor.sym_size(-1) <= 1 || tensor.sym_stride(-1) == 1, op_, ": ", argument.name,
              " must be contiguous in its last dimension, got strides ", tensor.sym_strides());
}

void Contract::BroadcastsTo(Argument argument, c10::SymIntArrayRef shape,
                            std::string_view layout) const {
  const auto sizes = argument.tensor.sym_sizes();
  bool fits = sizes.size() <= shape.size();
  for (size_t i = 1; fits && i <= sizes.size(); ++i) {
    const c10::SymInt& size = sizes[sizes.size() - i];
    fits = size == 1 || size == shape[shape.size() - i];
  }
  TORCH_CHECK(fits, op_, ": ", argument.name, " must broadcast to ", layout, " = ", shape,
              ", got shape ", sizes);
}

void Contract::HasShape(Argument argument, c10::SymIntArrayRef shape,
                        std::string_view layout) const {
  TORCH_CHECK(argument.tensor.layout() == at::kStrided, op_, ": ", argument.name,
              " must be a strided tensor, got layout ", argument.tensor.layout());
  TORCH_CHECK(argument.tensor.sym_sizes() == shape, op_, ": ", argument.name, " must have shape ",
              layout, " = ", shape, ", got shape ", argument.tensor.sym_sizes());
}

void Contract::HasLength(std::string_view name, at::IntArrayRef values, size_t length) const {
  TORCH_CHECK(values.size() == length, op_, ": ", name, " must have ", length, " values, got ",
              values);
}

void Contract::Divides(std::string_view name, int64_t value, const c10::SymInt& size,
                       std::string_view size_name) const {
  TORCH_CHECK(value >= 1 && size % value == 0, op_, ": ", name, " must divide ", size_name, " ",
              size, ", got ", value);
}

void Contract::IsMultipleOf(std::string_view name, const c10::SymInt& value, int64_t factor) const {
  TORCH_CHECK(value % factor == 0, op_, ": ", name, " must be a multiple of ", factor, ", got ",
              value);
}

void Contract::IsOneOf(std::string_view name, std::string_view value,
                       std::initializer_list<std::string_view> choices) const {
  std::string names;
  for (const std::string_view choice : choices) {
    if (value == choice) return;
    names.append(names.empty() ? "" : ", ").append(choice);
  }
  TORCH_CHECK(false, op_, ": ", name, " must be one of ", names, ", got \"", value, "\"");
}

void Contract::IsWithin(std::string_view name, int64_t value, int64_t low, const c10::SymInt& high,
                        std::string_view why) const {
  TORCH_CHECK(value >= low && high >= value, op_, ": ", name, " must be in [", low, ", ", high,
              "] (", why, "), got ", value);
}

void Contract::IsDefault(std::string_view name, double value, double standard,
                         std::string_view why) const {
  TORCH_CHECK(value == standard, op_, ": ", name, " must be ", standard, " (", why, "), got ",
              value);
}

void Contract::IsFinite(std::string_view name, double value) const {
  TORCH_CHECK(std::isfinite(value), op_, ": ", name, " must be finite, got ", value);
}

}  // namespace fovea::kernels
