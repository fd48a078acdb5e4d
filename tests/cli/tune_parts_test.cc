// A program of several stages, tuned by its parts: what is searched, said, stored, and gone on with.
#include "tests/support/cli_fixture.h"

namespace lw {
namespace {

using Json = nlohmann::json;

class PartsTest : public CliTest {
 protected:
  Json tuned(const std::string& words) {
    const CliRun run = cli("tune " + std::string(LW_SOURCE_DIR) + "/bench/workloads/fused.te:" +
                           words + " --threads 1 --db parts.db --json -q");
    EXPECT_EQ(run.code, 0) << run.err;
    return run.json();
  }
};

constexpr char kLstm[] = "lstm_step B=4 I=24 H=32 --seconds 40 --trials 64";

TEST_F(PartsTest, AreSearchedFirstAndTheRecordIsOneOfTheWhole) {
  const Json first = tuned(kLstm);
  EXPECT_GE(first["parts"], 2);
  EXPECT_GT(first["part_trials"], 0);
  EXPECT_GT(first["trials"], 0);
  EXPECT_TRUE(first["best"]["verified"]);
  EXPECT_EQ(cli("db ls --db parts.db --json").json().size(), 1u);
  // What was searched before is not searched by its parts again.
  const Json again = tuned(kLstm);
  EXPECT_EQ(again["part_trials"], 0);
  EXPECT_LE(again["best"]["time_us"], first["best"]["time_us"].get<double>() * 1.5);
}

// Nor what has but one, nor a search too short to be shared.
TEST_F(PartsTest, AreNotLookedForInVain) {
  EXPECT_EQ(tuned("rope S=8 H=2 D=8 --seconds 5 --trials 64")["parts"], 0);
  EXPECT_EQ(tuned("lstm_step B=3 I=8 H=8 --trials 20")["parts"], 0);
  EXPECT_EQ(tuned("lstm_step B=3 I=8 H=9 --seconds 3 --trials 64")["parts"], 0);
}

}  // namespace
}  // namespace lw
