#include "tests/kernels/ptx/race_detector.h"

#include <algorithm>
#include <string>

#include "tests/kernels/ptx/failure.h"

namespace fovea::ptx {
namespace {

std::string Place(int64_t at) { return " byte " + std::to_string(at) + " of shared memory"; }

[[noreturn]] void FailWithRace(unsigned thread, unsigned other, int64_t at, const char* now,
                               const char* before) {
  throw Violation(thread, std::string("race: ") + now + Place(at) + ", which thread " +
                              std::to_string(other) + " " + before + " with no barrier in between");
}

}  // namespace

RaceDetector::RaceDetector(int64_t bytes, unsigned threads)
    : cells_(bytes), times_((threads + 31) / 32) {}

void RaceDetector::Clear() {
  std::ranges::fill(cells_, Cell{});
  std::ranges::fill(times_, 0);
}

bool RaceDetector::IsOrdered(unsigned thread, unsigned earlier_thread,
                             uint32_t earlier_time) const {
  if (thread == earlier_thread) return true;
  const uint32_t now = TimeOf(thread);
  if (thread / 32 == earlier_thread / 32) return earlier_time < now;
  return earlier_time >> 16 < now >> 16;
}

void RaceDetector::CheckNoCopy(unsigned thread, const Cell& cell, int64_t at,
                               const char* what) const {
  if (!cell.copying) return;
  throw Violation(thread, std::string("race: ") + what + Place(at) +
                              " while a cp.async of thread " + std::to_string(cell.writer) +
                              " is under way");
}

void RaceDetector::CheckWritten(unsigned thread, const Cell& cell, int64_t at) const {
  if (cell.writer == kNobody) {
    throw Violation(thread, "reads" + Place(at) + ", which nothing has written");
  }
}

void RaceDetector::ReadByte(unsigned thread, Cell& cell, int64_t at) {
  CheckNoCopy(thread, cell, at, "reads");
  if (cell.writer != kNobody && !IsOrdered(thread, cell.writer, cell.write_time)) {
    FailWithRace(thread, cell.writer, at, "reads", "wrote");
  }
  const uint32_t now = TimeOf(thread);
  if (cell.reader != thread) {
    const bool same_epoch = cell.reader != kNobody && cell.read_time >> 16 == now >> 16;
    const bool same_warp = cell.reader != kNobody && cell.reader / 32 == thread / 32;
    cell.read_by_other_warp = same_epoch && (cell.read_by_other_warp || !same_warp);
    cell.read_by_other_lane = same_warp && cell.read_time == now;
    cell.reader = static_cast<uint16_t>(thread);
  } else if (cell.read_time != now) {
    cell.read_by_other_lane = false;
    if (cell.read_time >> 16 != now >> 16) cell.read_by_other_warp = false;
  }
  cell.read_time = now;
}

void RaceDetector::WriteByte(unsigned thread, Cell& cell, int64_t at) {
  CheckNoCopy(thread, cell, at, "writes");
  if (cell.writer != kNobody && !IsOrdered(thread, cell.writer, cell.write_time)) {
    FailWithRace(thread, cell.writer, at, "writes", "wrote");
  }
  const uint32_t now = TimeOf(thread);
  if (cell.reader != kNobody) {
    const bool others_of_warp = cell.read_by_other_lane && cell.read_time == now;
    const bool others_of_block = cell.read_by_other_warp && cell.read_time >> 16 == now >> 16;
    if (others_of_warp || others_of_block || !IsOrdered(thread, cell.reader, cell.read_time)) {
      FailWithRace(thread, cell.reader, at, "writes", "or another one read");
    }
  }
  cell.writer = static_cast<uint16_t>(thread);
  cell.write_time = now;
}

void RaceDetector::Read(unsigned thread, int64_t at, int bytes, uint32_t used) {
  for (int i = 0; i < bytes; ++i) {
    if ((used >> i & 1) == 0) continue;
    Cell& cell = cells_[at + i];
    CheckWritten(thread, cell, at + i);
    ReadByte(thread, cell, at + i);
  }
}

void RaceDetector::Write(unsigned thread, int64_t at, int bytes) {
  for (int i = 0; i < bytes; ++i) WriteByte(thread, cells_[at + i], at + i);
}

void RaceDetector::StartCopy(unsigned thread, int64_t at, int bytes) {
  Write(thread, at, bytes);
  for (int i = 0; i < bytes; ++i) cells_[at + i].copying = true;
}

void RaceDetector::EndCopy(unsigned thread, int64_t at, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    cells_[at + i].copying = false;
    cells_[at + i].write_time = TimeOf(thread);
  }
}

void RaceDetector::PassBlockBarrier() {
  for (uint32_t& time : times_) {
    if (time >> 16 == 0xFFFF) throw Failure("a block passes more barriers than can be counted");
    time = ((time >> 16) + 1) << 16;
  }
}

void RaceDetector::PassWarpBarrier(unsigned warp) {
  if ((times_[warp] & 0xFFFF) == 0xFFFF) {
    throw Failure("a warp passes more barriers than can be counted");
  }
  ++times_[warp];
}

}  // namespace fovea::ptx
