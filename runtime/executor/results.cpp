// See runtime/executor/results.hpp.
#include "runtime/executor/results.hpp"

#include <mutex>
#include <string>
#include <utility>

#include "jit/system/inside.hpp"
#include "runtime/device/allocation.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/executor/arguments.hpp"
#include "runtime/transfer/transfer.hpp"

namespace heddle::rt {

CallResults::CallResults(const CallTarget& target, const CallArguments& arguments,
                         const Donation& donation, LaunchWay way)
    : CallResults(target.site) {
  const Execution& execution = target.execution();
  {
    const std::lock_guard lock(*execution.ledger);
    throw_if_failed(whole(*execution.ledger));
    if (way == LaunchWay::slot || way == LaunchWay::record) execution.ledger->claim();
    if (way != LaunchWay::slot) record_ = CallRecord::make(site_);
  }
  for (const auto& cells : site_.cells) {
    OneResult& added = results_.emplace_back();
    added = {nullptr, nullptr};
    added.cell = &cells->take();
  }
  if (donation.size() > 0) takers_.resize(donation.size());
  arrays_.reserve(size());
  for (std::size_t r = 0; r < size(); ++r) {
    std::shared_ptr<ArrayState> state = begin(target, arguments, donation, way, r);
    results_[r].array = state.get();
    arrays_.push_back(Inside::make<executors::Result>(std::move(state)));
  }
  for (std::size_t g = 0; g < takers_.size(); ++g) {
    const Gift& gift = donation.gifts()[g];
    if (gift.result != Gift::no_result) continue;
    takers_[g].nobody = std::make_shared<BufferState>(
        Inside::of(arguments.view(gift.parameter).buffer()), std::string());
    takers_[g].buffer = takers_[g].nobody.get();
  }
}

std::shared_ptr<ArrayState> CallResults::begin(const CallTarget& target,
                                               const CallArguments& arguments,
                                               const Donation& donation, LaunchWay way,
                                               std::size_t result) {
  const Execution& execution = target.execution();
  const CompiledGraph::Result& wanted = target.graph().results[result];
  ResultCell*& cell = results_[result].cell;
  if (const std::uint32_t gift = donation.gift_to(result); gift != Donation::no_gift) {
    const std::size_t giver = donation.gifts()[gift].parameter;
    auto state = std::exchange(cell, nullptr)
                     ->begin_promised(target.device, wanted.type,
                                      Inside::of(arguments.view(giver).buffer()));
    takers_[gift].buffer = Inside::of(state->view.buffer()).get();
    return state;
  }
  if (!wanted.zeros && way != LaunchWay::recording) {
    dev::BlockRef block = allocate_block(execution, wanted.bytes, wanted.holder);
    return std::exchange(cell, nullptr)
        ->begin(target.device, wanted.type, std::move(block), wanted.bytes);
  }
  auto buffer = allocate_zeros(*Inside::of(target.device), wanted.bytes, wanted.holder.second);
  return std::make_shared<ArrayState>(ArrayState{
      target.device, BufferView(Inside::make<Buffer>(std::move(buffer)), wanted.type), Event()});
}

CallResults::~CallResults() {
  for (std::size_t r = 0; r < size(); ++r) {
    if (results_[r].cell != nullptr) site_.cells[r]->give(*results_[r].cell);
  }
}

}  // namespace heddle::rt
