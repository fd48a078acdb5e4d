#include "src/base/named.h"
#include "src/npu/isa/isa.h"

namespace lw::npu {
namespace {

constexpr Named<Engine> kEngineNames[] = {
    {Engine::kLd, "LD"}, {Engine::kMx, "MX"}, {Engine::kVe, "VE"}, {Engine::kSt, "ST"}};
constexpr Named<Space> kSpaces[] = {{Space::kSpm, "spm"}, {Space::kAcc, "acc"}};
constexpr Named<Convert> kConverts[] = {{Convert::kNone, "none"}, {Convert::kWiden, "widen"}};
constexpr Named<Broadcast> kBroadcasts[] = {{Broadcast::kNone, "none"},
                                            {Broadcast::kRow, "row"},
                                            {Broadcast::kColumn, "column"},
                                            {Broadcast::kImm, "imm"}};
constexpr Named<BinaryFn> kBinaries[] = {
    {BinaryFn::kAdd, "add"}, {BinaryFn::kSub, "sub"}, {BinaryFn::kMul, "mul"},
    {BinaryFn::kMax, "max"}, {BinaryFn::kMin, "min"}, {BinaryFn::kShr, "shr"},
    {BinaryFn::kCmp, "cmp"}};
constexpr Named<UnaryFn> kUnaries[] = {
    {UnaryFn::kCopy, "copy"},   {UnaryFn::kRelu, "relu"}, {UnaryFn::kExp, "exp"},
    {UnaryFn::kRecip, "recip"}, {UnaryFn::kRsqrt, "rsqrt"}, {UnaryFn::kTanh, "tanh"},
    {UnaryFn::kSigm, "sigm"},   {UnaryFn::kGelu, "gelu"}, {UnaryFn::kAbs, "abs"}};
constexpr Named<ReduceFn> kReduces[] = {{ReduceFn::kSum, "sum"}, {ReduceFn::kMax, "max"}};

static_assert(std::size(kBroadcasts) == kCount<Broadcast>);
static_assert(std::size(kBinaries) == kCount<BinaryFn>);
static_assert(std::size(kUnaries) == kCount<UnaryFn>);
static_assert(std::size(kReduces) == kCount<ReduceFn>);

}  // namespace

std::string_view name_of(Engine engine) { return name_in(kEngineNames, engine); }
std::string_view name_of(Space space) { return name_in(kSpaces, space); }
std::string_view name_of(Convert convert) { return name_in(kConverts, convert); }
std::string_view name_of(Broadcast broadcast) { return name_in(kBroadcasts, broadcast); }
std::string_view name_of(BinaryFn fn) { return name_in(kBinaries, fn); }
std::string_view name_of(UnaryFn fn) { return name_in(kUnaries, fn); }
std::string_view name_of(ReduceFn fn) { return name_in(kReduces, fn); }
bool parse_name(std::string_view name, Space* space) { return parse_in(kSpaces, name, space); }
bool parse_name(std::string_view name, Convert* to) { return parse_in(kConverts, name, to); }
bool parse_name(std::string_view name, Broadcast* to) { return parse_in(kBroadcasts, name, to); }
bool parse_name(std::string_view name, BinaryFn* fn) { return parse_in(kBinaries, name, fn); }
bool parse_name(std::string_view name, UnaryFn* fn) { return parse_in(kUnaries, name, fn); }
bool parse_name(std::string_view name, ReduceFn* fn) { return parse_in(kReduces, name, fn); }

}  // namespace lw::npu
