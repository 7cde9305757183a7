// What the client's calls take and give: plain data, no protobuf.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "client/cpp/tensor.h"

namespace fovea::client {

// A model, or one version of it. `version` empty: the latest that is served.
struct ModelId {
  std::string name;
  std::string version;
};

// What the server spent on a request, stage by stage, from the message's arrival to the answer's
// encoding.
inline constexpr std::array<std::string_view, 7> kStageNames = {
    "receive", "decode", "preprocess", "queue", "compute", "postprocess", "encode"};
inline constexpr int kComputeStage = 4;

// What a GPU did during the compute stage, by its own clock.
struct DeviceTimes {
  absl::Duration h2d, kernels, d2h;  // pixels to it; normalising, and the model; results back
};

struct Receipt {
  std::array<absl::Duration, kStageNames.size()> stages;  // in the order of kStageNames
  int batch_size = 0;            // images in the batch that the request was run in
  int batch_threads = 0;         // threads of the server's CPU that ran it; 0: the server is older
  int64_t batch_peak_bytes = 0;  // most bytes the batch's tensors held at once, weights not counted
  std::optional<DeviceTimes> device_times;  // absent: the batch ran on the CPU
  // The share of the pixels that the model took for the request's images that shows nothing of
  // them.
  double padding = 0;
  // The experiment that chose who answers, and the arm that it chose, by its name:
  // "shapes:knn:k=9". Empty: no experiment has the model's traffic.
  std::string experiment, experiment_arm;

  absl::Duration compute() const { return stages[kComputeStage]; }
  absl::Duration total() const;
};

struct TensorInfo {
  std::string name;
  std::string datatype;        // the Open Inference Protocol's: "FP32", "BYTES", ...
  std::vector<int64_t> shape;  // -1: any; the first dimension is the batch's
};

struct ModelInfo {
  std::string name;
  std::string version;  // empty where no version was ever loaded
  std::string state;    // "READY", "LOADING", "UNLOADING" or "UNAVAILABLE"
  std::string reason;   // why it is unavailable

  // Ready models only. The texts are empty where the server is not Fovea.
  std::string task;       // "classification"
  std::string attention;  // canonical text, "knn:k=100"
  std::string backbone;
  std::string precision;           // "FP32", "BF16" or "FP16"
  bool untrained = false;          // its weights are random numbers
  std::vector<TensorInfo> inputs;  // the advertised one
  std::vector<TensorInfo> outputs;
  std::map<std::string, std::string> properties;  // everything the metadata says besides

  bool ready() const { return state == "READY"; }
};

struct ClassifyRequest {
  ModelId model;
  // Contents of picture files (JPEG, PNG, WebP, GIF, BMP, TIFF or AVIF); they share one batch.
  std::vector<std::string> images;
  int top_k = 0;          // classes to return for each image; 0: five
  uint32_t priority = 0;  // 1 is served first; 0: the model's default
  std::string id;         // returned unchanged
};

struct ClassScore {
  int index = 0;
  std::string label;  // empty where the model has no labels
  float confidence = 0;
  float logit = 0;
};

struct ClassifyResponse {
  ModelId model;  // with the version that answered
  std::string id;
  std::string attention;
  bool untrained = false;                       // the labels mean nothing
  std::vector<std::vector<ClassScore>> images;  // the classes of each image, most probable first
  Receipt receipt;
  absl::Duration round_trip;  // as this process saw it, from sending to the answer
};

struct DetectRequest {
  ModelId model;
  // Contents of picture files (JPEG, PNG, WebP, GIF, BMP, TIFF or AVIF), at most 64.
  std::vector<std::string> images;
  float score_threshold = 0;  // objects of a lower score are left out; in [0, 1]
  int max_detections = 0;     // for each image, best first; 0: as many as the model gives
  // Only objects of these classes, each a label or a class number; empty: of all classes. At most
  // twice as many as the model has classes: INVALID_ARGUMENT request.too_many_classes.
  std::vector<std::string> classes;
  bool masks = false;     // which pixels show each object; for models that have masks
  uint32_t priority = 0;  // 1 is served first; 0: the model's default
  std::string id;         // returned unchanged
};

// In pixels of the picture, turned upright as its EXIF orientation says, to their outer edges.
struct Box {
  float left = 0, top = 0, right = 0, bottom = 0;
};

// The pixels that show an object.
struct InstanceMask {
  std::string run_lengths;  // COCO's compressed ones ("counts"), of the whole picture
  int64_t pixels = 0;
};

struct Detection {
  Box box;
  float score = 0;  // in [0, 1]
  int class_index = 0;
  std::string label;                 // empty where the model has no labels
  std::optional<InstanceMask> mask;  // where it was asked for
};

struct ImageDetections {
  std::vector<Detection> detections;  // by descending score; none is no error
  int image_height = 0, image_width = 0;
};

struct DetectResponse {
  ModelId model;  // with the version that answered
  std::string id;
  std::string attention;
  bool untrained = false;  // the boxes mean nothing
  std::vector<ImageDetections> images;
  Receipt receipt;
  absl::Duration round_trip;  // as this process saw it, from sending to the answer
};

struct SegmentRequest {
  ModelId model;
  // Contents of picture files (JPEG, PNG, WebP, GIF, BMP, TIFF or AVIF), at most 64.
  std::vector<std::string> images;
  bool confidence = false;  // besides, how sure the model is of each pixel's class
  uint32_t priority = 0;    // 1 is served first; 0: the model's default
  std::string id;           // returned unchanged
};

struct ClassArea {
  int class_index = 0;
  std::string label;  // empty where the model has no labels
  int64_t pixels = 0;
  std::string run_lengths;  // COCO's compressed ones ("counts")
};

// The classes of one picture, turned upright as its EXIF orientation says.
struct ImageSegmentation {
  int image_height = 0, image_width = 0;
  std::vector<ClassArea> classes;   // those that it shows, the largest first
  std::vector<uint16_t> class_map;  // [image_height, image_width]: the class of each pixel
  // [image_height, image_width]: 255 times the softmax of that class; empty where it was not asked
  // for and, in a stream, where the server left it out.
  std::vector<uint8_t> confidence;
};

struct SegmentResponse {
  ModelId model;  // with the version that answered
  std::string id;
  std::string attention;
  bool untrained = false;  // the classes mean nothing
  std::vector<ImageSegmentation> images;
  Receipt receipt;
  absl::Duration round_trip;  // as this process saw it, from sending to the answer
};

struct RequestedOutput {
  std::string name;
  // Above 0: so many "<value>:<index>[:<label>]" strings an image instead of the numbers.
  int64_t classification = 0;
};

struct InferRequest {
  ModelId model;
  std::vector<Tensor> inputs;
  std::vector<RequestedOutput> outputs;  // empty: all of the model's
  uint64_t priority = 0;                 // 1 is served first; 0: the model's default
  std::string id;                        // returned unchanged
};

struct InferResponse {
  ModelId model;  // with the version that answered
  std::string id;
  std::vector<Tensor> outputs;
  std::optional<Receipt> receipt;  // none where the server is not Fovea
  absl::Duration round_trip;
};

// A count of events and the time that all of them took together.
struct DurationSum {
  uint64_t count = 0;
  absl::Duration total;
  absl::Duration mean() const;  // zero where nothing was counted
};

// Since the version was loaded.
struct ModelStatistics {
  std::string name;
  std::string version;
  uint64_t images = 0;
  uint64_t batches = 0;
  DurationSum success, fail;                                        // requests
  DurationSum queue, compute_input, compute_infer, compute_output;  // successful requests only
  absl::Time last_inference = absl::InfinitePast();                 // InfinitePast: none yet
  std::map<std::string, uint64_t> memory_bytes;                     // by "CPU", "CPU_PINNED", "GPU"
};

struct ServerHealth {
  bool live = false;   // the process answers
  bool ready = false;  // it takes requests: started, and not being stopped
};

}  // namespace fovea::client
