#include "src/build/simt/ptx/ptx_lanes.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "absl/strings/str_format.h"

namespace lw {
namespace {

bool is_packed(const Register& r) {
  return r.lanes > 1 && r.type != Type::kBool && size_of(r.type) < 4;
}

// Lanes of a word.
int packed_lanes(Type type) { return 4 / size_of(type); }

bool packs_signed(Type type) { return !is_float(type) && is_signed(type); }

}  // namespace

std::string ptx_number(double value, bool single) {
  if (single) return absl::StrFormat("0f%08x", std::bit_cast<uint32_t>(static_cast<float>(value)));
  return absl::StrFormat("0d%016x", std::bit_cast<uint64_t>(value));
}

int ptx_bits(Type type) { return type == Type::kBool ? 1 : size_of(type) == 8 ? 64 : 32; }

std::string ptx_register(PtxCode& code, Type type) {
  switch (ptx_bits(type)) {
    case 1: return code.flag();
    case 64: return code.wide();
    default: return code.word();
  }
}

void ptx_move(PtxCode& code, Type type, const std::string& to, const std::string& from) {
  if (to == from) return;
  const char* word = type == Type::kBool ? "pred" : ptx_bits(type) == 64 ? "b64" : "b32";
  code.line("mov.", word, " ", to, ", ", from);
}

const std::vector<std::string>& PtxLanes::words(int reg) {
  std::vector<std::string>& words = words_[reg];
  if (!words.empty()) return words;
  const Register& r = kernel_.registers[reg];
  const int per_word = is_packed(r) ? packed_lanes(r.type) : 1;
  for (int l = 0; l < r.lanes; l += per_word) {
    words.push_back(is_packed(r) ? code_.word() : ptx_register(code_, r.type));
  }
  return words;
}

std::string PtxLanes::get(int reg, int lane) {
  const Register& r = kernel_.registers[reg];
  if (!is_packed(r)) return words(reg)[lane];
  const int per_word = packed_lanes(r.type), bits = 8 * size_of(r.type);
  const std::string &word = words(reg)[lane / per_word], result = code_.word();
  code_.line(packs_signed(r.type) ? "bfe.s32 " : "bfe.u32 ", result, ", ", word, ", ",
             lane % per_word * bits, ", ", bits);
  return result;
}

std::vector<std::string> PtxLanes::all(int reg) {
  std::vector<std::string> lanes;
  for (int l = 0; l < kernel_.registers[reg].lanes; ++l) lanes.push_back(get(reg, l));
  return lanes;
}

void PtxLanes::set(int reg, std::vector<std::string> lanes) {
  const Register& r = kernel_.registers[reg];
  const std::vector<std::string>& mine = words(reg);
  const auto join = [&](const std::string& low, const std::string& high, const char* bytes) {
    const std::string joined = code_.word();
    code_.line("prmt.b32 ", joined, ", ", low, ", ", high, ", ", bytes);
    return joined;
  };
  if (is_packed(r)) {
    const int per_word = packed_lanes(r.type);
    for (int l = 0; l < r.lanes; l += per_word) {
      const auto lane = [&](int i) { return lanes[std::min(l + i, r.lanes - 1)]; };
      const std::string word = per_word == 2 ? join(lane(0), lane(1), "0x5410")
                                             : join(join(lane(0), lane(1), "0x0040"),
                                                    join(lane(2), lane(3), "0x0040"), "0x5410");
      code_.line("mov.b32 ", mine[l / per_word], ", ", word);
    }
    return;
  }
  // What is read after it is written is read before.
  for (size_t l = 0; l < lanes.size(); ++l) {
    const auto own = std::find(mine.begin(), mine.end(), lanes[l]);
    if (own == mine.end() || own - mine.begin() >= static_cast<std::ptrdiff_t>(l)) continue;
    const std::string copy = ptx_register(code_, r.type);
    ptx_move(code_, r.type, copy, lanes[l]);
    lanes[l] = copy;
  }
  for (size_t l = 0; l < lanes.size(); ++l) ptx_move(code_, r.type, mine[l], lanes[l]);
}

void ptx_transpose(PtxCode& code, PtxLanes& lanes, const Kernel& kernel, const Stmt& s) {
  const size_t n = s.many.size() / 2;
  const Type type = kernel.registers[s.many[0]].type;
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < n; ++i) {
    rows.push_back(lanes.all(s.many[i]));
    for (std::string& lane : rows.back()) {
      const std::string copy = ptx_register(code, type);
      ptx_move(code, type, copy, lane);
      lane = copy;
    }
  }
  for (size_t i = 0; i < n; ++i) {
    std::vector<std::string> column;
    for (const std::vector<std::string>& row : rows) column.push_back(row[i]);
    lanes.set(s.many[n + i], std::move(column));
  }
}

}  // namespace lw
