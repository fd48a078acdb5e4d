// Lock files as text: version 2 is written, 1 and 2 are read. Whatever stands in one is compared with
// what else does: the program with the key, the trace with the record, the target with its id.
#include <set>

#include "nlohmann/json.hpp"
#include "schedules/targets/identity.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/client/lock.h"
#include "src/expr/expr.h"
#include "src/expr/language/json_text.h"
#include "src/expr/language/syntax.h"
#include "src/expr/language/text.h"
#include "tuner_db/invariants.h"
#include "tuner_db/records/record_codec.h"

namespace lw {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kLockVersion = 2;

// A file's name and nothing else.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name[0] != '.' && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

absl::StatusOr<LockEntry> parse_entry(const Json& json) {
  LockEntry entry;
  const Json key = json.is_object() && json.contains("key") ? json["key"] : Json();
  const bool whole =
      take_text(json, "words", &entry.words) && take_text(json, "record", &entry.record) &&
      take_text(key, "workload", &entry.key.workload) && take_text(key, "target", &entry.key.target) &&
      take_text(key, "backend", &entry.key.backend) && take_text(key, "cache", &entry.key.cache) &&
      take_text(key, "objective", &entry.key.objective) && key.contains("threads") &&
      key["threads"].is_number_integer() && json.contains("files") && json["files"].is_object();
  if (!whole) return absl::InvalidArgumentError("lock: an entry lacks words, record, key or files");
  entry.key.threads = key["threads"].get<int>();
  std::string kind;                        // older locks have none, nor have measured times
  if (take_text(json, "time_kind", &kind) && !parse_time_kind(kind, &entry.time_kind)) {
    return absl::InvalidArgumentError(concat("lock: '", kind, "' is no kind of time"));
  }
  if (take_text(json, "kernel", &entry.kernel) && !is_digest(entry.kernel)) {
    return absl::InvalidArgumentError("lock: a kernel is no sha256");
  }
  take_text(json, "entry", &entry.entry);
  take_text(json, "program", &entry.program);
  if (!take_text(json, "trace", &entry.trace) && entry.is_whole()) {
    return absl::InvalidArgumentError("lock: an entry has a program and no trace");
  }
  const std::string defect = lw::defect(entry.key);
  if (!defect.empty()) return absl::InvalidArgumentError(concat("lock: a key's ", defect));
  if (!is_digest(entry.record)) return absl::InvalidArgumentError("lock: a record is no sha256");
  for (const auto& [name, sum] : json["files"].items()) {
    if (!is_plain_name(name) || !sum.is_string() || !is_digest(sum.get<std::string>())) {
      return absl::InvalidArgumentError(concat("lock: '", name, "' is no file with a sha256"));
    }
    entry.files[name] = sum.get<std::string>();
  }
  return entry;
}

// Of version 2: nothing in it was edited apart from the rest.
absl::Status check_whole(const LockEntry& entry, const Lock& lock) {
  const auto edited = [&](const char* what) {
    return absl::InvalidArgumentError(concat("lock: ", what, " of '", entry.words,
                                             "': it was edited; run `loopwright lock` again"));
  };
  if (!is_identifier(entry.entry)) return edited("the symbol is no identifier of C, that");
  const absl::StatusOr<Program> program = parse_program(entry.program, "program");
  if (!program.ok() || workload_id(*program) != entry.key.workload) {
    return edited("the program is not that of the key");
  }
  if (record_digest(entry.key, entry.trace) != entry.record) {
    return edited("the trace is not that of the record");
  }
  if (!lock.targets.contains(entry.key.target)) {
    return absl::InvalidArgumentError(
        concat("lock: the target ", entry.key.target.substr(0, 12), " of '", entry.words,
               "' is not among its targets"));
  }
  return absl::OkStatus();
}

absl::Status parse_targets(const Json& json, Lock* lock) {
  if (!json.is_object()) return absl::InvalidArgumentError("lock: it has no targets");
  for (const auto& [id, value] : json.items()) {
    absl::StatusOr<Target> target = parse_target(value.dump(), "lock");
    if (!target.ok()) return target.status();
    if (target_id(*target) != id) {
      return absl::InvalidArgumentError(
          concat("lock: the target ", id.substr(0, 12), " is another than its id says: it was "
                 "edited; run `loopwright lock` again"));
    }
    lock->targets[id] = std::make_shared<const Target>(*std::move(target));
  }
  return absl::OkStatus();
}

}  // namespace

std::string to_text(const Lock& lock) {
  std::map<std::string, const LockEntry*> sorted;
  for (const LockEntry& entry : lock.entries) sorted[key_text(entry.key)] = &entry;
  Json json = {{"loopwright_lock", kLockVersion},
               {"targets", Json::object()},
               {"entries", Json::array()}};
  for (const auto& [id, target] : lock.targets) {
    json["targets"][id] = Json::parse(to_text(identity_of(*target)));
  }
  for (const auto& [text, entry] : sorted) {
    const Key& key = entry->key;
    Json one = {{"words", entry->words},
                {"entry", entry->entry},
                {"key",
                 {{"workload", key.workload},
                  {"target", key.target},
                  {"backend", key.backend},
                  {"threads", key.threads},
                  {"cache", key.cache},
                  {"objective", key.objective}}},
                {"program", entry->program},
                {"trace", entry->trace},
                {"record", entry->record},
                {"kernel", entry->kernel},
                {"files", entry->files}};
    if (entry->time_kind != TimeKind::kMeasured) one["time_kind"] = time_kind_name(entry->time_kind);
    json["entries"].push_back(std::move(one));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<Lock> parse_lock(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object() || !json.contains("loopwright_lock") ||
      !json.contains("entries") || !json["entries"].is_array()) {
    return absl::InvalidArgumentError("lock: not a lock file");
  }
  const Json& version = json["loopwright_lock"];
  if (version != 1 && version != kLockVersion) {
    return absl::InvalidArgumentError(concat("lock: version ", version.dump(),
                                             ", this program reads 1 and ", kLockVersion));
  }
  Lock lock;
  if (version == kLockVersion) {
    RETURN_IF_ERROR(parse_targets(json.contains("targets") ? json["targets"] : Json(), &lock));
  }
  std::set<std::string> symbols, keys;
  for (const Json& one : json["entries"]) {
    ASSIGN_OR_RETURN(LockEntry entry, parse_entry(one));
    if (version == 1) {
      entry.program = entry.trace = entry.entry = "";
    } else {
      RETURN_IF_ERROR(check_whole(entry, lock));
      if (!symbols.insert(entry.entry).second) {
        return absl::InvalidArgumentError(
            concat("lock: two entries are called '", entry.entry, "'"));
      }
    }
    if (!keys.insert(key_text(entry.key)).second) {
      return absl::InvalidArgumentError(concat("lock: two entries are of one key, of '", entry.words,
                                               "'"));
    }
    lock.entries.push_back(std::move(entry));
  }
  return lock;
}

}  // namespace lw
