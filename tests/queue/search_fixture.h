// A study's search in a daemon, driven by hand: its seat, and a study for it.
#pragma once

#include <string>
#include <vector>

#include "src/serve/studies/study_queue.h"
#include "src/serve/studies/study_search.h"
#include "tests/queue/queue_fixture.h"
#include "tests/support/program.h"

namespace lw {

class SearchTest : public QueueTest {
 protected:
  SearchSeat seat() {
    SearchSeat seat;
    seat.drafts = static_cast<int>(setting("LW_DRAFTS", seat.drafts));
    seat.database = database_.get();
    seat.store = store_.get();
    seat.commit = [this](const std::function<absl::Status(WriteTransaction&)>& body) {
      return database_->write(5, body);
    };
    seat.now_ms = [this] { return now_; };
    seat.changed = [this](const Changes& changes) {
      doubts_.insert(doubts_.end(), changes.doubts.begin(), changes.doubts.end());
    };
    seat.owner = "daemon";
    seat.liveness = &liveness_;
    seat.rules = rules_;
    return seat;
  }

  // The id of a study of a matrix product, running, of the seat's owner.
  std::string make_search(int trials) {
    v1::StudySpec spec;
    spec.add_workloads()->set_program(
        "op matmul(M = 32, N = 24, K = 40) {\n  in A: f32[M, K]\n  in B: f32[K, N]\n"
        "  out C[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])\n}\n");
    spec.set_trials(trials);
    spec.set_batch(4);
    spec.set_threads(1);
    spec.set_seed(7);
    std::string id;
    write([&](WriteTransaction& tx) -> absl::Status {
      ASSIGN_OR_RETURN(const CheckedSpec checked, check_spec(spec, Quotas()));
      const Identity ci{CallerRole::kClient, "ci", true};
      ASSIGN_OR_RETURN(const StudyRow study, create_study(tx, checked, ci, Quotas(), now_,
                                                          &changes_));
      id = study.id;
      ASSIGN_OR_RETURN(const Taken taken, take_study(tx, seat(), id, now_, &changes_));
      EXPECT_EQ(taken, Taken::kTaken);
      return absl::OkStatus();
    });
    return id;
  }

  Liveness liveness_;
  std::vector<Doubt> doubts_;              // that searches told of
};

}  // namespace lw
