#include "src/serve/queue/client_turns.h"

#include <algorithm>

namespace lw {
namespace {

// A job takes no longer (its timeout); looked for as often.
constexpr int64_t kForgetClientMs = 600'000;

}  // namespace

double ClientTurns::begin(const std::string& name, const std::string& client) const {
  const auto queue = queues_.find(name);
  if (queue == queues_.end()) return 0;
  const auto turn = queue->second.clients.find(client);
  const double now = queue->second.now;
  return turn == queue->second.clients.end() ? now : std::max(now, turn->second.end);
}

void ClientTurns::give(const std::string& name, const std::string& client,
                       std::pair<int64_t, int64_t> job, double seconds, double cost,
                       int64_t now_ms) {
  if (!given_.try_emplace(job, Given{name, client, seconds, cost, now_ms}).second) return;
  Queue& queue = queues_[name];
  queue.now = begin(name, client);
  queue.clients[client] = {queue.now + seconds * cost, now_ms};
  if (now_ms < forgot_ms_ + kForgetClientMs) return;
  forgot_ms_ = now_ms;
  const auto is_old = [now_ms](int64_t ms) { return ms + kForgetClientMs < now_ms; };
  for (auto& [other, one] : queues_) {
    std::erase_if(one.clients, [&](const auto& turn) { return is_old(turn.second.seen_ms); });
  }
  std::erase_if(queues_, [](const auto& one) { return one.second.clients.empty(); });
  std::erase_if(given_, [&](const auto& one) { return is_old(one.second.given_ms); });
}

void ClientTurns::settle(std::pair<int64_t, int64_t> job, double seconds, int64_t now_ms) {
  const auto given = given_.find(job);
  if (given == given_.end()) return;
  const Given& was = given->second;
  const double took_s = std::min(seconds, 1e-3 * static_cast<double>(now_ms - was.given_ms));
  charge(was.queue, was.client, (took_s - was.seconds) * was.cost);
  given_.erase(given);
}

void ClientTurns::charge(const std::string& queue, const std::string& client, double weighted_s) {
  std::map<std::string, Turn>& clients = queues_[queue].clients;
  if (const auto turn = clients.find(client); turn != clients.end()) turn->second.end += weighted_s;
}

}  // namespace lw
