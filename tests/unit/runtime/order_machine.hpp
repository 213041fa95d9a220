// Devices that drawn programs run on, step by step, and what they are told to lack.
#pragma once

#include <set>
#include <source_location>
#include <string>
#include <vector>

#include "heddle/heddle.hpp"
#include "tests/device/found_orders.hpp"
#include "tests/unit/runtime/order_program.hpp"

namespace heddle {

class OrderMachine {
 public:
  /// As many programs as one backend tells of without an end.
  static constexpr std::uint64_t programs_max = 500;

  explicit OrderMachine(const std::string& backend);
  /// What was told of it. Steps of which a wait was left out wait unseen: nothing races.
  [[nodiscard]] std::vector<MissingOrder> run(const OrderProgram& program) const;
  [[nodiscard]] std::set<StepPair> told(const OrderProgram& program) const {
    return pairs(run(program));
  }

  [[nodiscard]] static StepPair pair(const MissingOrder& missing);
  [[nodiscard]] static std::set<StepPair> pairs(const std::vector<MissingOrder>& all);
  /// Where step k is asked for: a line of its own.
  [[nodiscard]] static std::source_location place(std::size_t step);
  /// What it is called.
  [[nodiscard]] static std::string label(const Step& step, std::size_t number);
  /// Who does it.
  [[nodiscard]] std::string doer(const Step& step) const;

 private:
  class Run;

  const FoundOrders found_;
  const Backend backend_;
  std::vector<Device> devices_;
};

}  // namespace heddle
