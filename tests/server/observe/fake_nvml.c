// Stands for NVIDIA's libnvidia-ml.so.1: two GPUs, of which the second tells its memory alone. The first has used a joule
// more at each reading.
#include <string.h>

typedef struct {
  unsigned long long total, free, used;
} Memory;
typedef struct {
  unsigned gpu, memory;
} Utilization;

enum { kSuccess = 0, kNotSupported = 3 };
static char first, second;
static unsigned long long millijoules = 1000000;

int nvmlInit_v2(void) { return kSuccess; }
int nvmlShutdown(void) { return kSuccess; }
int nvmlDeviceGetCount_v2(unsigned* count) { return *count = 2, kSuccess; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = index == 0 ? &first : &second;
  return kSuccess;
}
int nvmlDeviceGetUUID(void* device, char* uuid, unsigned length) {
  strncpy(uuid, device == &first ? "GPU-first" : "GPU-second", length);
  return kSuccess;
}
int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  memory->total = 80000000000ull;
  memory->used = device == &first ? 3000000000ull : 1000000000ull;
  memory->free = memory->total - memory->used;
  return kSuccess;
}
int nvmlDeviceGetUtilizationRates(void* device, Utilization* use) {
  use->gpu = 42;
  return device == &first ? kSuccess : kNotSupported;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  *milliwatts = 150500;
  return device == &first ? kSuccess : kNotSupported;
}
int nvmlDeviceGetPowerManagementLimit(void* device, unsigned* milliwatts) {
  *milliwatts = 700000;
  return device == &first ? kSuccess : kNotSupported;
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* energy) {
  if (device != &first) return kNotSupported;
  *energy = millijoules += 1000;
  return kSuccess;
}
