// One switch onto a fiber or back: a task that waits without holding its thread pays two switches.
// The limit is the jump of Boost.Context, which saves neither the exceptions being handled nor the
// thread that started the fiber.
#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <memory>

#include "heddle/status.hpp"
#include "scheduler/threads/fiber.hpp"
#include "tools/bench/against.hpp"
#include "tools/bench/cases.hpp"

namespace heddle::bench {
namespace {

constexpr std::size_t resumes_timed = 1000;  // between two readings of the clock

/// Both switches of a round are alike; returns half the time of a round.
template <class Round>
double timed_rounds(nanoseconds length, Samples& samples, const Round& round) {
  return 0.5 * timed_loop(length, resumes_timed, [&](std::size_t count) {
           const auto start = Clock::now();
           for (std::size_t k = 0; k < count; ++k) round();
           samples.add(0.5 * ns_between(start, Clock::now()) / static_cast<double>(count));
         });
}

Contender fiber() {
  return {"heddle", Kind::heddle, [](nanoseconds length, Samples& samples) {
            struct Guest {
              std::shared_ptr<sched::Fiber> fiber;
              bool over = false;
            } guest{sched::Fiber::take()};
            if (!guest.fiber) throw Error(ErrorCode::exhausted, "no memory for a fiber");
            const auto body = [](void* argument) {
              const auto& self = *static_cast<Guest*>(argument);
              while (!self.over) self.fiber->suspend();
            };
            bool ended = guest.fiber->start(body, &guest);
            const double ns = timed_rounds(length, samples, [&] { ended = guest.fiber->resume(); });
            guest.over = true;
            if (ended || !guest.fiber->resume())
              throw Error(ErrorCode::internal, "a fiber that was to go on ended, or the reverse");
            return ns;
          }};
}

Contender context() {
  return {"bare context", Kind::limit, [](nanoseconds length, Samples& samples) {
            using namespace boost::context::detail;
            constexpr std::size_t stack_bytes = 64 << 10;
            const auto stack = std::make_unique<std::byte[]>(stack_bytes);
            const auto body = [](transfer_t from) {
              while (true) from = jump_fcontext(from.fctx, nullptr);
            };
            fcontext_t guest = make_fcontext(stack.get() + stack_bytes, stack_bytes, body);
            return timed_rounds(length, samples,
                                [&guest] { guest = jump_fcontext(guest, nullptr).fctx; });
          }};
}

}  // namespace

void add_fiber_rows(std::vector<Row>& rows) {
  Against against(rows, {"fiber", "fiber switch", "switch", fiber(), {}});
  against(context());
}

}  // namespace heddle::bench
