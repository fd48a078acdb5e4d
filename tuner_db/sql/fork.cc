#include "tuner_db/sql/fork.h"

#include <pthread.h>
#include <unistd.h>

#include <mutex>
#include <set>

namespace lw {
namespace {

struct Unshared {
  std::mutex mutex;
  std::set<int> descriptors;
};

Unshared& unshared() {
  static Unshared& unshared = *[] {
    pthread_atfork([] { lw::unshared().mutex.lock(); }, [] { lw::unshared().mutex.unlock(); },
                   [] {
                     for (int descriptor : lw::unshared().descriptors) close(descriptor);
                     lw::unshared().descriptors.clear();
                     lw::unshared().mutex.unlock();
                   });
    return new Unshared;
  }();
  return unshared;
}

}  // namespace

void internal::lock_unshared() { unshared().mutex.lock(); }

void internal::unlock_unshared(int descriptor) {
  if (descriptor >= 0) unshared().descriptors.insert(descriptor);
  unshared().mutex.unlock();
}

void forget_unshared(int descriptor) {
  const std::lock_guard guard(unshared().mutex);
  unshared().descriptors.erase(descriptor);
}

}  // namespace lw
