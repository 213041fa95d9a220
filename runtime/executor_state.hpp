// What is behind Executor. Immutable, but for its cache and whether it was finalised; any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/executor.hpp"
#include "runtime/executor_cache.hpp"

namespace heddle::rt {

class ExecutorState {
 public:
  ExecutorState(const Device& device, ExecutorOptions options, const std::source_location& where);

  void call(const executors::Arguments& arguments, const executors::Maker& maker,
            executors::Sink& sink, const Device* device, std::optional<ExecutorGraph>* graph);
  /// Idempotent; waits for what is under way.
  void finalize();

  [[nodiscard]] const std::string& name() const noexcept { return options.name; }
  [[nodiscard]] ExecutorStatistics statistics() const;
  [[nodiscard]] std::vector<ExecutorGraph> graphs() const;
  const std::vector<Device> devices;  ///< one, as long as there are no meshes
  const ExecutorOptions options;
  const std::source_location where;
  std::atomic<std::uint64_t> traces{0}, compiles{0}, copies{0};

 private:
  [[nodiscard]] std::shared_ptr<Entry> make_entry(std::uint64_t hash, const std::string& key,
                                                  std::size_t number, const executors::Maker& maker,
                                                  std::span<const ArrayType> types,
                                                  const DeviceState& device);
  Error full(std::string_view key, std::span<const ArrayType> types, const DeviceState& device,
             const std::vector<std::shared_ptr<Entry>>& entries) const;
  void require_open(const ExecutorCache::Visit& visit) const;

  ExecutorCache cache_;
};

/// What handles share: the last one finalises.
class ExecutorHandle {
 public:
  explicit ExecutorHandle(std::shared_ptr<ExecutorState> of) : state(std::move(of)) {}
  ExecutorHandle(const ExecutorHandle&) = delete;
  ExecutorHandle& operator=(const ExecutorHandle&) = delete;
  ~ExecutorHandle();

  const std::shared_ptr<ExecutorState> state;
};

}  // namespace heddle::rt
