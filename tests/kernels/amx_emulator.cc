// AMX on processors that lack it: a library to preload (LD_PRELOAD), so that our code for its tiles
// is tested on every machine with AVX-512's bf16. Each of its instructions raises SIGILL there, and
// is done by what stands here (Intel's Software Developer's Manual, volume 2, which gives each as
// pseudocode). A microsecond or two each: no time is to be measured with it, and oneDNN, which asks
// the processor itself, goes on without tiles.
//   On a processor that has AMX the library changes nothing.
#include <ATen/cpu/Utils.h>
#include <dlfcn.h>
#include <immintrin.h>
#include <signal.h>
#include <sys/ucontext.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <unordered_map>

namespace {

constexpr int kTiles = 8, kRows = 16, kRowBytes = 64;

// As LDTILECFG reads it.
struct alignas(64) Layout {
  uint8_t palette;
  uint8_t start_row;
  uint8_t reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};
static_assert(sizeof(Layout) == 64);

struct Tile {
  alignas(64) std::array<std::array<std::byte, kRowBytes>, kRows> rows;
};

// Of each thread. Initial-exec: a signal handler must not allocate what it finds there.
struct State {
  Layout layout;
  Tile tiles[kTiles];
};
thread_local State state __attribute__((tls_model("initial-exec")));

// A row of `kCount` numbers of a tile.
template <class T, int kCount>
std::array<T, kCount> Row(const Tile& tile, int row) {
  static_assert(sizeof(T) * kCount == kRowBytes);
  std::array<T, kCount> numbers;
  std::memcpy(numbers.data(), tile.rows[row].data(), kRowBytes);
  return numbers;
}

float Widened(uint16_t bf16) {
  const uint32_t bits = uint32_t{bf16} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// A product has no use for a tile of another shape than its operands ask; the processor refuses it.
bool Multiplicable(int sums, int a, int b) {
  const Layout& layout = state.layout;
  return layout.palette == 1 && sums != a && sums != b && a != b &&
         layout.rows[sums] == layout.rows[a] && layout.row_bytes[sums] == layout.row_bytes[b] &&
         layout.row_bytes[a] == 4 * layout.rows[b];
}

// Even and odd products are summed apart, each rounded once, denormal numbers taken for zero.
__attribute__((target("avx2,fma"), optimize("O3"))) void MultiplyBf16(int sums, int a, int b) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(0x9fc0);  // to nearest; flush to zero, denormals are zero; no exceptions
  const int columns = state.layout.row_bytes[sums] / 4, depth = state.layout.row_bytes[a] / 4;
  for (int m = 0; m < state.layout.rows[sums]; ++m) {
    const auto left = Row<uint16_t, 32>(state.tiles[a], m);
    float even[16] = {}, odd[16] = {};
    for (int k = 0; k < depth; ++k) {
      const auto right = Row<uint16_t, 32>(state.tiles[b], k);
      const float first = Widened(left[2 * k]), second = Widened(left[2 * k + 1]);
      for (int n = 0; n < 16; ++n) {
        even[n] = std::fma(first, Widened(right[2 * n]), even[n]);
        odd[n] = std::fma(second, Widened(right[2 * n + 1]), odd[n]);
      }
    }
    auto sum = Row<float, 16>(state.tiles[sums], m);
    for (int n = 0; n < columns; ++n) sum[n] += even[n] + odd[n];
    std::memcpy(state.tiles[sums].rows[m].data(), sum.data(), kRowBytes);
  }
  _mm_setcsr(before);
}

__attribute__((target("avx2"), optimize("O3"))) void MultiplyInt8(int sums, int a, int b) {
  const int columns = state.layout.row_bytes[sums] / 4, depth = state.layout.row_bytes[a] / 4;
  for (int m = 0; m < state.layout.rows[sums]; ++m) {
    const auto left = Row<int8_t, 64>(state.tiles[a], m);
    auto sum = Row<uint32_t, 16>(state.tiles[sums], m);  // which wrap round, as the processor's
    for (int k = 0; k < depth; ++k) {
      const auto right = Row<int8_t, 64>(state.tiles[b], k);
      for (int n = 0; n < columns; ++n) {
        int32_t products = 0;
        for (int i = 0; i < 4; ++i) products += left[4 * k + i] * right[4 * n + i];
        sum[n] += static_cast<uint32_t>(products);
      }
    }
    std::memcpy(state.tiles[sums].rows[m].data(), sum.data(), kRowBytes);
  }
}

// One of AMX's instructions: VEX with three bytes, map 0F38, 128 bits.
struct Instruction {
  int pp;      // 0, 1 (66), 2 (F3), 3 (F2)
  int opcode;  // 49, 4B, 5C, 5E
  int mod, reg, rm, vvvv;
  int64_t address;  // of memory: where mod is not 3
  int64_t stride;   // the index, scaled
  int length;
};

int64_t Register(const ucontext_t& context, int number) {
  static constexpr int kPlaces[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                    REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                    REG_R12, REG_R13, REG_R14, REG_R15};
  return context.uc_mcontext.gregs[kPlaces[number]];
}

// Nothing where it is none of AMX's.
std::optional<Instruction> Decode(const ucontext_t& context) {
  const auto* const code = reinterpret_cast<const uint8_t*>(context.uc_mcontext.gregs[REG_RIP]);
  if (code[0] != 0xC4 || (code[1] & 0x1F) != 2 || (code[2] & 0x84) != 0) return std::nullopt;
  Instruction found = {};
  found.pp = code[2] & 3;
  found.vvvv = (~code[2] >> 3) & 15;
  found.opcode = code[3];
  if (found.opcode != 0x49 && found.opcode != 0x4B && found.opcode != 0x5C &&
      found.opcode != 0x5E) {
    return std::nullopt;
  }
  found.mod = code[4] >> 6;
  found.reg = (code[4] >> 3) & 7;
  found.rm = code[4] & 7;
  found.length = 5;
  if (found.mod == 3) return found;
  const int index_above = (~code[1] >> 3) & 8, base_above = (~code[1] >> 2) & 8;
  int base = found.rm;
  if (found.rm == 4) {
    const uint8_t sib = code[found.length++];
    base = sib & 7;
    const int index = ((sib >> 3) & 7) + index_above;
    if (index != 4) found.stride = Register(context, index) * (int64_t{1} << (sib >> 6));
  }
  int64_t displacement = 0;
  if (found.mod == 1) {
    displacement = static_cast<int8_t>(code[found.length]);
    found.length += 1;
  } else if (found.mod == 2 || base == 5) {
    int32_t far;
    std::memcpy(&far, code + found.length, sizeof far);
    displacement = far;
    found.length += 4;
  }
  if (found.mod != 0 || base != 5) {
    found.address = Register(context, base + base_above) + displacement;
  } else if (found.rm == 4) {
    found.address = displacement;
  } else {  // from the instruction that follows
    found.address = context.uc_mcontext.gregs[REG_RIP] + found.length + displacement;
  }
  return found;
}

// Whether it was one that can be done.
bool Do(const Instruction& asked) {
  Layout& layout = state.layout;
  const bool memory = asked.mod != 3;
  auto* const at = reinterpret_cast<std::byte*>(asked.address);
  Tile& tile = state.tiles[asked.reg];
  switch (asked.opcode << 4 | asked.pp) {
    case 0x490:
      if (memory) {  // LDTILECFG
        std::memcpy(&layout, at, sizeof layout);
        if (layout.palette != 1) return false;
        std::memset(state.tiles, 0, sizeof state.tiles);
      } else {  // TILERELEASE
        layout = {};
      }
      return true;
    case 0x493:  // TILEZERO
      if (memory || layout.palette != 1) return false;
      tile = {};
      return true;
    case 0x4B3:    // TILELOADD
    case 0x4B1:    // TILELOADDT1
    case 0x4B2: {  // TILESTORED
      if (!memory || asked.rm != 4 || layout.palette != 1) return false;
      const size_t bytes = std::min<size_t>(layout.row_bytes[asked.reg], kRowBytes);
      const bool load = asked.pp != 2;
      if (load) tile = {};
      for (int row = 0; row < layout.rows[asked.reg]; ++row) {
        std::byte* const there = at + row * asked.stride;
        if (load) {
          std::memcpy(tile.rows[row].data(), there, bytes);
        } else {
          std::memcpy(there, tile.rows[row].data(), bytes);
        }
      }
      return true;
    }
    case 0x5C2:  // TDPBF16PS
      if (memory || !Multiplicable(asked.reg, asked.rm, asked.vvvv)) return false;
      MultiplyBf16(asked.reg, asked.rm, asked.vvvv);
      return true;
    case 0x5E3:  // TDPBSSD
      if (memory || !Multiplicable(asked.reg, asked.rm, asked.vvvv)) return false;
      MultiplyInt8(asked.reg, asked.rm, asked.vvvv);
      return true;
    default:
      return false;
  }
}

void OnIllegalInstruction(int, siginfo_t*, void* at) {
  auto& context = *static_cast<ucontext_t*>(at);
  bool done = false;
  // Those that follow at once, too: the signal takes longer than they do.
  for (auto asked = Decode(context); asked.has_value() && Do(*asked); asked = Decode(context)) {
    context.uc_mcontext.gregs[REG_RIP] += asked->length;
    done = true;
  }
  if (!done) signal(SIGILL, SIG_DFL);  // it is raised again
}

std::unordered_map<std::string, c10::IValue> OfTheProcessor() {
  // What ATen itself tells, behind the function below.
  using Capabilities = std::unordered_map<std::string, c10::IValue> (*)();
  static const auto real =
      reinterpret_cast<Capabilities>(dlsym(RTLD_NEXT, "_ZN2at3cpu20get_cpu_capabilitiesB5cxx11Ev"));
  if (real == nullptr) std::abort();
  return real();
}

bool Emulated() {
  static const bool emulated = !OfTheProcessor().at("amx_bf16").toBool();
  return emulated;
}

__attribute__((constructor)) void Install() {
  if (!Emulated()) return;
  struct sigaction action = {};
  action.sa_sigaction = OnIllegalInstruction;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  if (sigaction(SIGILL, &action, nullptr) != 0) std::abort();
}

}  // namespace

namespace at::cpu {

// Stands before ATen's, which kernels/simd/isa.cc asks.
std::unordered_map<std::string, c10::IValue> get_cpu_capabilities() {
  auto capabilities = OfTheProcessor();
  for (const char* name : {"amx_bf16", "amx_int8", "amx_tile"}) capabilities[name] = true;
  return capabilities;
}

}  // namespace at::cpu
