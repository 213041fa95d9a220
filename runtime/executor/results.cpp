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
    cells_.reserve(site_.cells.size());
    for (const auto& cells : site_.cells) cells_.push_back(&cells->take());
  }
  takers_.resize(donation.size());
  for (std::size_t r = 0; r < cells_.size(); ++r) {
    const CompiledGraph::Result& result = target.graph().results[r];
    const std::uint32_t gift = donation.gift_to(r);
    std::shared_ptr<ArrayState> state;
    if (gift != Donation::no_gift) {
      const std::size_t giver = donation.gifts()[gift].parameter;
      state = begin_cell(r).begin_promised(target.device, result.type,
                                           Inside::of(arguments.view(giver).buffer()));
      takers_[gift].buffer = Inside::of(state->view.buffer()).get();
    } else if (!result.zeros && way != LaunchWay::recording) {
      dev::BlockRef block = allocate_block(execution, result.bytes, result.holder);
      state = begin_cell(r).begin(target.device, result.type, std::move(block), result.bytes);
    } else {
      auto buffer = allocate_zeros(*Inside::of(target.device), result.bytes, result.holder.second);
      state = std::make_shared<ArrayState>(
          ArrayState{target.device,
                     BufferView(Inside::make<Buffer>(std::move(buffer)), result.type), Event()});
    }
    states_.push_back(state.get());
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

ResultCell& CallResults::begin_cell(std::size_t result) noexcept {
  ++num_begun_;
  return *std::exchange(cells_[result], nullptr);
}

CallResults::~CallResults() {
  if (num_begun_ == cells_.size()) return;
  const std::lock_guard lock(*site_.execution->ledger);
  for (std::size_t r = 0; r < cells_.size(); ++r) {
    if (cells_[r] != nullptr) site_.cells[r]->put_back(*cells_[r]);
  }
}

}  // namespace heddle::rt
