// Autotuning: which of several implementations is fastest on this machine, measured once and never
// inferred from a processor's name.
//
// An answer is kept for the process and, for those that come after, in a file: $FOVEA_CHOICES, or
// fovea/choices.json in $XDG_CACHE_HOME or ~/.cache; "off" keeps none. It holds for the processor,
// the instruction set, the number of threads and the versions of LibTorch and Fovea that it was
// measured with.
// Where the file cannot be written, as under a read-only root, every process measures for itself.
// So it does after a measurement during which its threads had to wait for processors that others
// had: such an answer is not kept.
//   FOVEA_CHOOSE=question=answer[,question=answer...]
// forces the answers to the questions that it names, which are then not measured; all others are
// answered as without it. `fovea kernels` prints questions and answers.
#pragma once
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::kernels {

struct Candidate {
  std::string_view name;
  std::function<void()> run;  // what is timed: tenths of a millisecond to some milliseconds
};

// How Fastest finds an answer. By default it measures on the CPU, by the clock.
struct ChoiceOptions {
  std::string device;  // what an answer holds for besides the machine; none: the CPU
  // Seconds that a run takes; by the clock where none is given.
  std::function<double(const std::function<void()>& run)> seconds;
  bool may_measure = true;  // if not, the first candidate is the answer where none is known
  // Seconds that this process's threads have waited for a processor; the system's count where none
  // is given.
  std::function<double()> waited;
};

// For questions about `device`: an answer holds for a kind of GPU, wherever it is plugged in, and
// none is measured while a CUDA graph is captured. `seconds` is the caller's to set where runs do
// not wait for the device.
ChoiceOptions ChoiceOptionsFor(const c10::Device& device);

// The place in `candidates` of the one that takes least time in turns with the others; the earlier
// of two that differ by less than 3%. One alone is not measured. Thread-safe: one question is
// measured at a time, for which those whose answer is known do not wait. What the runs hold is not
// counted (memory/memory_ledger.h). Throws c10::Error where FOVEA_CHOOSE has another answer to this
// question, or names one that nobody asks (questions.h).
size_t Fastest(const std::string& question, std::span<const Candidate> candidates,
               const ChoiceOptions& options = {});

// A hash of what FOVEA_CHOOSE forces; 0 where it forces nothing. Callers that cache answers must
// ask again where it has changed.
uint32_t HashOfForced();

enum class AnswerSource { kForced, kMeasured, kMeasuredWhileBusy, kRemembered, kAlone };
// "forced", "measured", "measured while busy", "remembered", "alone".
std::string_view TextOf(AnswerSource source);

struct ChoiceAnswer {
  std::string question;
  std::string answer;
  AnswerSource source;
};
// What a process has been asked so far, in the order of the questions.
std::vector<ChoiceAnswer> Answers();

// The same, what FOVEA_CHOOSE forces, and what other processes have left for this machine's CPU and
// this number of threads. Throws c10::Error where FOVEA_CHOOSE names a question that nobody asks.
std::vector<ChoiceAnswer> KnownAnswers();

}  // namespace fovea::kernels
