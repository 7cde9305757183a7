// Finds accesses to shared memory that nothing orders, and reads of bytes that nothing wrote.
//
// Two accesses of one byte by different threads, of which one is a write, need a barrier between
// them: bar.sync of the block, or bar.warp.sync if both threads are in one warp (PTX ISA, section
// 8, "Memory consistency model"; shuffles, votes and matrix instructions order nothing). The order
// in which the interpreter happens to run the threads plays no part.
//
// A cp.async is an access from its start until its thread has waited for it: nobody, its own
// thread included, may touch the bytes in between, however early the copy may land on a GPU.
#pragma once
#include <cstdint>
#include <vector>

namespace fovea::ptx {

// Not thread-safe. Offsets are from the beginning of the memory and in bounds. Every access throws
// a Violation that names both threads where it finds a race.
class RaceDetector {
 public:
  RaceDetector(int64_t bytes, unsigned threads);

  // Forgets everything; a new thread block begins.
  void Clear();

  // `used`: bit i is set if byte i of the access is used; others may never have been written.
  void Read(unsigned thread, int64_t at, int bytes, uint32_t used);
  void Write(unsigned thread, int64_t at, int bytes);
  void StartCopy(unsigned thread, int64_t at, int bytes);
  void EndCopy(unsigned thread, int64_t at, int bytes);

  void PassBlockBarrier();
  void PassWarpBarrier(unsigned warp);

 private:
  static constexpr uint16_t kNobody = 0xFFFF;

  // The last accesses of a byte. Times are those of the thread's warp: barriers passed by the
  // block, in the upper half, and by the warp since.
  struct Cell {
    uint32_t write_time = 0, read_time = 0;
    uint16_t writer = kNobody, reader = kNobody;
    bool copying = false;             // a cp.async of `writer` is under way
    bool read_by_other_lane = false;  // since the last barrier of the reader's warp
    bool read_by_other_warp = false;  // since the last barrier of the block
  };

  uint32_t TimeOf(unsigned thread) const { return times_[thread / 32]; }
  bool IsOrdered(unsigned thread, unsigned earlier_thread, uint32_t earlier_time) const;
  void ReadByte(unsigned thread, Cell& cell, int64_t at);
  void WriteByte(unsigned thread, Cell& cell, int64_t at);
  void CheckWritten(unsigned thread, const Cell& cell, int64_t at) const;
  void CheckNoCopy(unsigned thread, const Cell& cell, int64_t at, const char* what) const;

  std::vector<Cell> cells_;
  std::vector<uint32_t> times_;  // of each warp
};

}  // namespace fovea::ptx
