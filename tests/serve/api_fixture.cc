// The tests of the API, in whichever file, on both databases.
#include "tests/serve/api_fixture.h"

namespace lw {

INSTANTIATE_TEST_SUITE_P(Databases, ApiTest, ::testing::Values("sqlite", "postgres"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace lw
