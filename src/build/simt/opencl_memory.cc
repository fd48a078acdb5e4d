// A vector of a register's lanes is one access: by a pointer to it where the address is known to be
// aligned as the language wants it, which drivers make one instruction of, or where the device is a
// processor, to which no alignment matters; else by vload and vstore, which may be several.
#include "src/build/simt/opencl_memory.h"

#include <vector>

#include "absl/functional/function_ref.h"
#include "src/base/message.h"
#include "src/build/simt/opencl_text.h"
#include "src/build/simt/opencl_values.h"

namespace lw {
namespace {

std::string space_word(const std::string& space) {
  return space == "__global " ? "g" : space == "__local " ? "l" : "p";
}

// Booleans as vectors have them, and back.
std::string from_memory(Type type, int lanes, const std::string& value) {
  if (type != Type::kBool) return value;
  return lanes == 1 ? concat("(char)(", value, " != 0)") : concat("(", value, " != (char)0)");
}
std::string to_memory(Type type, int lanes, const std::string& value) {
  return type == Type::kBool && lanes > 1 ? concat("-", value) : value;
}

std::string place(const std::string& step, int lane) {
  return lane == 0 ? "p[0]" : concat("p[", lane == 1 ? "" : concat(lane, " * "), step, "]");
}

// The vector at `at`; "": it cannot be named, vload and vstore are to be used.
std::string vector_at(Type type, int lanes, const ClAccess& a, const std::string& at,
                      const char* constness, Prelude* prelude) {
  std::string name = cl_type(type, lanes);
  if (a.alignment < int64_t{lanes} * size_of(type)) {
    if (!prelude->processor()) return "";
    const std::string any = concat("lw_", name, "_anywhere");
    name = prelude->use(any, concat("typedef ", name, " ", any, " __attribute__((aligned(",
                                    size_of(type), ")));\n"));
  }
  return concat("*(", a.space, constness, name, "*)(", at, ")");
}

std::string load_vector(Type type, int lanes, const ClAccess& a, const std::string& at,
                        Prelude* prelude) {
  const std::string vector = vector_at(type, lanes, a, at, "const ", prelude);
  return vector.empty() ? concat("vload", lanes, "(0, ", at, ")") : vector;
}

std::string store_vector(Type type, int lanes, const ClAccess& a, const std::string& at,
                         const std::string& value, Prelude* prelude) {
  const std::string vector = vector_at(type, lanes, a, at, "", prelude);
  return vector.empty() ? concat("vstore", lanes, "(", value, ", 0, ", at, ")")
                        : concat(vector, " = ", value);
}

// The end of a function that loads lane by lane what its mask `m` leaves on.
std::string load_lanes(Type type, int lanes, absl::FunctionRef<std::string(int)> element) {
  std::string text = concat("  ", cl_type(type, lanes), " r = 0;\n");
  for (int l = 0; l < lanes; ++l) {
    const std::string lane = cl_lane(l, lanes);
    text += concat("  if (m", lane, ") r", lane, " = ", element(l), ";\n");
  }
  return text + "  return r;\n}\n";
}

// Lanes that are off are loaded too where they are the buffer's, and then forgotten: that is one
// instruction, and what is left, branches, is for what hangs over the buffer's ends.
std::string load_within(Type type, int lanes, const ClAccess& a, Prelude* prelude) {
  const std::string tn = cl_type(type, lanes), m = cl_signed(type, lanes);
  const std::string pointer = concat(a.space, "const ", cl_type(type), "*");
  const std::string name = concat("lw_load_within_", space_word(a.space), "_", tn);
  const std::string mask = size_of(type) == 1 ? "m" : concat("convert_", m, "(m)");
  const std::string whole = load_vector(type, lanes, {.space = a.space}, "all + i", prelude);
  std::string text =
      concat("static inline ", tn, " ", name, "(", pointer, " all, long i, long last, char", lanes,
             " m) {\n  if (i >= 0 && i <= last) return select((", tn, ")(0), ", whole, ", ", mask,
             ");\n");
  text += load_lanes(type, lanes, [](int l) {
    return concat("all[i", l == 0 ? "" : concat(" + ", l), "]");
  });
  return concat(prelude->use(name, text), "(", a.all, ", ", a.index, ", ", a.elements - lanes, ", ",
                a.mask, ")");
}

std::string stream_vector(Type type, int lanes, const ClAccess& a, const std::string& value,
                          Prelude* prelude) {
  prelude->use_has_builtin();
  const std::string& stream = prelude->use(
      "lw_stream",
      "#if __has_builtin(__builtin_nontemporal_store)\n"
      "#define lw_stream(value, place) __builtin_nontemporal_store(value, place)\n"
      "#else\n#define lw_stream(value, place) *(place) = value\n#endif\n");
  return concat(stream, "(", value, ", (", a.space, cl_type(type, lanes), "*)(", a.at, "))");
}

}  // namespace

// By compilers that make a processor's code at once: SPIR-V has no word for it, and what translates
// to that refuses it.
std::string cl_prefetch(const std::string& address, Prelude* prelude) {
  prelude->use_has_builtin();
  const std::string& prefetch = prelude->use(
      "lw_prefetch",
      "#if __has_builtin(__builtin_prefetch) && (defined(__x86_64__) || defined(__aarch64__))\n"
      "#define lw_prefetch(address) __builtin_prefetch((const void*)(address))\n"
      "#else\n#define lw_prefetch(address)\n#endif\n");
  return concat(prefetch, "(", address, ");");
}

std::string cl_load(Type type, int lanes, int64_t stride, const ClAccess& a, Prelude* prelude) {
  const std::string t = cl_type(type), tn = cl_type(type, lanes);
  if (lanes == 1) {
    const std::string at = a.indices.empty() ? a.at : concat("(", a.at, ")[", a.indices, "]");
    const std::string value = a.indices.empty() ? concat("*(", a.at, ")") : at;
    const std::string loaded = from_memory(type, 1, value);
    return a.mask.empty() ? loaded
                          : concat(a.mask, " ? ", loaded, " : ", cl_constant(type, 0, 0));
  }
  const std::string n = concat(lanes), w = space_word(a.space);
  const ClAccess unaligned{.space = a.space};  // functions are for all addresses
  const std::string pointer = concat(a.space, "const ", t, "* p");
  const bool gathers = !a.indices.empty();
  if (a.mask.empty() && !gathers && stride == 1) {
    return from_memory(type, lanes, load_vector(type, lanes, a, a.at, prelude));
  }
  if (a.mask.empty() && !gathers && stride == 0) {
    return from_memory(type, lanes, concat("(", tn, ")(*(", a.at, "))"));
  }
  if (a.elements >= lanes && stride == 1 && !gathers) {
    return from_memory(type, lanes, load_within(type, lanes, a, prelude));
  }
  const std::string offset = gathers ? concat("long", n, " i") : "long i";
  const std::string name = concat("lw_", gathers ? "gather" : "load", a.mask.empty() ? "" : "_if",
                                  "_", w, "_", tn, gathers || stride == 1 ? "" : "_apart");
  const auto element = [&](int l) {
    if (gathers) return concat("p[i", cl_lane(l, lanes), "]");
    return stride == 1 ? concat("p[", l, "]") : place("i", l);
  };
  std::string text = concat("static inline ", tn, " ", name, "(", pointer,
                            gathers || stride != 1 ? ", " + offset : "",
                            a.mask.empty() ? "" : concat(", char", n, " m"), ") {\n");
  if (a.mask.empty()) {
    std::vector<std::string> values;
    for (int l = 0; l < lanes; ++l) values.push_back(element(l));
    text += concat("  return ", cl_literal(type, lanes, values), ";\n}\n");
  } else {
    if (!gathers && stride == 1) {
      text += concat("  if (all(m)) return ", load_vector(type, lanes, unaligned, "p", prelude),
                     ";\n");
    }
    text += load_lanes(type, lanes, element);
  }
  const std::string more = gathers       ? concat(", ", a.indices)
                           : stride != 1 ? concat(", ", stride)
                                         : "";
  return from_memory(type, lanes,
                     concat(prelude->use(name, text), "(", a.at, more,
                            a.mask.empty() ? "" : ", " + a.mask, ")"));
}

std::string cl_store(Type type, int lanes, int64_t stride, const ClAccess& a, Prelude* prelude) {
  const std::string value = to_memory(type, lanes, a.value);
  if (lanes == 1) {
    const std::string store = concat("*(", a.at, ") = ", value, ";");
    return a.mask.empty() ? store : concat("if (", a.mask, ") ", store);
  }
  const std::string t = cl_type(type), tn = cl_type(type, lanes);
  if (a.mask.empty() && stride == 1) {
    const bool streams = a.streams && prelude->processor() && type != Type::kBool &&
                         a.alignment >= int64_t{lanes} * size_of(type);
    return (streams ? stream_vector(type, lanes, a, value, prelude)
                    : store_vector(type, lanes, a, a.at, value, prelude)) + ";";
  }
  const ClAccess unaligned{.space = a.space};  // functions are for all addresses
  const std::string name = concat("lw_store", a.mask.empty() ? "" : "_if", "_",
                                  space_word(a.space), "_", tn, stride == 1 ? "" : "_apart");
  std::string text =
      concat("static inline void ", name, "(", tn, " r, ", a.space, t, "* p",
             stride == 1 ? "" : ", long i",
             a.mask.empty() ? "" : concat(", char", lanes, " m"), ") {\n");
  if (!a.mask.empty() && stride == 1) {
    text += concat("  if (all(m)) { ", store_vector(type, lanes, unaligned, "p", "r", prelude),
                   "; return; }\n");
  }
  for (int l = 0; l < lanes; ++l) {
    const std::string lane = cl_lane(l, lanes);
    const std::string element = stride == 1 ? concat("p[", l, "]") : place("i", l);
    text += concat("  ", a.mask.empty() ? "" : concat("if (m", lane, ") "), element, " = r", lane,
                   ";\n");
  }
  return concat(prelude->use(name, text + "}\n"), "(", value, ", ", a.at,
                stride == 1 ? "" : concat(", ", stride), a.mask.empty() ? "" : ", " + a.mask, ");");
}

}  // namespace lw
