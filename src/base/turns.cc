#include "src/base/turns.h"

#include <algorithm>
#include <utility>

#include "src/base/check.h"
#include "src/base/clock.h"

namespace lw {
namespace {

constexpr int64_t kLead_us = 10'000;       // by which who waits must have used less
constexpr int64_t kSaved_us = 500'000;     // that being away may save up

int64_t steady_us() { return static_cast<int64_t>(1e6 * now()); }

}  // namespace

struct Turns::Party {
  std::shared_ptr<Client> client;
  int64_t used_us = 0, since_us = 0, stay_us = 0;
  bool waiting = false;
};

Turns::Turns(int seats, std::function<int64_t()> now_us)
    : seats_(std::max(1, seats)), now_us_(now_us ? std::move(now_us) : steady_us) {}

std::shared_ptr<Turns::Party> Turns::join(const std::string& client) {
  std::lock_guard lock(mutex_);
  std::erase_if(clients_, [](const auto& known) { return known.second.expired(); });
  auto party = std::make_shared<Party>();
  std::weak_ptr<Client>& known = clients_[client];
  party->client = known.lock();
  if (party->client == nullptr) known = party->client = std::make_shared<Client>();
  return party;
}

void Turns::enter(Party& party) {
  std::unique_lock lock(mutex_);
  // Who was away goes on from where the others are, less what may be saved up.
  int64_t clients = INT64_MAX, parties = INT64_MAX;
  for (const Party* other : present_) {
    if (other->client == party.client) parties = std::min(parties, other->used_us);
    else clients = std::min(clients, other->client->used_us);
  }
  if (parties != INT64_MAX) party.used_us = std::max(party.used_us, parties - kSaved_us);
  if (party.client->present == 0 && clients != INT64_MAX) {
    party.client->used_us = std::max(party.client->used_us, clients - kSaved_us);
  }
  ++party.client->present;
  present_.insert(&party);
  party.stay_us = 0;
  sit_down(lock, party);
}

void Turns::sit_down(std::unique_lock<std::mutex>& lock, Party& party) {
  party.waiting = true;
  changed_.wait(lock, [&] { return closed_ || (taken_ < seats_ && next() == &party); });
  party.waiting = false;
  ++taken_;
  party.since_us = now_us_();
  changed_.notify_all();                   // there may be another seat
}

bool Turns::goes_before(const Party& a, const Party& b, int64_t by_us) {
  if (a.client != b.client) return a.client->used_us + by_us < b.client->used_us;
  return a.used_us + by_us < b.used_us;
}

Turns::Party* Turns::next() const {
  Party* best = nullptr;
  for (Party* party : present_) {
    if (party->waiting && (best == nullptr || goes_before(*party, *best, 0))) best = party;
  }
  return best;
}

void Turns::charge(Party& party) {
  const int64_t now = now_us_();
  const int64_t used = now - party.since_us;
  party.since_us = now;
  party.stay_us += used;
  party.used_us += used;
  party.client->used_us += used;
}

int64_t Turns::pause(Party& party) {
  std::unique_lock lock(mutex_);
  CHECK(present_.contains(&party) && !party.waiting);
  charge(party);
  const Party* other = next();
  if (!closed_ && other != nullptr && goes_before(*other, party, kLead_us)) {
    --taken_;
    changed_.notify_all();
    sit_down(lock, party);
  }
  return party.stay_us;
}

void Turns::leave(Party& party) {
  std::lock_guard lock(mutex_);
  charge(party);
  --taken_;
  --party.client->present;
  present_.erase(&party);
  changed_.notify_all();
}

void Turns::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

}  // namespace lw
