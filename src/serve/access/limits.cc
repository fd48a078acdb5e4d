// A token bucket holds `burst` tokens at most and gains `rate` a second; a call takes one. It is
// kept as the count at its last use: the gain since then is added when it is looked at, so nothing
// runs between calls, and a bucket that has had time to fill is worth no memory. The file of limits
// is read field by field from tables, so that a name exists once and every error names its field.
#include "src/serve/access/limits.h"

#include <errno.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "nlohmann/json.hpp"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/serve/messages/errors.h"

namespace lw {
namespace {

using nlohmann::json;

constexpr int64_t kStudyRetryMs = 10'000;    // studies take minutes; a queue drains by the second
constexpr int64_t kQueueRetryMs = 2'000;
constexpr int64_t kKeptRetryMs = 60'000;     // somebody has to make room
constexpr double kMaxRate = 1e6;
constexpr double kMaxWeight = 1000;
constexpr double kMinWeight = 0.001;

struct QuotaField {
  std::string_view name;
  int64_t Quotas::*value;
  int64_t least, most;
};
// message_bytes: below 64 KiB an agent could not describe its devices; gRPC counts in int32.
constexpr QuotaField kQuotaFields[] = {
    {"active_studies_per_client", &Quotas::active_studies_per_client, 1, 1'000'000},
    {"queued_jobs", &Quotas::queued_jobs, 1, 10'000'000},
    {"workloads_per_study", &Quotas::workloads_per_study, 1, 100'000},
    {"trials_per_study", &Quotas::trials_per_study, 1, 1'000'000'000},
    {"message_bytes", &Quotas::message_bytes, 64 << 10, 1 << 30},
    {"waiting_seconds", &Quotas::waiting_seconds, 1, int64_t{3650} * 86'400},
    {"calls_at_once", &Quotas::calls_at_once, 1, 100'000},
    {"streams_at_once", &Quotas::streams_at_once, 1, 100'000},
    {"streams", &Quotas::streams, 1, 100'000},
    {"studies_per_client", &Quotas::studies_per_client, 1, 100'000'000},
    {"spec_bytes_per_client", &Quotas::spec_bytes_per_client, 1, int64_t{1} << 50},
    {"unconfirmed_per_client", &Quotas::unconfirmed_per_client, 0, 1'000'000'000},
};

struct Reader {
  std::string_view file;

  absl::Status bad(std::string_view field, std::string_view problem) const {
    return absl::InvalidArgumentError(
        concat(file, ": ", field, field.empty() ? "" : ": ", problem));
  }

  absl::Status unknown(std::string_view field, std::string_view name,
                       const std::vector<std::string>& known) const {
    const std::string near = nearest_name(name, known);
    std::string all;
    for (const std::string& one : known) all += concat(all.empty() ? "" : ", ", one);
    return bad(field, near.empty() ? concat("no such setting; there are ", all)
                                   : concat("no such setting; did you mean '", near, "'?"));
  }

  absl::Status number(const json& value, std::string_view field, double least, double most,
                      double* out) const {
    std::ostringstream range;
    range << "want a number from " << least << " to " << most;
    if (!value.is_number()) return bad(field, concat(range.str(), ", not ", value.dump()));
    const double found = value.get<double>();
    if (!(found >= least && found <= most)) {
      return bad(field, concat(range.str(), ", not ", value.dump()));
    }
    *out = found;
    return absl::OkStatus();
  }

  absl::Status object(const json& value, std::string_view field) const {
    return value.is_object() ? absl::OkStatus() : bad(field, "want an object { ... }");
  }
};

absl::Status read_quotas(const Reader& reader, const json& object, Quotas* quotas) {
  RETURN_IF_ERROR(reader.object(object, "quotas"));
  for (const auto& [name, value] : object.items()) {
    const std::string path = concat("quotas.", name);
    const QuotaField* field = std::find_if(
        std::begin(kQuotaFields), std::end(kQuotaFields),
        [&name = name](const QuotaField& one) { return one.name == name; });
    if (field == std::end(kQuotaFields)) {
      std::vector<std::string> known;
      for (const QuotaField& one : kQuotaFields) known.emplace_back(one.name);
      return reader.unknown(path, name, known);
    }
    const std::string range = concat("want a whole number from ", field->least, " to ", field->most,
                                     ", not ", value.dump());
    if (!value.is_number_integer()) return reader.bad(path, range);
    // Above the range of int64_t it is stored unsigned.
    const bool huge = value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX;
    const int64_t number = huge ? INT64_MAX : value.get<int64_t>();
    if (number < field->least || number > field->most) return reader.bad(path, range);
    quotas->*(field->value) = number;
  }
  return absl::OkStatus();
}

// A number, or {"rate": ..., "burst": ...}; without a burst it is two seconds' worth.
absl::Status read_rate(const Reader& reader, const json& value, const std::string& path,
                       Rate* rate) {
  constexpr double kLeast = 0.001;
  if (!value.is_object()) {
    RETURN_IF_ERROR(reader.number(value, path, kLeast, kMaxRate, &rate->rate));
    rate->burst = std::max(1.0, 2 * rate->rate);
    return absl::OkStatus();
  }
  if (!value.contains("rate")) return reader.bad(path, "'rate' is missing");
  RETURN_IF_ERROR(reader.number(value["rate"], path + ".rate", kLeast, kMaxRate, &rate->rate));
  rate->burst = std::max(1.0, 2 * rate->rate);
  for (const auto& [name, one] : value.items()) {
    if (name == "rate") continue;
    if (name != "burst") return reader.unknown(concat(path, ".", name), name, {"rate", "burst"});
    RETURN_IF_ERROR(reader.number(one, path + ".burst", 1, 10 * kMaxRate, &rate->burst));
  }
  return absl::OkStatus();
}

absl::Status read_rates(const Reader& reader, const json& object, ServeConfig* config) {
  RETURN_IF_ERROR(reader.object(object, "calls_per_second"));
  std::vector<std::string> known;
  for (int i = 0; i < kCallClasses; ++i)
    known.emplace_back(call_class_name(static_cast<CallClass>(i)));
  for (const auto& [name, value] : object.items()) {
    const std::string path = concat("calls_per_second.", name);
    const auto found = std::find(known.begin(), known.end(), name);
    if (found == known.end()) return reader.unknown(path, name, known);
    RETURN_IF_ERROR(
        read_rate(reader, value, path, &config->rates[static_cast<size_t>(found - known.begin())]));
  }
  return absl::OkStatus();
}

absl::Status read_weights(const Reader& reader, const json& object, ServeConfig* config) {
  RETURN_IF_ERROR(reader.object(object, "weights"));
  for (const auto& [client, value] : object.items()) {
    const std::string path = concat("weights.", client);
    // The names that a certificate can carry, and the local admin's.
    if (!parse_identity_uri(concat("spiffe://loopwright/client/", client)).ok()) {
      return reader.bad(path, "not a client's name: 1 to 63 of A-Z a-z 0-9 . _ -");
    }
    RETURN_IF_ERROR(reader.number(value, path, kMinWeight, kMaxWeight, &config->weights[client]));
  }
  return absl::OkStatus();
}

absl::Status read_retention(const Reader& reader, const json& object, Retention* retention) {
  constexpr double kMostDays = 36'500;
  RETURN_IF_ERROR(reader.object(object, "retention"));
  for (const auto& [name, value] : object.items()) {
    const std::string path = concat("retention.", name);
    const auto settings = retention_settings();
    const auto setting = std::find_if(
        settings.begin(), settings.end(),
        [&name = name](const RetentionSetting& one) { return one.name == name; });
    if (setting == settings.end()) {
      std::vector<std::string> known;
      for (const RetentionSetting& one : settings) known.emplace_back(one.name);
      return reader.unknown(path, name, known);
    }
    RETURN_IF_ERROR(reader.number(value, path, 0, kMostDays, &(retention->*(setting->days))));
  }
  return absl::OkStatus();
}

absl::Status read_denied(const Reader& reader, const json& value, ServeConfig* config) {
  if (!value.is_array()) return reader.bad("denied", "want a list [\"agent/board-7\", ...]");
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string who = value[i].is_string() ? value[i].get<std::string>() : "";
    if (!parse_identity_uri(concat("spiffe://loopwright/", who)).ok()) {
      return reader.bad(concat("denied[", i, "]"),
                        concat("want ROLE/NAME as \"agent/board-7\", not ", value[i].dump()));
    }
    config->denied.insert(who);
  }
  return absl::OkStatus();
}

// Where the JSON stops being JSON: nlohmann tells it only to a handler.
struct ErrorPosition : nlohmann::json_sax<json> {
  size_t position = 0;
  bool parse_error(size_t at, const std::string&, const json::exception&) override {
    position = at;
    return false;
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
};

std::string where(std::string_view text) {
  ErrorPosition finder;
  json::sax_parse(text, &finder);
  const size_t end = std::min(finder.position == 0 ? 0 : finder.position - 1, text.size());
  const auto lines = std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(end), '\n');
  return concat("line ", lines + 1);
}

}  // namespace

double ServeConfig::weight(std::string_view client) const {
  const auto found = weights.find(std::string(client));
  return found == weights.end() ? default_weight : found->second;
}

absl::StatusOr<ServeConfig> parse_serve_config(std::string_view text, std::string_view file) {
  const Reader reader{file};
  const json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) return reader.bad("", concat("no JSON from ", where(text), " on"));
  if (!root.is_object()) return reader.bad("", "want an object { ... }");
  ServeConfig config;
  for (const auto& [name, value] : root.items()) {
    if (name == "quotas") {
      RETURN_IF_ERROR(read_quotas(reader, value, &config.quotas));
    } else if (name == "calls_per_second") {
      RETURN_IF_ERROR(read_rates(reader, value, &config));
    } else if (name == "weights") {
      RETURN_IF_ERROR(read_weights(reader, value, &config));
    } else if (name == "default_weight") {
      RETURN_IF_ERROR(reader.number(value, name, kMinWeight, kMaxWeight, &config.default_weight));
    } else if (name == "admission") {
      if (value != "open" && value != "pending") {
        return reader.bad(name, concat("want \"open\" or \"pending\", not ", value.dump()));
      }
      config.new_devices_wait = value == "pending";
    } else if (name == "retention") {
      RETURN_IF_ERROR(read_retention(reader, value, &config.retention));
    } else if (name == "denied") {
      RETURN_IF_ERROR(read_denied(reader, value, &config));
    } else {
      return reader.unknown(
          name, name, {"quotas", "calls_per_second", "weights", "default_weight", "admission",
                       "retention", "denied"});
    }
  }
  return config;
}

absl::StatusOr<ServeConfig> load_serve_config(const std::string& path) {
  errno = 0;
  std::ifstream in(path);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  if (!in || in.bad()) {
    const std::string message = concat(path, ": ", std::strerror(errno == 0 ? EIO : errno));
    if (errno == ENOENT) return absl::NotFoundError(message);
    if (errno == EACCES) return absl::PermissionDeniedError(message);
    return absl::InvalidArgumentError(message);
  }
  return parse_serve_config(text.str(), path);
}

RateLimiter::RateLimiter(const ServeConfig& config, size_t max_buckets)
    : rates_(config.rates), max_buckets_(std::max<size_t>(1, max_buckets)) {}

absl::Status RateLimiter::take(const Identity& identity, CallClass call_class, int64_t now_ns,
                               double cost) {
  if (!identity.certified) return absl::OkStatus();
  const Rate& rate = rates_[static_cast<size_t>(call_class)];
  std::pair<std::string, CallClass> key(identity_text(identity), call_class);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const auto place = places_.find(key); place != places_.end()) {
    buckets_.splice(buckets_.begin(), buckets_, place->second);
  } else {
    if (buckets_.size() >= max_buckets_) {
      places_.erase(buckets_.back().key);
      buckets_.pop_back();
    }
    buckets_.push_front({key, rate.burst, now_ns});
    places_.emplace(std::move(key), buckets_.begin());
  }
  Bucket& bucket = buckets_.front();
  const double elapsed_s =
      static_cast<double>(std::max<int64_t>(0, now_ns - bucket.filled_ns)) / 1e9;
  bucket.tokens = std::min(rate.burst, bucket.tokens + elapsed_s * rate.rate);
  bucket.filled_ns = std::max(bucket.filled_ns, now_ns);
  // Sums of fractions fall short by rounding: who waits as long as told shall not be refused for
  // it.
  constexpr double kRounding = 1e-6;
  const double needed = std::min(cost, rate.burst);
  if (bucket.tokens >= needed - kRounding) {
    bucket.tokens -= cost;
    return absl::OkStatus();
  }
  const auto delay_ms =
      static_cast<int64_t>(std::ceil((needed - bucket.tokens) / rate.rate * 1e3 - kRounding));
  std::ostringstream limit;
  limit << rate.rate;
  return retry_later(loopwright::v1::ERROR_REASON_RATE_LIMITED,
                     concat(bucket.key.first, " makes more than ", limit.str(),
                            " calls a second of class ", call_class_name(call_class)),
                     std::max<int64_t>(1, delay_ms));
}

size_t RateLimiter::remembered() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return buckets_.size();
}

struct InFlight::State {
  struct Counts {
    int64_t calls = 0, streams = 0;
  };
  std::mutex mutex;
  absl::flat_hash_map<std::string, Counts> of_caller;
  int64_t streams = 0;
};

InFlight::InFlight(const Quotas& quotas) : quotas_(quotas), state_(std::make_shared<State>()) {}

absl::StatusOr<std::shared_ptr<void>> InFlight::enter(const Identity& identity, bool held) {
  if (!identity.certified && !held) return std::shared_ptr<void>();
  constexpr int64_t kCallRetryMs = 200, kStreamRetryMs = 5000;
  const std::string who = identity_text(identity);
  const std::lock_guard<std::mutex> lock(state_->mutex);
  State::Counts& counts = state_->of_caller[who];
  if (!held && counts.calls >= quotas_.calls_at_once) {
    return retry_later(loopwright::v1::ERROR_REASON_QUOTA_EXCEEDED,
                       concat(who, " has ", counts.calls, " calls under way, as many as it may"),
                       kCallRetryMs);
  }
  if (held && identity.certified && counts.streams >= quotas_.streams_at_once) {
    return retry_later(loopwright::v1::ERROR_REASON_QUOTA_EXCEEDED,
                       concat(who, " has ", counts.streams, " streams open, as many as it may"),
                       kStreamRetryMs);
  }
  if (held && state_->streams >= quotas_.streams) {
    if (counts.calls + counts.streams == 0) state_->of_caller.erase(who);
    return retry_later(loopwright::v1::ERROR_REASON_OVERLOADED,
                       concat("the server has ", state_->streams,
                              " streams open, as many as it may"),
                       kStreamRetryMs);
  }
  ++(held ? counts.streams : counts.calls);
  if (held) ++state_->streams;
  return std::shared_ptr<void>(static_cast<void*>(nullptr), [state = state_, who, held](void*) {
    const std::lock_guard<std::mutex> lock(state->mutex);
    State::Counts& left = state->of_caller[who];
    --(held ? left.streams : left.calls);
    if (held) --state->streams;
    if (left.calls + left.streams == 0) state->of_caller.erase(who);
  });
}

absl::Status check_new_study(const Quotas& quotas, std::string_view client, const Usage& usage,
                             const StudySize& size) {
  const auto& [workloads, trials, spec_bytes] = size;
  if (workloads > quotas.workloads_per_study) {
    return api_error(loopwright::v1::ERROR_REASON_TOO_LARGE,
                     concat("spec.workloads: ", workloads, "; a study may have ",
                            quotas.workloads_per_study));
  }
  if (trials > quotas.trials_per_study) {
    return api_error(
        loopwright::v1::ERROR_REASON_TOO_LARGE,
        concat("spec.trials: ", trials, "; a study may have ", quotas.trials_per_study));
  }
  if (usage.active_studies >= quotas.active_studies_per_client) {
    return retry_later(loopwright::v1::ERROR_REASON_QUOTA_EXCEEDED,
                       concat(client, " has ", usage.active_studies,
                              " studies queued or running, as many as a client may"),
                       kStudyRetryMs);
  }
  const char* kRoom = "as many as a client may: delete some that have ended (loopwright delete "
                      "STUDY...)";
  if (usage.kept.studies >= quotas.studies_per_client) {
    return retry_later(loopwright::v1::ERROR_REASON_QUOTA_EXCEEDED,
                       concat(client, " has ", usage.kept.studies, " studies in all, ", kRoom),
                       kKeptRetryMs);
  }
  if (usage.kept.spec_bytes + spec_bytes > quotas.spec_bytes_per_client) {
    return retry_later(loopwright::v1::ERROR_REASON_QUOTA_EXCEEDED,
                       concat("with this one ", client, " has specs of ",
                              usage.kept.spec_bytes + spec_bytes, " bytes, not ",
                              quotas.spec_bytes_per_client, ", ", kRoom),
                       kKeptRetryMs);
  }
  if (usage.queued_jobs >= quotas.queued_jobs) {
    return retry_later(loopwright::v1::ERROR_REASON_OVERLOADED,
                       concat("the queue holds ", usage.queued_jobs, " jobs, as many as it may"),
                       kQueueRetryMs);
  }
  return absl::OkStatus();
}

absl::Status check_unconfirmed(const Quotas& quotas, std::string_view client, const ClientUse& use,
                               int64_t fresh) {
  if (fresh == 0 || use.unconfirmed <= quotas.unconfirmed_per_client) return absl::OkStatus();
  return retry_later(loopwright::v1::ERROR_REASON_QUOTA_EXCEEDED,
                     concat(client, " may have put ", quotas.unconfirmed_per_client,
                            " measurements that nobody has confirmed: ask an admin to confirm them "
                            "(loopwright records import) or to prune them (loopwright db prune)"),
                     kKeptRetryMs);
}

}  // namespace lw
