// See random_program.hpp.
#include "random_program.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "heddle/status.hpp"
#include "jit/describe/expr.hpp"
#include "jit/system/inside.hpp"
#include "jit/value/element.hpp"

namespace heddle::jit::testing {
namespace {

constexpr std::array all_dtypes{bool_, u8, i8, u16, i16, i32, u32, i64, u64, f16, bf16, f32, f64};

/// Limit for large programs; small programs have fewer.
constexpr std::int64_t iterations_max = 10'000;
constexpr std::int64_t elements_max = 6'000;

class Generator {
 public:
  Generator(std::uint64_t seed, const RandomProgramOptions& options)
      : random_(seed), options_(options) {}

  RandomProgram run() {
    RandomProgram result{Program("random"), {}};
    const auto count = 3 + below(4);
    for (std::size_t k = 0; k < count; ++k) add_tensor("t" + std::to_string(k));
    const auto statics = below(3);
    for (std::size_t k = 0; k < statics; ++k) {
      const auto range = static_cast<std::int64_t>(1 + below(4));
      StaticIndex index("s" + std::to_string(k), range);
      result.statics.emplace_back(index, static_cast<std::int64_t>(below(4)) % range);
      statics_.push_back(index);
    }
    for (std::size_t wanted = 1 + below(6), tries = 0; wanted > 0 && tries < 60; ++tries) {
      try {  // a statement with invalid types or shapes is retried
        const Statement made = statement();
        if (iterations_of(made) > iterations_max) continue;
        result.program << made;
        --wanted;
      } catch (const Error& e) {
        if (e.code() != ErrorCode::invalid_argument) throw;
      }
    }
    return result;
  }

 private:
  struct Known {
    Index index;
    std::int64_t extent;
    bool declared;
  };

  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }
  bool chance(std::size_t percent) { return below(100) < percent; }
  template <class C>
  const auto& pick(const C& from) {
    return from[below(from.size())];
  }

  static std::int64_t iterations_of(const Statement& made) {
    std::int64_t count = 1;
    for (const SpaceAxis& axis : iteration_space(*Inside::of(made)))
      count = std::min(iterations_max + 1, count * axis.extent);
    return count;
  }

  Dims small_dims() {
    Dims dims(below(4));
    for (auto& extent : dims) extent = chance(3) ? 0 : static_cast<std::int64_t>(1 + below(4));
    return dims;
  }

  /// Tensors share extents, hence statements find indices that fit several tensors.
  Dims large_dims() {
    if (extents_.empty()) {
      extents_ = {static_cast<std::int64_t>(1 + below(4)), static_cast<std::int64_t>(5 + below(16)),
                  static_cast<std::int64_t>(16 + below(65))};
    }
    Dims dims(below(100) < 85 ? 1 + below(3) : 4 + below(2));
    std::int64_t elements = 1;
    for (auto& extent : dims) {
      extent = chance(2)    ? 0
               : chance(15) ? static_cast<std::int64_t>(1 + below(20))
                            : pick(extents_);
      if (elements * extent > elements_max) extent = static_cast<std::int64_t>(1 + below(2));
      elements *= std::max<std::int64_t>(extent, 1);
    }
    return dims;
  }

  void add_tensor(const std::string& label) {
    const Dims dims = options_.large ? large_dims() : small_dims();
    const Tensor tensor(label, chance(50) ? f32 : pick(all_dtypes), dims);
    constexpr std::array modes{MemoryMode::virtual_,     MemoryMode::virtual_,
                               MemoryMode::local,        MemoryMode::never_virtual,
                               MemoryMode::device_only,  MemoryMode::on_device,
                               MemoryMode::materialized, MemoryMode::effectively_constant};
    if (options_.modes && chance(35)) tensor.set_mode(pick(modes));
    tensors_.push_back(tensor);
  }

  /// A new index of `extent`, declared or left to be inferred from a plain subscript.
  const Index& fresh(std::int64_t extent, bool declared) {
    indices_.push_back({declared ? Index(extent) : Index(), extent, declared});
    return indices_.back().index;
  }

  /// A subscript for an axis, mostly in range. `grow`: new indices may appear.
  Subscript subscript(std::int64_t extent, bool grow) {
    if (extent == 0) return grow ? Subscript(fresh(0, false)) : reuse(0);
    if (chance(6)) return computed(extent, grow);
    // Schedules split whole axes.
    if (options_.large && chance(50)) return grow ? Subscript(fresh(extent, false)) : reuse(extent);
    const auto reach = static_cast<std::int64_t>(1 + below(static_cast<std::size_t>(extent)));
    switch (grow ? below(9) : 9 + below(4)) {
      case 0:
      case 1:
      case 2:
        return fresh(extent, false);
      case 3:
        return fresh(reach, true) + Subscript(extent - reach);
      case 4:
        return Subscript(extent - 1) - Subscript(fresh(reach, true));
      case 5:
        if (extent % 2 == 0 && chance(50))
          return 2 * Subscript(fresh(extent / 2, true)) + Subscript(fresh(2, true));
        return 2 * Subscript(fresh((extent + 1) / 2, true));
      case 6:
      case 12:
        return static_cast<std::int64_t>(below(static_cast<std::size_t>(extent)));
      case 7:
      case 11:
        return with_static(extent);
      default:
        return reuse(extent);
    }
  }

  /// A position inside or outside the axis, alone or with an index.
  Subscript computed(std::int64_t extent, bool grow) {
    constexpr std::array integers{u8, i8, u16, i16, i32, u32, i64, u64, i32, i64};
    const Tensor& tensor = pick(tensors_);
    Expr position = cast(tensor.at(subscripts(tensor, grow)), pick(integers));
    if (!indices_.empty() && chance(40))
      position = cast(position, i64) + embed(pick(indices_).index) - static_cast<int>(below(3));
    if (!chance(25)) return at(position);
    const auto room = static_cast<std::int64_t>(below(static_cast<std::size_t>(extent)));
    return chance(50) ? at(position) + Subscript(room) : at(position) + reuse(extent);
  }

  Subscript reuse(std::int64_t extent) {
    std::vector<Known> fitting;
    for (const Known& known : indices_) {
      if (known.extent == extent || (known.declared && known.extent <= extent))
        fitting.push_back(known);
    }
    if (fitting.empty()) return 0;
    const Known known = pick(fitting);
    const std::int64_t room = extent - known.extent;
    if (chance(20)) return Subscript(extent - 1) - Subscript(known.index);
    if (room > 0 && chance(50)) return known.index + Subscript(room);
    return known.index;
  }

  Subscript with_static(std::int64_t extent) {
    for (const StaticIndex& index : statics_) {
      const std::int64_t room = extent - *index.range();
      if (room < 0 || chance(30)) continue;
      if (room > 0 && chance(50)) return Subscript(index) + Subscript(room);
      return index;
    }
    return 0;
  }

  std::vector<Subscript> subscripts(const Tensor& tensor, bool grow) {
    std::vector<Subscript> result;
    for (const std::int64_t extent : tensor.dims()) result.push_back(subscript(extent, grow));
    return result;
  }

  Statement statement() {
    indices_.clear();
    values_.clear();
    if (options_.large && chance(20)) return reduction();
    const Tensor& target = pick(tensors_);
    const Access at = target.at(subscripts(target, chance(90)));
    const bool assigns = chance(options_.large ? 25 : 40);
    grow_ = !assigns;
    const Expr value = options_.large && chance(50) ? short_term() : expression(3);
    if (assigns) return at = value;
    switch (below(14)) {
      case 0:
      case 1:
        return at += value;
      case 2:
        return at -= value;
      case 3:
        return at *= value;
      case 4:
        return at /= value;
      case 5:
        return at &= value;
      case 6:
        return at |= value;
      case 7:
        return at.max_with(value);
      case 8:
        return at.min_with(value);
      case 9:
        return at = sum(value);
      case 10:
        return at = product(value);
      case 11:
        return at = maximum(value);
      case 12:
        return at = minimum(value);
      default:
        return at = chance(50) ? all(value) : any(value);
    }
  }

  /// Whole axes; the axes whose index the target does not use are reduced.
  Statement reduction() {
    grow_ = false;
    const Tensor& source = pick(tensors_);
    std::vector<Subscript> whole;
    for (const std::int64_t extent : source.dims()) whole.push_back(fresh(extent, false));
    Expr term = source.at(whole);
    if (chance(40)) term = term * short_term();
    const Tensor& target = pick(tensors_);
    const Access at = target.at(subscripts(target, false));
    switch (below(8)) {
      case 0:
      case 1:
        return at += term;
      case 2:
        return at -= term;
      case 3:
        return at = sum(term);
      case 4:
        return at = product(term);
      case 5:
        return at.max_with(term);
      case 6:
        return at = minimum(term);
      default:
        return at *= term;
    }
  }

  /// A term of sums and products of whole rows.
  Expr short_term() {
    const auto read = [&]() -> Expr {
      const Tensor& tensor = pick(tensors_);
      return tensor.at(subscripts(tensor, grow_));
    };
    return chance(50) ? read() : read() * read();
  }

  Expr expression(int depth) {
    if (!values_.empty() && chance(10)) return pick(values_);
    Expr result = depth == 0 || chance(20) ? leaf() : operation(depth);
    values_.push_back(result);
    return result;
  }

  Expr leaf() {
    if (chance(15)) return pick(std::array<double, 6>{0.0, 1.0, -1.0, 2.0, 0.5, -0.0});
    if (chance(10)) return static_cast<std::int64_t>(below(5)) - 2;
    if (chance(8) && !indices_.empty()) return embed(pick(indices_).index);
    const bool grow = grow_ && chance(40);
    if (chance(6)) {
      if (!merged_) merged_ = pick(tensors_);
      return merge(*merged_).at(subscripts(*merged_, grow));
    }
    const Tensor& tensor = pick(tensors_);
    return tensor.at(subscripts(tensor, grow));
  }

  Expr operation(int depth) {
    const auto x = [&] { return expression(depth - 1); };
    switch (below(options_.library ? 33 : 29)) {
      case 0:
      case 1:
        return x() + x();
      case 2:
        return x() - x();
      case 3:
      case 4:
        return x() * x();
      case 5:
        return x() / x();
      case 6:
        return x() % x();
      case 7:
        return max(x(), x());
      case 8:
        return min(x(), x());
      case 9:
        return relu_gate(x(), x());
      case 10:
        return satur01_gate(x(), x());
      case 11:
        return x() < x();
      case 12:
        return x() == x();
      case 13:
        return x() && x();
      case 14:
        return where(x(), x(), x());
      case 15:
        return fma(x(), x(), x());
      case 16:
        return mul3(x(), x(), x());
      case 17:
        return -x();
      case 18:
        return !x();
      case 19:
        return relu(x());
      case 20:
        return abs(x());
      case 21:
        return sqrt(x());
      case 22:
        return floor(x());
      case 23:
        return satur01(x());
      case 24:
        return arg2(x(), x());
      case 25:
      case 26:
        return cast(x(), pick(all_dtypes));
      case 28:
        return chance(50) ? bitcast(cast(x(), f32), u32) : bitcast(cast(x(), u64), f64);
      case 27:
        return uniform(threefry(x(), x()));
      case 29:
        return exp(x());
      case 30:
        return tanh(x());
      case 31:
        return pow(x(), static_cast<int>(below(5)));
      default:
        return sin(x());
    }
  }

  std::mt19937_64 random_;
  RandomProgramOptions options_;
  std::vector<Tensor> tensors_;
  std::vector<std::int64_t> extents_;  // for large programs
  std::vector<StaticIndex> statics_;
  std::optional<Tensor> merged_;
  std::vector<Known> indices_;  // of the current statement
  std::vector<Expr> values_;    // of the current statement, for reuse
  bool grow_ = false;
};

}  // namespace

RandomProgram random_program(std::uint64_t seed, const RandomProgramOptions& options) {
  return Generator(seed, options).run();
}

HostArray random_array(const ArrayType& type, std::uint64_t seed) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr std::array values{
      0.0, 1.0, -1.0, 2.0,  3.0, -2.0, 0.5,   -0.0,
      7.0, 0.1, 1e6,  -3.5, inf, 0.25, 100.0, std::numeric_limits<double>::quiet_NaN()};
  std::mt19937_64 random(seed);
  HostArray array(type);
  for (std::int64_t k = 0; k < array.num_elements(); ++k) {
    const std::size_t rare = random() % 8 == 0 ? values.size() : 8;
    array.set(k, values[random() % rare]);
  }
  return array;
}

}  // namespace heddle::jit::testing
