// The state behind Executor. Immutable, but for the cache and the finalised flag; any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/executor.hpp"
#include "heddle/pending.hpp"
#include "runtime/device/flight.hpp"
#include "runtime/executor/cache.hpp"

namespace heddle::rt {

class RecordingState;

[[nodiscard]] bool is_default(const NodeLogger& logger) noexcept;
/// The first five texts, and the count of the rest.
[[nodiscard]] std::string first_few(const std::vector<std::string>& texts, const char* between);
/// Marks every float node that the results need.
void mark_floats(const TracedGraph& traced);

class ExecutorState : public std::enable_shared_from_this<ExecutorState> {
 public:
  ExecutorState(const Device& device, ExecutorOptions options, const std::source_location& where);

  void call(const executors::Arguments& arguments, const executors::Maker& maker,
            executors::Sink& sink, const Device* device, std::optional<ExecutorGraph>* graph);
  /// Adds the call to the recording.
  void record(RecordingState& recording, const executors::Arguments& arguments,
              const executors::Maker& maker, executors::Sink& sink, const Device* device);
  /// The entry for arguments of these types, made where missing. Runs nothing.
  [[nodiscard]] std::shared_ptr<Entry> compile(const executors::Arguments& arguments,
                                               const executors::Maker& maker, const Device* device);
  /// Compiles in the background. A thread of the compile pool calls the maker.
  [[nodiscard]] executors::PendingEntry compile_async(const executors::Arguments& arguments,
                                                      std::shared_ptr<const executors::Maker> maker,
                                                      const Device* device);
  /// Calls with the given entry. `checked`: compare the arguments with the types of the entry.
  void call_entry(Entry& entry, const executors::Arguments& arguments, executors::Sink& sink,
                  bool checked, const Device* device);
  /// Idempotent; waits for calls and compiles under way.
  void finalize();
  /// Called where the last handle goes in user code within a call of the same executor. The end of
  /// the outermost call finalises.
  void outlive(std::shared_ptr<ExecutorState> self) noexcept;

  [[nodiscard]] const std::string& name() const noexcept { return options.name; }
  [[nodiscard]] ExecutorStatistics statistics() const;
  [[nodiscard]] std::vector<ExecutorGraph> graphs() const;
  /// Passes the marked nodes to the logger and to the check for NaN. Throws the errors of the
  /// logger.
  void tell(const CompiledGraph& graph, std::span<const Array> marked) const;
  void check_results(const CompiledGraph& graph, std::span<const Array> marked,
                     std::size_t first) const;

  /// A scope in which user code runs within a call and must not finalise.
  class UserCode {
   public:
    explicit UserCode(const ExecutorState& executor) noexcept;
    UserCode(const UserCode&) = delete;
    UserCode& operator=(const UserCode&) = delete;
    ~UserCode();

   private:
    const ExecutorState& executor_;
    const Runner me_ = Runner::here();
    bool is_known_ = false;
  };

  const std::vector<Device> devices;  ///< one device, as meshes do not exist yet
  const ExecutorOptions options;
  const std::source_location where;
  const bool always_tells;  ///< call the logger even where no node is marked
  NumberForPeople traces, compiles, copies;
  NumberForPeople no_calls;  ///< visits of the cache that were not calls

 private:
  struct Wanted {
    std::uint64_t hash;
    std::string key;
    std::vector<ArrayType> types;
    std::shared_ptr<BackendState> backend;
    bool is_in_place;  ///< see ExecutorKey
  };
  [[nodiscard]] Wanted wanted_for(const executors::Arguments& arguments,
                                  const DeviceState& device) const;
  Entry& find_or_make(const Wanted& wanted, const executors::Maker& maker,
                      const jit::CompileLimits& limits);
  Entry& make_ahead(const Wanted& wanted, const executors::Maker& maker,
                    const jit::CompileLimits& limits);
  [[nodiscard]] Entry* find(const executors::Arguments& arguments,
                            const BackendState& backend) const;
  [[nodiscard]] std::shared_ptr<Entry> make_entry(const Wanted& wanted, std::size_t number,
                                                  const executors::Maker& maker,
                                                  const jit::CompileLimits& limits);
  [[nodiscard]] std::shared_ptr<const CompiledGraph> compile_graph(
      const TracedGraph& traced, const Wanted& wanted, const jit::CompileLimits& limits) const;
  [[nodiscard]] Error full(const Wanted& wanted,
                           const std::vector<std::shared_ptr<Entry>>& entries) const;
  [[nodiscard]] HostArray values_of(const Array& node, const CompiledGraph& graph) const;
  bool launch(Entry& entry, const executors::Arguments& arguments, executors::Sink& sink,
              const Device& device);
  void require_defined(const executors::Arguments& arguments) const;
  void check_types(const Entry& entry, const executors::Arguments& arguments) const;
  void require_open(const ExecutorCache::Visit& visit) const;
  [[nodiscard]] const Device& own_or(const Device* device) const noexcept {
    return device != nullptr ? *device : devices.front();
  }

  /// Runs the deferred finalisation at the end of a call.
  class CallEnd {
   public:
    explicit CallEnd(ExecutorState& executor) noexcept : executor_(executor) {}
    CallEnd(const CallEnd&) = delete;
    CallEnd& operator=(const CallEnd&) = delete;
    ~CallEnd() {
      // relaxed: only a flag set within this call matters.
      if (executor_.is_outlived_.load(std::memory_order_relaxed)) [[unlikely]]
        executor_.settle();
    }

   private:
    ExecutorState& executor_;
  };
  void settle() noexcept;
  [[nodiscard]] Site& add_site(Entry& entry, const Device& device);

  mutable std::mutex in_user_code_mutex_;
  mutable std::vector<Runner> in_user_code_;  // guarded by in_user_code_mutex_
  // guarded likewise: keeps the state alive after the last handle, until the calls end
  std::shared_ptr<ExecutorState> self_;
  std::atomic<bool> is_outlived_{false};
  ExecutorCache cache_;
};

}  // namespace heddle::rt
