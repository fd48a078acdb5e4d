// Fields one after the other in declaration order; sequences and texts behind a 64-bit count. A
// decoder that runs out of bytes, meets an impossible count or has bytes left over answers nullopt.
#include "src/runner/protocol.h"

#include <bit>
#include <cstring>

namespace lw::runner {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint64_t kMaxImage = uint64_t{1} << 30, kMaxMemory = uint64_t{1} << 40;
constexpr uint64_t kMaxSegments = 64, kMaxArguments = 1024, kMaxSamples = 10000;
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
      .take();
}

std::optional<Greeting> decode_greeting(std::string_view payload) {
  Reader reader(payload);
  Greeting greeting;
  greeting.page_bytes = reader.get<uint32_t>();
  greeting.processors = reader.get<uint32_t>();
  greeting.machine = reader.text();
  if (!reader.done()) return std::nullopt;
  return greeting;
}

std::string encode_job(const Job& job) {
  Writer writer;
  writer.put(job.base).put(job.image_bytes).put(job.run).put(job.prepack);
  writer.put(job.workspace_bytes).put(job.packed_bytes);
  writer.put(job.workers).put(job.samples).put(job.inner);
  writer.put<uint64_t>(job.segments.size());
  for (const Job::Segment& s : job.segments) {
    writer.put(s.offset).put(s.bytes);
    writer.put<uint8_t>(s.writable).put<uint8_t>(s.executable).text(s.content);
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
  job.base = reader.get<uint64_t>();
  job.image_bytes = reader.get<uint64_t>();
  job.run = reader.get<uint64_t>();
  job.prepack = reader.get<uint64_t>();
  job.workspace_bytes = reader.get<uint64_t>();
  job.packed_bytes = reader.get<uint64_t>();
  job.workers = reader.get<uint32_t>();
  job.samples = reader.get<uint32_t>();
  job.inner = reader.get<uint32_t>();
  const auto entry = [&](uint64_t address) {
    return address >= job.base && address - job.base < job.image_bytes;
  };
  reader.require(job.base % kImageAlign == 0 && job.base <= UINT64_MAX / 2);
  reader.require(job.image_bytes <= kMaxImage && job.image_bytes % kImageAlign == 0);
  reader.require(entry(job.run) && (job.prepack == 0 || entry(job.prepack)));
  reader.require(job.workspace_bytes <= kMaxMemory && job.packed_bytes <= kMaxMemory);
  reader.require(job.workers >= 1 && job.workers <= 4096 && job.inner >= 1);
  reader.require(job.samples <= kMaxSamples);
  for (uint64_t n = reader.count(kMaxSegments); n > 0; --n) {
    job.segments.push_back(read_segment(reader));
    reader.require(
        inside(job.segments.back().offset, job.segments.back().bytes, job.image_bytes));
  }
  for (uint64_t n = reader.count(kMaxArguments); n > 0; --n) {
    job.arguments.push_back(read_argument(reader));
  }
  if (!reader.done()) return std::nullopt;
  return job;
}

std::string encode_result(const Result& result) {
  Writer writer;
  writer.put(result.code).put<uint8_t>(result.intact);
  writer.put<uint64_t>(result.samples_us.size());
  for (double us : result.samples_us) writer.put(us);
  writer.put<uint64_t>(result.outputs.size());
  for (std::string_view output : result.outputs) writer.text(output);
  return writer.take();
}

std::optional<Result> decode_result(std::string_view payload) {
  Reader reader(payload);
  Result result;
  result.code = reader.get<int32_t>();
  result.intact = reader.flag();
  for (uint64_t n = reader.count(kMaxSamples); n > 0; --n) {
    result.samples_us.push_back(reader.get<double>());
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
