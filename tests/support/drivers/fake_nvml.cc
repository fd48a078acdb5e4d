// What the fake driver's management library says (fake_cuda.cc).
#include <cstdio>
#include <cstring>

#include "tests/support/drivers/fake_cuda.h"

using namespace fake_cuda;  // NOLINT: the library's functions are in none

extern "C" {

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
  *device = &the_context;
  return std::strncmp(id, "0000:", 5) == 0 ? 0 : 6;
}
int nvmlSystemGetDriverVersion(char* text, unsigned room) {
  std::snprintf(text, room, "550.54.15");
  return 0;
}
int nvmlDeviceGetClockInfo(void*, int, unsigned* mhz) { return *mhz = 1755, 0; }
int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) { return *milliwatts = 312'000, 0; }
int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* milliwatts) {
  return *milliwatts = 700'000, 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* bits) {
  return *bits = 4, 0;
}
int nvmlDeviceGetEccMode(void*, unsigned* is, unsigned* pending) { return *is = *pending = 1, 0; }
int nvmlDeviceGetMigMode(void*, unsigned* is, unsigned* pending) {
  return *is = *pending = setting("mig").empty() ? 0 : 1, 0;
}

}  // extern "C"
