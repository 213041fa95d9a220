// The compile service: compiles each unit once. Finds units in use in memory, other units on disk;
// threads that ask for one unit at the same time share one compile (single-flight). Any thread.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>

#include "heddle/kernel.h"
#include "jit/system/limits.hpp"
#include "jit/toolchain/toolchain.hpp"

namespace heddle::jit {
namespace {

using std::chrono::steady_clock;

class CompileService final : public Compiler {
 public:
  CompileService(std::unique_ptr<const Toolchain> toolchain, const ToolOptions& options)
      : toolchain_(std::move(toolchain)),
        timeout_(options.compile_timeout),
        target_(options.target),
        anew_(!options.dump_dir.empty() || !toolchain_->recipe_is_whole()),
        owner_(getpid()),
        cache_({options.cache_dir, options.cache_bytes_max, options.warn}) {
    if (options.warn && cache_.enabled() && !toolchain_->recipe_is_whole()) {
      options.warn(
          fmt::format("{}: kernels are compiled anew each time and not kept, as flags of "
                      "HEDDLE_CC, HEDDLE_CFLAGS or BackendOptions::cflags may name files, whose "
                      "content would count",
                      toolchain_->name()));
    }
  }

  std::string_view name() const noexcept override { return toolchain_->name(); }
  Status available() const override { return toolchain_->available(); }
  std::string describe() const override { return toolchain_->describe(); }
  std::optional<std::chrono::milliseconds> timeout() const noexcept override { return timeout_; }
  Target target() const noexcept override { return target_; }
  KernelCacheCounters counters() const noexcept override { return cache_.counters(); }

  bool reuses() const override {
    require_owner();
    return !anew_;
  }
  void count_reuse() const noexcept override { cache_.count(&KernelCacheCounters::memory_hits); }

  std::shared_ptr<const Compiled> compile(const CompileUnit& unit,
                                          const CompileLimits& limits) const override {
    require_owner();
    const CompileLimits bounded{earliest(limits.deadline), limits.stop};
    const Patience patience(*bounded.deadline, bounded.stop);
    LimitedWork work(unit.name, bounded);
    work.begin("emit");
    const EmittedUnit emitted = toolchain_->emit(unit);
    // Dumps show compiles: a cache hit would leave no dump.
    if (anew_) {
      cache_.count(&KernelCacheCounters::disabled);
      return build(unit, emitted, patience);
    }
    const Recipe recipe = toolchain_->recipe();
    const CompileKey key = key_of(unit, emitted, recipe);
    return shared(unit, key, patience,
                  [&] { return load_or_build(unit, emitted, recipe, key, patience); });
  }

 private:
  /// A single-flight compile: the threads that wait for the compile of one unit.
  struct Flight {
    bool landed = false;
    std::shared_ptr<const Compiled> compiled;
    std::exception_ptr failure;  // for all waiting threads
  };
  struct Slot {
    std::weak_ptr<const Compiled> compiled;
    std::shared_ptr<Flight> flight;  // null: no thread compiles the unit
  };

  void require_owner() const {
    if (getpid() == owner_) return;
    throw Error(ErrorCode::unavailable,
                fmt::format("this process was forked from the one that opened the {} compiler, "
                            "which it may not use; open a backend of its own in the child",
                            name()));
  }

  Deadline earliest(const std::optional<Deadline>& asked) const {
    const Deadline own = deadline_after(timeout_);
    return asked ? std::min(*asked, own) : own;
  }

  CompileKey key_of(const CompileUnit& unit, const EmittedUnit& emitted,
                    const Recipe& recipe) const {
    KeyHasher hasher;
    hasher.add("heddle kernel").add(HEDDLE_VERSION).add(std::to_string(HEDDLE_KERNEL_ABI));
    hasher.add(name()).add(recipe.options).add(recipe.files).add(processor_stamp());
    hasher.add(emitted.essence).add(unit.trace_values ? "traced" : "");
    for (const KernelSource& kernel : unit.kernels) {
      hasher.add(kernel.name).add(std::to_string(kernel.addresses.size()));
      for (const auto& address : kernel.addresses)
        hasher.add(address ? std::to_string(*address) : "");
    }
    return hasher.finish();
  }

  /// The compiled unit of `key`: from memory, from a different thread's compile, or from `make`.
  template <class Make>
  std::shared_ptr<const Compiled> shared(const CompileUnit& unit, const CompileKey& key,
                                         const Patience& patience, const Make& make) const {
    std::shared_ptr<Flight> flight;
    {
      std::unique_lock lock(mutex_);
      for (;;) {
        Slot& slot = slots_[key];
        if (auto compiled = slot.compiled.lock()) {
          cache_.count(&KernelCacheCounters::memory_hits);
          return compiled;
        }
        if (!slot.flight) break;
        const std::shared_ptr<Flight> other = slot.flight;
        wait_for(*other, unit, patience, lock);
        if (other->compiled) {
          cache_.count(&KernelCacheCounters::shared);
          return other->compiled;
        }
        if (other->failure) std::rethrow_exception(other->failure);
        // The compiling thread was cancelled or late, not this one; this thread retries.
      }
      flight = slots_[key].flight = std::make_shared<Flight>();
      sweep();
    }
    try {
      flight->compiled = make();
    } catch (const Error& error) {
      const bool own_limits =
          error.code() == ErrorCode::cancelled || error.code() == ErrorCode::deadline;
      land(key, *flight, own_limits ? nullptr : std::current_exception());
      throw;
    } catch (...) {
      land(key, *flight, std::current_exception());
      throw;
    }
    land(key, *flight, nullptr);
    return flight->compiled;
  }

  void wait_for(const Flight& flight, const CompileUnit& unit, const Patience& patience,
                std::unique_lock<std::mutex>& lock) const {
    if (landed_.wait_until(lock, patience.stop(), patience.deadline(),
                           [&flight] { return flight.landed; }))
      return;
    const bool stopped = patience.stopped();
    throw Error(stopped ? ErrorCode::cancelled : ErrorCode::deadline,
                fmt::format("unit '{:.200}' was being compiled by another thread, and its time was "
                            "over before that ended{}{}",
                            unit.name, stopped ? "" : "; ", stopped ? "" : out_of_time_advice));
  }

  void land(const CompileKey& key, Flight& flight, std::exception_ptr failure) const {
    const std::scoped_lock lock(mutex_);
    flight.landed = true;
    flight.failure = std::move(failure);
    Slot& slot = slots_[key];
    slot.flight = nullptr;
    slot.compiled = flight.compiled;
    landed_.notify_all();
  }

  /// Removes expired slots from time to time. Requires the lock.
  void sweep() const {
    constexpr std::size_t slots_kept = 64;
    if (slots_.size() < sweep_at_) return;
    std::erase_if(slots_, [](const auto& item) {
      return !item.second.flight && item.second.compiled.expired();
    });
    sweep_at_ = std::max(slots_kept, 2 * slots_.size());
  }

  std::shared_ptr<const Compiled> load_or_build(const CompileUnit& unit, const EmittedUnit& emitted,
                                                const Recipe& recipe, const CompileKey& key,
                                                const Patience& patience) const {
    const auto start = steady_clock::now();
    // Code for fixed addresses has no other users, and no use after its buffers are gone.
    const bool bound = std::ranges::any_of(unit.kernels, [](const KernelSource& kernel) {
      return std::ranges::any_of(kernel.addresses, [](const auto& a) { return a.has_value(); });
    });
    const auto version = bound || !cache_.enabled()
                             ? std::nullopt
                             : toolchain_->version(cache_, recipe.files, patience);
    if (!version) {
      cache_.count(&KernelCacheCounters::disabled);
      return build(unit, emitted, patience);
    }
    const CompileKey disk_key = KeyHasher().add(key).add(*version).finish();
    KernelCache::Found found = cache_.load(disk_key);
    if (found.entry) {
      try {
        auto result = std::make_shared<const Compiled>(
            compiled(unit, emitted, std::move(found.entry->library), start));
        cache_.count(&KernelCacheCounters::disk_hits);
        return result;
      } catch (const Error&) {
        // The entry is undamaged, but no library of this unit; the new result replaces the entry.
        found.reason = &KernelCacheCounters::corrupt;
      }
    }
    cache_.count(found.reason);
    auto built = build(unit, emitted, patience);
    const std::string info =
        fmt::format("{} ({})", unit.name, version->substr(0, version->find('\n')));
    // Stores nothing if the compiler was replaced meanwhile: the stamps would be wrong.
    if (toolchain_->recipe().files == recipe.files &&
        cache_.store(disk_key, info, built->image.bytes()))
      cache_.count(&KernelCacheCounters::stored);
    return built;
  }

  std::shared_ptr<const Compiled> build(const CompileUnit& unit, const EmittedUnit& emitted,
                                        const Patience& patience) const {
    auto built = std::make_shared<const Compiled>(toolchain_->build(unit, emitted, patience));
    cache_.count(&KernelCacheCounters::compiled);
    return built;
  }

  const std::unique_ptr<const Toolchain> toolchain_;
  const std::chrono::milliseconds timeout_;
  const Target target_;
  const bool anew_;  // ignores earlier results
  const pid_t owner_;
  mutable KernelCache cache_;
  mutable std::mutex mutex_;
  mutable std::condition_variable_any landed_;
  mutable std::map<CompileKey, Slot> slots_;  // guarded by mutex_
  mutable std::size_t sweep_at_ = 0;          // guarded by mutex_
};

}  // namespace

std::shared_ptr<const Compiler> make_compile_service(std::unique_ptr<const Toolchain> toolchain,
                                                     const ToolOptions& options) {
  return std::make_shared<CompileService>(std::move(toolchain), options);
}

}  // namespace heddle::jit
