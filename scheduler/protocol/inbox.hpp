// Inbox: any thread pushes items that have become ready, and a worker takes every item at once. An
// item contains the link, and is in at most one inbox: a push takes no lock, needs no memory and
// cannot fail.
#pragma once

#include "scheduler/atomic.hpp"
#include "scheduler/tuning.hpp"

namespace heddle::sched {

/// `Link` has a member `Link* next`, which belongs to the inbox while the item is inside, and then
/// to the taker of the item.
template <class Link, class Env = StdEnv>
class Inbox {
 public:
  /// Any thread.
  void push(Link& link) noexcept {
    // relaxed: validated by the exchange.
    Link* last = last_.load(std::memory_order_relaxed);
    do {
      link.next = last;
      // release: pairs with the acquire in take_all(), whose caller finds the item as pushed; later
      // pushes are exchanges too, and continue the release sequence. relaxed on failure: the loop
      // tries again.
    } while (!last_.compare_exchange_weak(last, &link, std::memory_order_release,
                                          std::memory_order_relaxed));
  }
  /// The linked items, oldest first; null: the inbox is empty. Any thread.
  [[nodiscard]] Link* take_all() noexcept {
    // relaxed: only saves a useless exchange; a thread that knows of a push sees the item, or that
    // the item was taken.
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
