// Fibers: stacks, switches between them, and reports of switches to the C++ runtime and the
// sanitizers.
#include "scheduler/threads/fiber.hpp"

#include <cxxabi.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <boost/context/detail/fcontext.hpp>
#include <cstring>
#include <new>
#include <utility>

#include "scheduler/sanitizers.hpp"
#include "scheduler/tuning.hpp"

#ifdef HEDDLE_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef HEDDLE_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace heddle::sched {
namespace {

using boost::context::detail::fcontext_t;
using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

/// The exceptions being handled on a stack: per thread in the C++ runtime, per fiber here.
/// Otherwise a task awaiting inside a catch block would leave its exception to another task.
struct Handling {
  void* caught = nullptr;
  unsigned uncaught = 0;
};

// Not inlined: the runtime's accessor is declared const, so two calls in a function may be merged,
// and after a switch the merged value would belong to another thread.
[[gnu::noinline]] void save(Handling& handling) noexcept {
  std::memcpy(static_cast<void*>(&handling), abi::__cxa_get_globals(), sizeof handling);
}
[[gnu::noinline]] void restore(const Handling& handling) noexcept {
  std::memcpy(static_cast<void*>(abi::__cxa_get_globals()), &handling, sizeof handling);
}

/// Memory for a stack, above a page that faults.
class Stack {
 public:
  explicit Stack(std::size_t bytes) : page_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))) {
    bytes_ = (bytes + 2 * page_ - 1) / page_ * page_;
    void* const memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<std::byte*>(memory);
    if (::mprotect(base_, page_, PROT_NONE) != 0) {
      ::munmap(base_, bytes_);
      throw std::bad_alloc();
    }
  }
  ~Stack() {
#ifdef HEDDLE_ASAN
    ASAN_UNPOISON_MEMORY_REGION(base_ + page_, size());  // its frames are gone
#endif
    ::munmap(base_, bytes_);
  }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  [[nodiscard]] std::byte* bottom() const noexcept { return base_ + page_; }
  [[nodiscard]] std::byte* top() const noexcept { return base_ + bytes_; }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_ - page_; }

 private:
  std::size_t page_;
  std::size_t bytes_ = 0;
  std::byte* base_ = nullptr;
};

std::size_t thread_stack_bytes() noexcept {
  std::size_t bytes = tuning::fiber_stack_bytes;
  pthread_attr_t attributes;
  if (::pthread_getattr_default_np(&attributes) == 0) {
    ::pthread_attr_getstacksize(&attributes, &bytes);
    ::pthread_attr_destroy(&attributes);
  }
  return bytes;
}

}  // namespace

struct Fiber::Machine {
  Machine() : stack(thread_stack_bytes()) {
    context = make_fcontext(stack.top(), stack.size(), &Machine::main);
#ifdef HEDDLE_TSAN
    tsan = __tsan_create_fiber(0);
#endif
  }
  ~Machine() {
    // Ends the last frame too, for the sanitizers: main() returns when the body is null.
    body = nullptr;
    into();
#ifdef HEDDLE_TSAN
    __tsan_destroy_fiber(tsan);
#endif
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  /// The fiber's outermost frame: runs functions in sequence.
  static void main(transfer_t from) noexcept {
    auto& self = *static_cast<Machine*>(from.data);
    self.arrived(from, nullptr);
    while (self.body != nullptr) {
      self.body(self.argument);
      self.ended = true;
      self.out(false);
    }
    self.out(true);
  }

  /// Switches from the stack of a thread (or another fiber) onto this stack, until the fiber is
  /// left.
  void into() noexcept {
    Handling handling;
    save(handling);
    restore({});
#ifdef HEDDLE_TSAN
    tsan_outside = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(tsan, 0);
#endif
#ifdef HEDDLE_ASAN
    void* fake_stack = nullptr;
    __sanitizer_start_switch_fiber(&fake_stack, stack.bottom(), stack.size());
#endif
    context = jump_fcontext(context, this).fctx;
#ifdef HEDDLE_ASAN
    __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
    restore(handling);
  }

  /// Switches from this stack back to the outer stack.
  void out([[maybe_unused]] bool for_good) noexcept {
    Handling handling;
    save(handling);
#ifdef HEDDLE_TSAN
    __tsan_switch_to_fiber(tsan_outside, 0);
#endif
    void* fake_stack = nullptr;
#ifdef HEDDLE_ASAN
    __sanitizer_start_switch_fiber(for_good ? nullptr : &fake_stack, outside_bottom, outside_size);
#endif
    const transfer_t from = jump_fcontext(outside, nullptr);
    arrived(from, fake_stack);
    restore(handling);
  }

  void arrived(transfer_t from, [[maybe_unused]] void* fake_stack) noexcept {
    outside = from.fctx;
#ifdef HEDDLE_ASAN
    __sanitizer_finish_switch_fiber(fake_stack, &outside_bottom, &outside_size);
#endif
  }

  Stack stack;
  fcontext_t context = nullptr;  // where the fiber continues; valid while it is left
  fcontext_t outside = nullptr;  // where its visitor continues; valid while the fiber is entered
  Body body = nullptr;
  void* argument = nullptr;
  bool ended = true;
#ifdef HEDDLE_ASAN
  const void* outside_bottom = nullptr;
  std::size_t outside_size = 0;
#endif
#ifdef HEDDLE_TSAN
  void* tsan = nullptr;
  void* tsan_outside = nullptr;
#endif
};

Fiber::Fiber(std::unique_ptr<Machine> machine) noexcept : machine_(std::move(machine)) {}
Fiber::~Fiber() = default;

bool Fiber::start(Body body, void* argument) noexcept {
  machine_->body = body;
  machine_->argument = argument;
  machine_->ended = false;
  return enter();
}
bool Fiber::resume() noexcept { return enter(); }
bool Fiber::enter() noexcept {
  machine_->into();
  return machine_->ended;
}
void Fiber::suspend() noexcept {
  ++suspensions_;
  machine_->out(false);
}

namespace {

/// Idle fibers, a few per thread. A separate flag says that the cache is destroyed, because it is
/// read afterwards too.
thread_local bool cache_gone = false;
struct Cache {
  std::array<std::shared_ptr<Fiber>, tuning::fibers_cached_max> fibers;
  std::size_t count = 0;
  ~Cache() { cache_gone = true; }
};
Cache& cache() noexcept {
  thread_local Cache mine;
  return mine;
}

}  // namespace

std::shared_ptr<Fiber> Fiber::take() noexcept {
  if (!cache_gone && cache().count > 0) return std::move(cache().fibers[--cache().count]);
  try {
    return std::shared_ptr<Fiber>(new Fiber(std::make_unique<Machine>()));
  } catch (...) {
    return nullptr;
  }
}

void Fiber::give_back(std::shared_ptr<Fiber> fiber) noexcept {
  if (cache_gone || cache().count == cache().fibers.size()) return;
  cache().fibers[cache().count++] = std::move(fiber);
}

}  // namespace heddle::sched
