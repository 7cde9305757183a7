#include "server/postprocess/tensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status.h"
#include "server/core/quote.h"
#include "server/postprocess/classification.h"

namespace fovea {
namespace {

static_assert(std::endian::native == std::endian::little,
              "raw tensors are little-endian on the wire");

// Appends one element of a BYTES tensor: a little-endian uint32 length and the bytes.
void AppendBytesElement(std::string_view element, std::string* data) {
  const auto length = static_cast<uint32_t>(element.size());
  data->append(reinterpret_cast<const char*>(&length), sizeof(length));
  data->append(element);
}

}  // namespace

absl::Status ImagesDiffer(std::string_view output) {
  return InvalidArgument("request.images_differ",
                         absl::StrCat("the images make ", std::string(output),
                                      " of different sizes, which one tensor does not hold: send "
                                      "them one by one"));
}

const RequestedOutput* FindWanted(const WantedTensors& wanted, std::string_view output) {
  static const RequestedOutput kAsItIs;
  if (wanted.outputs.empty()) return &kAsItIs;
  const auto found = std::find_if(wanted.outputs.begin(), wanted.outputs.end(),
                                  [&](const auto& one) { return one.name == output; });
  return found == wanted.outputs.end() ? nullptr : &*found;
}

absl::Status CheckWantedTensors(const WantedTensors& wanted, const ModelView& model) {
  for (const RequestedOutput& output : wanted.outputs) {
    const auto description =
        std::find_if(model.outputs.begin(), model.outputs.end(),
                     [&](const TensorDescription& one) { return one.name == output.name; });
    if (description == model.outputs.end()) {
      return InvalidArgument("request.output_unknown",
                             absl::StrCat("the model has no output ", InQuotes(output.name)));
    }
    if (output.classification > 0 && description->type != DataType::kFp32) {
      return InvalidArgument(
          "request.classification_type",
          absl::StrCat("classes are made of FP32 outputs only; ", description->name, " is ",
                       std::string(DataTypeName(description->type))));
    }
    // Of maps, masks and detections the indices would be no classes, and there might be millions.
    const bool of_classes = description->shape.size() == 2 && model.task != VisionTask::kDetection;
    if (output.classification > 0 && !of_classes) {
      return InvalidArgument("request.classification_shape",
                             absl::StrCat("classes are made of outputs [batch, classes] only; ",
                                          description->name, " is none"));
    }
  }
  return absl::OkStatus();
}

int64_t WantedTensorBytes(const WantedTensors& wanted, const ModelView& model) {
  int64_t classes = 0;
  for (const TensorDescription& output : model.outputs) {
    const RequestedOutput* const asked = FindWanted(wanted, output.name);
    if (asked == nullptr) continue;
    classes += std::min(asked->classification, output.ElementsPerImage());
  }
  return classes * RecordBytes(model);
}

std::vector<OutputTensor> TakeWantedTensors(const WantedTensors& wanted, const ModelView& model,
                                            std::vector<OutputTensor> outputs) {
  std::vector<OutputTensor> taken;
  for (OutputTensor& output : outputs) {
    const RequestedOutput* const asked = FindWanted(wanted, output.name);
    if (asked == nullptr) continue;
    taken.push_back(asked->classification > 0
                        ? ClassificationTensor(output, asked->classification, *model.labels)
                        : std::move(output));
  }
  return taken;
}

OutputTensor ClassificationTensor(const OutputTensor& values, int64_t count,
                                  std::span<const std::string> labels) {
  FOVEA_CHECK(values.type == DataType::kFp32 && !values.shape.empty());
  const int64_t batch = values.shape[0];
  const size_t width = batch == 0 ? 0 : values.data.size() / sizeof(float) / batch;
  count = std::min<int64_t>(count, static_cast<int64_t>(width));
  OutputTensor result{values.name, DataType::kBytes, {batch, count}, ""};
  std::vector<float> row(width);
  for (int64_t image = 0; image < batch; ++image) {
    std::memcpy(row.data(), values.data.data() + image * width * sizeof(float),
                width * sizeof(float));
    for (int index : LargestIndices(row, static_cast<size_t>(count))) {
      std::string element = absl::StrFormat("%f:%d", row[index], index);
      if (static_cast<size_t>(index) < labels.size()) absl::StrAppend(&element, ":", labels[index]);
      AppendBytesElement(element, &result.data);
    }
  }
  return result;
}

}  // namespace fovea
