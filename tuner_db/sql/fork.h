// Descriptors that a forked child must not share: an flock, or a server's session, belongs to what
// a fork shares, so it would outlive a killed parent. Thread-safe.
#pragma once

namespace lw {

// `make` opens a descriptor (negative: none) that a forked child closes at once, even when another
// thread forks while it runs.
template <class Make>
int open_unshared(Make make);

// REQUIRES: before the descriptor is closed. A fork from here on shares it.
void forget_unshared(int descriptor);

namespace internal {
void lock_unshared();
void unlock_unshared(int descriptor);
}  // namespace internal

template <class Make>
int open_unshared(Make make) {
  internal::lock_unshared();
  const int descriptor = make();
  internal::unlock_unshared(descriptor);
  return descriptor;
}

}  // namespace lw
