// The tests of stores, in whichever file, on every store.
#include "tests/tuner_db/every_store.h"

namespace lw {

INSTANTIATE_TEST_SUITE_P(All, StoreTest, ::testing::ValuesIn(kKinds), kind_name);

}  // namespace lw
