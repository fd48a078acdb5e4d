// The text of a kernel. One statement a line, two spaces of indentation a level:
//
//   kernel dense arguments=3 variables=2 workspace=0 private=0 packed=0
//   buffer A f32 1024 argument 0
//   buffer C f32 1024 argument 2 written
//   buffer panel f32 4096 packed 0
//   registers f32x16 24
//   prepack {
//   }
//   body {
//     for v0 < 64 parallel {
//       int v1 = div 3*v0 + 5, 4
//       if v0 - 3 >= 0, -v1 + 7 >= 0 {
//         r0 = load A[16*v0 + 4] stride 1 mask r5
//         r1 = fma r0, r2, r1
//       } else {
//       }
//       store C[16*v0] = r1 stride 1 nt
//     }
//     product acc[0] (64, 0, 1) += a[32*v0] (64, 1, 0), b[0] (0, 64, 1) over 8, 64, 64 variant 1
//   }
//
// Golden tests compare this text, and the interpreter backend's artifacts are it, so it must hold
// every field that has meaning. Buffers of equal names get a suffix; registers are declared in
// runs; the bytes of managed memories, where there are any, and an error_growth other than 1 end
// the first line, as "managed=262144,65536 growth=3.5". A managed buffer has its memory and its
// offset ("managed 0 4096", and "swizzled" where it is), a block its views with their strides, its extents, its clips
// ("clip 1 3*v0 - 1 of 56") with what they pad ("pad 0"), and a variant other than 0.
// kernel/parse.cc reads it back.
#include <algorithm>
#include <cctype>
#include <charconv>

#include "src/kernel/blocks.h"
#include "src/kernel/ops.h"
#include "src/kernel/words.h"

namespace lw {
namespace {

// Texts and integers, appended in order. (absl's own string_view is a type apart in some builds of
// absl, so its StrCat does not take std's.)
void add(std::string* text, std::string_view part) { text->append(part); }
void add(std::string* text, const char* part) { text->append(part); }
void add(std::string* text, const std::string& part) { text->append(part); }
void add(std::string* text, int64_t value) { text->append(std::to_string(value)); }
void add(std::string* text, int value) { text->append(std::to_string(value)); }
void add(std::string* text, uint64_t value) { text->append(std::to_string(value)); }
template <class... Parts>
void append(std::string* text, const Parts&... parts) {
  (add(text, parts), ...);
}

std::string number_text(double value) {
  char text[40];
  // The shortest text that parses back.
  const std::to_chars_result end = std::to_chars(text, text + sizeof text, value);
  return std::string(text, end.ptr);
}

std::string affine_text(const Affine& a) {
  std::string text;
  for (const Affine::Term& term : a.terms) {
    const uint64_t size = term.coefficient < 0 ? -static_cast<uint64_t>(term.coefficient)
                                               : static_cast<uint64_t>(term.coefficient);
    const char* sign = text.empty() ? (term.coefficient < 0 ? "-" : "")
                                    : (term.coefficient < 0 ? " - " : " + ");
    append(&text, sign, size == 1 ? "" : std::to_string(size) + "*", "v", term.var);
  }
  if (text.empty()) return std::to_string(a.constant);
  if (a.constant == 0) return text;
  const uint64_t size = a.constant < 0 ? -static_cast<uint64_t>(a.constant)
                                       : static_cast<uint64_t>(a.constant);
  return text + (a.constant < 0 ? " - " : " + ") + std::to_string(size);
}

class Printer {
 public:
  explicit Printer(const Kernel& kernel) : kernel_(kernel) {
    for (size_t i = 0; i < kernel.buffers.size(); ++i) {
      std::string name = kernel.buffers[i].name;
      if (name.empty()) name = "buffer" + std::to_string(i);
      for (char& c : name) {
        if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.') c = '_';
      }
      for (const std::string& other : names_) {
        if (other == name) {
          append(&name, ".", i);
          break;
        }
      }
      names_.push_back(name);
    }
  }

  std::string print() {
    append(&text_, "kernel ", kernel_.name, " arguments=", kernel_.arguments, " variables=",
           kernel_.variables, " workspace=", kernel_.workspace_bytes, " private=",
           kernel_.private_bytes, " packed=", kernel_.packed_bytes);
    if (!kernel_.managed_bytes.empty()) integers(" managed=", kernel_.managed_bytes, ",");
    if (kernel_.error_growth != 1) append(&text_, " growth=", number_text(kernel_.error_growth));
    text_ += "\n";
    for (size_t i = 0; i < kernel_.buffers.size(); ++i) {
      const Buffer& b = kernel_.buffers[i];
      append(&text_, "buffer ", names_[i], " ", type_name(b.type), " ", b.elements, " ",
             kScopeWords[static_cast<int>(b.scope)], " ");
      if (b.scope == Scope::kManaged) append(&text_, b.memory, " ");
      append(&text_, b.scope == Scope::kArgument ? b.slot : b.offset,
             b.written ? " written" : "", b.swizzled ? " swizzled\n" : "\n");
    }
    for (size_t i = 0; i < kernel_.registers.size();) {
      const Register& r = kernel_.registers[i];
      size_t end = i + 1;
      while (end < kernel_.registers.size() && kernel_.registers[end].type == r.type &&
             kernel_.registers[end].lanes == r.lanes) ++end;
      append(&text_, "registers ", type_name(r.type), "x", r.lanes, " ", uint64_t{end - i}, "\n");
      i = end;
    }
    if (!kernel_.prepack.empty()) {
      text_ += "prepack {\n";
      list(kernel_.prepack, 1);
      text_ += "}\n";
    }
    text_ += "body {\n";
    list(kernel_.body, 1);
    return text_ + "}\n";
  }

 private:
  void list(const std::vector<Stmt>& list, int depth) {
    for (const Stmt& s : list) {
      text_.append(2 * depth, ' ');
      stmt(s, depth);
    }
  }

  void stmt(const Stmt& s, int depth) {
    switch (s.kind) {
      case Stmt::Kind::kFor:
        append(&text_, "for v", s.var, " < ", s.count, s.parallel ? " parallel" : "");
        if (s.items != 1) append(&text_, " items ", s.items);
        if (s.cluster != 1) append(&text_, " cluster ", s.cluster);
        if (s.producer) text_ += " producer";
        text_ += " {\n";
        list(s.body, depth + 1);
        break;
      case Stmt::Kind::kIf:
        text_ += "if ";
        for (size_t i = 0; i < s.conditions.size(); ++i) {
          append(&text_, i == 0 ? "" : ", ", affine_text(s.conditions[i]), " >= 0");
        }
        text_ += s.conditions.empty() ? "{\n" : " {\n";
        list(s.body, depth + 1);
        if (!s.otherwise.empty()) {
          text_.append(2 * depth, ' ');
          text_ += "} else {\n";
          list(s.otherwise, depth + 1);
        }
        break;
      case Stmt::Kind::kInt:
        int_stmt(s);
        return;
      case Stmt::Kind::kOp:
        op(s);
        text_ += "\n";
        return;
      case Stmt::Kind::kBlock:
        block(*s.block);
        text_ += "\n";
        return;
    }
    text_.append(2 * depth, ' ');
    text_ += "}\n";
  }

  void int_stmt(const Stmt& s) {
    append(&text_, "int v", s.var, " = ");
    switch (s.int_op) {
      case Stmt::IntOp::kAffine:
        append(&text_, affine_text(s.a), "\n");
        return;
      case Stmt::IntOp::kDiv: case Stmt::IntOp::kMod:
        append(&text_, kIntWords[static_cast<int>(s.int_op)], " ", affine_text(s.a), ", ",
               s.divisor, "\n");
        return;
      case Stmt::IntOp::kMin: case Stmt::IntOp::kMax:
        append(&text_, kIntWords[static_cast<int>(s.int_op)], " ", affine_text(s.a), ", ",
               affine_text(s.b), "\n");
        return;
      case Stmt::IntOp::kRegister:
        append(&text_, "register r", s.srcs[0], "\n");
        return;
      case Stmt::IntOp::kItem:
        text_ += "item\n";
        return;
    }
  }

  void registers(std::string_view before, const int* first, const int* last) {
    for (const int* r = first; r != last; ++r) append(&text_, r == first ? before : ", r", *r);
  }

  void op(const Stmt& s) {
    const OpRow& row = row_of(s.op);
    if (row.gives) append(&text_, "r", s.dst, " = ");
    text_ += word_of(s);
    for (const Field part : row.fields) {
      if (part == Field::kNone) break;
      field(s, part);
    }
  }

  void field(const Stmt& s, Field field) {
    const int *many = s.many.data(), *half = many + s.many.size() / 2, *end = many + s.many.size(),
              *factors = end - factor_registers(s).size();
    switch (field) {
      case Field::kNone: break;
      case Field::kSlid: append(&text_, " ", s.integer); [[fallthrough]];
      case Field::kSources:
        registers(" r", s.srcs, std::find_if(s.srcs, s.srcs + 3, [](int r) { return r < 0; }));
        break;
      case Field::kConstant:
        append(&text_, " ", is_float(kernel_.registers[s.dst].type) ? number_text(s.number)
                                                                   : std::to_string(s.integer));
        break;
      case Field::kIndex: append(&text_, " ", affine_text(s.index)); break;
      case Field::kPlace:
        append(&text_, " ", names_[s.buffer], "[", affine_text(s.index), "]");
        break;
      case Field::kStored: append(&text_, " = r", s.srcs[0]); break;
      case Field::kStride: append(&text_, " stride ", s.stride); break;
      case Field::kMask:
        if (s.mask >= 0) append(&text_, " mask r", s.mask);
        break;
      case Field::kIndices:
        if (s.indices >= 0) append(&text_, " indices r", s.indices);
        break;
      case Field::kNonTemporal:
        if (s.non_temporal) text_ += " nt";
        break;
      case Field::kOnItsWay:
        if (s.on_its_way) text_ += " async";
        break;
      case Field::kLocality: append(&text_, " locality ", s.integer); break;
      case Field::kReduce:
        append(&text_, " ", kReduceWords[static_cast<int>(s.reduce)]);
        break;
      case Field::kMany: registers(" r", many, factors); break;
      case Field::kBlock:
        registers(" r", many, half);
        registers(" -> r", half, end);
        break;
      case Field::kGiven: registers(" -> r", many, end); break;
      case Field::kFactors:
        if (s.block == nullptr) break;
        registers(" += r", factors, end);
        for (const View& factor : factors_of(s)) {
          view(&factor == s.block->srcs ? " += " : ", ", factor);
        }
        integers(" over ", s.block->extents, ", ");
        break;
      case Field::kBox:
        if (s.block != nullptr) views_and_box(*s.block);
        break;
    }
  }

  template <class List>
  void integers(std::string_view before, const List& list, std::string_view between) {
    for (size_t i = 0; i < list.size(); ++i) append(&text_, i == 0 ? before : between, list[i]);
  }

  void view(std::string_view before, const View& view) {
    // Of kernels that the verifier refuses, too, whoever looks for why sees the text.
    const bool known = view.buffer >= 0 && view.buffer < static_cast<int>(names_.size());
    append(&text_, before, known ? names_[view.buffer] : "?", "[", affine_text(view.index), "]");
    integers(" (", view.strides, ", ");
    text_ += ")";
  }

  void block(const Block& block) {
    const BlockRow& row = row_of(block.op);
    text_ += row.word;
    if (block.op == BlockOp::kReduce) {
      append(&text_, " ", kReduceWords[static_cast<int>(block.reduce)]);
    } else if (computes(block.op)) {
      append(&text_, " ", op_name(block.expr_op));
    }
    views_and_box(block);
  }

  void views_and_box(const Block& block) {
    const BlockRow& row = row_of(block.op);
    view(" ", block.dst);
    text_ += block.accumulate ? " +=" : " =";
    if (row.sources == 0) append(&text_, " ", block.integer);
    for (int i = 0; i < row.sources; ++i) view(i == 0 ? " " : ", ", block.srcs[i]);
    if (block.op == BlockOp::kScalar) append(&text_, " number ", number_text(block.number));
    if (block.op == BlockOp::kRequantise) {
      append(&text_, " zero ", int{block.zero}, " in ", int{block.lo}, ", ", int{block.hi});
    }
    integers(" over ", block.extents, ", ");
    for (const Clip& clip : block.clips) {
      append(&text_, " clip ", clip.dim, " ", affine_text(clip.first), " of ", clip.size);
    }
    if (block.pads) append(&text_, " pad ", block.integer);
    if (block.variant != 0) append(&text_, " variant ", block.variant);
  }

  const Kernel& kernel_;
  std::vector<std::string> names_;
  std::string text_;
};

}  // namespace

std::string print(const Kernel& kernel) { return Printer(kernel).print(); }

}  // namespace lw
