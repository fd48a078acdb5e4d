#include "cost_model/forest/model_file.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>
#include <sstream>
#include <utility>

#include "cost_model/cost_model.h"
#include "cost_model/family.h"
#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/hash.h"
#include "src/base/message.h"

namespace lw {

// By family (generated table).
const std::vector<std::pair<std::string_view, std::string_view>>& shipped_model_files();

namespace {

constexpr std::string_view kMagic = "loopwright model 2";
constexpr size_t kMostForests = 1000;

std::string hex(uint64_t value) {
  std::ostringstream out;
  out << std::hex << value;
  return out.str();
}

// The next line of `rest`, which loses it.
std::string_view next_line(std::string_view& rest) {
  const size_t end = std::min(rest.find('\n'), rest.size());
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return line;
}

bool parse_size(std::string_view text, size_t* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

// `name` stands for the bytes in messages.
absl::StatusOr<Forests> parse_model(std::string_view rest, std::string_view name,
                                    std::string_view architecture) {
  if (next_line(rest) != kMagic)
    return absl::InvalidArgumentError(concat(name, " is not a cost model"));
  const std::string_view schema = next_line(rest), trained_for = next_line(rest);
  const std::string_view family = cost::family_of(trained_for);
  if (schema != hex(feature_schema(family))) {
    return absl::FailedPreconditionError(
        concat(name, " was trained on other features (schema ", schema, ", this program has ",
               hex(feature_schema(family)), "): train it again"));
  }
  if (trained_for != architecture) {
    return absl::FailedPreconditionError(
        concat(name, " was trained for ", trained_for, " targets, not for ", architecture));
  }
  const absl::Status damaged = absl::DataLossError(concat(name, " is damaged or cut off"));
  std::vector<size_t> sizes;
  size_t sum = 0;
  std::istringstream list{std::string(next_line(rest))};
  for (std::string word; list >> word;) {
    if (!parse_size(word, &sizes.emplace_back()) || sizes.back() > rest.size()) return damaged;
    sum += sizes.back();
  }
  const std::string_view sum_of_bytes = next_line(rest);
  if (sizes.size() > kMostForests || rest.size() != sum || hex(hash64(rest)) != sum_of_bytes)
    return damaged;
  Forests forests;
  for (size_t size : sizes) {
    absl::StatusOr<Forest> forest = Forest::parse(rest.substr(0, size), feature_table(family).size());
    if (!forest.ok()) return damaged;
    forests.push_back(std::make_shared<const Forest>(*std::move(forest)));
    rest.remove_prefix(size);
  }
  return forests;
}

}  // namespace

absl::Status write_model_file(const Forests& forests, const std::string& path,
                              std::string_view architecture) {
  std::string sizes, body;
  for (const std::shared_ptr<const Forest>& forest : forests) {
    const std::string bytes = forest->bytes();
    sizes += concat(sizes.empty() ? "" : " ", bytes.size());
    body += bytes;
  }
  const uint64_t schema = feature_schema(cost::family_of(architecture));
  return write_file(path, concat(kMagic, "\n", hex(schema), "\n", architecture, "\n", sizes, "\n",
                                 hex(hash64(body)), "\n", body));
}

absl::StatusOr<Forests> read_model_file(const std::string& path, std::string_view architecture) {
  ASSIGN_OR_RETURN(const std::string bytes, read_file(path));
  return parse_model(bytes, path, architecture);
}

absl::StatusOr<Forests> shipped_forests(std::string_view architecture) {
  static std::mutex mutex;
  static auto* const read = new std::map<std::string, absl::StatusOr<Forests>, std::less<>>;
  const std::lock_guard lock(mutex);
  if (const auto known = read->find(architecture); known != read->end()) return known->second;
  for (const auto& [family, bytes] : shipped_model_files()) {
    if (family != cost::family_of(architecture)) continue;
    return read->try_emplace(std::string(architecture),
                             parse_model(bytes, "the shipped model", architecture)).first->second;
  }
  return absl::FailedPreconditionError(
      concat("no model comes with this program for ", architecture, " targets"));
}

}  // namespace lw
