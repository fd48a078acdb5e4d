#include "src/expr/type.h"

#include <iterator>

namespace lw {
namespace {

struct TypeRow {
  const char* name;
  int size;
  bool is_float;
};
constexpr TypeRow kTypes[] = {{"f64", 8, true},  {"f32", 4, true},  {"f16", 2, true},
                              {"bf16", 2, true}, {"i64", 8, false}, {"i32", 4, false},
                              {"i16", 2, false}, {"i8", 1, false},  {"u8", 1, false},
                              {"bool", 1, false}};

}  // namespace

int size_of(Type type) { return kTypes[static_cast<int>(type)].size; }
bool is_float(Type type) { return kTypes[static_cast<int>(type)].is_float; }
std::string_view type_name(Type type) { return kTypes[static_cast<int>(type)].name; }

bool parse_type(std::string_view name, Type* type) {
  for (size_t i = 0; i < std::size(kTypes); ++i) {
    if (name != kTypes[i].name) continue;
    *type = static_cast<Type>(i);
    return true;
  }
  return false;
}

}  // namespace lw
