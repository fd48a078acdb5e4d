// What of a target only its family reads: a value of a type that is the family's own. Here it is
// opaque; the family's header opens it (schedules/targets/cpu/cpu_target.h: cpu(target)).
// Values, whose copies share what none of them changes; thread-safe.
#pragma once

#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "src/base/fields/fields.h"

namespace lw {

struct TargetFamily;

// A value of a part whose type is the family's own, and the word that all forms have for it.
struct PartWord {
  void* value;
  std::string (*word)(const void* value);
  bool (*parse)(std::string_view word, void* value);
  const char* meaning;                     // of the field: which words there are

  PartWord& operator*() { return *this; }  // as the pointers beside it
};
inline std::string field_word(const PartWord& field) { return field.word(field.value); }
inline bool parse_field_word(std::string_view word, PartWord* field) {
  return field->parse(word, field->value);
}
inline std::string no_such_word(const PartWord& field) {
  return std::string("is none of '") + field.meaning + "'";
}

// A field of a part, wherever its description (src/base/fields/fields.h) is visited.
struct PartField {
  using Value = std::variant<std::string*, bool*, int*, int64_t*, double*, PartWord>;
  FieldId id;
  Value value;
};

class TargetPart {
 public:
  TargetPart() = default;                  // of no family that is known here: it has no fields
  explicit TargetPart(const TargetFamily& family);  // all defaults
  TargetPart(const TargetFamily& family, std::shared_ptr<const void> value)
      : family_(&family), value_(std::move(value)) {}

  const TargetFamily* family() const { return family_; }  // null: unknown
  const void* value() const { return value_.get(); }

  // In the order of their numbers. To be read; of a part that is not const, which is its only owner
  // from then on, to be changed too.
  std::vector<PartField> fields() const;
  std::vector<PartField> fields();

 private:
  const TargetFamily* family_ = nullptr;
  std::shared_ptr<const void> value_;
};

constexpr int kAllFields = std::numeric_limits<int>::max();

// Visits common fields and, between them, those of a part by their numbers.
template <class Visit, bool kConst>
class FieldMerge {
 public:
  FieldMerge(std::vector<PartField> own, Visit& visit) : own_(std::move(own)), visit_(visit) {}

  template <class T>
  void operator()(FieldId id, T& value) {
    visit_own(id.number);
    visit_(id, value);
  }
  void visit_own(int below) {
    for (; next_ < own_.size() && own_[next_].id.number < below; ++next_) {
      std::visit([this](auto value) {
        if constexpr (kConst) visit_(own_[next_].id, std::as_const(*value));
        else visit_(own_[next_].id, *value);
      }, own_[next_].value);
    }
  }

 private:
  const std::vector<PartField> own_;
  size_t next_ = 0;
  Visit& visit_;
};

}  // namespace lw
