#include "model_zoo/training/data/user_data/readable.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "model_zoo/quoted.h"
#include "model_zoo/training/data/user_data/held_out.h"

namespace fovea::models::training {
namespace {

template <typename Level>
void AddLevels(const cv::Mat& map, ReadableData& data) {
  std::vector<bool> there(size_t{1} << (8 * sizeof(Level)));
  for (int y = 0; y < map.rows; ++y) {
    const Level* row = map.ptr<Level>(y);
    for (int x = 0; x < map.cols; ++x) there[row[x]] = true;
  }
  for (size_t level = 0; level < there.size(); ++level) {
    if (!there[level]) continue;
    if (static_cast<int>(level) == IgnoredLevel(map.type())) {
      data.ignored_pixels = true;
    } else {
      data.classes.insert(static_cast<int64_t>(level));
    }
  }
}

void Add(const Sample& sample, ReadableData& data) {
  if (sample.class_index) data.classes.insert(*sample.class_index);
  for (const Object& object : sample.objects) {
    ++(object.crowd ? data.crowds : data.objects);
    if (!object.crowd) data.classes.insert(object.class_index);
  }
  if (sample.class_map.empty()) return;
  sample.class_map.type() == CV_16U ? AddLevels<uint16_t>(sample.class_map, data)
                                    : AddLevels<uint8_t>(sample.class_map, data);
}

void CheckShare(const std::vector<std::string>& left_out, uint64_t all) {
  if (2 * left_out.size() <= all) return;
  constexpr size_t kListed = 10;
  std::string words = std::to_string(left_out.size()) + " of " + std::to_string(all) +
                      " pictures cannot be read, more than half:";
  for (size_t i = 0; i < std::min(kListed, left_out.size()); ++i) {
    words += "\n  " + left_out[i];
  }
  if (left_out.size() > kListed) words += "\n  ...";
  throw DataError(words);
}

}  // namespace

ReadableData ReadAll(const std::shared_ptr<const SampleSource>& source,
                     const ReadProgress& progress) {
  const uint64_t count = source->size();
  ReadableData data;
  std::vector<std::string> errors(count);  // empty: it can be read
  std::mutex mutex;
  std::atomic<uint64_t> next = 0, done = 0;
  const auto read = [&] {
    for (uint64_t index = next++; index < count; index = next++) {
      try {
        const Sample sample = source->Get(index);
        const std::lock_guard lock(mutex);
        Add(sample, data);
      } catch (const DataError& error) {
        errors[index] = error.what();
      }
      ++done;
      if (progress) progress("pictures", done, count);
    }
  };
  const uint64_t threads = std::clamp<uint64_t>(std::thread::hardware_concurrency(), 1, 8);
  std::vector<std::future<void>> readers;
  for (uint64_t i = 0; i < std::min(threads, count); ++i) {
    readers.push_back(std::async(std::launch::async, read));
  }
  for (std::future<void>& reader : readers) reader.get();

  std::vector<uint64_t> readable;
  for (uint64_t index = 0; index < count; ++index) {
    if (errors[index].empty()) {
      readable.push_back(index);
    } else {
      data.left_out.push_back(std::move(errors[index]));
    }
  }
  CheckShare(data.left_out, count);
  data.source =
      data.left_out.empty() ? source : std::make_shared<const Subset>(source, std::move(readable));
  return data;
}

std::string LeftOutNote(const std::vector<std::string>& left_out, uint64_t all) {
  std::string note =
      std::to_string(left_out.size()) + " of " + std::to_string(all) + " pictures are left out:";
  for (const std::string& why : left_out) note += "\n  " + why;
  return note;
}

std::shared_ptr<const SampleSource> WithoutLargeMasks(
    const std::shared_ptr<const SampleSource>& source, int64_t pixels,
    std::vector<std::string>& notes) {
  std::vector<uint64_t> kept;
  std::vector<std::string> left_out;
  for (uint64_t index = 0; index < source->size(); ++index) {
    try {
      CheckMasks(source->Name(index), source->MaskCount(index), pixels);
      kept.push_back(index);
    } catch (const DataError& error) {
      left_out.push_back(error.what());
    }
  }
  if (left_out.empty()) return source;
  CheckShare(left_out, source->size());
  notes.push_back(LeftOutNote(left_out, source->size()));
  return std::make_shared<const Subset>(source, std::move(kept));
}

void CheckLearnable(const ReadableData& data) {
  const GroundTruth truth = data.source->ground_truth();
  if (truth.boxes && data.objects == 0) {
    throw DataError(data.crowds > 0
                        ? "all " + std::to_string(data.crowds) +
                              " objects are crowds, of which nothing is learned (CVAT and "
                              "Datumaro write iscrowd 1 for painted masks): set iscrowd to 0 for "
                              "single objects"
                        : "there is no object in any of the pictures: there is nothing to learn");
  }
  if (truth.boxes || data.classes.size() > 1) return;
  if (data.classes.empty()) {
    throw DataError("the masks hold nothing but ignored pixels: there is nothing to learn");
  }
  const auto only = static_cast<size_t>(*data.classes.begin());
  if (truth.class_index) {
    throw DataError("all pictures are of one class, " + Quoted(data.source->labels().at(only)) +
                    ": there is nothing to learn. Of a classifier each class has a folder");
  }
  throw DataError("all pixels of the masks are of one class, " +
                  Quoted(data.source->map_labels().at(only)) +
                  (data.ignored_pixels
                       ? ", or 255, which does not count: write 1 for the object where 255 is one"
                       : ": there is nothing to learn"));
}

}  // namespace fovea::models::training
