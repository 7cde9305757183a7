#include "kernels/choice/choice.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>
#include <torch/headeronly/version.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "kernels/choice/questions.h"
#include "kernels/memory/memory_ledger.h"
#include "kernels/memory/pass_arena.h"
#include "kernels/simd/isa.h"

namespace fovea::kernels {
namespace {

using nlohmann::json;

constexpr int kWarmUpRounds = 4, kRounds = 9;
constexpr double kMinGain = 0.03;
// A measurement is made again while others disturb it, this often at most: while threads wait for
// processors longer than this share of its time. An idle machine stays under a hundredth, one other
// program on each of them makes a half.
constexpr int kAttempts = 3;
constexpr double kDisturbing = 0.05;

std::optional<std::filesystem::path> FileOfChoices() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string named = variable("FOVEA_CHOICES"); !named.empty()) {
    if (named == "off") return std::nullopt;
    return named;
  }
  std::filesystem::path cache = variable("XDG_CACHE_HOME");
  if (cache.empty()) {
    const std::string home = variable("HOME");
    if (home.empty()) return std::nullopt;
    cache = std::filesystem::path(home) / ".cache";
  }
  return cache / "fovea" / "choices.json";
}

// What an answer holds for.
std::string Machine() {
  return c10::str(simd::ProcessorName(), ", ", simd::IsaName(simd::CurrentIsa()),
                  simd::HasAmx() ? " with AMX" : "", ", ", at::get_num_threads(),
                  " threads, torch ", TORCH_VERSION_MAJOR, ".", TORCH_VERSION_MINOR, ".",
                  TORCH_VERSION_PATCH, ", fovea ", FOVEA_VERSION);
}

// Anything else than an object of objects is as good as nothing: it is only a cache.
json Stored(const std::filesystem::path& path) {
  std::ifstream file(path);
  json stored = json::parse(file, nullptr, /*allow_exceptions=*/false);
  return stored.is_object() ? stored : json::object();
}

std::optional<std::string> Remembered(const std::string& machine, const std::string& question) {
  const auto path = FileOfChoices();
  if (!path) return std::nullopt;
  const json stored = Stored(*path);
  const auto answers = stored.find(machine);
  if (answers == stored.end() || !answers->is_object()) return std::nullopt;
  const auto answer = answers->find(question);
  if (answer == answers->end() || !answer->is_string()) return std::nullopt;
  return answer->get<std::string>();
}

void Remember(const std::string& machine, const std::string& question, const std::string& answer) {
  const auto path = FileOfChoices();
  if (!path) return;
  std::error_code error;  // choice.h says what follows from one
  std::filesystem::create_directories(path->parent_path(), error);
  json stored = Stored(*path);
  if (!stored[machine].is_object()) stored[machine] = json::object();
  stored[machine][question] = answer;
  // Another process may do the same at the same time: the last one wins, and none reads half. In
  // containers that share a folder all have one number.
  std::filesystem::path written = *path;
  written += c10::str(".", getpid(), ".", std::random_device()());
  std::ofstream file(written);
  file << stored.dump(2) << '\n';
  file.close();
  if (file) std::filesystem::rename(written, *path, error);
  if (!file || error) std::filesystem::remove(written, error);
}

std::string_view TextOfForced() {
  const char* choices = std::getenv("FOVEA_CHOOSE");
  return choices == nullptr ? "" : choices;
}

using AnswersByQuestion = std::map<std::string, std::string, std::less<>>;

// Of a question that is there twice the first. `asked` may be forced whatever its name.
AnswersByQuestion ForcedBy(std::string_view text, const std::string& asked) {
  AnswersByQuestion forced;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    const size_t equals = one.find('=');
    TORCH_CHECK(equals != one.npos, "FOVEA_CHOOSE is question=answer, separated by commas, not \"",
                one, "\"");
    const std::string_view question = one.substr(0, equals);
    TORCH_CHECK(IsQuestion(question) || (question == asked && !asked.empty()),
                "FOVEA_CHOOSE: there is no question \"", question, "\"");
    forced.emplace(question, one.substr(equals + 1));
  }
  return forced;
}

double SecondsByTheClock(const std::function<void()>& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// By the scheduler's statistics of each thread, whose second number it is in nanoseconds; 0 where
// there are none.
double SecondsWaited() {
  double nanoseconds = 0;
  std::error_code error;  // threads end while they are counted
  for (std::filesystem::directory_iterator thread("/proc/self/task", error), end;
       !error && thread != end; thread.increment(error)) {
    std::ifstream statistics(thread->path() / "schedstat");
    double running = 0, waiting = 0;
    if (statistics >> running >> waiting) nanoseconds += waiting;
  }
  return nanoseconds * 1e-9;
}

size_t PlaceOfLeast(std::span<const std::function<void()>> runs, const ChoiceOptions& options) {
  std::vector<double> least(runs.size(), std::numeric_limits<double>::infinity());
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < runs.size(); ++i) {
      const double taken = options.seconds ? options.seconds(runs[i]) : SecondsByTheClock(runs[i]);
      // The least: what else the machine does only adds to it.
      least[i] = std::min(least[i], taken);
    }
  }
  size_t fastest = 0;
  for (size_t i = 1; i < least.size(); ++i) {
    if (least[i] < least[fastest] * (1 - kMinGain)) fastest = i;
  }
  return fastest;
}

struct Measured {
  size_t place;
  bool busy;  // other programs had the processors meanwhile
};

Measured Measure(std::span<const Candidate> candidates, const ChoiceOptions& options) {
  const UncountedMemory uncounted;
  // As in a model's passes, memory is there: who needs more of it would be measured with malloc and
  // page faults.
  std::vector<PassArena> arenas(candidates.size());
  const at::Tensor no_input = at::empty({0});
  std::vector<std::function<void()>> runs;
  for (size_t i = 0; i < candidates.size(); ++i) {
    runs.push_back([&, i] {
      PassArena::Scope pass(arenas[i], no_input);
      candidates[i].run();
      pass.Complete();
    });
  }
  // The first makes what it needs and is no pass like the others; then one is recorded anew, and
  // pages come with the next.
  for (int i = 0; i < kWarmUpRounds; ++i) {
    for (const std::function<void()>& run : runs) run();
  }
  const auto waited = options.waited ? options.waited : SecondsWaited;
  Measured measured = {};
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const double waited_before = waited();
    const double taken = SecondsByTheClock([&] { measured.place = PlaceOfLeast(runs, options); });
    measured.busy = waited() - waited_before > kDisturbing * taken;
    if (!measured.busy) break;
  }
  return measured;
}

struct State {
  std::mutex measuring;  // locked before `mutex`: who knows an answer does not wait for it
  std::mutex mutex;      // of what follows
  std::map<std::string, ChoiceAnswer> answers;  // by question and machine
  std::string text_of_forced;                   // which `forced` was read from
  AnswersByQuestion forced;
};

State& TheState() {
  static State state;
  return state;
}

// Within the state's mutex.
const AnswersByQuestion& Forced(State& state, const std::string& asked) {
  if (const std::string_view text = TextOfForced(); text != state.text_of_forced) {
    state.forced = ForcedBy(text, asked);
    state.text_of_forced = text;
  }
  return state.forced;
}

std::optional<std::string> ForcedTo(State& state, const std::string& question) {
  const std::lock_guard lock(state.mutex);
  const AnswersByQuestion& forced = Forced(state, question);
  const auto answer = forced.find(question);
  return answer == forced.end() ? std::nullopt : std::optional(answer->second);
}

std::optional<size_t> PlaceOf(std::string_view name, std::span<const Candidate> candidates) {
  const auto found = std::ranges::find(candidates, name, &Candidate::name);
  if (found == candidates.end()) return std::nullopt;
  return static_cast<size_t>(found - candidates.begin());
}

}  // namespace

size_t Fastest(const std::string& question, std::span<const Candidate> candidates,
               const ChoiceOptions& options) {
  TORCH_INTERNAL_ASSERT(!candidates.empty());
  State& state = TheState();
  const std::string machine = Machine() + (options.device.empty() ? "" : ", " + options.device);
  const std::string key = question + "\n" + machine;
  const auto answered = [&](size_t place, AnswerSource source) {
    const std::lock_guard lock(state.mutex);
    state.answers[key] = {question, std::string(candidates[place].name), source};
    return place;
  };
  if (const auto forced = ForcedTo(state, question)) {
    const auto place = PlaceOf(*forced, candidates);
    TORCH_CHECK(place.has_value(), "FOVEA_CHOOSE: ", question, " cannot be \"", *forced,
                "\" on this machine");
    return answered(*place, AnswerSource::kForced);
  }
  const auto known = [&]() -> std::optional<size_t> {
    const std::lock_guard lock(state.mutex);
    const auto answer = state.answers.find(key);
    if (answer == state.answers.end()) return std::nullopt;
    const AnswerSource source = answer->second.source;
    if (source == AnswerSource::kForced) return std::nullopt;
    // There may be others now: instruction sets come and go (simd/isa.h).
    if (source == AnswerSource::kAlone && candidates.size() > 1) return std::nullopt;
    return PlaceOf(answer->second.answer, candidates);
  };
  if (const auto place = known()) return *place;
  if (candidates.size() == 1) {
    // An answer that was measured among several stays: it holds again when they are back.
    const std::lock_guard lock(state.mutex);
    const ChoiceAnswer alone = {question, std::string(candidates[0].name), AnswerSource::kAlone};
    const auto [told, is_new] = state.answers.try_emplace(key, alone);
    const AnswerSource source = told->second.source;
    if (source == AnswerSource::kForced || source == AnswerSource::kAlone) told->second = alone;
    return 0;
  }
  if (const auto remembered = Remembered(machine, question)) {
    if (const auto place = PlaceOf(*remembered, candidates)) {
      return answered(*place, AnswerSource::kRemembered);
    }
  }
  if (!options.may_measure) return 0;  // not kept: the next that asks may
  const std::lock_guard measuring(state.measuring);
  if (const auto place = known()) return *place;  // another thread has measured it meanwhile
  const Measured measured = Measure(candidates, options);
  if (measured.busy) return answered(measured.place, AnswerSource::kMeasuredWhileBusy);
  Remember(machine, question, std::string(candidates[measured.place].name));
  return answered(measured.place, AnswerSource::kMeasured);
}

std::string_view TextOf(AnswerSource source) {
  switch (source) {
    case AnswerSource::kForced:
      return "forced";
    case AnswerSource::kMeasured:
      return "measured";
    case AnswerSource::kMeasuredWhileBusy:
      return "measured while busy";
    case AnswerSource::kRemembered:
      return "remembered";
    case AnswerSource::kAlone:
      return "alone";
  }
  TORCH_INTERNAL_ASSERT(false, "no such source");
}

uint32_t HashOfForced() {
  const std::string_view text = TextOfForced();
  if (text.empty()) return 0;
  return static_cast<uint32_t>(std::hash<std::string_view>()(text)) | 1;
}

std::vector<ChoiceAnswer> Answers() {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  std::vector<ChoiceAnswer> answers;
  for (const auto& [key, answer] : state.answers) answers.push_back(answer);
  return answers;
}

std::vector<ChoiceAnswer> KnownAnswers() {
  std::map<std::string, ChoiceAnswer> known;
  if (const auto path = FileOfChoices()) {
    const json stored = Stored(*path);
    if (const auto answers = stored.find(Machine());
        answers != stored.end() && answers->is_object()) {
      for (const auto& [question, answer] : answers->items()) {
        // Another version may have asked others.
        if (!answer.is_string() || !IsQuestion(question)) continue;
        known[question] = {question, answer.get<std::string>(), AnswerSource::kRemembered};
      }
    }
  }
  for (const ChoiceAnswer& answered : Answers()) known[answered.question] = answered;
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  for (const auto& [question, answer] : Forced(state, /*asked=*/"")) {
    known[question] = {question, answer, AnswerSource::kForced};
  }
  std::vector<ChoiceAnswer> all;
  for (const auto& [question, answered] : known) all.push_back(answered);
  return all;
}

}  // namespace fovea::kernels
