// The arguments of one call, on the call's device and checked. Used by one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/executor.hpp"
#include "heddle/status.hpp"
#include "runtime/executor/entry.hpp"
#include "runtime/executor/other_arguments.hpp"
#include "runtime/memory/array_state.hpp"

namespace heddle::rt {

class ExecutorState;

/// A call's executor, its device, and the entry's code there.
struct CallTarget {
  ExecutorState& executor;
  const Device& device;
  Site& site;

  [[nodiscard]] const CompiledGraph& graph() const noexcept { return *site.graph; }
  [[nodiscard]] Execution& execution() const noexcept { return *site.execution; }
  /// For messages: "executor 'step' on cpu:0/v0".
  [[nodiscard]] std::string user() const;
};

/// What a caller passes: the leaves, and the index of the first leaf of each argument. The pointees
/// stay unchanged until the device has accepted the call.
struct PassedArguments {
  std::span<const executors::Leaf> leaves;
  std::span<const std::size_t> first_of;
};

class CallArguments {
 public:
  struct Argument {
    const ArrayState* array;
    bool donated;
    bool made = false;  ///< made by this call, which alone has the array
  };

  /// Converts host values, and copies arrays of other devices. Throws where an argument cannot be
  /// used, naming the argument.
  CallArguments(const CallTarget& target, const PassedArguments& passed,
                const OtherArguments& others);
  CallArguments(const CallArguments&) = delete;
  CallArguments& operator=(const CallArguments&) = delete;

  // In the order of CompiledGraph::parameters.
  [[nodiscard]] std::size_t size() const noexcept { return arguments_.size(); }
  [[nodiscard]] const Argument& operator[](std::size_t k) const noexcept { return arguments_[k]; }
  [[nodiscard]] const BufferView& view(std::size_t k) const noexcept {
    return arguments_[k].array->view;
  }
  [[nodiscard]] BufferState& buffer(std::size_t k) const noexcept;

  /// The number of arguments in the buffer.
  [[nodiscard]] std::size_t num_in(const BufferState& buffer) const;
  /// Tells whether an argument is donated, by the caller or by this call.
  [[nodiscard]] bool has_donated() const noexcept { return has_donated_; }
  /// Tells whether the call made arrays: of host values, or as copies.
  [[nodiscard]] bool has_made() const noexcept { return rare_ != nullptr && !rare_->made.empty(); }
  /// True: the arguments were not checked, as the fast path itself finds those that do not fit.
  /// Every argument is an array of the call's device and waits for no event from outside; a donated
  /// argument is a whole buffer, given once.
  [[nodiscard]] bool are_plain() const noexcept { return are_plain_; }
  /// Throws where an argument has no memory, its filling failed, or it cannot be donated.
  void check() const;
  /// Throws where the caller donates an argument; for recordings.
  void refuse_donated() const;
  /// Throws where an argument is being filled by work that no recording knows.
  void refuse_awaited() const;
  /// After the call was accepted: takes the donated arrays of other devices, which were copied,
  /// from their owners.
  void take_copied() const;

  [[nodiscard]] const CompiledGraph& graph() const noexcept { return graph_; }
  [[nodiscard]] std::string user() const { return target_.user(); }
  [[nodiscard]] std::string name_of(std::size_t k) const;

 private:
  void add(const Array* array, bool donated, const Ledger* ledger);
  void note_donated(std::span<const std::size_t> first_of);
  [[nodiscard]] bool is_plain_gift(std::size_t k) const;
  [[nodiscard]] bool is_host_value(std::size_t k) const noexcept {
    return arguments_[k].array == nullptr;
  }
  [[nodiscard]] bool is_reached(std::size_t k) const;
  void check_spaces() const;
  void check_donation(std::size_t k) const;
  void bring();
  [[nodiscard]] Array brought(std::size_t k);
  [[noreturn]] void refuse(std::size_t k, ErrorCode code, std::string_view why,
                           Status cause = {}) const;

  const CallTarget& target_;
  const CompiledGraph& graph_;
  const std::span<const executors::Leaf> leaves_;
  const OtherArguments& others_;
  executors::Few<Argument, 16> arguments_;  // array: null for a host value, until bring()
  bool are_plain_;
  bool has_donated_ = false;
  /// What few calls need.
  struct Rare {
    std::vector<Array> made;    // arrays made of host values, and copies of arrays of other devices
    std::vector<Array> copied;  // donated arrays of other devices
    // sorted buffers of `arguments_`, made on demand for many arguments
    std::vector<const BufferState*> buffers;
  };
  [[nodiscard]] Rare& rare() const {
    if (!rare_) rare_ = std::make_unique<Rare>();
    return *rare_;
  }
  mutable std::unique_ptr<Rare> rare_;
};

}  // namespace heddle::rt
