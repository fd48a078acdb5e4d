#include "tuner_db/origin.h"

#include "src/base/named.h"

namespace lw {
namespace {

// Part of the stored format.
constexpr Named<Origin> kOrigins[] = {
    {Origin::kZero, "zero"},     {Origin::kWarm, "warm"},       {Origin::kDraft, "draft"},
    {Origin::kEvolve, "evolve"}, {Origin::kRandom, "random"},   {Origin::kDescent, "descent"},
    {Origin::kFinalist, "finalist"}};

}  // namespace

std::string_view origin_name(Origin origin) { return name_in(kOrigins, origin); }
bool parse_origin(std::string_view name, Origin* origin) {
  return parse_in(kOrigins, name, origin);
}

}  // namespace lw
