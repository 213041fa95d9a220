// Random statements that read what they write, at small distances, compiled by both compilers for
// each instruction set of this machine, scheduled and not, against a plain interpreter: GCC 12.2
// makes wrong code of some that it is left to make vectors of (ScalarLoops). HEDDLE_TEST_SEEDS and
// HEDDLE_TEST_SEED as in fuzz_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "heddle/program.hpp"
#include "heddle/status.hpp"
#include "jit/loop/text.hpp"
#include "jit/lower/lower.hpp"
#include "jit/schedule/schedule.hpp"
#include "jit/toolchain/compiler.hpp"
#include "support/loop_interpreter.hpp"
#include "support/random_program.hpp"
#include "support/seeds.hpp"
#include "unit/jit_compile/compilers.hpp"
#include "unit/jit_compile/kernel_runner.hpp"

namespace heddle::jit::testing::recurrences {
namespace {

constexpr std::uint64_t programs_per_unit = 50;
constexpr std::array all_dtypes{bool_, u8, i8, u16, i16, i32, u32, i64, u64, f16, bf16, f32, f64};

/// One program: a tensor that its statements compute from itself, another that some write and
/// read too, and one that they only read.
class Recurrences {
 public:
  explicit Recurrences(std::uint64_t seed) : random_(seed) {
    const std::size_t rank = chance(50) ? 2 : 1 + below(3);
    const bool small = chance(60);  // GCC unrolls such loops
    for (std::size_t axis = 0; axis < rank; ++axis) {
      dims_.push_back(small ? 3 + static_cast<std::int64_t>(below(rank == 3 ? 6 : 15))
                            : 1 + static_cast<std::int64_t>(below(rank == 3 ? 14 : 40)));
    }
    if (chance(40)) std::ranges::fill(dims_, dims_[0]);
    const DType type = chance(60) ? pick(std::array{f32, f64, i32, u8}) : pick(all_dtypes);
    state_.emplace_back("p", type, dims_);
    state_.emplace_back("q", chance(70) ? type : pick(all_dtypes), dims_);
    state_.emplace_back("m", chance(70) ? type : pick(all_dtypes), dims_);
    for (std::size_t wanted = chance(50) ? 1 : 1 + below(3), tries = 0; wanted > 0 && tries < 50;
         ++tries) {
      if (statement()) --wanted;
    }
  }

  [[nodiscard]] const Program& program() const noexcept { return program_; }
  /// Whether the order of terms matters: a schedule may choose another.
  [[nodiscard]] bool sums_floats() const noexcept { return sums_floats_; }
  [[nodiscard]] const std::vector<std::pair<StaticIndex, std::int64_t>>& statics() const {
    return statics_;
  }

 private:
  /// How a statement's subscripts move along one axis.
  struct Axis {
    std::optional<Index> index;
    std::int64_t extent = 0, stride = 1, highest = 0;
    bool reversed = false;
    [[nodiscard]] Subscript at(std::int64_t offset) const {
      const Subscript along =
          (index ? stride * Subscript(*index) : Subscript(0)) + Subscript(offset);
      return reversed ? Subscript(extent - 1) - along : along;
    }
  };

  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }
  bool chance(std::size_t percent) { return below(100) < percent; }
  template <class C>
  typename C::value_type pick(const C& from) {
    return from[below(from.size())];
  }

  /// False where the extents leave no room.
  bool statement() {
    std::vector<Axis> axes;
    forward_ = chance(50);
    const bool plain = forward_ || chance(40), near = chance(50);
    for (const std::int64_t extent : dims_) {
      Axis axis;
      axis.extent = extent;
      axis.stride = plain || chance(60) ? 1 : 2 + static_cast<std::int64_t>(below(2));
      axis.reversed = !plain && chance(40);
      const std::size_t apart = forward_ ? 1 + below(2) : below(near ? 3 : 9);
      axis.highest = std::min(extent - 1, static_cast<std::int64_t>(apart));
      const std::int64_t room = (extent - 1 - axis.highest) / axis.stride + 1;
      if (!chance(6))
        axis.index = Index(
            chance(70) ? room
                       : 1 + static_cast<std::int64_t>(below(static_cast<std::size_t>(room))));
      axes.push_back(axis);
    }
    const Tensor& target = state_[forward_ || chance(75) ? 0 : 1];
    std::vector<std::int64_t> written;
    for (const Axis& axis : axes) {
      written.push_back(forward_ ? axis.highest
                                 : std::min(axis.highest, static_cast<std::int64_t>(below(5))));
    }
    try {
      program_ << (chance(80) ? assignment(target, axes, written)
                              : accumulation(target, axes, written));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_argument) throw;
      return false;
    }
    return true;
  }

  static Access access(const Tensor& tensor, const std::vector<Axis>& axes,
                       const std::vector<std::int64_t>& offsets) {
    std::vector<Subscript> at;
    for (std::size_t k = 0; k < axes.size(); ++k) at.push_back(axes[k].at(offsets[k]));
    return tensor.at(at);
  }

  Statement assignment(const Tensor& target, const std::vector<Axis>& axes,
                       const std::vector<std::int64_t>& written) {
    const Access at = access(target, axes, written);
    Expr value = read(state_[0], axes, written);
    for (std::size_t more = chance(40) ? 0 : below(4); more > 0; --more) {
      const Expr other = chance(20) ? Expr(static_cast<std::int64_t>(1 + below(3)))
                                    : read(pick(state_), axes, written);
      switch (below(6)) {
        case 0:
        case 1:
          value = value + other;
          break;
        case 2:
          value = (value + 1) * other;
          break;
        case 3:
          value = max(value, other);
          break;
        case 4:
          value = where(value < other, value, other);
          break;
        default:
          value = value - other;
      }
    }
    return at = value;
  }

  Statement accumulation(const Tensor& target, const std::vector<Axis>& axes,
                         const std::vector<std::int64_t>& written) {
    std::vector<Axis> fewer = axes;  // on the left; the others are summed over
    for (Axis& axis : fewer) {
      if (axis.index && chance(30)) axis.index.reset();
    }
    const Access at = access(target, fewer, written);
    const Expr value = read(pick(state_), axes, written);
    sums_floats_ = true;
    switch (below(4)) {
      case 0:
        return at += value;
      case 1:
        return at += value * read(state_[2], axes, written);
      case 2:
        return at.max_with(value);
      default:
        return at.min_with(value);
    }
  }

  /// An element up to four from what is written, on each axis.
  Expr read(const Tensor& tensor, const std::vector<Axis>& axes,
            const std::vector<std::int64_t>& written) {
    if (axes.size() == 2 && dims_[0] == dims_[1] && chance(10))
      return tensor.at({axes[1].at(written[1]), axes[0].at(written[0])});
    std::vector<Subscript> at;
    for (std::size_t k = 0; k < axes.size(); ++k) {
      const std::int64_t offset = read_offset(tensor, axes[k].highest, written[k]);
      Subscript subscript = axes[k].at(offset);
      if (!axes[k].index && statics_.size() < 2 && chance(30)) {
        statics_.emplace_back(StaticIndex("s" + std::to_string(statics_.size()), dims_[k]),
                              static_cast<std::int64_t>(below(static_cast<std::size_t>(dims_[k]))));
        subscript = statics_.back().first;
      } else if (chance(4)) {
        subscript = static_cast<std::int64_t>(below(static_cast<std::size_t>(dims_[k])));
      }
      at.push_back(subscript);
    }
    return tensor.at(at);
  }

  std::int64_t read_offset(const Tensor& tensor, std::int64_t highest, std::int64_t written) {
    if (forward_ && tensor == state_[0])
      return static_cast<std::int64_t>(below(static_cast<std::size_t>(highest + 1)));
    if (chance(forward_ ? 90 : 30)) return written;
    const std::int64_t distance = static_cast<std::int64_t>(below(9)) - 4;
    return std::clamp<std::int64_t>(written + distance, 0, highest);
  }

  std::mt19937_64 random_;
  Dims dims_;
  std::vector<Tensor> state_;
  std::vector<std::pair<StaticIndex, std::int64_t>> statics_;
  Program program_{"recurrences"};
  bool sums_floats_ = false;
  // The statement at hand computes elements from earlier ones, which is where GCC goes wrong.
  bool forward_ = false;
};

/// Mostly different numbers that all types hold.
std::vector<HostArray> arrays_of(const Lowered& lowered, std::uint64_t seed) {
  std::vector<HostArray> arrays;
  for (std::size_t k = 0; k < lowered.tensors.size(); ++k) {
    const ArrayType& type = lowered.loop.buffers[k].type;
    if (lowered.tensors[k].label() == "m") {
      arrays.push_back(random_array(type, seed + k));
      continue;
    }
    HostArray array(type);
    const bool is_bool = type.dtype == bool_;
    for (std::int64_t n = 0; n < array.num_elements(); ++n) {
      const std::int64_t mixed = n * 37 + static_cast<std::int64_t>(seed % 101 + 11 * k);
      array.set(n, static_cast<double>(is_bool ? mixed / 3 % 2 : mixed % 113));
    }
    arrays.push_back(std::move(array));
  }
  return arrays;
}

struct Subject {
  std::uint64_t seed;
  Recurrences random;
  Lowered lowered, run;
  std::vector<std::int64_t> statics;
};

std::optional<Subject> make_subject(std::uint64_t seed, const Target& target) {
  Recurrences random(seed);
  if (random.program().statements().empty()) return std::nullopt;
  Lowered lowered = lower(random.program());
  Lowered run = seed % 2 == 0 ? schedule(lowered, target) : lowered;
  std::vector<std::int64_t> statics;
  for (const StaticIndex& index : lowered.statics) {
    statics.push_back(std::ranges::find(random.statics(), index, [](const auto& each) {
                        return each.first;
                      })->second);
  }
  return Subject{seed, std::move(random), std::move(lowered), std::move(run), std::move(statics)};
}

std::vector<HostArray> interpreted(const Subject& subject, const Lowered& lowered) {
  std::vector<HostArray> arrays = arrays_of(lowered, subject.seed);
  interpret(lowered.loop, arrays, subject.statics);
  return arrays;
}

std::vector<HostArray> compiled(const Subject& subject, heddle_kernel_function function) {
  std::vector<HostArray> arrays = arrays_of(subject.run, subject.seed);
  std::vector<heddle_kernel_buffer> entries;
  for (HostArray& array : arrays) entries.push_back({array.data(), array.num_bytes()});
  call_kernel(function, entries, subject.statics);
  return arrays;
}

/// `what` it was computed by.
void expect_same(const Subject& subject, const std::vector<HostArray>& expected,
                 const std::vector<HostArray>& found, const std::string& what) {
  for (std::size_t k = 0; k < subject.lowered.tensors.size(); ++k) {
    EXPECT_TRUE(same_elements(expected[k], found[k]))
        << what << ", seed " << subject.seed << ", t" << k << "\n"
        << subject.random.program().to_string() << print(subject.run.loop);
  }
}

std::vector<Target> targets() {
  std::vector<Target> result;
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
    if (isa <= native_target().isa) result.push_back(with_isa(native_target(), isa));
  }
  return result;
}

struct NamedCompiler {
  std::string name;
  std::shared_ptr<const Compiler> compiler;
  std::uint64_t every;  ///< one unit in so many
};

std::vector<NamedCompiler> compilers_for(const Target& target) {
  ToolOptions options;
  options.compile_timeout = std::chrono::minutes(10);
  options.target = target;
  std::vector<NamedCompiler> result;
  const std::string isa(name(target.isa));
  result.push_back({"gccjit " + isa, make_gccjit_compiler(options), 1});
  result.push_back({"cc " + isa, make_cc_compiler(options), 2});
  if (const auto clang = second_compiler()) {
    options.cc = *clang;
    result.push_back({"clang " + isa, make_cc_compiler(options), 10});
  }
  return result;
}

// J3, J9, B3: what a statement writes is there for those after it, at any distance
TEST(RecurrenceFuzzTest, CompiledEqualsInterpreted) {
  const std::vector<Target> isas = targets();
  std::vector<std::vector<NamedCompiler>> compilers;
  for (const Target& target : isas) compilers.push_back(compilers_for(target));
  const std::uint64_t begin = test::from_environment("HEDDLE_TEST_SEED", 1);
  const std::uint64_t count = test::seeds(5'000), end = begin + count;
  std::uint64_t ran = 0;
  for (std::uint64_t first = begin; first < end && !HasFailure(); first += programs_per_unit) {
    const std::uint64_t number = first / programs_per_unit;
    const std::size_t isa = number % isas.size();
    CompileUnit unit;
    unit.name = "recurrences";
    std::vector<Subject> subjects;
    for (std::uint64_t seed = first; seed < std::min(end, first + programs_per_unit); ++seed) {
      std::optional<Subject> subject = make_subject(seed, isas[isa]);
      if (!subject) continue;
      unit.kernels.push_back({.name = "seed" + std::to_string(seed),
                              .loop = VerifiedLoop(subject->run.loop),
                              .names = {},
                              .addresses = {}});
      subjects.push_back(std::move(*subject));
    }
    std::vector<std::pair<std::string, std::shared_ptr<const dev::Module>>> modules;
    for (const NamedCompiler& each : compilers[isa]) {
      if (number / isas.size() % each.every == 0)
        modules.emplace_back(each.name, loaded(*each.compiler->compile(unit)));
    }
    for (std::size_t k = 0; k < subjects.size(); ++k) {
      const Subject& subject = subjects[k];
      const std::vector<HostArray> expected = interpreted(subject, subject.run);
      if (!subject.random.sums_floats())
        expect_same(subject, interpreted(subject, subject.lowered), expected, "scheduled");
      for (const auto& [name, module] : modules)
        expect_same(subject, expected, compiled(subject, module->host_function(k)), name);
      ++ran;
    }
  }
  EXPECT_GT(ran, count * 9 / 10);
}

}  // namespace
}  // namespace heddle::jit::testing::recurrences
