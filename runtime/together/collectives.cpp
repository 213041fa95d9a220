// Collectives, as routines and copies of a recording.
//
// Where every device reaches the memory of every device, the device that makes a sum reads the
// terms in place and writes the sum to its targets, in one kernel. Each byte is read once and
// written once, and the additions follow the order of the list, whichever device adds. Otherwise
// the adding device fetches the terms in sequence, by merges, and the rest of the devices copy the
// sum. A large all-reduce is cut into as many parts as devices; the first device does a small
// all-reduce alone. For a comparison with trees and rings see runtime/together/README.md.
#include "runtime/together/collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "heddle/backend.hpp"
#include "heddle/replay.hpp"
#include "runtime/together/parties.hpp"

namespace heddle {
namespace {

using rt::Parties;
using rt::Piece;

/// Below this size, waits cost more than a sum by one device.
constexpr std::size_t parts_bytes_min = 16384;

/// Builds one routine, for a device that reaches the terms of several sums.
class Adder {
 public:
  Adder(const Device& device, const char* name) : context_(device), program_(name) {}
  /// `to` may be one of the terms.
  void add(const std::string& label, const std::vector<Piece>& terms, const Piece& to) {
    if (to.count() == 0) return;
    const std::vector<Tensor> tensors = named(terms, label);
    const auto at =
        std::ranges::find_if(terms, [&](const Piece& term) { return is_same(term, to); });
    const Tensor target = at == terms.end() ? named(to, label)
                                            : tensors[static_cast<std::size_t>(at - terms.begin())];
    const Index i;
    program_ << (target(i) = sum_of(tensors, i));
  }
  /// Sets each piece to the sum of the first `num_terms` pieces.
  void add_to_all(const std::string& label, const std::vector<Piece>& all, std::size_t num_terms) {
    const std::vector<Tensor> tensors = named(all, label);
    const Index i;
    program_ << (tensors[0](i) = sum_of(std::span(tensors).first(num_terms), i));
    for (std::size_t n = 1; n < tensors.size(); ++n) program_ << (tensors[n](i) = tensors[0](i));
  }
  [[nodiscard]] bool empty() const noexcept { return program_.empty(); }
  [[nodiscard]] Routine routine() const {
    return context_.link(context_.device().backend().compile(program_));
  }

 private:
  static Expr sum_of(std::span<const Tensor> tensors, const Index& i) {
    Expr sum = tensors[0](i);
    for (std::size_t n = 1; n < tensors.size(); ++n) sum = sum + tensors[n](i);
    return sum;
  }
  std::vector<Tensor> named(const std::vector<Piece>& pieces, const std::string& label) {
    std::vector<Tensor> tensors;
    for (std::size_t n = 0; n < pieces.size(); ++n)
      tensors.push_back(named(pieces[n], fmt::format("{}.{}", label, n)));
    return tensors;
  }
  Tensor named(const Piece& piece, const std::string& label) {
    Tensor tensor(label, piece.view.type().dtype, {piece.count()});
    context_ = context_.with(tensor, piece.view);
    return tensor;
  }

  Context context_;
  Program program_;
};

class Collective : public Parties {
 public:
  Collective(Recording& recording, const char* name, const Tensor& tensor,
             std::span<const Context> contexts)
      : Parties(name, tensor, contexts), recording_(recording) {}

  /// Records a copy by the k-th device, from memory of context from_k to memory of context k.
  void copy(std::size_t from_k, const Piece& from, std::size_t k, const Piece& to) {
    if (to.count() == 0) return;
    const Tensor moved(tensor_.label(), to.view.type().dtype, {to.count()});
    recording_.copy(moved, Context(contexts_[from_k].device()).with(moved, from.view),
                    Context(contexts_[k].device()).with(moved, to.view));
  }
  /// Records a sum by the k-th device, which must reach the terms; `to` may be one of the terms.
  void add_up(std::size_t k, const std::vector<Piece>& terms, const Piece& to) {
    Adder adder(contexts_[k].device(), name_);
    adder.add(tensor_.label(), terms, to);
    if (!adder.empty()) recording_.schedule(adder.routine());
  }
  /// Records a sum by the root, which need not reach the memory of other devices.
  void fetch_and_add_up(std::size_t root, const std::vector<Piece>& terms, const Piece& to) {
    if (to.count() == 0) return;
    const Device device = contexts_[root].device();
    const Tensor t(tensor_.label(), to.view.type().dtype, {to.count()});
    const Piece sum{{Buffer::allocate(device, t.type()), t.type()}};
    copy(0, terms[0], root, sum);
    Index i;
    Program program(name_);
    program << (t(i) = t(i) + heddle::merge(t)(i));
    const Routine add = Context(device).with(t, sum.view).link(device.backend().compile(program));
    for (std::size_t k = 1; k < size(); ++k) {
      recording_.merge(add, Context(contexts_[k].device()).with(t, terms[k].view),
                       MergeMode::stream);
    }
    copy(root, sum, root, to);
  }

  void reduce(std::size_t root, const std::vector<Piece>& terms, const Piece& to) {
    if (share_memory(terms)) {
      add_up(root, terms, to);
    } else {
      fetch_and_add_up(root, terms, to);
    }
  }
  void broadcast(std::size_t root, const std::vector<Piece>& all) {
    for (std::size_t k = 0; k < size(); ++k) {
      if (k != root) copy(root, all[root], k, all[k]);
    }
  }

 private:
  Recording& recording_;
};

/// The share of each device in a sum: tensors are laid out in sequence, and cut by bytes.
class Share {
 public:
  static constexpr std::size_t line = 64;  // no two devices write to one such line

  Share(std::span<const std::vector<Piece>> tensors, std::size_t devices) {
    for (const auto& each : tensors) total_ += lines(each[0].view.num_bytes());
    each_ = total_ < parts_bytes_min ? total_ : lines((total_ + devices - 1) / devices);
  }
  [[nodiscard]] std::size_t devices() const noexcept {
    return total_ == 0 ? 0 : (total_ + each_ - 1) / each_;
  }
  /// The share of the k-th device of each tensor, in every context; pieces may be empty.
  [[nodiscard]] std::vector<std::vector<Piece>> parts(
      std::size_t k, std::span<const std::vector<Piece>> tensors) const {
    std::vector<std::vector<Piece>> parts;
    std::size_t at = 0;  // start of the tensor
    for (const auto& all : tensors) {
      const std::size_t bytes = all[0].view.num_bytes(), size = size_of(all[0].view.type().dtype);
      const auto inside = [&](std::size_t place) { return std::clamp(place, at, at + bytes) - at; };
      const std::size_t begin = inside(k * each_) / size, end = inside((k + 1) * each_) / size;
      std::vector<Piece>& part = parts.emplace_back();
      for (const Piece& each : all)
        part.push_back(
            each.part(static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end - begin)));
      at += lines(bytes);
    }
    return parts;
  }

 private:
  static std::size_t lines(std::size_t bytes) noexcept { return (bytes + line - 1) / line * line; }

  std::size_t total_ = 0, each_ = 0;
};

}  // namespace

namespace rt {

std::optional<std::vector<Routine>> all_reduce_routines(std::span<const Tensor> tensors,
                                                        std::span<const Context> contexts,
                                                        std::size_t num_terms) {
  std::vector<std::vector<Piece>> all;
  bool shared = true;
  for (const Tensor& tensor : tensors) {
    const Parties parties("all_reduce", tensor, contexts);
    const auto pieces = parties.pieces(tensor);
    parties.require_apart(pieces, false);
    for (const auto& before : all) parties.require_apart(pieces, before);
    shared = shared && parties.share_memory(pieces);
    all.push_back(pieces);
  }
  if (!shared) return std::nullopt;
  std::vector<Routine> routines;
  if (contexts.size() < 2) return routines;
  const Share share(all, contexts.size());
  for (std::size_t k = 0; k < share.devices(); ++k) {
    Adder adder(contexts[k].device(), "all_reduce");
    const auto parts = share.parts(k, all);
    for (std::size_t n = 0; n < parts.size(); ++n) {
      if (parts[n][0].count() > 0) adder.add_to_all(tensors[n].label(), parts[n], num_terms);
    }
    if (!adder.empty()) routines.push_back(adder.routine());
  }
  return routines;
}

}  // namespace rt

void Recording::reduce(const Tensor& tensor, std::span<const Context> contexts, std::size_t root) {
  reduce(std::span(&tensor, 1), contexts, root);
}

void Recording::reduce(std::span<const Tensor> tensors, std::span<const Context> contexts,
                       std::size_t root) {
  std::vector<std::pair<Collective, std::vector<Piece>>> sums;
  for (const Tensor& tensor : tensors) {
    Collective collective(*this, "reduce", tensor, contexts);
    collective.require_root(root);
    auto all = collective.pieces(tensor);
    for (std::size_t k = 0; k < all.size(); ++k) {
      if (k != root) collective.require_apart(all[k], k, all[root], root);
    }
    if (all.size() > 1) sums.emplace_back(std::move(collective), std::move(all));
  }
  if (sums.empty()) return;
  Adder together(contexts[root].device(), "reduce");
  for (auto& [collective, all] : sums) {
    if (collective.share_memory(all)) {
      together.add(collective.tensor().label(), all, all[root]);
    } else {
      collective.fetch_and_add_up(root, all, all[root]);
    }
  }
  if (!together.empty()) schedule(together.routine());
}

void Recording::broadcast(const Tensor& tensor, std::span<const Context> contexts,
                          std::size_t root) {
  Collective collective(*this, "broadcast", tensor, contexts);
  collective.require_root(root);
  const auto all = collective.pieces(tensor);
  collective.require_apart(all, true);
  collective.broadcast(root, all);
}

void Recording::all_reduce(const Tensor& tensor, std::span<const Context> contexts) {
  all_reduce(std::span(&tensor, 1), contexts);
}

void Recording::all_reduce(std::span<const Tensor> tensors, std::span<const Context> contexts) {
  if (const auto routines = rt::all_reduce_routines(tensors, contexts, contexts.size())) {
    for (const Routine& each : *routines) schedule(each);
    return;
  }
  std::vector<Collective> sums;
  std::vector<std::vector<Piece>> all;
  for (const Tensor& tensor : tensors)
    all.push_back(sums.emplace_back(*this, "all_reduce", tensor, contexts).pieces(tensor));
  const Share share(all, contexts.size());
  const auto by_each = [&](const auto& act) {
    for (std::size_t k = 0; k < share.devices(); ++k) {
      const auto parts = share.parts(k, all);
      for (std::size_t n = 0; n < parts.size(); ++n) act(sums[n], k, parts[n]);
    }
  };
  // Every device adds up its own share before it fetches sums.
  by_each([](Collective& sum, std::size_t k, const auto& part) { sum.reduce(k, part, part[k]); });
  by_each([](Collective& sum, std::size_t k, const auto& part) { sum.broadcast(k, part); });
}

void Recording::all_gather(const Tensor& part, const Tensor& whole,
                           std::span<const Context> contexts) {
  Collective collective(*this, "all_gather", part, contexts);
  collective.require_parts(part, whole);
  const auto parts = collective.pieces(part), wholes = collective.pieces(whole);
  collective.require_in_place(parts, wholes);
  collective.require_apart(wholes, true);
  for (std::size_t k = 0; k < contexts.size(); ++k) {
    for (std::size_t n = 0; n < contexts.size(); ++n) {
      const std::int64_t some = part.num_elements();
      collective.copy(n, parts[n], k, wholes[k].part(some * static_cast<std::int64_t>(n), some));
    }
  }
}

void Recording::reduce_scatter(const Tensor& whole, const Tensor& part,
                               std::span<const Context> contexts) {
  Collective collective(*this, "reduce_scatter", whole, contexts);
  collective.require_parts(part, whole);
  const auto parts = collective.pieces(part), wholes = collective.pieces(whole);
  collective.require_in_place(parts, wholes);
  collective.require_apart(parts, false);
  for (std::size_t k = 0; k < contexts.size(); ++k) {
    std::vector<Piece> terms;
    for (const Piece& each : wholes) {
      const std::int64_t some = part.num_elements();
      terms.push_back(each.part(some * static_cast<std::int64_t>(k), some));
    }
    collective.reduce(k, terms, parts[k]);
  }
}

}  // namespace heddle
