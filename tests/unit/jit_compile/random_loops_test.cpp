// Random kernels compiled by all CPU compilers must agree to the last bit. The generator makes
// legal loops only; a failing seed is printed and reproduces the kernel.
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "compilers.hpp"
#include "edge_values.hpp"
#include "kernel_runner.hpp"
#include "support/seeds.hpp"

namespace heddle::jit::testing {
namespace {

constexpr std::int64_t side = 7;
constexpr int inputs = 3;
constexpr int outputs = 2;

class LoopMaker {
 public:
  explicit LoopMaker(std::uint64_t seed) : random_(seed) {}

  Loop make() {
    for (int k = 0; k < inputs + outputs; ++k) {
      loop_.buffers.push_back(
          {k < inputs ? Role::input : Role::inout, {any_dtype(), {side, side}}});
    }
    loop_.statics.push_back({2});
    loop_.body.push_back(make_zero(inputs));
    for (int k = pick(1, 3); k > 0; --k) loop_.body.push_back(nest());
    return std::move(loop_);
  }

 private:
  int pick(int lowest, int highest) {
    return std::uniform_int_distribution<int>(lowest, highest)(random_);
  }
  DType any_dtype() { return static_cast<DType>(pick(0, dtype_count - 1)); }

  StmtPtr nest() {
    const VarId outer = vars_++;
    const VarId inner = vars_++;
    vars_in_scope_ = {outer, inner};
    locals_in_scope_.clear();
    // Now and then one of two is a position, or both are.
    const bool finds_outer = pick(0, 5) == 0;
    const bool finds_inner = pick(0, 3) == 0;
    const auto at = [this](VarId var, std::int64_t from, std::int64_t to, ValuePtr value,
                           Block body) {
      return make_at(var, from, to, std::move(value), pick(0, 1) == 0, std::move(body));
    };
    const auto somewhere = [this](VarId var) {
      constexpr std::array integers{u8, i8, u16, i16, i32, u32, i64, u64};
      const auto source = static_cast<BufferId>(pick(0, inputs + outputs - 1));
      ValuePtr value = make_load(source, loop_.buffers[source].type.dtype,
                                 {affine_var(var), Affine{pick(0, 6), {}}});
      return make_cast(make_cast(value, compute_type(value->dtype)),
                       integers[static_cast<std::size_t>(pick(0, 7))]);
    };
    Block body;
    for (int k = pick(0, 2); k > 0; --k) {
      const LocalId local = locals_++;
      ValuePtr value = compute_value(3);
      const DType type = value->dtype;
      body.push_back(make_declare(local, std::move(value)));
      locals_in_scope_.push_back({local, type});
    }
    for (const auto& [local, type] : locals_in_scope_) {
      if (pick(0, 2) == 0) body.push_back(make_assign(local, make_cast(compute_value(3), type)));
    }
    for (int k = pick(1, 2); k > 0; --k) {
      const auto target = static_cast<BufferId>(pick(inputs, inputs + outputs - 1));
      body.push_back(make_store(target, subscripts(),
                                make_cast(compute_value(5), loop_.buffers[target].type.dtype)));
    }
    // Ranges leave room for the constant and the static term of a subscript.
    if (finds_inner) {
      body = {at(inner, 0, 4, somewhere(outer), std::move(body))};
    } else {
      body = {make_loop(inner, 0, 4, std::move(body))};
    }
    if (!finds_outer) return make_loop(outer, 1, 5, std::move(body));
    const VarId first = vars_++;
    return make_loop(first, 0, 6, {at(outer, 1, 5, somewhere(first), std::move(body))});
  }

  std::vector<Affine> subscripts() { return {subscript(), subscript()}; }

  Affine subscript() {
    Affine at = affine_var(vars_in_scope_[static_cast<std::size_t>(pick(0, 1))]);
    if (pick(0, 2) == 0) at = affine_add(at, affine_static(0));
    if (pick(0, 2) == 0) at.constant = 1;
    return at;
  }

  ValuePtr leaf() {
    switch (pick(0, 5)) {
      case 0: {
        const auto t = compute_types[static_cast<std::size_t>(pick(0, 10))];
        return make_constant(Scalar::of_float(t, pick(-3, 3) * 0.75));
      }
      case 1:
        if (!locals_in_scope_.empty()) {
          const auto& [local, type] = locals_in_scope_[static_cast<std::size_t>(
              pick(0, static_cast<int>(locals_in_scope_.size()) - 1))];
          return make_local(local, type);
        }
        [[fallthrough]];
      case 2:
        return make_embed(affine_add(subscript(), Affine{pick(-9, 9), {}}));
      default: {
        const auto source = static_cast<BufferId>(pick(0, inputs + outputs - 1));
        return make_load(source, loop_.buffers[source].type.dtype, subscripts());
      }
    }
  }

  /// A value of a compute type.
  ValuePtr compute_value(int depth) {
    ValuePtr made = value(depth);
    return make_cast(made, compute_type(made->dtype));
  }

  ValuePtr value(int depth) {
    if (depth == 0) return leaf();
    if (pick(0, 4) == 0) return make_cast(value(depth - 1), any_dtype());
    const Op op = static_cast<Op>(pick(0, static_cast<int>(all_ops().size()) - 1));
    std::vector<ValuePtr> args;
    const DType common = compute_types[static_cast<std::size_t>(pick(0, 10))];
    for (int k = 0; k < op_info(op).arity; ++k)
      args.push_back(make_cast(value(depth - 1 - pick(0, depth - 1)), common));
    const std::vector<DType> types(args.size(), common);
    if (!type_op(op, types)) return std::move(args[0]);  // no such op on these types
    if (op == Op::where) args[0] = make_cast(args[0], DType::bool_);
    return make_op(op, std::move(args));
  }

  std::mt19937_64 random_;
  Loop loop_;
  VarId vars_ = 0;
  LocalId locals_ = 0;
  std::array<VarId, 2> vars_in_scope_{};
  std::vector<std::pair<LocalId, DType>> locals_in_scope_;
};

/// Ordinary numbers mostly, so that not everything is NaN after two operations.
std::vector<std::byte> random_buffer(DType t, std::mt19937_64& random) {
  constexpr auto count = static_cast<std::size_t>(side * side);
  if (t == f16 || t == bf16) {
    std::vector<std::uint16_t> values(count);
    for (auto& v : values) v = static_cast<std::uint16_t>(random());
    return bytes_of(values);
  }
  if (t == bool_) {
    std::vector<std::uint8_t> values(count);
    for (auto& v : values) v = static_cast<std::uint8_t>(random() % 3);
    return bytes_of(values);
  }
  return with_type(t, [&](auto tag) -> std::vector<std::byte> {
    using T = decltype(tag);
    if constexpr (std::is_same_v<T, bool>) {
      return {};
    } else {
      std::vector<T> values(count);
      const std::vector<T> edges = edge_values<T>(40);
      for (auto& v : values) {
        v = random() % 3 == 0 ? edges[random() % edges.size()]
                              : static_cast<T>(static_cast<int>(random() % 200) - 100);
      }
      return bytes_of(values);
    }
  });
}

/// Bits of the buffer with every NaN made the same one.
std::vector<std::byte> without_nan_payloads(DType t, std::vector<std::byte> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += size_of(t)) {
    bool nan = false;
    if (t == f16 || t == bf16) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, bytes.data() + at, 2);
      nan = (bits & 0x7fff) > (t == f16 ? 0x7c00 : 0x7f80);
    } else if (t == f32 || t == f64) {
      float f = 0;
      double d = 0;
      std::memcpy(t == f32 ? static_cast<void*>(&f) : &d, bytes.data() + at, size_of(t));
      nan = f != f || d != d;
    }
    if (nan)
      std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), size_of(t), std::byte{0xff});
  }
  return bytes;
}

std::vector<std::vector<std::byte>> run(const Loop& loop, heddle_kernel_function function,
                                        std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Call call;
  for (const BufferDecl& decl : loop.buffers)
    call.buffers.push_back(random_buffer(decl.type.dtype, random));
  call.statics = {1};
  call.run(function);
  for (std::size_t k = 0; k < call.buffers.size(); ++k) {
    call.buffers[k] = without_nan_payloads(loop.buffers[k].type.dtype, std::move(call.buffers[k]));
  }
  return std::move(call.buffers);
}

TEST(RandomLoopsTest, AllCompilersAgreeToTheLastBit) {
  // B3: bit-equal results without reassociation
  const std::uint64_t kernels = test::seeds(60);
  CompileUnit unit;
  unit.name = "random";
  for (std::uint64_t seed = 0; seed < kernels; ++seed) {
    KernelSource kernel;
    kernel.name = "seed" + std::to_string(seed);
    kernel.loop = VerifiedLoop(LoopMaker(seed).make());
    unit.kernels.push_back(std::move(kernel));
  }
  ToolOptions options;
  options.compile_timeout = std::chrono::minutes(5);
  const auto gccjit = loaded(*make_gccjit_compiler(options)->compile(unit));
  std::vector<std::pair<std::string, std::shared_ptr<const dev::Module>>> others;
  others.emplace_back("cc -O3", loaded(*make_cc_compiler(options)->compile(unit)));
  ToolOptions plain = options;
  plain.optimization_level = 0;
  others.emplace_back("cc -O0", loaded(*make_cc_compiler(plain)->compile(unit)));
  if (const auto clang = second_compiler()) {
    options.cc = *clang;
    others.emplace_back(*clang, loaded(*make_cc_compiler(options)->compile(unit)));
  }
  for (std::uint64_t seed = 0; seed < kernels; ++seed) {
    const Loop& loop = *unit.kernels[seed].loop;
    const auto expected = run(loop, gccjit->host_function(seed), seed);
    for (const auto& [name, module] : others) {
      EXPECT_TRUE(run(loop, module->host_function(seed), seed) == expected)
          << "gccjit and " << name << " differ on seed " << seed << ":\n"
          << print(loop);
    }
  }
}

}  // namespace
}  // namespace heddle::jit::testing
