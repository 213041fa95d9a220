// The part of an executor that is independent of C++ types: how calls pass arguments and receive
// results. For heddle/executor.hpp.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heddle/array.hpp"
#include "heddle/executor_arguments.hpp"
#include "heddle/executor_options.hpp"
#include "heddle/pending.hpp"
#include "heddle/replay.hpp"
#include "heddle/trace.hpp"

namespace heddle::rt {
struct Entry;
class ExecutorState;
}  // namespace heddle::rt

#pragma GCC visibility push(default)
namespace heddle {

namespace executors {
/// A handle of an executor's cache entry. A move copies the handle.
class EntryHandle {
 public:
  EntryHandle(const EntryHandle&) = default;
  EntryHandle& operator=(const EntryHandle&) = default;

 private:
  friend struct heddle::Inside;
  explicit EntryHandle(std::shared_ptr<rt::Entry> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<rt::Entry> state_;
};
}  // namespace executors
extern template class Pending<executors::EntryHandle>;

namespace executors {

class Maker {
 public:
  /// Calls the function with nodes of these types.
  [[nodiscard]] virtual TracedGraph trace(tracing::Tracer& tracer,
                                          std::span<const ArrayType> types) const = 0;

 protected:
  ~Maker() = default;
};
/// A result array of a call that is about to be launched.
class Result {
 public:
  Result() = default;  ///< no array
  /// May be called once.
  [[nodiscard]] Array array() && noexcept { return Array(std::move(state_)); }
  [[nodiscard]] Array copy() const noexcept { return Array(state_); }
  [[nodiscard]] static std::vector<Array> copies(std::span<const Result> results) {
    std::vector<Array> arrays;
    arrays.reserve(results.size());
    for (const Result& result : results) arrays.push_back(result.copy());
    return arrays;
  }

 private:
  friend struct heddle::Inside;
  explicit Result(std::shared_ptr<const rt::ArrayState> state) noexcept
      : state_(std::move(state)) {}
  std::shared_ptr<const rt::ArrayState> state_;
};

/// Receives the results of a call before the launch, and keeps them until the call has ended.
class Sink {
 public:
  virtual void take(const TreeDef& structure, std::span<Result> leaves) = 0;

 protected:
  ~Sink() = default;
};
/// Builds the tree of a call's results, and takes the leaves. The structure is one of the tree's
/// type, as the function returned a tree of that type.
struct TakenResults {
  /// The parts of one tree, in order.
  struct Parts {
    [[nodiscard]] std::size_t size() const { return def.size(); }
    [[nodiscard]] bool more() const { return at < def.size(); }
    [[nodiscard]] std::string_view name() const { return def.name(at); }
    template <class T>
    T next() {
      return results.make<T>(def.child(at++));
    }
    TakenResults& results;
    const TreeDef& def;
    std::size_t at = 0;
  };
  template <class T>
  T make(const TreeDef& def) {
    if constexpr (std::same_as<T, Array>) {
      return std::move(leaves[used++]).array();
    } else {
      Parts parts{*this, def};
      return trees::TreeAccess<T>::make(parts);
    }
  }
  std::span<Result> leaves;
  std::size_t used = 0;
};
template <class Results>
class Kept final : public Sink {
 public:
  void take(const TreeDef& structure, std::span<Result> leaves) override {
    results_.emplace(TakenResults{leaves}.template make<Results>(structure));
  }
  [[nodiscard]] Results give() { return std::move(*results_); }

 private:
  std::optional<Results> results_;
};
/// Avoids a copy of the handle and the update of its reference count.
template <>
class Kept<Array> final : public Sink {
 public:
  void take(const TreeDef& /*structure*/, std::span<Result> leaves) override {
    result_ = std::move(leaves[0]);
  }
  [[nodiscard]] Array give() { return std::move(result_).array(); }

 private:
  Result result_;
};
class Flat final : public Sink {
 public:
  void take(const TreeDef& /*structure*/, std::span<Result> leaves) override {
    results = Result::copies(leaves);
  }
  std::vector<Array> results;
};

using PendingEntry = Pending<EntryHandle>;

/// The exception being handled, as a Status.
[[nodiscard]] Status caught() noexcept;

/// A device, and the source location of the call.
struct CalledOn {
  CalledOn(const Device& on,  // NOLINT: calls give a device
           std::source_location place = std::source_location::current()) noexcept
      : device(on), where(place) {}
  const Device& device;
  std::source_location where;
};

/// The non-generic part of an executor. A move copies the handle. A null `device` means the
/// executor's own device.
class Core {
 public:
  Core(const Core&) = default;
  Core& operator=(const Core&) = default;
  Core(const Device& device, ExecutorOptions options, const std::source_location& where);
  void call(const Arguments& arguments, const Maker& maker, Sink& sink, const Device* device,
            std::optional<ExecutorGraph>* graph = nullptr) const;
  void record(const Recording& recording, const Arguments& arguments, const Maker& maker,
              Sink& sink, const Device* device) const;
  [[nodiscard]] EntryHandle compile(const Arguments& arguments, const Maker& maker,
                                    const Device* device) const;
  [[nodiscard]] PendingEntry compile_async(const Arguments& arguments,
                                           std::shared_ptr<const Maker> maker,
                                           const Device* device) const;
  void call_entry(const EntryHandle& entry, const Arguments& arguments, Sink& sink, bool checked,
                  const Device* device) const;
  [[noreturn]] void refuse_count(std::size_t wanted, std::size_t given) const;

  [[nodiscard]] const std::string& name() const noexcept;
  [[nodiscard]] const Device& device() const noexcept;
  [[nodiscard]] ExecutorStatistics statistics() const;
  [[nodiscard]] std::vector<ExecutorGraph> graphs() const;
  void finalize() const;

 private:
  std::shared_ptr<rt::ExecutorState> state_;
};

}  // namespace executors
}  // namespace heddle
#pragma GCC visibility pop
