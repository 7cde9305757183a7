#include "model_zoo/training/optimisation/checkpoint.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <thread>

#include "model_zoo/weights/safetensors.h"

namespace fovea::models::training {
namespace {

using nlohmann::json;

constexpr char kState[] = "state.json";
constexpr char kTensors[] = "tensors.safetensors";
constexpr char kPrefix[] = "step-";
constexpr char kWriting[] = ".fovea-checkpoint-being-written";
constexpr int kMostTries = 100;  // to open a folder that others remove

// What was written there stays, whatever happens to the machine.
void Sync(const std::filesystem::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = file >= 0 && fsync(file) == 0;
  if (file >= 0) close(file);
  TORCH_CHECK(synced, "could not sync ", path.string());
}

json ToJson(const std::vector<Measure>& measures) {
  json list = json::array();
  for (const Measure& measure : measures) list.push_back({measure.name, measure.value});
  return list;
}

std::vector<Measure> MeasuresOf(const json& list) {
  std::vector<Measure> measures;
  for (const json& pair : list) {
    measures.push_back({pair.at(0).get<std::string>(), pair.at(1).get<double>()});
  }
  return measures;
}

// Numbers come back as they were, bit for bit.
json ToJson(const TrainingState& state, const std::string& identity) {
  json reports = json::array();
  for (const EpochReport& report : state.reports) {
    reports.push_back({{"epoch", report.epoch},
                       {"learning_rate", report.learning_rate},
                       {"training", ToJson(report.training)},
                       {"validation", ToJson(report.validation)},
                       {"score", report.score},
                       {"seconds", report.seconds}});
  }
  return {{"identity", identity},           {"step", state.step},
          {"sums", ToJson(state.sums)},     {"reports", reports},
          {"best_epoch", state.best_epoch}, {"best_score", state.best_score},
          {"seconds", state.seconds}};
}

TrainingState StateOf(const json& stored) {
  TrainingState state;
  state.step = stored.at("step");
  state.sums = MeasuresOf(stored.at("sums"));
  for (const json& report : stored.at("reports")) {
    state.reports.push_back({.epoch = report.at("epoch"),
                             .learning_rate = report.at("learning_rate"),
                             .training = MeasuresOf(report.at("training")),
                             .validation = MeasuresOf(report.at("validation")),
                             .score = report.at("score"),
                             .seconds = report.at("seconds")});
  }
  state.best_epoch = stored.at("best_epoch");
  state.best_score = stored.at("best_score");
  state.seconds = stored.at("seconds");
  return state;
}

// The step of a checkpoint's folder; none for anything else.
std::optional<int64_t> StepOf(const std::filesystem::path& path) {
  const std::string name = path.filename();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int64_t step = 0;
  const char* const end = name.data() + name.size();
  const auto [last, error] = std::from_chars(name.data() + sizeof kPrefix - 1, end, step);
  return error == std::errc() && last == end ? std::optional(step) : std::nullopt;
}

// Holds nothing but what a checkpoint does, or what is left of one that was being removed.
bool IsOwn(const std::filesystem::path& folder) {
  std::error_code none;
  if (!std::filesystem::is_directory(folder, none)) return false;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename();
    if (name != kState && name != kTensors) return false;
  }
  return true;
}

// Whether the open file is the one that has this name.
bool IsOpenAs(int file, const std::filesystem::path& name) {
  struct stat opened = {};
  struct stat named = {};
  return fstat(file, &opened) == 0 && stat(name.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

std::vector<std::string> SplitLines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream all(text);
  for (std::string line; std::getline(all, line);) lines.push_back(line);
  return lines;
}

// From the first line that differs to the last one: a thousand labels, of which two were swapped,
// are not for people to compare.
std::string Difference(const std::string& then, const std::string& now) {
  const std::vector<std::string> old_lines = SplitLines(then), new_lines = SplitLines(now);
  const size_t shared = std::min(old_lines.size(), new_lines.size());
  size_t front = 0, back = 0;
  while (front < shared && old_lines[front] == new_lines[front]) ++front;
  while (back < shared - front && old_lines.rbegin()[back] == new_lines.rbegin()[back]) ++back;
  const auto differing = [front, back](const std::vector<std::string>& lines) {
    std::string text;
    for (size_t i = front; i < lines.size() - back; ++i) text += "  " + lines[i] + "\n";
    return text.empty() ? "  nothing\n" : text;
  };
  return "Then:\n" + differing(old_lines) + "Now:\n" + differing(new_lines);
}

bool IsWhole(const std::filesystem::path& folder) {
  std::error_code none;
  return std::filesystem::exists(folder / kState, none) &&
         std::filesystem::exists(folder / kTensors, none);
}

// By step; the folders of others are left alone, whatever their names.
std::map<int64_t, std::filesystem::path> CheckpointsIn(const std::filesystem::path& folder) {
  std::map<int64_t, std::filesystem::path> found;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    const auto step = StepOf(entry.path());
    if (step && IsOwn(entry.path())) found.emplace(*step, entry.path());
  }
  return found;
}

// The last whole one; empty where there is none.
std::filesystem::path LastIn(const std::filesystem::path& folder) {
  auto found = CheckpointsIn(folder);
  std::erase_if(found, [](const auto& one) { return !IsWhole(one.second); });
  return found.empty() ? std::filesystem::path() : found.rbegin()->second;
}

}  // namespace

bool HoldsCheckpoint(const std::filesystem::path& folder) { return !LastIn(folder).empty(); }

CheckpointFolder::CheckpointFolder(std::filesystem::path folder, std::string identity)
    : folder_(std::move(folder)), identity_(std::move(identity)) {
  // Again where a training that ended in between has removed the folder.
  for (int tries = 0; lock_.get() < 0 || !IsOpenAs(lock_.get(), folder_); ++tries) {
    // Which is freed here. Between opening the next and locking it, it would leave whoever has that
    // one time to end.
    lock_ = FileDescriptor();
    // Nor in step with it, as file systems let one operation on a folder wait for the other.
    if (tries > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    // Where the disk that a link names was emptied, what it names is made again.
    const std::filesystem::path made =
        std::filesystem::is_symlink(folder_)
            ? folder_.parent_path() / std::filesystem::read_symlink(folder_)
            : folder_;
    std::error_code failed;
    std::filesystem::create_directories(made, failed);
    const int opened = open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int error = errno;
    TORCH_CHECK(opened >= 0 || (error == ENOENT && tries < kMostTries),
                "could not open the folder ", folder_.string(), ": ",
                failed ? failed.message() : std::generic_category().message(error));
    lock_ = FileDescriptor(opened);
    if (opened < 0 || flock(opened, LOCK_EX | LOCK_NB) == 0) continue;
    TORCH_CHECK_VALUE(errno != EWOULDBLOCK,
                      "another training that has not ended keeps its checkpoints in ",
                      folder_.string());
    TORCH_CHECK(false, "could not lock ", folder_.string());
  }
}

CheckpointFolder::~CheckpointFolder() {
  // A link was put there to keep checkpoints on another disk, and is wanted the next time.
  std::error_code none;
  if (std::filesystem::is_symlink(folder_, none)) return;
  std::filesystem::remove(folder_, none);  // fails where there is still something in it
}

void CheckpointFolder::Write(const TrainingState& state,
                             const std::vector<NamedTensor>& tensors) const {
  const std::filesystem::path writing = folder_ / kWriting;
  std::filesystem::remove_all(writing);  // what a killed process left
  std::filesystem::create_directories(writing);
  WriteSafetensors(writing / kTensors, tensors, at::kFloat);
  std::ofstream file(writing / kState, std::ios::binary | std::ios::trunc);
  file << ToJson(state, identity_).dump(1) << '\n';
  file.close();
  TORCH_CHECK(file.good(), "could not write ", (writing / kState).string());
  Sync(writing / kTensors);
  Sync(writing / kState);
  Sync(writing);
  const auto before = CheckpointsIn(folder_);
  const std::filesystem::path written = folder_ / (kPrefix + std::to_string(state.step));
  if (before.contains(state.step)) std::filesystem::remove_all(written);
  std::filesystem::rename(writing, written);
  Sync(folder_);
  for (const auto& [step, path] : before) {
    if (step != state.step) std::filesystem::remove_all(path);
  }
}

std::optional<TrainingState> CheckpointFolder::Read(const std::vector<NamedTensor>& tensors) const {
  const std::filesystem::path last = LastIn(folder_);
  if (last.empty()) return std::nullopt;
  std::ifstream file(last / kState, std::ios::binary);
  const json stored = json::parse(file, nullptr, /*allow_exceptions=*/false);
  TORCH_CHECK_VALUE(stored.is_object() && stored.contains("identity"), "there is no checkpoint in ",
                    last.string());
  const std::string theirs = stored.at("identity");
  TORCH_CHECK_VALUE(theirs == identity_, "the checkpoint in ", last.string(),
                    " is of another training. ", Difference(theirs, identity_));
  const SafetensorsFile saved(last / kTensors);
  std::map<std::string, const StoredTensor*> by_name;
  for (const StoredTensor& tensor : saved.tensors()) by_name.emplace(tensor.name, &tensor);
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : tensors) {
    const auto one = by_name.find(name);
    TORCH_CHECK_VALUE(one != by_name.end() && tensor.sizes() == at::IntArrayRef(one->second->shape),
                      "the checkpoint in ", last.string(), " is of another model: ", name);
    saved.ReadInto(*one->second, tensor.detach());
  }
  return StateOf(stored);
}

void CheckpointFolder::Remove() const {
  for (const auto& [step, path] : CheckpointsIn(folder_)) std::filesystem::remove_all(path);
  std::filesystem::remove_all(folder_ / kWriting);
}

}  // namespace fovea::models::training
