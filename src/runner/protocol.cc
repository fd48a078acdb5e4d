// Fields one after the other in declaration order; sequences and texts behind a 64-bit count. A
// decoder that runs out of bytes, meets an impossible count or has bytes left over answers nullopt.
#include "src/runner/protocol.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace lw::runner {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint64_t kMaxImage = uint64_t{1} << 30, kMaxMemory = uint64_t{1} << 40;
constexpr uint64_t kMaxSegments = 64, kMaxArguments = 1024, kMaxSamples = 10000, kMaxCodes = 64;
constexpr double kMaxSeconds = 24 * 3600;
constexpr uint64_t kImageAlign = 64 << 10;

class Writer {
 public:
  template <class T>
  Writer& put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Writer& text(std::string_view text) {
    put<uint64_t>(text.size());
    bytes_.append(text);
    return *this;
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  template <class T>
  T get() {
    T value{};
    if (rest_.size() < sizeof value) {
      ok_ = false;
      return value;
    }
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  bool flag() {
    const uint8_t value = get<uint8_t>();
    ok_ &= value <= 1;
    return value == 1;
  }
  std::string_view text() {
    const uint64_t size = get<uint64_t>();
    if (rest_.size() < size) ok_ = false;
    if (!ok_) return {};
    const std::string_view text = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return text;
  }
  uint64_t count(uint64_t most) {
    const uint64_t n = get<uint64_t>();
    if (n > most) ok_ = false;
    return ok_ ? n : 0;
  }
  void require(bool holds) { ok_ &= holds; }
  bool done() const { return ok_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

// Whether [begin, begin + size) lies in [0, limit).
bool inside(uint64_t begin, uint64_t size, uint64_t limit) {
  return begin <= limit && size <= limit - begin;
}

Job::Segment read_segment(Reader& reader) {
  Job::Segment s;
  s.offset = reader.get<uint64_t>();
  s.bytes = reader.get<uint64_t>();
  s.writable = reader.flag();
  s.executable = reader.flag();
  s.content = reader.text();
  reader.require(!(s.writable && s.executable) && s.content.size() <= s.bytes);
  reader.require(s.offset % kImageAlign == 0 && s.bytes % kImageAlign == 0);
  return s;
}

Job::Code read_code(Reader& reader) {
  Job::Code code;
  code.base = reader.get<uint64_t>();
  code.image_bytes = reader.get<uint64_t>();
  code.run = reader.get<uint64_t>();
  code.prepack = reader.get<uint64_t>();
  code.workspace_bytes = reader.get<uint64_t>();
  code.packed_bytes = reader.get<uint64_t>();
  const auto entry = [&](uint64_t address) {
    return address >= code.base && address - code.base < code.image_bytes;
  };
  reader.require(code.base % kImageAlign == 0 && code.base <= UINT64_MAX / 2);
  reader.require(code.image_bytes <= kMaxImage && code.image_bytes % kImageAlign == 0);
  reader.require(entry(code.run) && (code.prepack == 0 || entry(code.prepack)));
  reader.require(code.workspace_bytes <= kMaxMemory && code.packed_bytes <= kMaxMemory);
  for (uint64_t n = reader.count(kMaxSegments); n > 0; --n) {
    code.segments.push_back(read_segment(reader));
    reader.require(
        inside(code.segments.back().offset, code.segments.back().bytes, code.image_bytes));
  }
  return code;
}

TimingPlan read_plan(Reader& reader) {
  TimingPlan plan;
  plan.incumbent_us = reader.get<double>();
  plan.max_samples = reader.get<int32_t>();
  plan.budget_s = reader.get<double>();
  plan.min_sample_s = reader.get<double>();
  plan.cold = reader.flag();
  reader.require(std::isfinite(plan.incumbent_us) && plan.incumbent_us >= 0);
  reader.require(plan.max_samples >= 1 && plan.max_samples <= static_cast<int>(kMaxSamples));
  reader.require(plan.budget_s >= 0 && plan.budget_s <= kMaxSeconds);
  reader.require(plan.min_sample_s >= 0 && plan.min_sample_s <= kMaxSeconds);
  return plan;
}

Job::Argument read_argument(Reader& reader) {
  Job::Argument a;
  a.pages = reader.get<uint64_t>();
  a.offset = reader.get<uint64_t>();
  a.bytes = reader.get<uint64_t>();
  a.output = reader.flag();
  a.content = reader.text();
  reader.require(a.pages <= kMaxMemory && inside(a.offset, a.bytes, a.pages));
  reader.require(a.content.size() == (a.output ? 0 : a.pages));
  return a;
}

}  // namespace

std::string encode_header(const Header& header) {
  return Writer()
      .put(header.magic)
      .put(header.version)
      .put(static_cast<uint16_t>(header.type))
      .put(header.bytes)
      .take();
}

std::optional<Header> decode_header(std::string_view bytes) {
  Reader reader(bytes);
  Header header;
  header.magic = reader.get<uint32_t>();
  header.version = reader.get<uint16_t>();
  const uint16_t type = reader.get<uint16_t>();
  header.bytes = reader.get<uint64_t>();
  const bool known = type >= static_cast<uint16_t>(Frame::kHello) &&
                     type <= static_cast<uint16_t>(Frame::kRefusal);
  if (!reader.done() || header.magic != kMagic || header.version != kVersion || !known ||
      header.bytes > kMaxPayload) {
    return std::nullopt;
  }
  header.type = static_cast<Frame>(type);
  return header;
}

std::string encode_greeting(const Greeting& greeting) {
  return Writer()
      .put(greeting.page_bytes)
      .put(greeting.processors)
      .text(greeting.machine)
      .text(greeting.system)
      .text(greeting.cpu)
      .text(greeting.emulator)
      .take();
}

std::optional<Greeting> decode_greeting(std::string_view payload) {
  Reader reader(payload);
  Greeting greeting;
  greeting.page_bytes = reader.get<uint32_t>();
  greeting.processors = reader.get<uint32_t>();
  greeting.machine = reader.text();
  greeting.system = reader.text();
  greeting.cpu = reader.text();
  greeting.emulator = reader.text();
  if (!reader.done()) return std::nullopt;
  return greeting;
}

std::string encode_job(const Job& job) {
  Writer writer;
  writer.put(job.workers).put<uint8_t>(job.timed).put(job.rounds);
  writer.put(job.plan.incumbent_us).put<int32_t>(job.plan.max_samples).put(job.plan.budget_s);
  writer.put(job.plan.min_sample_s).put<uint8_t>(job.plan.cold);
  writer.put<uint64_t>(job.codes.size());
  for (const Job::Code& c : job.codes) {
    writer.put(c.base).put(c.image_bytes).put(c.run).put(c.prepack);
    writer.put(c.workspace_bytes).put(c.packed_bytes);
    writer.put<uint64_t>(c.segments.size());
    for (const Job::Segment& s : c.segments) {
      writer.put(s.offset).put(s.bytes);
      writer.put<uint8_t>(s.writable).put<uint8_t>(s.executable).text(s.content);
    }
  }
  writer.put<uint64_t>(job.arguments.size());
  for (const Job::Argument& a : job.arguments) {
    writer.put(a.pages).put(a.offset).put(a.bytes).put<uint8_t>(a.output).text(a.content);
  }
  return writer.take();
}

std::optional<Job> decode_job(std::string_view payload) {
  Reader reader(payload);
  Job job;
  job.workers = reader.get<uint32_t>();
  job.timed = reader.flag();
  job.rounds = reader.get<uint32_t>();
  job.plan = read_plan(reader);
  for (uint64_t n = reader.count(kMaxCodes); n > 0; --n) job.codes.push_back(read_code(reader));
  for (uint64_t n = reader.count(kMaxArguments); n > 0; --n) {
    job.arguments.push_back(read_argument(reader));
  }
  reader.require(job.workers >= 1 && job.workers <= 4096 && job.rounds <= kMaxSamples);
  reader.require(job.timed || job.rounds == 0);
  reader.require(job.rounds > 0 ? !job.codes.empty() : job.codes.size() == 1);
  if (!reader.done()) return std::nullopt;
  return job;
}

std::string encode_result(const Result& result) {
  Writer writer;
  writer.put(result.code).put<uint8_t>(result.intact).put(result.inside_s);
  writer.put<uint64_t>(result.times.size());
  for (const Result::Times& times : result.times) {
    writer.put(times.inner).put<uint8_t>(times.raced_out).put<uint64_t>(times.samples_us.size());
    for (double us : times.samples_us) writer.put(us);
  }
  writer.put<uint64_t>(result.outputs.size());
  for (std::string_view output : result.outputs) writer.text(output);
  return writer.take();
}

std::optional<Result> decode_result(std::string_view payload) {
  Reader reader(payload);
  Result result;
  result.code = reader.get<int32_t>();
  result.intact = reader.flag();
  result.inside_s = reader.get<double>();
  for (uint64_t n = reader.count(kMaxCodes); n > 0; --n) {
    Result::Times times;
    times.inner = reader.get<int64_t>();
    times.raced_out = reader.flag();
    for (uint64_t m = reader.count(kMaxSamples); m > 0; --m) {
      times.samples_us.push_back(reader.get<double>());
    }
    result.times.push_back(std::move(times));
  }
  for (uint64_t n = reader.count(kMaxArguments); n > 0; --n) {
    result.outputs.push_back(reader.text());
  }
  if (!reader.done()) return std::nullopt;
  return result;
}

std::string encode_crash(const Crash& crash) {
  Writer writer;
  writer.put(crash.signal).put<uint32_t>(crash.wrote).put(crash.address);
  writer.put<uint64_t>(crash.regions.size());
  for (const Region& r : crash.regions) {
    writer.put(r.argument).put(r.low).put(r.begin).put(r.end).put(r.high);
  }
  return writer.take();
}

std::optional<Crash> decode_crash(std::string_view payload) {
  Reader reader(payload);
  Crash crash;
  crash.signal = reader.get<int32_t>();
  crash.wrote = reader.get<uint32_t>() != 0;
  crash.address = reader.get<uint64_t>();
  for (uint64_t n = reader.count(kMaxArguments + 2); n > 0; --n) {
    Region r;
    r.argument = reader.get<int32_t>();
    r.low = reader.get<uint64_t>();
    r.begin = reader.get<uint64_t>();
    r.end = reader.get<uint64_t>();
    r.high = reader.get<uint64_t>();
    reader.require(r.low <= r.begin && r.begin <= r.end && r.end <= r.high);
    crash.regions.push_back(r);
  }
  if (!reader.done()) return std::nullopt;
  return crash;
}

}  // namespace lw::runner
