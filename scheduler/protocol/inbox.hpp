// Inbox: where any thread puts what has become ready, and from where a worker takes all of it at
// once. The link is in the thing itself, which is in one inbox at most: putting it there takes no
// lock, needs no memory and cannot fail.
#pragma once

#include "scheduler/atomic.hpp"
#include "scheduler/tuning.hpp"

namespace heddle::sched {

/// `Link` has a member `Link* next`, which belongs to the inbox while it is there, and then to its
/// taker.
template <class Link, class Env = StdEnv>
class Inbox {
 public:
  /// Any thread.
  void push(Link& link) noexcept {
    // relaxed: validated by the exchange.
    Link* last = last_.load(std::memory_order_relaxed);
    do {
      link.next = last;
      // release: pairs with the acquire in take_all(), whose caller finds the thing as it was put
      // there; later pushes, which are exchanges too, pass that on. relaxed on failure: tried
      // again.
    } while (!last_.compare_exchange_weak(last, &link, std::memory_order_release,
                                          std::memory_order_relaxed));
  }
  /// All, linked, the oldest first; null: there is nothing. Any thread.
  [[nodiscard]] Link* take_all() noexcept {
    // relaxed: only spares an exchange in vain; a thread that knows of a push sees it, or that it
    // was taken.
    if (last_.load(std::memory_order_relaxed) == nullptr) return nullptr;
    // acquire: pairs with the release in push().
    Link* link = last_.exchange(nullptr, std::memory_order_acquire);
    Link* oldest = nullptr;
    while (link != nullptr) {
      Link* const before = link->next;
      link->next = oldest;
      oldest = link;
      link = before;
    }
    return oldest;
  }

 private:
  alignas(tuning::line_bytes) typename Env::template atomic<Link*> last_{nullptr};
};

}  // namespace heddle::sched
