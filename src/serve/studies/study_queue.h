// Studies that wait for a place: nobody owns them, and none is looked at by itself. They wait in
// groups of one client that ask for the same devices, so that a look costs by groups and not by
// studies; whether a group can have a place is worked out once for each fleet. What is written is what
// changes: why a study waits, once.
//
// Seats go to the client that holds the fewest, and of a client's studies to the first by priority,
// then by age.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/serve/studies/study_search.h"

namespace lw {

// Until when a study may wait that begins to wait now. REQUIRES: most_s > 0.
int64_t wait_until(const loopwright::v1::StudySpec& spec, int64_t most_s, int64_t now_ms);

// Where the study would run, as place() wants it: once it had a place, there and nowhere else, since
// what it has measured is of that target.
loopwright::v1::StudySpec spec_asked(const StudyRow& study);

// It gives its place up and waits, with the reason, for devices of the same target. REQUIRES: it
// has not ended.
absl::Status put_back(WriteTransaction& tx, const SearchSeat& seat, StudyRow study,
                      std::string_view reason, Changes* changes);

enum class Taken {
  kTaken,                                  // it has a place, and the seat's owner
  kUnfit,                                  // of the devices asked for none fits it now
  kGone,                                   // others took it, or it has ended
};
// Gives it a place and the owner lease, or ends it where none will ever fit.
absl::StatusOr<Taken> take_study(WriteTransaction& tx, const SearchSeat& seat,
                                 const std::string& id, int64_t owner_until, Changes* changes);

// Not thread-safe.
class StudyQueue {
 public:
  explicit StudyQueue(const SearchSeat& seat) : seat_(seat) {}

  struct Look {
    std::vector<std::string> next;         // studies for `room` seats, in order
    bool has_more = false;                 // to write: look again soon
  };
  // Says why those wait that wait, and ends those that have waited for too long: a bounded number.
  // `seats`: held, by client.
  absl::StatusOr<Look> look(int room, std::map<std::string, int> seats);
  // The fleet has no place for it, as far as this one is.
  absl::Status is_unfit(const std::string& study);

 private:
  struct Group {
    std::string client, asked, waiting;
    int threads = 0;
  };
  struct Waiting {
    std::string id;
    int64_t priority = 0;
  };
  absl::StatusOr<std::vector<Group>> groups(Transaction& tx);
  absl::StatusOr<std::vector<Waiting>> first_of(Transaction& tx, const Group& group, int most);
  absl::Status look_at_fleet(Transaction& tx);
  absl::StatusOr<std::string> why(Transaction& tx, const Group& group);
  absl::Status say(const std::vector<std::string>& studies, const std::string& waiting);
  absl::Status read_specs(const std::vector<std::string>& studies);
  absl::Status end_overdue(bool* has_more);

  const SearchSeat& seat_;
  std::string fleet_;                      // what of it decides about places
  int64_t fleet_ms_ = -1;                  // when what follows was begun
  std::map<std::pair<std::string, int>, std::string> why_;  // by asked and threads; "": there is one
  std::set<std::string> unfit_;            // studies, in this fleet
};

}  // namespace lw
