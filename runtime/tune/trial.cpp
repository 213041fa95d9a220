// See runtime/tune/trial.hpp.
#include "runtime/tune/trial.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "heddle/status.hpp"
#include "jit/code/code.hpp"
#include "jit/system/inside.hpp"

namespace heddle::rt {
namespace {

/// Random positive floats, or small integers: values without a shortcut for kernels.
HostArray trial_contents(const ArrayType& type, std::uint64_t seed) {
  if (is_floating(type.dtype)) return HostArray::uniform(type, seed);
  return HostArray::fill(type, std::vector<double>{1, 2, 0, 3, 1});
}

std::span<std::byte> bytes_of(const HostArray& array) {
  return {static_cast<std::byte*>(array.data()), array.num_bytes()};
}

/// The distance from 1 to the next larger number.
double spacing_of(DType type) {
  switch (type) {
    case DType::bf16:
      return std::ldexp(1, -7);
    case DType::f16:
      return std::ldexp(1, -10);
    case DType::f32:
      return std::ldexp(1, -23);
    default:
      return std::ldexp(1, -52);
  }
}

/// Any NaN equals any NaN; zeros must have equal signs.
bool same_numbers(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

/// Reordered sums change elements by a few roundings of the largest element.
bool near_numbers(const HostArray& a, const HostArray& b) {
  constexpr double roundings = 1024;
  double largest = 0;
  for (std::int64_t k = 0; k < a.num_elements(); ++k) {
    if (std::isfinite(a.at(k))) largest = std::max(largest, std::abs(a.at(k)));
  }
  const double bound = largest * roundings * spacing_of(a.type().dtype);
  for (std::int64_t k = 0; k < a.num_elements(); ++k) {
    const double x = a.at(k), y = b.at(k);
    if (same_numbers(x, y)) continue;
    if (!std::isfinite(x) || !std::isfinite(y) || std::abs(x - y) > bound) return false;
  }
  return true;
}

bool same_array(const HostArray& a, const HostArray& b, bool exact) {
  if (std::memcmp(a.data(), b.data(), a.num_bytes()) == 0) return true;
  if (!is_floating(a.type().dtype)) return false;
  if (!exact) return near_numbers(a, b);
  for (std::int64_t k = 0; k < a.num_elements(); ++k) {
    if (!same_numbers(a.at(k), b.at(k))) return false;
  }
  return true;
}

}  // namespace

Trial::Trial(Device device, const Code& model, const CompileOptions& options)
    : device_(std::move(device)), base_(device_) {
  const jit::CodeData& data = *Inside::of(model);
  for (std::size_t k = 0; k < data.signature().entries.size(); ++k) {
    const jit::SignatureEntry& entry = data.signature().entries[k];
    if (entry.role == jit::Role::scratch || entry.role == jit::Role::merge) continue;
    const Tensor& tensor = *data.tensor(k);
    Stored stored{tensor, std::nullopt, entry.writes};
    if (!data.host(k)) {
      stored.contents = trial_contents(entry.type, k);
      base_ = base_.with(tensor, BufferView(Buffer::allocate(device_, entry.type), entry.type));
    }
    stored_.push_back(std::move(stored));
  }
  const std::vector<StaticIndex> statics = model.statics();
  for (std::size_t k = 0; k < statics.size(); ++k)
    bindings_.emplace_back(statics[k], data.signature().statics[k].lowest);
  const Routine routine = linked(model);
  if (const auto merged = model.merge_tensor()) {
    const ArrayType& type = merged->type();
    const BufferView view(Buffer::allocate(device_, type), type);
    throw_if_failed(view.from_host(device_, bytes_of(trial_contents(type, 0))).wait());
    const Context source = Context(device_).with(*merged, view);
    const MergeMode mode = options.merge_mode.value_or(MergeMode::stream);
    throw_if_failed(load_merge(routine, source, mode).event.wait());
  }
  fill(routine);
  routines_.push_back(routine);
  run(0, 1);
  expected_ = results(routine);
}

TuneVerdict Trial::add(const Code& code, bool exact) {
  try {
    const Routine routine = linked(code);
    fill(routine);
    throw_if_failed(routine.schedule(bindings_).wait());
    const std::vector<HostArray> found = results(routine);
    for (std::size_t k = 0; k < expected_.size(); ++k) {
      if (!same_array(expected_[k], found[k], exact)) return TuneVerdict::different;
    }
    routines_.push_back(routine);
    return TuneVerdict::measured;
  } catch (const Error&) {
    return TuneVerdict::failed;
  }
}

void Trial::run(std::size_t which, std::size_t times) const {
  // More runs than queue slots must not fail, whatever the queue's policy.
  const ScheduleOptions waits{.full = sched::FullPolicy::block};
  Event last;
  for (std::size_t k = 0; k < times; ++k) last = routines_[which].schedule(bindings_, waits);
  throw_if_failed(last.wait());
}

Routine Trial::linked(const Code& code) const { return base_.link(code); }

void Trial::fill(const Routine& routine) const {
  for (const Stored& each : stored_) {
    if (each.contents) {
      throw_if_failed(
          routine.context().view(each.tensor).from_host(device_, bytes_of(*each.contents)).wait());
    } else if (each.is_written) {
      throw_if_failed(routine.context().from_host(each.tensor).event.wait());
    }
  }
}

std::vector<HostArray> Trial::results(const Routine& routine) const {
  std::vector<HostArray> arrays;
  for (const Stored& each : stored_) {
    if (!each.is_written) continue;
    const HostArray& array = arrays.emplace_back(each.tensor.type());
    throw_if_failed(routine.context().view(each.tensor).to_host(device_, bytes_of(array)).wait());
  }
  return arrays;
}

}  // namespace heddle::rt
