#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "src/base/check.h"
#include "src/npu/compare/compare.h"
#include "src/npu/timing/bounds.h"

namespace lw::npu {
namespace {

constexpr int64_t kMostExtent = 65535;
constexpr double kWinograd = 16.0 / 36;    // products of F(2 x 2, 3 x 3), to those without

struct Columns {
  size_t layer, c, k, r, s, p, q, winograd, dram_kb, mac, dram;
};

absl::StatusOr<Columns> find_columns(const Table& table) {
  Columns columns;
  const std::pair<const char*, size_t*> all[] = {
      {"layer", &columns.layer}, {"c", &columns.c}, {"k", &columns.k}, {"r", &columns.r},
      {"s", &columns.s}, {"p", &columns.p}, {"q", &columns.q}, {"winograd", &columns.winograd},
      {"dram_kb", &columns.dram_kb}, {"mac_cycles", &columns.mac},
      {"dram_cycles", &columns.dram}};
  for (const auto& [name, column] : all) {
    ASSIGN_OR_RETURN(*column, find_column(table, name));
  }
  return columns;
}

absl::StatusOr<ConvShape> read_shape(const Table& table, const Table::Row& row, const Columns& at) {
  ConvShape shape;
  const std::pair<size_t, int64_t*> all[] = {{at.c, &shape.channels}, {at.k, &shape.outputs},
                                             {at.r, &shape.k_h},      {at.s, &shape.k_w},
                                             {at.p, &shape.out_h},    {at.q, &shape.out_w}};
  for (const auto& [column, extent] : all) {
    ASSIGN_OR_RETURN(*extent, read_whole(table, row, column, 1, kMostExtent));
  }
  return shape;
}

// The sheet has cycles as decimal fractions.
bool equal(double ours, double theirs) { return std::abs(ours - theirs) <= 1e-6 * theirs; }

}  // namespace

absl::StatusOr<NvdlaComparison> compare_nvdla(const Config& config, const Table& table) {
  ASSIGN_OR_RETURN(const Columns at, find_columns(table));
  NvdlaComparison c;
  for (const Table::Row& row : table.rows) {
    ASSIGN_OR_RETURN(const ConvShape shape, read_shape(table, row, at));
    ASSIGN_OR_RETURN(const bool winograd, read_bool(table, row, at.winograd));
    ASSIGN_OR_RETURN(const double dram_kb, read_number(table, row, at.dram_kb, 0));
    ASSIGN_OR_RETURN(const double their_mac, read_number(table, row, at.mac, 0));
    ASSIGN_OR_RETURN(const double their_dram, read_number(table, row, at.dram, 0));
    const double plain = static_cast<double>(conv_mac_cycles(config, shape));
    const double mac = winograd ? plain * kWinograd : plain;
    const double dram = std::ceil(compulsory_cycles(config, std::llround(1000 * dram_kb)));
    ++c.layers;
    c.equal_mac += equal(mac, their_mac);
    c.equal_dram += equal(dram, their_dram);
    c.cycles += std::max(mac, dram);
    c.theirs += std::max(their_mac, their_dram);
    c.plain_cycles += std::max(plain, dram);
    if (equal(mac, their_mac) && equal(dram, their_dram)) continue;
    c.others += absl::StrFormat(
        "  %s: %.0f cycles of multipliers (theirs %.0f), %.0f of DRAM (%.0f)\n",
        row.fields[at.layer].substr(0, 60), mac, their_mac, dram, their_dram);
  }
  return c;
}

std::string comparison_text(const Config& config, const NvdlaComparison& c) {
  return absl::StrFormat(
      "%s beside NVDLA's sheet: cycles of multipliers equal in %d of %d layers, of DRAM in %d: %s\n"
      "%sin all %.0f cycles, each layer the larger of the two (theirs %.0f); without Winograd "
      "%.0f\n",
      config.name, c.equal_mac, c.layers, c.equal_dram, c.met() ? "met" : "missed", c.others,
      c.cycles, c.theirs, c.plain_cycles);
}

}  // namespace lw::npu
