#include "src/client/withdrawn_cache.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/message.h"
#include "tuner_db/records/record_codec.h"

namespace lw {
namespace {

constexpr std::string_view kListMagic = "loopwright withdrawn 1\n";
constexpr int64_t kNanos = 1'000'000'000;

}  // namespace

std::string encode_said(const WithdrawnSaid& said) {
  ByteWriter body;
  body.text(said.etag);
  body.text(said.list.bytes());
  ByteWriter head;
  head.u64(checksum(body.bytes()));
  return std::string(kListMagic) + head.bytes() + body.bytes();
}

std::optional<WithdrawnSaid> decode_said(std::string_view bytes) {
  if (bytes.substr(0, kListMagic.size()) != kListMagic) return std::nullopt;
  ByteReader in(bytes.substr(kListMagic.size()));
  const uint64_t sum = in.u64();
  if (!in.ok() || checksum(bytes.substr(kListMagic.size() + sizeof sum)) != sum) {
    return std::nullopt;
  }
  WithdrawnSaid said;
  said.etag = std::string(in.text());
  std::optional<WithdrawnList> list = WithdrawnList::of_bytes(std::string(in.text()));
  if (!in.finished() || !list) return std::nullopt;
  said.list = *std::move(list);
  return said;
}

WithdrawnCache::WithdrawnCache(std::string folder)
    : path_(folder.empty() ? "" : folder + "/withdrawn.lww"),
      known_(std::make_shared<const WithdrawnSaid>()) {}

std::optional<WithdrawnCache::Seen> WithdrawnCache::look() const {
  struct stat info {};
  if (path_.empty() || stat(path_.c_str(), &info) != 0) return std::nullopt;
  return Seen{info.st_ino, info.st_mtim.tv_sec * kNanos + info.st_mtim.tv_nsec, info.st_size};
}

bool WithdrawnCache::catch_up() const {
  const std::optional<Seen> now = look();
  if (!now || now == seen_) return now.has_value() && seen_is_good_;
  const absl::StatusOr<std::string> bytes = read_file(path_);
  std::optional<WithdrawnSaid> said = bytes.ok() ? decode_said(*bytes) : std::nullopt;
  seen_ = now;
  seen_is_good_ = said.has_value();
  if (said) known_ = std::make_shared<const WithdrawnSaid>(*std::move(said));
  return seen_is_good_;
}

std::shared_ptr<const WithdrawnSaid> WithdrawnCache::known() const {
  const std::lock_guard guard(mutex_);
  catch_up();
  return known_;
}

int64_t WithdrawnCache::asked_ms() const {
  const std::lock_guard guard(mutex_);
  return catch_up() ? seen_->time_ns / 1'000'000 : asked_ms_;
}

void WithdrawnCache::put(std::optional<WithdrawnSaid> said, int64_t now_ms) {
  const std::lock_guard guard(mutex_);
  asked_ms_ = now_ms;
  if (!said && catch_up() && utimensat(AT_FDCWD, path_.c_str(), nullptr, 0) == 0) {
    seen_ = look();
    return;
  }
  if (said) known_ = std::make_shared<const WithdrawnSaid>(*std::move(said));
  if (!path_.empty()) place_file(path_, encode_said(*known_)).IgnoreError();
}

}  // namespace lw
