// A program with a few candidates, to be tuned by times that are made up.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/heddle.hpp"
#include "jit/system/inside.hpp"
#include "jit/vector/target.hpp"
#include "runtime/device/backend_state.hpp"
#include "runtime/tune/tuning.hpp"
#include "tests/support/temp_directory.hpp"

namespace heddle {

/// A folder of kernels, a small program with a few candidates, and what was logged.
class TuningTest : public testing::Test {
 protected:
  TuningTest() {
    const Index i, j, k;
    program_ << (c_(i, j) += a_(i, k) * b_(k, j));
    asked_.contraction_tile = ContractionTile{2, 1};  // then ways of packing are all there is
    asked_.tune.budget = std::chrono::minutes(10);    // rounds end it
    set_log_hook([this](LogLevel, std::string_view line) {
      const std::scoped_lock lock(mutex_);
      logged_.emplace_back(line);
    });
  }
  ~TuningTest() override { set_log_hook({}); }

  [[nodiscard]] BackendOptions options() const {
    BackendOptions options;
    options.name = "sync_cc";
    // The candidates there are depend on it, and on little else.
    options.isa = std::string(jit::name(std::min(jit::native_target().isa, jit::Isa::avx2)));
    options.cache = true;
    options.cache_dir = folder_.string();
    return options;
  }
  /// Candidates take so long: those that pack b half of what the model's choice takes.
  static rt::TuneTools fake_times() {
    const auto now = std::make_shared<std::chrono::nanoseconds>(0);
    rt::TuneTools tools;
    tools.clock = [now] { return *now; };
    tools.seconds = [now](const ScheduleChoices& choices, const std::function<void()>& run) {
      run();
      *now += std::chrono::microseconds(1);
      return choices.pack_b.value_or(false) ? 0.5 : 1.0;
    };
    return tools;
  }
  [[nodiscard]] TunedSchedule tuned_by_fakes(const Backend& backend) const {
    return rt::tune(Inside::of(backend), program_, asked_, fake_times());
  }
  /// Virtual devices that a backend opened so far.
  static int opened(const Backend& backend) { return Inside::of(backend)->opened[0]; }
  static bool packs(const Code& code) {
    return code.loop_text().find("b packed by") != std::string::npos;
  }
  [[nodiscard]] std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> found;
    for (const auto& each : std::filesystem::directory_iterator(folder_)) {
      if (each.path().filename().string().starts_with("tuned-")) found.push_back(each.path());
    }
    return found;
  }

  const TempDirectory directory_;
  const std::filesystem::path folder_ = directory_.path() / "cache";
  const Tensor a_{"a", f32, {8, 24}}, b_{"b", f32, {24, 40}}, c_{"c", f32, {8, 40}};
  Program program_{"product"};
  CompileOptions asked_;
  std::mutex mutex_;
  std::vector<std::string> logged_;  // guarded by mutex_
};

}  // namespace heddle
