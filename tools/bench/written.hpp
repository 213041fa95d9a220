// Models as a user writes them first: a function of arrays by heddle, the same by plain loops and
// by Python frameworks, all on one processor. Files named written_*.cpp list the models by field.
// One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/executor.hpp"
#include "heddle/graph_ops.hpp"
#include "tools/bench/harness.hpp"
#include "tools/bench/plain_written.hpp"

namespace heddle::bench {

/// An argument of a model: its type, and its element k, given a number uniform in [0, 1).
struct WrittenInput {
  ArrayType type;
  std::function<double(double drawn, std::int64_t k)> value;
};
/// f32, uniform in [low, high).
[[nodiscard]] WrittenInput numbers(Dims dims, double low = 0, double high = 1);
/// Whole numbers, uniform below `below`.
[[nodiscard]] WrittenInput places(Dims dims, std::int64_t below, DType dtype = i64);
[[nodiscard]] WrittenInput one_number(double value, DType dtype = f32);

/// heddle's side of a model, bound to its arguments.
struct WrittenRun {
  std::function<void()> call;  ///< returns once the results are computed
  std::function<std::vector<Array>()> results;
};
using WrittenBy = std::function<WrittenRun(const Device&, const std::vector<Array>& arguments,
                                           const std::string& name)>;

struct WrittenModel {
  std::string name;  ///< also in written_models.py
  std::string size;
  std::vector<WrittenInput> inputs;
  WrittenBy heddle;
  void (*plain)(const PlainArrays&);
  /// The largest difference of results, as a share of the number or of the usual number.
  double tolerance = 1e-4;
  /// The share of elements that may differ by more: a rounding decides on other steps.
  double share_apart = 0;
  bool rivals_draw = false;  ///< random numbers of frameworks are other ones
};

/// Rows of each model, against plain loops and the frameworks that have a Python.
void add_written_rows(std::vector<Row>& rows, const std::string& name,
                      std::vector<WrittenModel> models);

namespace written {

template <class Types>
struct CountOf;
template <class... P>
struct CountOf<trees::Types<P...>> {
  static constexpr std::size_t value = sizeof...(P);
};

inline void wait_for(const Array& x) { throw_if_failed(x.wait()); }
inline void wait_for(const std::vector<Array>& all) {
  for (const Array& each : all) wait_for(each);
}
inline std::vector<Array> leaves_of(Array x) { return {std::move(x)}; }
inline std::vector<Array> leaves_of(std::vector<Array> all) { return all; }

}  // namespace written

/// Calls of an executor of `function`, whose parameters are nodes, after a const Graph& or not.
template <class Function>
WrittenBy by_executor(Function function) {
  return [function](const Device& device, const std::vector<Array>& x, const std::string& name) {
    const auto call = [executor = Executor<Function>(device, name, function), x] {
      using Types = typename executors::Parameters<Function>::Types;
      return [&]<std::size_t... k>(std::index_sequence<k...>) {
        return executor(x[k]...);
      }(std::make_index_sequence<written::CountOf<Types>::value>());
    };
    return WrittenRun{[call] { written::wait_for(call()); },
                      [call] { return written::leaves_of(call()); }};
  };
}

}  // namespace heddle::bench
