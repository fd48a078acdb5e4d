#include "src/measure/workers/device.h"

namespace lw {

absl::Status Device::compile(int slot) { return absl::OkStatus(); }

absl::StatusOr<Samples> Device::time(int slot, const TimingPlan& plan) {
  return absl::UnimplementedError("the device takes no times");
}

absl::StatusOr<std::vector<Samples>> Device::interleave(const std::vector<int>& slots, int rounds,
                                                        const TimingPlan& plan) {
  return absl::UnimplementedError("the device takes no samples");
}

absl::Status Device::run_again(int slot, int set) {
  return absl::UnimplementedError("nothing of the device can be timed from outside");
}

void put_samples(const Samples& samples, Writer* writer) {
  writer->put(samples.inside_s).put(samples.inner).put(samples.raced_out);
  writer->put<uint64_t>(samples.us.size());
  for (double us : samples.us) writer->put(us);
  writer->put(samples.usage).put<uint64_t>(samples.counters.size());
  for (const auto& [name, value] : samples.counters) writer->put_string(name).put(value);
}

Samples get_samples(Reader* reader) {
  Samples samples;
  samples.inside_s = reader->get<double>();
  samples.inner = reader->get<int64_t>();
  samples.raced_out = reader->get<bool>();
  // As many as it claims, but never more than are there.
  for (uint64_t left = reader->get<uint64_t>(); left > 0 && reader->ok(); --left) {
    samples.us.push_back(reader->get<double>());
  }
  samples.usage = reader->get<TimedUsage>();
  for (uint64_t left = reader->get<uint64_t>(); left > 0 && reader->ok(); --left) {
    std::string name = reader->get_string();
    samples.counters.emplace_back(std::move(name), reader->get<double>());
  }
  return samples;
}

}  // namespace lw
