// The tests of queues, in whichever file, on both databases.
#include "tests/queue/queue_fixture.h"

namespace lw {

INSTANTIATE_TEST_SUITE_P(Databases, QueueTest, ::testing::Values("sqlite", "postgres"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace lw
