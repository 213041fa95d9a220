// Every operation on every operand type, on every CPU compiler, against an independent reference,
// and bit for bit against folding; all kernels of a compiler are one batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "compilers.hpp"
#include "edge_values.hpp"
#include "jit/value/primitive_eval.hpp"
#include "kernel_runner.hpp"
#include "support/math_reference.hpp"
#include "support/op_reference.hpp"

namespace heddle::jit::testing {
namespace {

struct Case {
  Op op;
  DType operands;
  DType result;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (std::size_t k = 0; k < all_ops().size(); ++k) {
    const auto op = static_cast<Op>(k);
    for (const DType t : compute_types) {
      const std::vector<DType> args(op_info(op).arity, t);
      const auto typing = type_op(op, args);
      if (typing && typing->operands == t) cases.push_back({op, t, typing->result});
    }
  }
  return cases;
}

std::string case_name(const Case& c) {
  return std::string(op_info(c.op).name) + "_" + std::string(name(c.operands));
}

/// out[i] = op(a[i], b[i], c[i]) for all i.
VerifiedLoop elementwise(const Case& c, std::int64_t count) {
  Loop loop;
  for (int k = 0; k < 3; ++k) loop.buffers.push_back({Role::input, {c.operands, {count}}});
  loop.buffers.push_back({Role::output, {c.result, {count}}});
  std::vector<ValuePtr> args;
  for (BufferId k = 0; k < op_info(c.op).arity; ++k)
    args.push_back(make_load(k, c.operands, {affine_var(0)}));
  if (c.op == Op::where) args[0] = make_cast(args[0], DType::bool_);
  loop.body = {
      make_loop(0, 0, count, {make_store(3, {affine_var(0)}, make_op(c.op, std::move(args)))})};
  return VerifiedLoop(std::move(loop));
}

/// All triples of edge values, as three columns.
template <class T>
std::array<std::vector<T>, 3> operand_columns() {
  constexpr std::size_t count = 24;
  const std::vector<T> values = edge_values<T>(count);
  std::array<std::vector<T>, 3> columns;
  for (const T a : values) {
    for (const T b : values) {
      for (std::size_t k = 0; k < values.size(); k += 3) {
        columns[0].push_back(a);
        columns[1].push_back(b);
        columns[2].push_back(values[k]);
      }
    }
  }
  return columns;
}

template <class T>
std::vector<std::byte> bytes_of_column(const std::vector<T>& column) {
  std::vector<std::byte> bytes(column.size() * sizeof(T));
  for (std::size_t k = 0; k < column.size(); ++k) {
    const T value = column[k];
    std::memcpy(bytes.data() + k * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

std::int64_t column_size(DType t) {
  return with_type(t, [](auto tag) {
    return static_cast<std::int64_t>(operand_columns<decltype(tag)>()[0].size());
  });
}

template <class T>
Scalar scalar_of(DType t, T value) {
  if constexpr (std::is_floating_point_v<T>) return Scalar::of_float(t, value);
  return Scalar::of_int(t, static_cast<std::int64_t>(value));
}
template <class T>
T value_of(const Scalar& scalar) {
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(scalar.f);
  return static_cast<T>(scalar.i);
}

/// The value itself, or for what is computed by polynomials a value within its bound.
template <class R, class T>
bool is_right(Op op, R got, T a, T b, T c) {
  if constexpr (std::is_floating_point_v<T>) {
    const auto* bound = std::ranges::find(math_bounds, op, &MathBound::op);
    if (bound != std::end(math_bounds)) {
      const double limit = sizeof(T) == sizeof(float) ? bound->f32 : bound->f64;
      return units_apart(static_cast<T>(got), math_reference(op, a, b)) <= limit;
    }
  }
  return same_value(got, op_reference<R, T>(op, a, b, c));
}

template <class R, class T>
void check_case(const Case& c, heddle_kernel_function function) {
  const auto columns = operand_columns<T>();
  const std::size_t count = columns[0].size();
  Call call;
  for (const auto& column : columns) call.buffers.push_back(bytes_of_column(column));
  call.buffers.emplace_back(count * sizeof(R), std::byte{0xaa});
  call.run(function);
  const PrimFunction meaning = op_function(c.op, c.operands);
  int mismatches = 0;
  for (std::size_t k = 0; k < count && mismatches < 5; ++k) {
    R got{};
    std::memcpy(&got, call.buffers[3].data() + k * sizeof(R), sizeof(R));
    const T a[] = {columns[0][k], columns[1][k], columns[2][k]};
    std::array<Scalar, 3> args{scalar_of(c.operands, a[0]), scalar_of(c.operands, a[1]),
                               scalar_of(c.operands, a[2])};
    if (c.op == Op::where) args[0] = convert(args[0], bool_);
    const R folded = value_of<R>(evaluate(meaning, {args.data(), op_info(c.op).arity}));
    if (is_right(c.op, got, a[0], a[1], a[2]) && same_value(got, folded)) continue;
    ++mismatches;
    ADD_FAILURE() << case_name(c) << "(" << +a[0] << ", " << +a[1] << ", " << +a[2]
                  << ") = " << +got << ", folded " << +folded;
  }
}

class OpsTest : public CompilerTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, OpsTest, ::testing::ValuesIn(every_compiler()), param_name);

TEST_P(OpsTest, MeanTheSameAsTheReferenceForEveryType) {
  // J3, B3, O25 (a batch is one unit), O48, O49
  const std::vector<Case> cases = all_cases();
  ASSERT_GT(cases.size(), 250u);
  CompileUnit unit;
  unit.name = "ops";
  for (const Case& c : cases) {
    KernelSource kernel;
    kernel.name = case_name(c);
    kernel.loop = elementwise(c, column_size(c.operands));
    unit.kernels.push_back(std::move(kernel));
  }
  ToolOptions options;
  options.compile_timeout = std::chrono::minutes(5);
  const auto module = loaded(*make(options)->compile(unit));
  for (std::size_t k = 0; k < cases.size(); ++k) {
    with_type(cases[k].operands, [&](auto operand) {
      with_type(cases[k].result, [&](auto result) {
        check_case<decltype(result), decltype(operand)>(cases[k], module->host_function(k));
      });
    });
  }
}

}  // namespace
}  // namespace heddle::jit::testing
