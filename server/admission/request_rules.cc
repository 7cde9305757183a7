#include "server/admission/request_rules.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/limits.h"
#include "base/status.h"
#include "server/core/bytes_tensor.h"
#include "server/core/quote.h"

namespace fovea {
namespace {

std::string ShapeText(std::span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ","), "]");
}

std::string AcceptedNames(const ModelView& model) {
  return absl::StrJoin(
      model.accepted_inputs, ", ",
      [](std::string* out, const TensorDescription& input) { absl::StrAppend(out, input.name); });
}

const TensorDescription* FindDescription(const std::vector<TensorDescription>& descriptions,
                                         std::string_view name) {
  for (const TensorDescription& description : descriptions) {
    if (description.name == name) return &description;
  }
  return nullptr;
}

bool Matches(std::span<const int64_t> shape, std::span<const int64_t> description) {
  if (shape.size() != description.size()) return false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (description[i] != -1 && description[i] != shape[i]) return false;
  }
  return true;
}

// `images` as a number that the model takes.
absl::StatusOr<int> CheckImageCount(int64_t images, bool pictures, uint64_t priority,
                                    const ModelView& model) {
  if (images < 1) return InvalidArgument("request.no_image", "the request has no image");
  // Pictures that keep their shape go each by itself, with a place in the queue for each: more of
  // them than there are places would find it full however often they came.
  const int most = pictures && model.fits_pictures
                       ? std::min(std::max(model.max_batch_size, limits::kMaxPicturesPerRequest),
                                  model.PolicyOf(model.LevelOf(priority)).max_queue_size)
                       : model.max_batch_size;
  if (images > most) {
    return InvalidArgument(
        "request.batch_too_large",
        absl::StrCat(images, " images in one request; the model takes at most ", most));
  }
  return static_cast<int>(images);
}

// The place of such pixels among the model's sizes.
std::optional<size_t> SizeOf(const ImageSize& pixels, const ModelView& model) {
  const auto found = std::ranges::find(model.sizes, pixels);
  if (found == model.sizes.end()) return std::nullopt;
  return static_cast<size_t>(found - model.sizes.begin());
}

// "[-1,3,224,224] or [-1,3,256,192]"
std::string PixelShapes(const ModelView& model) {
  return absl::StrJoin(model.sizes, " or ", [](std::string* out, const ImageSize& size) {
    absl::StrAppend(out, ShapeText(std::array<int64_t, 4>{-1, 3, size.height, size.width}));
  });
}

// The kind, type and shape, the number of images, and that the data is as long as the shape says.
absl::StatusOr<AcceptedInput> CheckInput(const InputTensor& input, uint64_t priority,
                                         const ModelView& model) {
  const TensorDescription* description = FindDescription(model.accepted_inputs, input.name);
  if (description == nullptr) {
    return InvalidArgument("request.input_unknown",
                           absl::StrCat("the model has no input ", InQuotes(input.name),
                                        "; it takes one of ", AcceptedNames(model)));
  }
  AcceptedInput accepted{.tensor = &input};
  if (input.name == kPixelValuesInput) {
    accepted.kind = InputKind::kPixelValues;
  } else if (input.name == kImageInput) {
    accepted.kind = InputKind::kImage;
  } else {
    FOVEA_CHECK(input.name == kImageRgbInput);
    accepted.kind = InputKind::kImageRgb;
  }

  if (input.type != description->type) {
    return InvalidArgument(
        "request.input_type",
        absl::StrCat(description->name, " is ", std::string(DataTypeName(description->type)),
                     ", not ", std::string(DataTypeName(input.type))));
  }
  // Files may come as [n] too: there is nothing inside an element for the shape to say.
  const bool flat_files = accepted.kind == InputKind::kImage && input.shape.size() == 1;
  bool fits = flat_files || Matches(input.shape, description->shape);
  if (fits && accepted.kind == InputKind::kPixelValues) {
    accepted.size = SizeOf({input.shape[2], input.shape[3]}, model);
    fits = accepted.size.has_value();
  } else if (fits && accepted.kind == InputKind::kImageRgb && !model.fits_pictures) {
    accepted.size = SizeOf({input.shape[1], input.shape[2]}, model);
  }
  if (!fits) {
    const std::string shapes = accepted.kind == InputKind::kPixelValues
                                   ? PixelShapes(model)
                                   : ShapeText(description->shape);
    return InvalidArgument("request.input_shape",
                           absl::StrCat(description->name, " has the shape ", shapes, ", not ",
                                        ShapeText(input.shape)));
  }
  const std::optional<int64_t> elements = ElementCount(input.shape);
  if (!elements || *elements == 0) {
    return InvalidArgument(
        "request.input_shape",
        absl::StrCat(description->name, " has the impossible shape ", ShapeText(input.shape)));
  }
  FOVEA_ASSIGN_OR_RETURN(
      accepted.images,
      CheckImageCount(input.shape[0], accepted.kind != InputKind::kPixelValues, priority, model));

  bool complete;
  if (accepted.kind == InputKind::kImage) {
    std::optional<std::vector<ScatteredBytes>> files = SplitBytesTensor(input.data, *elements);
    complete = files.has_value();
    if (complete) accepted.files = *std::move(files);
  } else {
    // The size in bytes may overflow where the count does not: compare by division.
    const size_t element_size = ElementSize(input.type);
    complete = input.data.size() % element_size == 0 &&
               input.data.size() / element_size == static_cast<uint64_t>(*elements);
  }
  if (!complete) {
    return InvalidArgument(
        "request.input_size",
        absl::StrCat(description->name, " has ", input.data.size(),
                     " bytes, which is not what its shape ", ShapeText(input.shape), " holds"));
  }
  return accepted;
}

absl::Status CheckFileSizes(std::span<const ScatteredBytes> files, const ModelView& model) {
  for (const ScatteredBytes& file : files) {
    if (file.size() > static_cast<uint64_t>(model.max_image_bytes)) {
      return ResourceExhausted("image.too_many_bytes",
                               absl::StrCat("an encoded image of ", file.size(), " bytes; at most ",
                                            model.max_image_bytes, " are taken"));
    }
  }
  return absl::OkStatus();
}

// Of pixels that come as they are, what imaging's probe refuses of a file.
absl::Status CheckPixelCount(const AcceptedInput& accepted, const ModelView& model) {
  const int64_t height = accepted.tensor->shape[1];
  const int64_t width = accepted.tensor->shape[2];
  if (height > limits::kMaxImageSide || width > limits::kMaxImageSide ||
      height * width > model.max_image_pixels) {
    return InvalidArgument(
        "image.too_many_pixels",
        absl::StrCat("an image of ", width, " x ", height, " pixels; at most ",
                     model.max_image_pixels, " and ", limits::kMaxImageSide, " a side are taken"));
  }
  const int64_t longer = std::max(height, width);
  const int64_t shorter = std::min(height, width);
  if (longer > shorter * limits::kMaxAspectRatio) {
    return InvalidArgument(
        "image.extreme_aspect_ratio",
        absl::StrCat("an image of ", width, " x ", height, " pixels: one side is more than ",
                     limits::kMaxAspectRatio, " times the other"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<AcceptedInput> CheckRequest(const InferenceRequest& request,
                                           const ModelView& model) {
  if (const auto* images = std::get_if<ImageFiles>(&request.input)) {
    AcceptedInput accepted{.kind = InputKind::kImage, .files = images->files};
    FOVEA_ASSIGN_OR_RETURN(accepted.images,
                           CheckImageCount(static_cast<int64_t>(accepted.files.size()),
                                           /*pictures=*/true, request.priority, model));
    FOVEA_RETURN_IF_ERROR(CheckFileSizes(accepted.files, model));
    return accepted;
  }
  const auto& tensors = std::get<NamedTensors>(request.input);
  if (tensors.size() != 1) {
    return InvalidArgument("request.input_count",
                           absl::StrCat(tensors.size(), " inputs; a request has exactly one of ",
                                        AcceptedNames(model)));
  }
  FOVEA_ASSIGN_OR_RETURN(AcceptedInput accepted, CheckInput(tensors[0], request.priority, model));
  if (accepted.kind == InputKind::kImage) {
    FOVEA_RETURN_IF_ERROR(CheckFileSizes(accepted.files, model));
  }
  if (accepted.kind == InputKind::kImageRgb) {
    FOVEA_RETURN_IF_ERROR(CheckPixelCount(accepted, model));
  }
  return accepted;
}

absl::Status CheckDeviceBytes(const ModelView& model, size_t size) {
  if (size >= model.device_bytes.size() || model.device_bytes[size] <= model.max_device_bytes) {
    return absl::OkStatus();
  }
  return ResourceExhausted(
      "image.too_large_for_device",
      absl::StrCat("such an image runs at ", ImageSizeText(model.sizes[size]), ", where the model ",
                   "and a batch of it hold ", model.device_bytes[size], " bytes; this server has ",
                   model.max_device_bytes, " for them"));
}

int64_t MemoryPerImage(const ModelView& model, bool decoded, int64_t result_bytes) {
  int64_t bytes = result_bytes;
  int64_t most_pixels = model.sizes.front().height * model.sizes.front().width;
  if (model.fits_pictures) {
    for (const ImageSize& size : model.sizes) {
      most_pixels = std::max(most_pixels, size.height * size.width);
    }
  }
  if (decoded) bytes += 3 * most_pixels;
  return bytes + model.output_bytes;
}

}  // namespace fovea
