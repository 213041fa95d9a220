// One call of an executor, of a known entry: checks, memory of results, the launch. Nothing of what
// it is given changes before the device has accepted it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/executor.hpp"
#include "heddle/status.hpp"
#include "runtime/array_state.hpp"
#include "runtime/executor_entry.hpp"
#include "runtime/submit.hpp"

namespace heddle::rt {

class CallRecord;
class ExecutorState;

class ExecutorCall {
 public:
  ExecutorCall(ExecutorState& executor, const Device& device, Site& site);

  /// What the call is given, leaf by leaf, and the first leaf of each argument, and of none. Throws
  /// where it cannot be.
  void take(std::span<const executors::Leaf> leaves, std::span<const std::size_t> first_of);
  /// Makes results, gives them to the sink, launches.
  void run(executors::Sink& sink);

 private:
  struct Given {
    const ArrayState* array;  ///< null: it is still to be made, of values of the host
    bool donated;
  };
  static constexpr std::size_t no_result = ~std::size_t{0};
  /// A donated argument.
  struct Gift {
    std::size_t parameter;
    std::size_t result;                    ///< that has its memory; or none
    std::shared_ptr<BufferState> taker{};  ///< of that, or of nobody
    std::string text{};                    ///< what users of the argument are told
  };

  void check_spaces() const;
  void check_states() const;
  void check_donation(std::size_t k, const BufferState& buffer) const;
  void bring(std::span<const executors::Leaf> leaves);
  void plan_donation();
  std::shared_ptr<BufferState> promised(Gift& gift);
  void make_results();
  void fill_tables(CallRecord& record) const;
  void add_accesses(Accesses& accesses) const;
  [[nodiscard]] std::string user() const;
  [[nodiscard]] std::string name_of(std::size_t k) const;
  [[noreturn]] void refuse(std::size_t k, ErrorCode code, std::string_view why,
                           Status cause = {}) const;

  ExecutorState& executor_;
  const Device& device_;
  Execution& execution_;
  const CompiledGraph& graph_;
  Site& site_;
  executors::Few<Given, 16> given_;
  std::vector<Array> made_;         // of values of the host, and of arrays of other devices
  std::vector<const Array*> left_;  // donated arrays of other devices, of which copies were made
  std::vector<Gift> gifts_;
  std::vector<std::shared_ptr<ArrayState>> states_;
};

}  // namespace heddle::rt
